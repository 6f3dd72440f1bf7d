"""A job's grace is waited out, whatever becomes of the process that waits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fake_slurmctld import FakeSlurm

from slurm_failover import files
from slurm_failover.errors import SlurmError, SlurmUnavailable
from slurm_failover.model import JobFacts
from slurm_failover.node import checkpoint, stops
from slurm_failover.node.stops import Stop
from slurm_failover.settings.tables import CheckpointSettings, Settings


class Node:
    """A node with one running job that asks for a grace."""

    def __init__(self) -> None:
        self.slurm = FakeSlurm()
        self.label = self.slurm.submit("failover checkpoint=USR1@60")
        self.slurm.schedule()
        self.started: list[str] = []
        self.said: list[str] = []

    @property
    def signals(self) -> list[tuple[str, bool]]:
        return self.slurm.peek(self.label).signals

    def stop(self) -> None:
        site = CheckpointSettings()
        checkpoint.stop_job(self.slurm, self.slurm.job(self.label), site, self.said.append)

    def wait_out(self) -> None:
        told = {"FAILOVER_STOP": self.started[-1]}
        checkpoint.stop_after_grace(told, Settings(), self.said.append)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node()
    monkeypatch.setattr(stops, "FOLDER", str(tmp_path / "stops"))
    monkeypatch.setattr(checkpoint, "connect", lambda *_: node.slurm)

    def start(_: str, told: dict[str, str]) -> None:
        node.started.append(told["FAILOVER_STOP"])

    monkeypatch.setattr(checkpoint, "start_detached", start)
    return node


def let_grace_pass(node: Node) -> None:
    stop = stops.read_stop(node.started[-1])
    assert stop is not None
    files.write_whole(stop.path, f'["{stop.label}", {stop.start}, 0]')


def test_a_job_has_its_signal_and_is_requeued_after_its_grace(
    node: Node, tellers: list[dict[str, str]]
) -> None:
    node.stop()
    assert node.signals == [("USR1", False)]
    assert tellers == []
    let_grace_pass(node)
    node.wait_out()
    assert [told["FAILOVER_STOPPED_JOB"] for told in tellers] == [node.label]
    assert node.slurm.job(node.label).held_by_requeue
    assert stops.left_stops() == []


def test_a_stop_without_a_process_is_left_and_one_with_a_process_is_not(node: Node) -> None:
    node.stop()
    [path] = node.started
    assert stops.left_stops() == [path]
    with files.locked(stops.lock_of(path), 0):
        assert stops.left_stops() == []
    checkpoint.take_up_stops(stops.left_stops(), node.said.append)
    assert node.started == [path, path]
    let_grace_pass(node)
    node.wait_out()
    assert node.slurm.job(node.label).held_by_requeue


def test_a_job_is_stopped_after_its_grace_also_where_slurm_was_silent_for_a_while(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, silent = node.slurm.job, [SlurmUnavailable("no answer")]

    def answer(label: str) -> JobFacts:
        if silent:
            raise silent.pop()
        return ask(label)

    node.stop()
    let_grace_pass(node)
    monkeypatch.setattr(node.slurm, "job", answer)
    node.wait_out()
    assert silent == []
    assert node.slurm.job(node.label).held_by_requeue


def test_stopped_twice_a_job_is_asked_once_and_has_one_grace(node: Node) -> None:
    node.stop()
    before = stops.read_stop(node.started[0])
    node.stop()
    assert node.signals == [("USR1", False)]
    assert stops.read_stop(node.started[1]) == before


def test_a_signal_that_slurmctld_did_not_take_is_sent_at_the_next_look(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as silent:
        silent.setattr(node.slurm, "signal", raise_error(SlurmUnavailable("no answer")))
        with pytest.raises(SlurmUnavailable):
            node.stop()
    assert (node.started, stops.left_stops()) == ([], [])
    node.stop()
    assert node.signals == [("USR1", False)]


def test_a_signal_that_slurm_refuses_gives_no_grace(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node.slurm, "signal", raise_error(SlurmError("invalid signal")))
    node.stop()
    node.wait_out()
    assert node.slurm.job(node.label).held_by_requeue
    assert "can not be sent signal USR1, and has no grace: invalid signal" in node.said[0]


def test_a_job_whose_grace_can_not_be_noted_is_stopped_at_once(
    node: Node, monkeypatch: pytest.MonkeyPatch, tellers: list[dict[str, str]]
) -> None:
    monkeypatch.setattr(stops, "write_stop", raise_error(OSError("no space left")))
    node.stop()
    assert node.slurm.job(node.label).held_by_requeue
    assert (len(tellers), node.started) == (1, [])


def raise_error(error: Exception) -> Callable[..., None]:
    def refuse(*_: object, **__: object) -> None:
        raise error

    return refuse


def test_a_later_attempt_is_not_stopped_for_an_earlier_ones_grace(node: Node) -> None:
    node.stop()
    node.slurm.requeue(node.label)
    for name in ("n1", "n2", "n3", "n4"):
        node.slurm.end_epilog(node.label, name)
    node.slurm.end_hook(node.label)
    node.slurm.clock += 200
    node.slurm.schedule()
    assert node.slurm.job(node.label).has("RUNNING")
    let_grace_pass(node)
    node.wait_out()
    assert node.slurm.job(node.label).has("RUNNING")
    assert stops.left_stops() == []


def test_an_answer_of_a_slurmctld_that_ends_is_no_end_of_a_grace(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.stop()
    let_grace_pass(node)
    ask, answers = node.slurm.job, iter([True])

    def know_none_at_first(label: str) -> JobFacts:
        return ask("unknown" if next(answers, False) else label)

    monkeypatch.setattr(node.slurm, "job", know_none_at_first)
    monkeypatch.setattr(checkpoint, "GONE", 0.0)
    node.wait_out()
    assert node.slurm.peek(node.label).requeued_held


def test_a_job_that_slurm_has_forgotten_ends_the_wait(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "GONE", 0.0)
    stop = Stop("4711", 5.0, 0.0)
    stops.write_stop(stop)
    node.started.append(stop.path)
    node.wait_out()
    assert "requeue_and_hold" not in node.slurm.calls
    assert stops.left_stops() == []


def test_a_requeue_that_slurm_refuses_is_tried_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise SlurmError("no")

    node.stop()
    let_grace_pass(node)
    monkeypatch.setattr(node.slurm, "stop", refuse)
    with pytest.raises(SlurmError):
        node.wait_out()
    assert stops.left_stops() == node.started


@pytest.mark.parametrize("text", ["", "[]", "{}", '["7", "x", 1]', "\x00"])
def test_a_damaged_stop_is_removed_and_stops_nothing(node: Node, text: str) -> None:
    node.stop()
    Path(node.started[-1]).write_text(text)
    node.wait_out()
    assert node.slurm.job(node.label).has("RUNNING")
    assert stops.left_stops() == []
