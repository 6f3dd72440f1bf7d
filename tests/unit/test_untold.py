"""A node that could not tell slurmctld of a fault in time: it goes on, and the decider waits."""

from __future__ import annotations

import errno
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from failover_world import FINDINGS, WAIT_FOR_NODES
from test_checks import LOST, MEMORY_FAULT, Node
from test_decider import Story

from slurm_failover import detach
from slurm_failover.errors import HookEnded, SlurmUnavailable
from slurm_failover.evidence import read_evidence
from slurm_failover.model import JobCause, Limits
from slurm_failover.node import ends, untold
from slurm_failover.node.checks import NodeChecks
from slurm_failover.record import State, Step


class Ending(Node):
    """A flagged job that has failed on node n1, which has a fault, while slurmctld is silent."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, monkeypatch)
        self.later: list[dict[str, str]] = []
        self.silence: Exception | None = SlurmUnavailable("Socket timed out")
        self.label = self.run_job()
        self.slurm.finish(self.label, code=1)
        self.environment["SLURM_JOB_EXIT_CODE"] = "256"
        tell = self.slurm.update_node
        monkeypatch.setattr(self.slurm, "update_node", lambda *words: self._ask(tell, words))
        monkeypatch.setattr(detach, "start_detached", self._start)
        monkeypatch.setattr(untold, "start_detached", self._start)

    def _ask(self, tell: object, words: tuple[object, ...]) -> None:
        if self.silence is not None:
            raise self.silence
        assert callable(tell)
        tell(*words)

    def _start(self, hook: str, variables: dict[str, str]) -> None:
        assert hook == "tell_end"
        self.later.append(self.environment | variables)

    def words(self) -> list[JobCause]:
        return [entry.cause for entry in read_evidence("n1", self.slurm.peek_node("n1").extra)]

    def end(self, record: str = LOST) -> bool:
        """The Epilog; whether it fails."""
        self.record(record)
        return self.checks().check_job_end()

    def tell(self) -> None:
        for environment in list(self.later):
            untold.tell_end(environment, self.settings, self.said.append)


@pytest.fixture
def ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ending:
    return Ending(tmp_path, monkeypatch)


@pytest.fixture
def answers(ending: Ending, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """slurmctld answers again after three pauses."""
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            ending.silence = None

    monkeypatch.setattr(untold, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    return pauses


@pytest.mark.parametrize("trouble", [SlurmUnavailable("Socket timed out"), HookEnded("time over")])
def test_an_epilog_that_can_not_tell_of_a_fault_fails_and_another_process_goes_on(
    ending: Ending, answers: list[float], trouble: Exception
) -> None:
    ending.silence = trouble
    assert ending.end()
    assert (ending.words(), len(ending.later)) == ([], 1)
    ending.tell()
    assert ending.words() == [JobCause.HARDWARE]
    assert len(answers) == 3
    assert not ends.is_left(f"{ending.settings.state.directory}/node", ending.environment)


def test_a_prolog_asks_for_nothing_more_when_its_time_is_over(
    ending: Ending, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(ending.slurm, "setting", lambda name: asked.append(name) or "")
    ending.silence = HookEnded("time over")
    ending.record(LOST)
    with pytest.raises(HookEnded):
        ending.checks().check_job_start()
    assert asked == []


def test_the_verdict_stands_also_where_no_process_can_be_started(
    ending: Ending, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(untold, "start_detached", refuse)
    assert ending.end()
    assert ends.is_left(f"{ending.settings.state.directory}/node", ending.environment)


def test_a_health_check_whose_time_is_over_goes_on_to_no_other_end(
    ending: Ending, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending.end()
    (left,) = Path(f"{ending.settings.state.directory}/node/ends").iterdir()
    begun: list[str] = []

    def give_up(self: NodeChecks) -> bool:
        begun.append(self.node)
        raise HookEnded("time over")

    monkeypatch.setattr(NodeChecks, "check_job_end", give_up)
    with pytest.raises(HookEnded):
        untold.take_up_ends([str(left)] * 2, "n1", ending.settings, ending.said.append)
    assert (begun, left.exists()) == (["n1"], True)


def test_a_word_that_drains_nothing_is_told_later_as_well(
    ending: Ending, answers: list[float]
) -> None:
    with pytest.raises(SlurmUnavailable):
        ending.end(MEMORY_FAULT)
    ending.tell()
    assert ending.words() == [JobCause.INTERNAL]


def test_who_tells_later_starts_no_other(ending: Ending, answers: list[float]) -> None:
    ending.end()
    ending.tell()
    assert len(ending.later) == 1


def test_an_epilog_that_told_all_leaves_nothing_to_another_process(ending: Ending) -> None:
    ending.silence = None
    assert ending.end()
    assert (ending.words(), ending.later) == ([JobCause.HARDWARE], [])


def test_nobody_tries_longer_than_the_controller_waits(
    ending: Ending, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    clock = SimpleNamespace(sleep=pauses.append, monotonic=lambda: sum(pauses))
    monkeypatch.setattr(untold, "time", clock)
    ending.end()
    ending.tell()
    wait = ending.settings.failover.wait_for_nodes
    assert wait <= sum(pauses) <= wait + 2 * untold.LONGEST_PAUSE
    assert ending.words() == []


# --- the decider ----------------------------------------------------------------------------------


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path, Limits(2))


def fail_untold(story: Story, size: int = 1) -> str:
    """A job fails; the Epilog of its first node fails too, and has told nothing."""
    label = story.start(size=size)
    story.fail(label, "")
    story.slurm.drain("n1", "Epilog error")
    story.complete(label)
    return label


def test_a_job_is_not_denied_before_a_node_whose_epilog_failed_has_told_why(story: Story) -> None:
    label = fail_untold(story)
    start = story.slurm.peek(label).start
    story.house.decide()
    assert story.record(label).step is Step.HELD
    story.house.node_epilog(label, start, "n1", FINDINGS["hardware"])
    story.house.decide()
    record = story.record(label)
    assert (record.state, record.retries, record.excluded) == (
        State.FAILOVERINPROGRESS,
        1,
        "n1",
    )
    assert story.slurm.peek_node("n1").reason == "Epilog error"


def test_a_node_that_never_tells_why_its_epilog_failed_is_waited_for_a_bounded_time(
    story: Story,
) -> None:
    label = fail_untold(story)
    story.house.decide()
    story.slurm.clock += WAIT_FOR_NODES + 1
    story.house.decide()
    record = story.record(label)
    assert (record.state, record.retries) == (State.INTERNALERROR, 0)
    assert "n1: its Epilog failed, and it has not told why" in record.because


def test_a_fault_that_another_node_tells_needs_no_word_of_the_first(story: Story) -> None:
    label = story.start(size=2)
    story.fail(label, "hardware", "n2")
    story.slurm.drain("n1", "Epilog error")
    story.complete(label)
    story.house.decide()
    assert (story.record(label).retries, story.record(label).excluded) == (1, "n2")


def test_a_milder_word_from_before_does_not_stand_for_what_a_failed_epilog_owes(
    story: Story,
) -> None:
    label = story.start()
    start = story.slurm.peek(label).start
    story.fail(label, "internal")
    story.slurm.drain("n1", "Epilog error")
    story.complete(label)
    story.house.decide()
    assert story.record(label).step is Step.HELD
    story.house.node_epilog(label, start, "n1", FINDINGS["hardware"])
    story.house.decide()
    assert (story.record(label).retries, story.record(label).excluded) == (1, "n1")


@pytest.mark.parametrize("reason", ["memory test", "Epilog errors of old", "slurm-failover: Xid"])
def test_another_drain_holds_nothing_up(story: Story, reason: str) -> None:
    label = story.start()
    story.fail(label, "")
    story.slurm.drain("n1", reason)
    story.complete(label)
    story.house.decide()
    assert story.record(label).state is State.INTERNALERROR


def test_an_epilog_that_failed_before_the_job_began_holds_nothing_up(story: Story) -> None:
    label = story.start()
    story.fail(label, "")
    story.slurm.drain("n1", "Epilog error")
    story.slurm.peek_node("n1").reason_time = story.slurm.peek(label).start - 1
    story.complete(label)
    story.house.decide()
    assert story.record(label).state is State.INTERNALERROR
