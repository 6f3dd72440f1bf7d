"""The record in AdminComment, and the words in Comment."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from slurm_failover.errors import RecordError
from slurm_failover.record import (
    COMMENT_LIMIT,
    HISTORY_LIMIT,
    Attempt,
    Record,
    State,
    Step,
    read_record,
    tidy,
    write_mirror,
    write_record,
    write_refusal,
)

RECORD = Record(
    state=State.FAILOVERINPROGRESS,
    step=Step.DECIDED,
    retries=1,
    max_retries=3,
    excluded="n[1-2]",
    lost="n1",
    cause="n1: GPU has fallen off the bus",
    because="n1: GPU has fallen off the bus (and 1 more node)",
    attempt=Attempt(2, "n[1-4]", 1_700_000_000.0, 1_700_000_100.0, "failover", "n1: lost"),
    history=(Attempt(1, "n[1-4]", 1_600_000_000.0, 1_600_000_100.0, "deny", "ü"),),
)


@pytest.mark.parametrize("foreign", ["", "words", '{"APS": {}}'])
def test_a_record_comes_back_as_it_was_written(foreign: str) -> None:
    text = write_record(foreign, RECORD)
    assert read_record(text) == RECORD
    assert write_record(text, Record()) == write_record(foreign, Record())


def test_no_record_is_none() -> None:
    assert read_record("") is None
    assert read_record('{"other": {"v": 1}}') is None


@pytest.mark.parametrize("value", [{"v": 2}, {"v": "1"}, {}, 7, [], None, "x"])
def test_a_record_of_another_version_is_refused_and_left_to_its_writer(value: object) -> None:
    text = json.dumps({"slurm-failover": value})
    if value is None:
        assert read_record(text) is None
        return
    with pytest.raises(RecordError, match="version 1"):
        read_record(text)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("state", "unheard of"),
        ("state", None),
        ("step", "sideways"),
        ("retries", -1),
        ("retries", True),
        ("retries", "1"),
        ("max", 1.5),
        ("attempt", [1, "n1"]),
        ("attempt", "n1"),
        ("attempt", [1, "n1", 1e300, 0, "", ""]),
        ("attempt", [1, "n1", 0, -1, "", ""]),
        ("history", [[1]]),
        ("history", 5),
    ],
)
def test_a_damaged_record_is_an_error_that_says_so(key: str, value: object) -> None:
    whole = json.loads(write_record("", RECORD))
    whole["slurm-failover"][key] = value
    with pytest.raises(RecordError, match="damaged"):
        read_record(json.dumps(whole))


@pytest.mark.parametrize("key", ["state", "retries", "max", "attempt"])
def test_a_record_without_a_needed_key_is_damaged(key: str) -> None:
    whole = json.loads(write_record("", RECORD))
    del whole["slurm-failover"][key]
    with pytest.raises(RecordError, match="damaged"):
        read_record(json.dumps(whole))


def test_an_attempt_is_closed_once() -> None:
    open_record = replace(RECORD, attempt=replace(RECORD.attempt, outcome="", because=""))
    once = open_record.close_attempt("failover", "n1")
    assert once.history[-1].outcome == once.attempt.outcome == "failover"
    assert once.close_attempt("deny", "later") == once


def test_the_history_keeps_the_latest_attempts() -> None:
    record = Record()
    for number in range(1, HISTORY_LIMIT + 4):
        record = replace(record, attempt=Attempt(number, start=float(number)))
        record = record.close_attempt("deny", "why")
    assert [past.number for past in record.history] == list(range(4, HISTORY_LIMIT + 4))


def test_the_mirror_stands_behind_the_owners_text_and_replaces_the_last_one() -> None:
    comment = write_mirror("failover=3 mine", RECORD)
    assert comment == (
        "failover=3 mine [slurm-failover: failoverinprogress, retries 1/3: "
        "n1: GPU has fallen off the bus (and 1 more node)]"
    )
    armed = write_mirror(comment, Record(max_retries=3))
    assert armed == "failover=3 mine [slurm-failover: armed, retries 0/3]"


def test_a_refusal_says_why_behind_the_owners_text() -> None:
    assert write_refusal("failover", "no [brackets]") == (
        "failover [slurm-failover: off: no (brackets)]"
    )


@pytest.mark.parametrize("owner", ["x", "ü"])
@pytest.mark.parametrize("spare", [0, 1, 10, 22, 24, 38, 45, 60, 61, 62, 63, 80, 300])
def test_the_owners_text_is_kept_and_the_mirror_gives_way(owner: str, spare: int) -> None:
    text = owner * ((COMMENT_LIMIT - spare) // len(owner.encode()))
    comment = write_mirror(text, replace(RECORD, because="über " * 100))
    assert comment.startswith(text)
    assert len(comment.encode()) <= COMMENT_LIMIT
    assert comment == text or comment.endswith("]")
    assert write_mirror(comment, Record(max_retries=3)).startswith(text)


def test_the_mirror_shortens_before_it_disappears() -> None:
    whole = " [slurm-failover: failoverinprogress, retries 1/3: n1: GPU has fallen off the bus"
    counted = " [slurm-failover: failoverinprogress, retries 1/3]"
    short = " [slurm-failover: failoverinprogress]"

    def shown(room: int) -> str:
        return write_mirror("x" * (COMMENT_LIMIT - room), RECORD).lstrip("x")

    assert shown(300).startswith(whole)
    assert shown(len(counted)) == counted
    assert shown(len(counted) - 1) == shown(len(short)) == short
    assert shown(len(short) - 1) == ""


def test_a_sentence_is_one_plain_line_of_bounded_length() -> None:
    assert tidy("a\x1b[31mb\nc]") == "a (31mb c)"
    assert tidy("x" * 300, 10) == "x" * 9 + "…"
    assert tidy("x" * 10, 10) == "x" * 10
