"""Lines in a user's file, written as that user."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from slurm_failover.node import append
from slurm_failover.node.append import Person, append_as

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becoming someone else needs root")

SOMEONE = Person(65534, 65534)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder of someone's, which they can reach."""
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == 0 and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    folder = tmp_path / "home"
    folder.mkdir()
    os.chown(folder, *(SOMEONE.uid, SOMEONE.gid))
    return folder


def own(path: Path, text: str = "") -> Path:
    path.write_text(text)
    os.chown(path, SOMEONE.uid, SOMEONE.gid)
    return path


def test_a_line_ends_what_stands_there(home: Path) -> None:
    for before, after in (("", "x\n"), ("a\n", "a\nx\n"), ("a", "a\nx\n")):
        log = own(home / "log", before)
        assert append_as(SOMEONE, str(log), "x") == ""
        assert log.read_text() == after


def test_what_is_not_there_is_not_created(home: Path) -> None:
    assert "No such file" in append_as(SOMEONE, str(home / "log"), "x")
    assert list(home.iterdir()) == []


def test_no_link_is_followed_also_to_a_file_of_ones_own(home: Path) -> None:
    target = own(home / "target", "kept\n")
    (home / "log").symlink_to(target)
    assert append_as(SOMEONE, str(home / "log"), "x") != ""
    assert target.read_text() == "kept\n"


def test_roots_file_is_not_written(home: Path) -> None:
    log = home / "log"
    log.write_text("kept\n")
    log.chmod(0o600)
    assert "Permission denied" in append_as(SOMEONE, str(log), "x")
    assert log.read_text() == "kept\n"


def test_a_pipe_that_nobody_reads_and_a_folder_and_a_device_take_nothing(home: Path) -> None:
    os.mkfifo(home / "pipe")
    os.chown(home / "pipe", SOMEONE.uid, SOMEONE.gid)
    (home / "folder").mkdir()
    for path in (home / "pipe", home / "folder", Path("/dev/null")):
        assert append_as(SOMEONE, str(path), "x") != ""


def test_a_file_of_a_group_that_is_not_ones_own_is_not_written(home: Path) -> None:
    log = home / "log"
    log.write_text("kept\n")
    log.chmod(0o660)
    assert append_as(SOMEONE, str(log), "x") != ""
    assert log.read_text() == "kept\n"


def test_a_child_that_hangs_in_the_kernel_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []

    def still_runs(child: int, flags: int) -> tuple[int, int]:
        assert flags == os.WNOHANG, "nobody waits for it"
        assert next(clock) < 100, "nor for ever"
        assert not killed
        return 0, 0

    monkeypatch.setattr(os, "waitpid", still_runs)
    monkeypatch.setattr(os, "kill", lambda child, _: killed.append(child))
    clock = iter(range(1000))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert append._wait(4711, 5.0) is None
    assert killed == [4711]


def test_of_a_device_nothing_is_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append, "PATIENCE", 60.0)
    assert append.tail_as(SOMEONE, "/dev/zero") == b""
    assert append.tail_as(SOMEONE, str(own(home / "log", "a\n"))) == b"a\n"


@pytest.mark.parametrize("known", [True, False], ids=["a user here", "a user id alone"])
def test_whoever_is_written_for_has_their_groups_and_no_other(
    monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    done: list[object] = []
    for name in ("initgroups", "setgroups", "setgid", "setuid"):
        monkeypatch.setattr(os, name, lambda *what, name=name: done.append((name, *what)))
    person = SOMEONE if known else Person(4_000_000, 7)
    append._become(person)
    name = pwd.getpwuid(SOMEONE.uid).pw_name
    groups = ("initgroups", name, SOMEONE.gid) if known else ("setgroups", [7])
    assert done == [groups, ("setgid", person.gid), ("setuid", person.uid)]
