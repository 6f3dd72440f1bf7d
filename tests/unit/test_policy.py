"""The decision, row by row, and which ends are ours at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_failover.breaker import write_notes
from slurm_failover.breaker.notes import FaultNote
from slurm_failover.evidence import write_evidence
from slurm_failover.model import Evidence, JobCause, JobFacts, Limits, NodeFacts
from slurm_failover.optin import OptIn
from slurm_failover.policy import (
    DECISIONS,
    Action,
    Ending,
    Verdict,
    decide,
    describe_end,
    read_ending,
    retry_limit,
)
from slurm_failover.record import Attempt, Record, State, Step
from slurm_failover.refusal import refuse_job

START = 1_700_000_000.0
JOB = JobFacts(7, "7", partition="gpu", nodes="n[1-3]", states=frozenset({"PENDING"}))
RECORD = Record(
    state=State.FAILOVERINPROGRESS,
    step=Step.HELD,
    max_retries=3,
    cause="the program ended with exit code 1",
    attempt=Attempt(1, "n[1-3]", START),
)


def node(
    name: str, cause: JobCause | None = None, *, start: float = START, passing: bool = False
) -> NodeFacts:
    """A node that says something about an attempt, or nothing."""
    if cause is None:
        return NodeFacts(name, frozenset({"IDLE"}))
    entry = Evidence(name, 7, start, cause, f"a {cause.value} fault", START, passing=passing)
    return NodeFacts(name, extra=write_evidence("", name, [entry], START))


def verdict(*nodes: NodeFacts, limits: Limits | None = None, **changes: object) -> Verdict:
    record = replace(RECORD, **changes)  # type: ignore[arg-type]
    return decide(JOB, record, nodes, limits or Limits())


HARDWARE = node("n1", JobCause.HARDWARE)
INTERNAL = node("n2", JobCause.INTERNAL)
IMAGE = node("n2", JobCause.IMAGE_PULL)
BUSY = node("n2", JobCause.IMAGE_PULL, passing=True)
UNKNOWN = node("n3", JobCause.UNKNOWN)
CLEAN = node("n3")


@pytest.mark.parametrize(
    ("nodes", "action", "state", "because"),
    [
        ([HARDWARE, INTERNAL, UNKNOWN], Action.FAILOVER, State.FAILOVERINPROGRESS, "n1: a hardw"),
        ([INTERNAL, UNKNOWN], Action.DENY, State.INTERNALERROR, "the fault is the job's own: n2"),
        ([IMAGE, UNKNOWN], Action.DENY, State.IMAGEPULLBACKOFF, "n2: a image_pull fault"),
        ([BUSY], Action.TRY_AGAIN, State.IMAGEPULLBACKOFF, "next try in 60 s: n2"),
        ([BUSY, IMAGE], Action.DENY, State.IMAGEPULLBACKOFF, "n2"),
        ([UNKNOWN, CLEAN], Action.DENY, State.INTERNALERROR, "no hardware fault is known; n3"),
        ([CLEAN], Action.DENY, State.INTERNALERROR, "code 1, and no node shows a hardware fault"),
        ([], Action.DENY, State.INTERNALERROR, "no node shows a hardware fault"),
    ],
)
def test_the_worst_word_decides(
    nodes: list[NodeFacts], action: Action, state: State, because: str
) -> None:
    found = verdict(*nodes)
    assert (found.action, found.state) == (action, state)
    assert because in found.because
    assert verdict(*reversed(nodes)) == replace(found, because=verdict(*reversed(nodes)).because)


def drained(name: str, reason: str, time: float = START + 5, *, noted: float = 0) -> NodeFacts:
    """A node that is out of service and says nothing of the job; ``noted`` is when it noted a
    fault of its own.
    """
    notes = [FaultNote(name, noted, "xid-79", "Xid 79")] if noted else []
    extra = write_notes("", notes, noted)
    return NodeFacts(name, frozenset({"DRAIN"}), reason, reason_time=time, extra=extra)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (drained("n1", "slurm-failover: Xid 79"), " that hit this job"),
        (drained("n1", "slurm-failover: Xid 79", START), " that hit this job"),
        (drained("n1", "maintenance", noted=START + 5), " that hit this job"),
        (drained("n1", "maintenance", noted=START), " that hit this job"),
        (drained("n1", "maintenance"), ""),
        (drained("n1", "slurm-failover: Xid 79", START - 60, noted=START - 60), ""),
    ],
    ids=[
        "our drain",
        "our drain as the attempt began",
        "a fault under another's drain",
        "such a fault as the attempt began",
        "another's drain",
        "before the attempt",
    ],
)
def test_a_fault_that_hit_others_is_not_denied_only_that_it_hit_this_job(
    other: NodeFacts, words: str
) -> None:
    cause = "the program ended with exit code 1"
    told = verdict(other, CLEAN).because
    assert told == f"{cause}, and no node shows a hardware fault{words}"
    doubt = verdict(other, UNKNOWN).because
    assert doubt == f"{cause}, and no hardware fault is known{words}; n3: a unknown fault"


@pytest.mark.parametrize("retries", [3, 4, 100])
def test_with_no_retry_left_a_hardware_fault_ends_it(retries: int) -> None:
    found = verdict(HARDWARE, retries=retries)
    assert (found.action, found.state) == (Action.EXCEED, State.MAXRETRIESEXCEEDED)
    assert found.because == "all 3 retries are used; last: n1: a hardware fault"


def test_a_site_that_lowers_its_limit_lowers_that_of_every_job() -> None:
    assert verdict(HARDWARE, retries=1, limits=Limits(1)).action is Action.EXCEED
    assert verdict(HARDWARE, retries=0, limits=Limits(1)).action is Action.FAILOVER


def test_an_owner_who_asked_for_fewer_gets_fewer() -> None:
    found = verdict(HARDWARE, retries=1, max_retries=1)
    assert found.action is Action.EXCEED
    assert found.because == "its only retry is used; last: n1: a hardware fault"


def test_a_job_that_may_have_no_retry_is_told_so() -> None:
    found = verdict(HARDWARE, limits=Limits(0))
    assert found.action is Action.EXCEED
    assert found.because == "the job may have no retry; last: n1: a hardware fault"


def test_all_faulty_nodes_are_named_and_counted_in_the_sentence() -> None:
    found = verdict(HARDWARE, node("n2", JobCause.HARDWARE), node("n3", JobCause.HARDWARE))
    assert found.bad_nodes == ("n1", "n2", "n3")
    assert found.because == "n1: a hardware fault (and 2 more nodes)"
    assert verdict(HARDWARE, node("n2", JobCause.HARDWARE)).because.endswith("(and 1 more node)")


def test_a_word_about_another_attempt_or_job_says_nothing() -> None:
    assert verdict(node("n1", JobCause.HARDWARE, start=START - 60)).action is Action.DENY
    job = replace(JOB, job_id=8)
    assert decide(job, RECORD, [HARDWARE], Limits()).action is Action.DENY


def test_a_node_that_slurm_lost_is_hardware() -> None:
    assert verdict(NodeFacts("n1", frozenset({"DOWN"}))).bad_nodes == ("n1",)
    assert verdict(CLEAN, lost="n3").bad_nodes == ("n3",)


@pytest.mark.parametrize("states", [{"IDLE", "NOT_RESPONDING"}, {"IDLE", "DRAIN"}, {"MIXED"}])
def test_a_node_that_is_only_away_or_drained_says_nothing(states: set[str]) -> None:
    assert verdict(NodeFacts("n1", frozenset(states), "maintenance")).action is Action.DENY


@pytest.mark.parametrize(
    ("reason", "time", "action"),
    [
        ("nhc: GPU is sick", START + 1, Action.FAILOVER),
        ("nhc: GPU is sick", START - 1, Action.DENY),
        ("see nhc: GPU", START + 1, Action.DENY),
        ("slurm-failover: x", START + 1, Action.DENY),
    ],
)
def test_another_tools_drain_counts_where_the_site_trusts_its_reason(
    reason: str, time: float, action: Action
) -> None:
    drained = NodeFacts("n1", frozenset({"IDLE", "DRAIN"}), reason, time)
    assert verdict(drained, limits=Limits(trusted_reasons=("nhc: ",))).action is action


def test_a_trusted_reason_without_a_drain_says_nothing() -> None:
    idle = NodeFacts("n1", frozenset({"IDLE"}), "nhc: GPU", START + 1)
    assert verdict(idle, limits=Limits(trusted_reasons=("nhc: ",))).action is Action.DENY


def test_a_job_that_asks_for_its_faulty_node_by_name_has_nowhere_to_go() -> None:
    found = decide(replace(JOB, required="n[1-2]"), RECORD, [HARDWARE], Limits())
    assert (found.action, found.state) == (Action.DENY, State.INTERNALERROR)
    assert "the job asks for n1 (--nodelist)" in found.because
    elsewhere = decide(replace(JOB, required="n2"), RECORD, [HARDWARE], Limits())
    assert elsewhere.action is Action.FAILOVER


def test_an_epilog_that_did_not_end_is_unknown_and_never_a_failover() -> None:
    found = decide(JOB, RECORD, [CLEAN], Limits(), silent=True)
    assert found.action is Action.DENY
    assert "a node's Epilog has not ended" in found.because
    assert decide(JOB, RECORD, [HARDWARE], Limits(), silent=True).action is Action.FAILOVER


@pytest.mark.parametrize(
    ("backoffs", "pause"), [(0, 60), (1, 120), (4, 960), (5, 1800), (40, 1800)]
)
def test_a_busy_registry_is_tried_again_after_pauses_that_double(backoffs: int, pause: int) -> None:
    assert verdict(BUSY, backoffs=backoffs, limits=Limits(image_retries=99)).pause == pause


def test_a_busy_registry_is_given_up_in_the_end() -> None:
    found = verdict(BUSY, backoffs=5)
    assert (found.action, found.state) == (Action.EXCEED, State.IMAGEPULLBACKOFF)
    assert found.because.startswith("tried 6 times")


def test_a_site_can_have_what_is_not_started_again_cancelled() -> None:
    assert verdict(CLEAN, limits=Limits(cancel_denied=True)).cancel
    assert not verdict(CLEAN, limits=Limits(cancel_exceeded=True)).cancel
    assert verdict(HARDWARE, retries=3, limits=Limits(cancel_exceeded=True)).cancel
    both = Limits(cancel_denied=True, cancel_exceeded=True)
    assert not verdict(HARDWARE, limits=both).cancel
    assert not verdict(BUSY, limits=both).cancel


def test_the_last_row_of_the_table_takes_everything() -> None:
    assert DECISIONS[-1].holds(None)  # type: ignore[arg-type]
    assert len({row.when for row in DECISIONS}) == len(DECISIONS)


# --- which ends are ours --------------------------------------------------------------------------


def ending(*states: str, stopped: bool = False, **facts: object) -> Ending:
    job = replace(JOB, states=frozenset(states), **facts)  # type: ignore[arg-type]
    return read_ending(job, stopped, "n[1-3]")[0]


@pytest.mark.parametrize("state", ["FAILED", "OUT_OF_MEMORY"])
def test_a_program_that_failed_is_ours(state: str) -> None:
    assert ending(state, "COMPLETING") is Ending.FAILED


@pytest.mark.parametrize(
    "state",
    [
        *("COMPLETED", "CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED", "BOOT_FAIL", "NODE_FAIL"),
        *("PENDING", "RUNNING", "SUSPENDED", "SOMETHING_NEW"),
    ],
)
def test_every_other_end_is_left_alone_and_says_so(state: str) -> None:
    job = replace(JOB, states=frozenset({state, "COMPLETING"}))
    found, why = read_ending(job)
    assert found is Ending.LEFT_ALONE
    assert state in why


def test_a_job_that_its_node_stopped_is_ours() -> None:
    assert ending("PENDING", "SPECIAL_EXIT", stopped=True) is Ending.STOPPED_BY_NODE
    assert ending("CANCELLED", stopped=True) is Ending.LEFT_ALONE


def test_a_job_that_lost_a_node_of_this_attempt_is_ours() -> None:
    assert ending("PENDING", failed_node="n2") is Ending.NODE_LOST
    assert ending("PENDING", failed_node="n9") is Ending.LEFT_ALONE
    assert ending("CANCELLED", failed_node="n2") is Ending.LEFT_ALONE


def test_a_job_that_someone_holds_after_it_lost_a_node_is_theirs() -> None:
    assert ending("PENDING", failed_node="n2", held=True) is Ending.LEFT_ALONE


@pytest.mark.parametrize(
    "facts",
    [
        {"batch": False},
        {"requeue": False},
        {"federation": "elsewhere"},
        {"partition": "gpu,spot-a"},
        {"qos": "preempt"},
        {"qos": "normal,PreEmpt"},
        {"other_partitions": "gpu,spot-a"},
        {"other_qos": "preempt"},
    ],
)
def test_what_can_not_be_failed_over_is_left_alone_with_the_reason(
    facts: dict[str, object],
) -> None:
    job = replace(JOB, states=frozenset({"FAILED"}), **facts)  # type: ignore[arg-type]
    limits = Limits(spot_partitions=("spot*",), spot_qos=("PREEMPT",))
    found, why = read_ending(job, limits=limits)
    assert found is Ending.LEFT_ALONE
    assert why == refuse_job(job, limits) != ""


@pytest.mark.parametrize(
    ("wish", "limit"), [(None, 3), (OptIn(), 3), (OptIn(2), 2), (OptIn(99), 3)]
)
def test_an_owner_may_lower_the_limit_and_never_raise_it(wish: OptIn | None, limit: int) -> None:
    assert retry_limit(wish, Limits(3)) == limit


@pytest.mark.parametrize(
    ("facts", "how", "words"),
    [
        ({"exit_code": 3}, Ending.FAILED, "the program ended with exit code 3"),
        ({"exit_signal": 9}, Ending.FAILED, "the program was ended by signal 9"),
        ({"states": frozenset({"OUT_OF_MEMORY"})}, Ending.FAILED, "the job ran out of memory"),
        ({"failed_node": "n2"}, Ending.NODE_LOST, "node n2 was lost"),
        ({}, Ending.STOPPED_BY_NODE, "the job was stopped by its node"),
    ],
)
def test_an_end_is_told_in_words(facts: dict[str, object], how: Ending, words: str) -> None:
    assert describe_end(replace(JOB, **facts), how) == words  # type: ignore[arg-type]


def test_a_node_that_does_not_answer_is_lost_once_its_epilog_has_had_its_time() -> None:
    mute = NodeFacts("n2", frozenset({"ALLOCATED", "COMPLETING", "NOT_RESPONDING"}))
    found = decide(JOB, RECORD, [CLEAN, mute], Limits(), silent=True)
    assert (found.action, found.bad_nodes) == (Action.FAILOVER, ("n2",))
    assert found.because == "n2: the node does not answer, and its Epilog has not ended in time"


def test_a_node_that_does_not_answer_for_a_moment_is_not_lost() -> None:
    mute = NodeFacts("n2", frozenset({"ALLOCATED", "COMPLETING", "NOT_RESPONDING"}))
    idle = NodeFacts("n2", frozenset({"IDLE", "NOT_RESPONDING"}))
    assert decide(JOB, RECORD, [mute], Limits()).action is Action.DENY
    assert decide(JOB, RECORD, [idle], Limits(), silent=True).action is Action.DENY
