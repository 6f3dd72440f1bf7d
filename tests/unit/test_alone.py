"""Health checks do not pile up behind one that hangs."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_failover import hooks
from slurm_failover.node import alone, checks
from slurm_failover.node.alone import only_one
from slurm_failover.settings.tables import Settings, StateSettings

ROOT = Path(__file__).parents[2]
HOLD = """
import sys
from slurm_failover.node.alone import only_one
with only_one(sys.argv[1], print) as is_only:
    print(is_only, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A health check that has begun and does not end."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    yield process
    process.kill()
    process.communicate()


def look(folder: Path, said: list[str]) -> bool:
    with only_one(str(folder), said.append) as is_only:
        return is_only


def test_a_check_that_finds_another_at_work_leaves_and_that_is_said_once(
    hanging: subprocess.Popen[str], tmp_path: Path
) -> None:
    said: list[str] = []
    assert [look(tmp_path, said) for _ in range(3)] == [False, False, False]
    assert said == ["another health check is still at work, and this node's looks are left to it"]


def test_a_check_that_was_killed_keeps_none_out_and_the_next_that_hangs_is_told_again(
    hanging: subprocess.Popen[str], tmp_path: Path
) -> None:
    said: list[str] = []
    look(tmp_path, said)
    hanging.send_signal(signal.SIGKILL)
    hanging.wait()
    with only_one(str(tmp_path), said.append) as is_only:
        assert is_only
        assert not look(tmp_path, said)
    assert len(said) == 2


def test_where_nothing_can_be_written_every_check_looks(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said: list[str] = []
    with only_one(str(tmp_path / "file"), said.append) as first:
        assert first
        assert look(tmp_path / "file", said)
    assert said == []


@pytest.mark.parametrize("call", ["flock", "ftruncate"])
def test_on_a_disk_that_takes_the_open_and_nothing_more_every_check_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    (tmp_path / "healthcheck.lock").write_text("\n")
    monkeypatch.setattr(fcntl if call == "flock" else os, call, refuse)
    assert look(tmp_path, [])


def test_no_link_is_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("kept")
    (tmp_path / "healthcheck.lock").symlink_to(target)
    assert look(tmp_path, [])
    assert target.read_text() == "kept"


def test_the_hook_leaves_at_once_and_an_epilog_does_not(
    hanging: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alone, "FOLDER", str(tmp_path))
    began: list[str] = []
    monkeypatch.setattr(checks.NodeChecks, "check_health", lambda _: began.append("health"))
    monkeypatch.setattr(checks.NodeChecks, "check_job_end", lambda _: began.append("end"))
    settings = Settings(state=StateSettings(directory=str(tmp_path / "on a dead disk")))
    said: list[str] = []
    assert not hooks.HOOKS["healthcheck"](settings, said.append)
    hooks.HOOKS["epilog"](settings, said.append)
    assert (began, len(said)) == (["end"], 1)
