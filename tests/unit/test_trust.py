"""A path is trusted where nobody but its owners could lead it elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_failover.trust import Owners, find_weakness, steps

OURS = Owners({0, os.geteuid()})


def test_every_folder_and_link_on_the_way_is_a_step_and_the_last_is_where_the_path_leads(
    tmp_path: Path,
) -> None:
    (tmp_path / "real/inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/./inner/..")
    (tmp_path / "real/file").touch()
    found = list(steps(f"{tmp_path}/./link//file"))
    above = [str(path) for path in reversed(tmp_path.parents)]
    assert found[: len(above) + 2] == [*above, str(tmp_path), f"{tmp_path}/link"]
    assert f"{tmp_path}/real/inner" in found
    assert found[-1] == f"{tmp_path}/real/file"


PARTS = st.lists(st.sampled_from(["a", "b", "up", "whole", "..", ".", "gone"]), max_size=6)


@given(PARTS)
def test_where_a_path_leads_is_what_the_system_says(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str]
) -> None:
    root = tmp_path_factory.getbasetemp() / "trust"
    if not root.exists():
        (root / "a/b").mkdir(parents=True)
        (root / "b").mkdir()
        (root / "a/up").symlink_to("..")
        (root / "b/whole").symlink_to(root / "a")
    path = "/".join([str(root), *parts])
    expected = os.path.realpath(path)
    if os.path.lexists(path):
        assert list(steps(path))[-1] == expected


def test_what_is_not_there_is_no_weakness_but_the_folder_above_it_may_be(tmp_path: Path) -> None:
    assert find_weakness(f"{tmp_path}/gone/file", OURS) is None
    tmp_path.chmod(0o777)
    weak = find_weakness(f"{tmp_path}/gone/file", OURS)
    assert weak is not None
    assert (weak.path, weak.remedy) == (str(tmp_path), f"chmod go-w {tmp_path}")


def test_in_a_sticky_folder_nobody_replaces_what_is_ours(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    (tmp_path / "file").touch(mode=0o644)
    assert find_weakness(f"{tmp_path}/file", OURS) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_a_group_that_is_trusted_may_write(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    file.chmod(0o664)
    os.chown(file, 0, 54321)
    assert find_weakness(str(file), OURS) is not None
    assert find_weakness(str(file), Owners({0}, {0, 54321})) is None
