"""The top priority of a failed-over job was for one start, and goes when the job runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_failover import files
from slurm_failover.controller import placement
from slurm_failover.controller.placement import lower_started
from slurm_failover.errors import SlurmError, SlurmUnavailable
from slurm_failover.model import JobFacts
from slurm_failover.record import Record
from slurm_failover.slurm.client import TOP_PRIORITY

RUNS = JobFacts(7, "7", states=frozenset({"RUNNING"}), start=5.0, priority=TOP_PRIORITY)
HELD = replace(RUNS, states=frozenset({"PENDING"}), held=True, priority=0)
MOVED, NEVER_MOVED = Record(max_retries=3, retries=1), Record(max_retries=3)


class Now:
    """A slurmctld that knows one job, as it is now."""

    def __init__(self, job: JobFacts, refusal: str = "") -> None:
        self.now, self.refusal, self.released = job, refusal, list[str]()

    def job(self, label: str) -> JobFacts:
        assert label == self.now.label
        return self.now

    def release(self, label: str) -> None:
        if self.refusal:
            raise SlurmError(self.refusal)
        self.released.append(label)


@pytest.fixture(autouse=True)
def turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The lock that the controller's hooks hold while they hold jobs; we are in its folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(placement, "PATIENCE", 0.0)
    return str(tmp_path / "queue.lock")


def lower(slurm: Now, job: JobFacts = RUNS, record: Record = MOVED) -> list[str]:
    said: list[str] = []
    lower_started(slurm, [(job, record)], "queue.lock", said.append)  # type: ignore[arg-type]
    return said


def test_where_slurm_does_not_answer_no_other_job_is_asked_for_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def keep_silent(_: str) -> JobFacts:
        raise SlurmUnavailable("Socket timed out")

    slurm = Now(RUNS)
    monkeypatch.setattr(slurm, "job", keep_silent)
    with pytest.raises(SlurmUnavailable):
        lower(slurm)


def test_a_job_that_runs_again_gives_its_place_in_the_line_back() -> None:
    slurm = Now(RUNS)
    lower(slurm)
    assert slurm.released == ["7"]


@pytest.mark.parametrize(
    ("job", "record"),
    [(RUNS, NEVER_MOVED), (replace(RUNS, priority=100), MOVED), (HELD, MOVED)],
    ids=["raised by someone else", "not raised", "not running"],
)
def test_any_other_job_is_not_asked_for(job: JobFacts, record: Record) -> None:
    slurm = Now(job)
    lower(slurm, job, record)
    assert slurm.released == []


@pytest.mark.parametrize(
    "now",
    [HELD, replace(RUNS, start=9.0), replace(RUNS, held=True, priority=0)],
    ids=["held", "another attempt", "held by somebody while it runs"],
)
def test_a_job_that_changed_between_question_and_answer_keeps_its_hold(now: JobFacts) -> None:
    slurm = Now(now)
    lower(slurm)
    assert slurm.released == []


def test_no_hook_can_hold_the_job_between_the_question_and_the_release(
    turn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm, free = Now(RUNS), list[bool]()
    for step in ("job", "release"):
        ask = getattr(slurm, step)

        def watched(label: str, ask: Callable[[str], object] = ask) -> object:
            with files.locked(turn, 0) as alone:
                free.append(alone)
            return ask(label)

        monkeypatch.setattr(slurm, step, watched)
    lower(slurm)
    assert (free, slurm.released) == ([False, False], ["7"])


def test_while_a_hook_is_at_work_the_place_is_kept(turn: str) -> None:
    slurm = Now(RUNS)
    with files.locked(turn, 0):
        lower(slurm)
    assert slurm.released == []


def test_what_slurm_refuses_is_said() -> None:
    assert lower(Now(RUNS, "no")) == ["job 7 keeps its raised priority: no"]
