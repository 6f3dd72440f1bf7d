"""Ends that Slurm was not told all about, and the looks that make up for it."""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path

import pytest

from slurm_failover import files
from slurm_failover.node import ends

TOLD = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_START_TIME": "5000",
    "SLURMD_NODENAME": "n1",
    "SPANK_FAILOVER": "2",
    "PATH": "/tmp/evil",
}


def age(path: str) -> None:
    old = time.time() - 2 * ends.SETTLED
    os.utime(path, (old, old))


def test_an_end_is_left_with_what_slurm_told_and_nothing_else(tmp_path: Path) -> None:
    path = ends.leave_end(str(tmp_path), TOLD)
    told = ends.read_end(path)
    assert set(told) == {*TOLD, ends.ENDED} - {"PATH"}
    assert abs(float(told[ends.ENDED]) - time.time()) < 60
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600


def test_an_end_that_is_looked_at_again_keeps_its_time(tmp_path: Path) -> None:
    path = ends.leave_end(str(tmp_path), {**TOLD, ends.ENDED: "6000.0"})
    assert ends.read_end(path)[ends.ENDED] == "6000.0"


def test_an_end_is_left_to_its_own_epilog_for_a_while(tmp_path: Path) -> None:
    path = ends.leave_end(str(tmp_path), TOLD)
    assert ends.left_ends(str(tmp_path)) == []
    age(path)
    assert ends.left_ends(str(tmp_path)) == [path]


def test_a_node_without_such_ends_has_none(tmp_path: Path) -> None:
    assert ends.left_ends(str(tmp_path)) == []
    assert not ends.is_settled(str(tmp_path / "gone"))


@pytest.mark.parametrize("text", ["", "[]", '{"SLURM_JOB_ID": 7}'])
def test_a_damaged_file_is_a_value_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "end").write_text(text)
    with pytest.raises(ValueError, match=r"."):
        ends.read_end(str(tmp_path / "end"))


def test_a_file_that_can_not_be_taken_away_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    path = ends.leave_end(str(tmp_path), TOLD)
    monkeypatch.setattr(files, "remove", refuse)
    ends.drop_end(path)
    assert Path(path).exists()
