"""How a record changes from the start of an attempt to the next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurm_failover import lifecycle
from slurm_failover.model import JobFacts
from slurm_failover.policy import Action, Ending, Verdict
from slurm_failover.record import Attempt, Record, State, Step

JOB = JobFacts(7, "7", nodes="n[1-2]", start=100.0, failed_node="n2", exit_code=1)
MOVE = Verdict(Action.FAILOVER, State.FAILOVERINPROGRESS, "n1: lost", ("n1",))
DENIAL = Verdict(Action.DENY, State.INTERNALERROR, "no fault")


def started() -> Record:
    return lifecycle.start_attempt(JOB, None, 3)


def held(ending: Ending = Ending.FAILED) -> Record:
    return lifecycle.hold(started(), JOB, ending, 200.0)


def test_a_first_attempt_is_armed_with_its_nodes_and_limit() -> None:
    record = started()
    assert (record.state, record.step, record.max_retries) == (State.ARMED, Step.NONE, 3)
    assert record.attempt == Attempt(1, "n[1-2]", 100.0)
    assert lifecycle.is_running(record)


def test_a_start_that_is_recorded_twice_is_one() -> None:
    assert lifecycle.start_attempt(JOB, started(), 5) == started()
    assert lifecycle.start_attempt(JOB, held(), 5) == held()


def test_the_limit_of_the_first_start_stays() -> None:
    later = lifecycle.start_attempt(replace(JOB, start=300.0), started(), 9)
    assert later.max_retries == 3
    assert later.attempt.number == 2


def test_a_held_job_waits_and_says_how_it_ended() -> None:
    record = held()
    assert (record.state, record.step) == (State.FAILOVERINPROGRESS, Step.HELD)
    assert record.cause == "the program ended with exit code 1"
    assert (record.attempt.end, record.lost) == (200.0, "")
    assert not lifecycle.is_running(record)
    assert lifecycle.is_unfinished(record)


def test_only_a_lost_node_is_remembered_as_lost() -> None:
    assert held(Ending.NODE_LOST).lost == "n2"
    assert held(Ending.STOPPED_BY_NODE).lost == ""


def test_a_failover_counts_one_retry_excludes_the_node_and_closes_the_attempt() -> None:
    record = lifecycle.apply_verdict(replace(held(), excluded="n2"), MOVE)
    assert (record.state, record.step) == (State.FAILOVERINPROGRESS, Step.DECIDED)
    assert (record.retries, record.excluded, record.cause) == (1, "n[1-2]", "n1: lost")
    assert [past.outcome for past in record.history] == ["failover"]
    assert lifecycle.is_unfinished(record)
    assert not lifecycle.is_unfinished(lifecycle.place(record))


def test_a_denial_counts_nothing_and_keeps_the_cause() -> None:
    record = lifecycle.apply_verdict(held(), DENIAL)
    assert (record.state, record.step, record.retries) == (State.INTERNALERROR, Step.NONE, 0)
    assert (record.cause, record.because) == ("the program ended with exit code 1", "no fault")
    assert not lifecycle.is_unfinished(record)
    assert not lifecycle.is_running(record)


def test_an_excess_counts_nothing_and_excludes_all_the_same() -> None:
    verdict = Verdict(Action.EXCEED, State.MAXRETRIESEXCEEDED, "all used", ("n1",))
    record = lifecycle.apply_verdict(replace(held(), retries=3), verdict)
    assert (record.retries, record.excluded) == (3, "n1")


def test_a_job_to_be_cancelled_is_unfinished_until_it_is() -> None:
    record = lifecycle.apply_verdict(held(), replace(DENIAL, cancel=True))
    assert record.step is Step.TO_CANCEL
    assert lifecycle.is_unfinished(record)


def test_another_try_of_an_image_is_no_retry() -> None:
    verdict = Verdict(Action.TRY_AGAIN, State.IMAGEPULLBACKOFF, "busy", pause=60)
    record = lifecycle.apply_verdict(held(), verdict)
    assert (record.retries, record.backoffs, record.pause) == (0, 1, 60)
    assert record.step is Step.DECIDED


@pytest.mark.parametrize("step", [Step.DECIDED, Step.PLACED])
def test_the_attempt_after_a_failover_is_resumed_and_stays_so(step: Step) -> None:
    moved = replace(lifecycle.apply_verdict(held(), MOVE), step=step)
    again = lifecycle.start_attempt(replace(JOB, start=300.0, nodes="n3"), moved, 3)
    assert (again.state, again.step, again.retries) == (State.RESUMED, Step.NONE, 1)
    assert again.attempt == Attempt(2, "n3", 300.0)
    assert again.excluded == "n1"
    third = lifecycle.start_attempt(replace(JOB, start=400.0), again, 3)
    assert (third.state, third.attempt.number) == (State.RESUMED, 3)


def test_the_attempt_after_a_release_by_the_owner_is_armed_again() -> None:
    denied = lifecycle.apply_verdict(held(), DENIAL)
    again = lifecycle.start_attempt(replace(JOB, start=300.0), denied, 3)
    assert (again.state, again.lost, again.because) == (State.ARMED, "", "")


def test_who_takes_a_job_over_gets_it_with_its_attempt_closed() -> None:
    record = lifecycle.step_back(held(), "the job was released")
    assert (record.state, record.step, record.retries) == (State.ARMED, Step.NONE, 0)
    assert record.history[-1].outcome == "left alone"
    assert not lifecycle.is_running(record)


def test_hostlists_are_merged_and_folded() -> None:
    assert lifecycle.merge_nodes("n[01-02]", "", "n03", "n01") == "n[01-03]"
    assert lifecycle.merge_nodes() == lifecycle.merge_nodes("") == ""
    assert lifecycle.expand("n[09-10]") == ["n09", "n10"]


def test_what_is_no_hostlist_stands_for_itself_where_it_is_only_shown() -> None:
    assert lifecycle.names_in("n[09-10]") == ["n09", "n10"]
    assert lifecycle.names_in("n[09-") == ["n[09-"]


@pytest.mark.parametrize(
    ("change", "is_ours"),
    [
        ({}, True),
        ({"reason": "JobHeldAdmin"}, False),
        ({"held_by_requeue": False}, False),
        ({"held": False}, False),
        ({"restarts": 2}, False),
        ({"states": frozenset({"RUNNING"})}, False),
    ],
)
def test_a_hold_that_is_there_again_after_its_release_is_ours_if_nothing_happened_since(
    change: dict[str, Any], is_ours: bool
) -> None:
    again = replace(JOB, states=frozenset({"PENDING"}), restarts=1, held=True, held_by_requeue=True)
    decided = lifecycle.note_restarts(lifecycle.apply_verdict(held(), MOVE), again)
    assert lifecycle.is_held_again(lifecycle.place(decided), replace(again, **change)) is is_ours
    assert not lifecycle.is_held_again(decided, again)
