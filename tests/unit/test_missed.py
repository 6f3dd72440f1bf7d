"""What no hook lived to record, as reconcile finds it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from slurm_failover.controller import missed
from slurm_failover.controller.arrivals import Arrival, Kind, Queue
from slurm_failover.controller.missed import (
    SETTLED,
    Missed,
    find_missed_arrival,
    find_stop_without_record,
    find_unrecorded_stop,
    has_failed_before,
    overturn,
)
from slurm_failover.evidence import read_evidence, write_evidence
from slurm_failover.lifecycle import hold, is_outrun, note_restarts, reopen
from slurm_failover.model import Evidence, JobCause, JobFacts, Limits, NodeFacts
from slurm_failover.policy import Ending
from slurm_failover.record import Attempt, Record, State, Step, read_record, write_record

NOW = 10_000.0
FIRST = Attempt(number=1, nodes="n1", start=1000.0)


def job(*states: str, comment: str = "failover", start: float = 5000.0, **more: object) -> JobFacts:
    return JobFacts(
        7, "7", states=frozenset(states), comment=comment, start=start, nodes="n[1-2]", **more
    )  # type: ignore[arg-type]


def word(node: str, start: float, cause: JobCause, *, requeued: bool = False) -> NodeFacts:
    entry = Evidence(node, 7, start, cause, "a fault", time=start, requeued=requeued)
    return NodeFacts(node, extra=write_evidence("", node, [entry], start))


@pytest.mark.parametrize("record", [None, Record(attempt=FIRST), Record(step=Step.PLACED)])
def test_a_start_that_no_record_knows_is_handed_in(record: Record | None) -> None:
    found = find_missed_arrival(job("RUNNING"), record, NOW)
    assert found == Arrival(Kind.START, "7", 5000.0, "n[1-2]", None)


def test_a_start_is_left_to_its_own_hook_for_a_while() -> None:
    assert find_missed_arrival(job("RUNNING"), None, 5000.0 + SETTLED) is None


@pytest.mark.parametrize("state", ["FAILED", "OUT_OF_MEMORY"])
def test_a_failure_that_no_record_knows_is_handed_in(state: str) -> None:
    found = find_missed_arrival(job(state), Record(attempt=FIRST), NOW)
    assert found is not None
    assert found.kind is Kind.END


def test_only_a_failure_of_before_is_none_of_ours() -> None:
    assert has_failed_before(job("FAILED", end=5999.0), 6000.5)
    assert has_failed_before(job("OUT_OF_MEMORY", end=6000.0), 6000.5)
    assert not has_failed_before(job("FAILED", end=6001.0), 6000.5)
    assert not has_failed_before(job("RUNNING"), 6000.5)


@pytest.mark.parametrize(
    "known",
    [
        job("FAILED", "COMPLETING"),
        job("RUNNING", comment="no wish"),
        job("RUNNING", comment="failover [slurm-failover: off: on spot resources]"),
        job("CANCELLED"),
        job("COMPLETED"),
        job("TIMEOUT"),
        job("PENDING"),
    ],
)
def test_nothing_else_is_handed_in(known: JobFacts) -> None:
    assert find_missed_arrival(known, None, NOW) is None


def test_what_the_record_knows_is_not_handed_in() -> None:
    known = Record(attempt=Attempt(start=5000.0))
    assert find_missed_arrival(job("RUNNING"), known, NOW) is None


def test_a_wish_that_stood_in_no_comment_is_handed_in_with_its_limit() -> None:
    found = find_missed_arrival(
        job("RUNNING", comment=""), Record(max_retries=2, by_option=True, attempt=FIRST), NOW
    )
    assert found is not None
    assert found.option == "2"
    taken_back = Record(max_retries=2, attempt=FIRST)
    assert find_missed_arrival(job("RUNNING", comment=""), taken_back, NOW) is None


def test_the_nodes_that_stopped_a_later_attempt_tell_when_and_where_it_ran() -> None:
    nodes = [
        word("n1", 1000.0, JobCause.HARDWARE, requeued=True),
        word("n2", 5000.0, JobCause.HARDWARE, requeued=True),
        word("n3", 9000.0, JobCause.HARDWARE),
    ]
    found = find_unrecorded_stop(job("PENDING"), Record(attempt=FIRST), nodes)
    assert found == Arrival(Kind.END, "7", 5000.0, "n2", None)
    assert find_unrecorded_stop(job("PENDING"), Record(attempt=FIRST), nodes[:1]) is None


def test_a_late_word_of_hardware_opens_a_denial_and_any_other_does_not() -> None:
    denied = Record(
        state=State.INTERNALERROR,
        max_retries=3,
        attempt=Attempt(1, "n1", 1000.0, outcome="deny"),
    )
    held = job("PENDING", held=True)
    late = overturn(held, denied, [word("n1", 1000.0, JobCause.HARDWARE)], Limits())
    assert late is not None
    assert (late.state, late.step, late.attempt.outcome) == (
        State.FAILOVERINPROGRESS,
        Step.HELD,
        "",
    )
    for nodes in (
        [],
        [word("n1", 1000.0, JobCause.INTERNAL)],
        [word("n1", 500.0, JobCause.HARDWARE)],
        [word("n2", 1000.0, JobCause.HARDWARE)],
    ):
        assert overturn(held, denied, nodes, Limits()) is None


def test_a_decision_that_is_open_again_stands_in_no_history() -> None:
    closed = Record(attempt=FIRST).close_attempt("deny", "nothing was found")
    assert reopen(closed).history == ()


def test_a_hold_after_one_more_restart_is_another_attempts() -> None:
    held = job("PENDING", held=True, restarts=2)
    decided = note_restarts(Record(step=Step.DECIDED), job("PENDING", restarts=1))
    assert is_outrun(decided, held)
    assert not is_outrun(decided, job("PENDING", held=True, restarts=1))
    assert not is_outrun(decided, job("PENDING", restarts=2))
    assert not is_outrun(Record(step=Step.DECIDED), held)


@pytest.mark.parametrize(
    ("ending", "ended", "restarts"),
    [
        (Ending.FAILED, job("FAILED", restarts=1), 2),
        (Ending.FAILED, job("PENDING", held=True, restarts=2), 2),
        (Ending.STOPPED_BY_NODE, job("PENDING", held=True, restarts=2), 2),
        (Ending.NODE_LOST, job("PENDING", "COMPLETING", restarts=1, failed_node="n1"), 2),
        (Ending.NODE_LOST, job("PENDING", restarts=2, failed_node="n1"), 2),
    ],
)
def test_a_job_is_held_with_the_restarts_that_it_has_once_all_are_counted(
    ending: Ending, ended: JobFacts, restarts: int
) -> None:
    record = hold(Record(attempt=FIRST), ended, ending, NOW)
    assert not is_outrun(record, job("PENDING", held=True, restarts=restarts))
    assert is_outrun(record, job("PENDING", held=True, restarts=restarts + 1))


def test_the_restart_after_a_lost_node_is_counted_before_slurm_does() -> None:
    lost = Record(lost="n1", step=Step.DECIDED)
    assert note_restarts(lost, job("PENDING", "COMPLETING")).restarts == 1
    assert note_restarts(lost, job("PENDING", restarts=1)).restarts == 1


def test_where_the_wish_stood_and_how_often_a_job_was_restarted_is_recorded() -> None:
    record = Record(by_option=True, restarts=3, attempt=FIRST)
    assert read_record(write_record("theirs", record)) == record


def test_the_words_of_nodes_are_read_once_however_many_jobs_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [
        replace(job("PENDING", held=True, held_by_requeue=True), job_id=n, label=str(n))
        for n in range(50)
    ]
    nodes = [word(f"n{n}", 1000.0, JobCause.HARDWARE) for n in range(10)]
    read: list[str] = []

    def count(node: str, extra: str) -> list[Evidence]:
        read.append(node)
        return read_evidence(node, extra)

    monkeypatch.setattr(missed, "read_evidence", count)
    slurm = Mock(nodes=lambda *_: nodes)
    Missed(slurm, Queue(str(tmp_path)), Limits(), print).hand_in([(one, None) for one in held])
    assert len(read) == len(nodes)


def test_a_word_on_an_old_job_is_not_on_a_new_one_of_its_number() -> None:
    now = time.time()
    [old] = [word("n1", now - 90 * 86400, JobCause.HARDWARE, requeued=True)]
    held = job("PENDING", held=True, held_by_requeue=True, restarts=1)
    assert find_stop_without_record(held, None, [old], now) is None
    fresh = word("n1", now - 60, JobCause.HARDWARE, requeued=True)
    assert find_stop_without_record(held, None, [fresh], now) is not None
