"""What is held for and against a job, word by word: nodes, Slurm's own view, and refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_failover import embed
from slurm_failover.case import WORD_LOST, Case, gather
from slurm_failover.evidence import write_evidence
from slurm_failover.model import Evidence, JobCause, JobFacts, Limits, NodeFacts
from slurm_failover.policy import Action, Ending, decide, read_ending
from slurm_failover.record import Attempt, Record, State, Step

START = 1_700_000_000.0
JOB = JobFacts(7, "7", partition="gpu", nodes="n[1-3]", batch=True, requeue=True)
RECORD = Record(
    state=State.FAILOVERINPROGRESS,
    step=Step.HELD,
    max_retries=3,
    cause="the program ended with exit code 1",
    attempt=Attempt(1, "n[1-3]", START),
)


def look(*nodes: NodeFacts, silent: bool = False, limits: Limits | None = None) -> Case:
    return gather(JOB, RECORD, nodes, limits or Limits(), silent)


def lost(name: str, because: str) -> tuple[Evidence, ...]:
    return (Evidence(name, 7, START, JobCause.HARDWARE, because),)


# --- what Slurm itself knows ----------------------------------------------------------------------


@pytest.mark.parametrize("state", ["DOWN", "FAIL"])
def test_a_node_that_is_down_or_failing_was_lost(state: str) -> None:
    assert look(NodeFacts("n1", frozenset({state}))).hardware == lost("n1", "Slurm lost the node")


def test_a_node_that_let_its_epilogs_time_pass_and_does_not_answer_was_lost() -> None:
    mute = NodeFacts("n1", frozenset({"NOT_RESPONDING", "COMPLETING"}))
    words = "the node does not answer, and its Epilog has not ended in time"
    assert look(mute, silent=True).hardware == lost("n1", words)
    assert look(mute).hardware == ()
    still = replace(mute, states=frozenset({"NOT_RESPONDING"}))
    assert look(still, silent=True).hardware == ()


def test_another_tools_drain_counts_with_its_words() -> None:
    drained = NodeFacts("n1", frozenset({"DRAIN"}), reason="nhc: disk", reason_time=START)
    limits = Limits(trusted_reasons=("nhc:",))
    words = "drained by another tool: nhc: disk"
    assert look(drained, limits=limits).hardware == lost("n1", words)


def test_an_epilog_that_never_ended_is_something_unknown_of_no_node_in_particular() -> None:
    words = "a node's Epilog has not ended"
    assert look(silent=True).unknown == (Evidence("", 7, START, JobCause.UNKNOWN, words),)
    assert decide(JOB, RECORD, [], Limits(), silent=True).because == (
        f"the program ended with exit code 1, and no hardware fault is known; {words}"
    )


@pytest.mark.parametrize("reason", ["Epilog error", "disk : Epilog error", "Epilog error : disk"])
def test_a_node_whose_epilog_failed_owes_a_word_by_its_name(reason: str) -> None:
    failed = NodeFacts("n2", frozenset({"DRAIN"}), reason=reason, reason_time=START)
    case = look(NodeFacts("n1"), failed)
    assert case.owing == ("n2",)
    words = "its Epilog failed, and it has not told why"
    assert case.unknown == (Evidence("n2", 7, START, JobCause.UNKNOWN, words),)
    assert look(replace(failed, reason="no Epilog error")).owing == ()


@pytest.mark.parametrize("cause", list(JobCause))
def test_only_a_fault_of_the_hardware_settles_what_a_failed_epilog_owes(cause: JobCause) -> None:
    entry = Evidence("n2", 7, START, cause, "words", START)
    failed = NodeFacts(
        "n2",
        frozenset({"DRAIN"}),
        reason="Epilog error",
        reason_time=START,
        extra=write_evidence("", "n2", [entry], START),
    )
    assert look(failed).owing == (() if cause is JobCause.HARDWARE else ("n2",))


@pytest.mark.parametrize(("apart", "lost"), [(0, True), (1000, False), (-1000, False)])
def test_a_node_that_had_no_room_for_a_word_on_this_time_may_know_of_a_fault(
    apart: float, lost: bool
) -> None:
    when = START + apart
    dropped = {"first": when - 9, "last": when + 9, "time": when}
    extra = embed.put("", {"v": 1, "jobs": [], "dropped": dropped})
    case = look(NodeFacts("n2", extra=extra))
    assert case.unknown == (
        (Evidence("n2", 7, START, JobCause.UNKNOWN, WORD_LOST),) if lost else ()
    )
    entry = Evidence("n2", 7, START, JobCause.HARDWARE, "lost", START)
    told = look(NodeFacts("n2", extra=write_evidence(extra, "n2", [entry], START)))
    assert (told.hardware, told.unknown) == ((entry,), ())


# --- what is asked of the site --------------------------------------------------------------------


def test_a_suspicion_is_held_apart_from_faults() -> None:
    entry = Evidence("n1", 7, START, JobCause.HUNG, "suspected to hang", START)
    case = look(NodeFacts("n1", extra=write_evidence("", "n1", [entry], START)))
    assert (case.hung, case.hardware, case.unknown) == ((entry,), (), ())


def test_a_job_that_moved_to_a_spot_partition_is_denied_whatever_its_nodes_say() -> None:
    entry = Evidence("n1", 7, START, JobCause.HARDWARE, "lost", START)
    broken = NodeFacts("n1", extra=write_evidence("", "n1", [entry], START))
    verdict = decide(JOB, RECORD, [broken], Limits(spot_partitions=("g*",)))
    assert verdict.action is Action.DENY
    assert verdict.because == (
        'job failover needs on-demand resources: partition "gpu" is spot or preemptible'
    )
    assert decide(JOB, RECORD, [broken], Limits()).action is Action.FAILOVER


# --- how an attempt ended -------------------------------------------------------------------------


def job(*states: str, failed_node: str = "", held: bool = False) -> JobFacts:
    return replace(JOB, states=frozenset(states), failed_node=failed_node, held=held)


def test_an_end_that_is_ours_needs_no_words() -> None:
    assert read_ending(job("FAILED", "COMPLETING")) == (Ending.FAILED, "")
    assert read_ending(job("PENDING"), stopped_by_node=True) == (Ending.STOPPED_BY_NODE, "")
    assert read_ending(job("PENDING"), sent_back=True) == (Ending.SENT_BACK, "")
    assert read_ending(job("PENDING", failed_node="n2")) == (Ending.NODE_LOST, "")


def test_a_node_that_an_earlier_attempt_lost_is_not_this_ones() -> None:
    again = job("PENDING", failed_node="n2")
    assert read_ending(again, attempt_nodes="n[1-2]") == (Ending.NODE_LOST, "")
    assert read_ending(again, attempt_nodes="n[3-4]")[0] is Ending.LEFT_ALONE


def test_an_end_that_is_left_alone_says_why() -> None:
    held = job("PENDING", failed_node="n2", held=True)
    assert read_ending(held) == (Ending.LEFT_ALONE, "it is held")
    ended = ", which is not a failure of its own"
    assert read_ending(job("CANCELLED", "COMPLETING"))[1] == f"it ended as CANCELLED{ended}"
    assert read_ending(job("COMPLETING"))[1] == f"it ended as unknown{ended}"
