"""Small files and locks of root's, among people who would like to misuse them."""

from __future__ import annotations

import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from slurm_failover import files


def test_a_file_is_its_owners_alone_and_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    files.write_whole(str(path), "old")
    with path.open() as reader:
        files.write_whole(str(path), "new")
        assert reader.read() == "old"
    assert files.read_whole(str(path)) == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["ledger.json"]


def test_a_missing_file_is_none(tmp_path: Path) -> None:
    assert files.read_whole(str(tmp_path / "none")) is None
    files.remove(str(tmp_path / "none"))


def test_no_link_is_followed_for_reading_or_locking(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("secret")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    with pytest.raises(OSError):
        files.read_whole(str(link))
    with pytest.raises(OSError), files.locked(str(link), 0):
        pass


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("theirs")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    files.write_whole(str(tmp_path / "link"), "ours")
    assert (tmp_path / "target").read_text() == "theirs"
    assert not (tmp_path / "link").is_symlink()


def test_a_link_in_the_place_of_our_temporary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("theirs")
    (tmp_path / f"x.{os.getpid()}.new").symlink_to(tmp_path / "target")
    with pytest.raises(OSError):
        files.write_whole(str(tmp_path / "x"), "ours")
    assert (tmp_path / "target").read_text() == "theirs"


def test_what_is_no_file_of_ours_alone_is_not_written_through(tmp_path: Path) -> None:
    target, temporary = tmp_path / "target", tmp_path / f"x.{os.getpid()}.new"
    target.write_text("theirs")
    temporary.hardlink_to(target)
    with pytest.raises(FileExistsError):
        files.write_whole(str(tmp_path / "x"), "ours")
    assert target.read_text() == "theirs"
    temporary.unlink()
    os.mkfifo(temporary)
    reader = os.open(temporary, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(FileExistsError):
        files.write_whole(str(tmp_path / "x"), "ours")
    os.close(reader)
    with pytest.raises(OSError):  # and nobody is waited for
        files.write_whole(str(tmp_path / "x"), "ours")


def test_what_a_killed_process_left_is_written_over(tmp_path: Path) -> None:
    (tmp_path / f"x.{os.getpid()}.new").write_text("half of a longer text")
    files.write_whole(str(tmp_path / "x"), "ours")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x", "ours")]


def test_a_text_that_can_not_be_written_leaves_no_rubbish(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        files.write_whole(str(tmp_path / "x"), "\ud800")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_old_file_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    files.write_whole(str(path), "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write_whole(str(path), "new")
    assert files.read_whole(str(path)) == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_a_new_folder_is_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    files.make_folder(str(folder))
    files.make_folder(str(folder))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_lock_has_one_holder_and_is_free_after_it(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with files.locked(path, 0) as first, files.locked(path, 0.1) as second:
        assert (first, second) == (True, False)
    with files.locked(path, 0) as third:
        assert third


def _hold_and_die(path: str, ready: object) -> None:
    handle = files.locked(path, 0)
    handle.__enter__()
    ready.set()  # type: ignore[attr-defined]
    os._exit(1)


def test_a_lock_goes_with_its_holder(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    ready = multiprocessing.Event()
    holder = multiprocessing.Process(target=_hold_and_die, args=(path, ready))
    holder.start()
    holder.join(10)
    assert ready.is_set()
    with files.locked(path, 0) as free:
        assert free


def test_what_somebody_names_is_read_if_it_is_a_file_and_never_waited_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    assert files.read_named(str(tmp_path / "link")) == b"\xff"
    for path, what in (
        (tmp_path / "pipe", "a pipe"),
        (tmp_path, "a folder"),
        ("/dev/zero", "a dev"),
    ):
        with pytest.raises(OSError, match=f"it is {what}"):
            files.read_named(str(path))
    with pytest.raises(FileNotFoundError):
        files.read_named(str(tmp_path / "none"))


def test_what_may_not_be_looked_at_is_not_called_missing(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    there = [files.is_missing(str(tmp_path / name)) for name in ("file", "loop", "none", "file/x")]
    assert there == [False, False, True, True]
