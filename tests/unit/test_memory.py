"""A node whose state can not be written: what is found counts, and is only not remembered."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from test_checks import LOST, Node

from slurm_failover.model import JobCause

Break = Callable[[pytest.MonkeyPatch, Path], None]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def fill(monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    """Files can be made, and nothing fits into them."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)


def make_read_only(monkeypatch: pytest.MonkeyPatch, state: Path) -> None:
    """Nothing can be made, whoever asks."""
    opened = os.open

    def refuse(path: str, flags: int, *more: int) -> int:
        if str(path).startswith(str(state)) and flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, "Read-only file system")
        return opened(path, flags, *more)

    monkeypatch.setattr(os, "open", refuse)


def take_away(_: pytest.MonkeyPatch, state: Path) -> None:
    """Not even a folder can be made."""
    state.write_text("in the way")


BREAKS = pytest.mark.parametrize("break_it", [fill, make_read_only, take_away])


@BREAKS
def test_a_fault_drains_the_node_and_its_job_is_told_of(
    node: Node, monkeypatch: pytest.MonkeyPatch, break_it: Break
) -> None:
    label = node.run_job()
    break_it(monkeypatch, node.ledger.parents[1])
    node.record(LOST)
    assert node.end_job(label)
    assert node.reason.startswith("slurm-failover: Xid 79")
    assert node.causes() == [JobCause.HARDWARE]
    assert any("can not be written" in line for line in node.said)


@BREAKS
def test_what_is_found_twice_changes_nothing_the_second_time(
    node: Node, monkeypatch: pytest.MonkeyPatch, break_it: Break
) -> None:
    break_it(monkeypatch, node.ledger.parents[1])
    node.record(LOST)
    assert node.checks().check_health()
    first = node.reason, node.slurm.peek_node("n1").extra
    node.checks().check_health()
    assert (node.reason, node.slurm.peek_node("n1").extra) == first


def test_what_was_found_is_remembered_once_there_is_room(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.record(LOST)
    with monkeypatch.context() as while_full:
        fill(while_full, node.ledger)
        node.checks().check_health()
    assert not node.ledger.exists()
    node.checks().check_health()
    assert node.ledger.exists()
    node.slurm.calls.clear()
    assert not node.checks().check_health()
