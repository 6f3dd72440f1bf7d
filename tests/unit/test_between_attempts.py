"""What a job's record and its nodes' words keep, and what they let go, to the last word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_failover import embed, lifecycle
from slurm_failover.errors import RecordError
from slurm_failover.evidence import (
    KEEP_FOR,
    KEEP_OTHERS_FOR,
    about,
    read_evidence,
    write_evidence,
)
from slurm_failover.model import Evidence, JobCause, JobFacts
from slurm_failover.policy import Ending
from slurm_failover.record import (
    COMMENT_LIMIT,
    Attempt,
    Record,
    State,
    Step,
    decode_record,
    encode_record,
    tidy,
    write_mirror,
)

NOW = 1_700_000_000.0
JOB = JobFacts(7, "7", nodes="n[1-2]", start=100.0, exit_code=1)
ENTRY = Evidence("n1", 7, 100.0, JobCause.HARDWARE, "GPU lost", NOW)


# --- the record -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "step", "now"),
    [
        (State.FAILOVERINPROGRESS, Step.PLACED, State.RESUMED),
        (State.FAILOVERINPROGRESS, Step.DECIDED, State.RESUMED),
        (State.FAILOVERINPROGRESS, Step.HELD, State.ARMED),
        (State.IMAGEPULLBACKOFF, Step.DECIDED, State.ARMED),
        (State.RESUMED, Step.NONE, State.RESUMED),
        (State.INTERNALERROR, Step.NONE, State.ARMED),
    ],
)
def test_only_a_job_that_was_moved_is_resumed(state: State, step: Step, now: State) -> None:
    old = Record(state=state, step=step, restarts=4, lost="n1", attempt=Attempt(1, "n1", 50.0))
    new = lifecycle.start_attempt(JOB, old, 3)
    assert (new.state, new.step, new.restarts, new.lost) == (now, Step.NONE, 0, "")


def test_a_held_job_says_what_it_waits_for() -> None:
    held = lifecycle.hold(Record(because="old"), JOB, Ending.FAILED, NOW)
    assert held.because == "waiting for the job's nodes to report"


def test_a_decision_that_is_reopened_leaves_no_trace_and_says_why() -> None:
    held = lifecycle.hold(Record(attempt=Attempt(1, "n1", 100.0)), JOB, Ending.FAILED, NOW)
    closed = held.close_attempt("deny", "no node shows a fault")
    assert closed.history == (Attempt(1, "n1", 100.0, NOW, "deny", "no node shows a fault"),)
    opened = lifecycle.reopen(closed)
    assert opened == replace(
        held, because="a node that could not tell in time has a hardware fault"
    )


def test_what_is_not_so_takes_no_room_in_a_record() -> None:
    assert encode_record(Record()) == {
        "v": 1,
        "state": "armed",
        "retries": 0,
        "max": 0,
        "attempt": [1, "", 0, 0, "", ""],
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"retries": -1}, "not a count: -1"),
        ({"attempt": [1, "n1", float("inf"), 0, "", ""]}, "not a time: inf"),
    ],
)
def test_a_damaged_record_is_told_with_what_is_wrong(change: dict[str, object], words: str) -> None:
    with pytest.raises(RecordError, match=words):
        decode_record(encode_record(Record()) | change)


def test_a_record_of_another_release_is_told_with_what_becomes_of_it() -> None:
    with pytest.raises(RecordError) as caught:
        decode_record({"v": 2})
    assert str(caught.value) == (
        "the record in AdminComment is not of version 1; "
        "was it written by a newer slurm-failover? It is left as it is"
    )


def test_what_is_no_list_of_nodes_is_told_with_an_example() -> None:
    with pytest.raises(RecordError, match=r"'n\[1-' is no list of nodes, as n\[1-4\] is: "):
        lifecycle.expand("n[1-")


# --- the words beside a job -----------------------------------------------------------------------


def test_a_long_sentence_is_cut_at_a_word_without_a_gap() -> None:
    assert tidy("ab cd", 4) == "ab…"
    assert tidy(" ab cd", 5) == "ab cd"


def test_a_comment_of_its_own_has_no_blank_before_it() -> None:
    assert write_mirror("", Record(max_retries=3)) == "[slurm-failover: armed, retries 0/3]"


@pytest.mark.parametrize("spare", range(1, 9))
def test_as_much_of_the_sentence_is_shown_as_has_room_and_no_half_letter(spare: int) -> None:
    record = Record(max_retries=3, because="üüüüüü")
    bare = "[slurm-failover: armed, retries 0/3: ]"
    owner = "x" * (COMMENT_LIMIT - len(bare) - 1 - spare)
    letters = "ü" * (spare // 2)
    mirror = bare.replace(" ]", f" {letters}]") if letters else bare.replace(": ]", "]")
    assert write_mirror(owner, record) == f"{owner} {mirror}"


# --- the words in a node --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "life"),
    [
        (ENTRY, KEEP_FOR),
        (replace(ENTRY, cause=JobCause.HUNG, requeued=True), KEEP_FOR),
        (replace(ENTRY, cause=JobCause.INTERNAL), KEEP_OTHERS_FOR),
        (replace(ENTRY, cause=JobCause.IMAGE_PULL, passing=True), KEEP_OTHERS_FOR),
    ],
)
def test_a_word_that_a_job_may_wait_for_is_kept_for_a_week_and_others_for_a_day(
    word: Evidence, life: float
) -> None:
    old, young = (replace(word, job_id=n, time=NOW - life + n - 8) for n in (8, 9))
    extra = write_evidence("", "n1", [old, young], NOW)
    assert [
        entry.job_id for entry in read_evidence("n1", write_evidence(extra, "n1", [], NOW))
    ] == [9]


@pytest.mark.parametrize(("apart", "same"), [(0, True), (2, True), (-2, True), (2.1, False)])
def test_two_readings_of_one_start_differ_by_two_seconds_at_most(apart: float, same: bool) -> None:
    assert about(ENTRY, 7, ENTRY.start + apart) is same


def test_what_else_of_ours_a_node_has_noted_stays_beside_its_words() -> None:
    extra = embed.put("site text", {"v": 1, "quiet": [[7, 1, 2]], "faults": [{"x": 1}]})
    value = embed.take(write_evidence(extra, "n1", [ENTRY], NOW))
    assert isinstance(value, dict)
    assert (value["quiet"], value["faults"], len(value["jobs"])) == ([[7, 1, 2]], [{"x": 1}], 1)


def test_what_a_newer_release_has_noted_is_not_taken_for_ours() -> None:
    extra = embed.put("", {"v": 2, "quiet": [[7, 1, 2]]})
    value = embed.take(write_evidence(extra, "n1", [ENTRY], NOW))
    assert isinstance(value, dict)
    assert value.keys() == {"v", "jobs"}
