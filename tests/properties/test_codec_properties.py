"""Whatever stands in Slurm's fields: ours is found again, the others' is kept, nothing raises."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from slurm_failover import embed
from slurm_failover.errors import RecordError
from slurm_failover.evidence import read_evidence, write_evidence
from slurm_failover.model import Evidence, JobCause
from slurm_failover.optin import read_opt_in, strip_mirror
from slurm_failover.record import (
    COMMENT_LIMIT,
    HISTORY_LIMIT,
    Attempt,
    Record,
    State,
    Step,
    read_record,
    write_mirror,
    write_record,
    write_refusal,
)

QUICK = settings(max_examples=150)

numbers = st.one_of(st.integers(), st.floats(), st.just(10**400))
json_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)
pieces = st.sampled_from(
    ["{", '"', ":", "slurm-failover", "slurm-failover:{", "}", "[]", ",", " ", "\\", "\n", "ü"]
)
foreign = st.one_of(
    st.text(),
    st.lists(pieces, max_size=12).map("".join),
    st.dictionaries(st.text(), json_values, max_size=4).map(json.dumps),
    st.dictionaries(st.text(), json_values, max_size=4).map(lambda v: json.dumps(v, indent=1)),
)
words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=40)
times = st.integers(0, 2**33).map(float)
attempts = st.builds(Attempt, st.integers(0, 9), words, times, times, words, words.map(str.strip))
records = st.builds(
    Record,
    state=st.sampled_from(State),
    step=st.sampled_from(Step),
    retries=st.integers(0, 1000),
    max_retries=st.integers(0, 1000),
    excluded=words,
    lost=words,
    cause=words,
    because=words,
    attempt=attempts,
    history=st.lists(attempts, max_size=HISTORY_LIMIT).map(tuple),
)
entries = st.builds(
    Evidence,
    node=st.just("n1"),
    job_id=st.integers(1, 9),
    start=times,
    cause=st.sampled_from(JobCause),
    because=words,
    time=times,
    requeued=st.booleans(),
)


@QUICK
@given(foreign, json_values.filter(lambda value: value is not None))
def test_any_value_is_found_again_in_any_text(text: str, value: Any) -> None:
    ours = {"v": value}
    whole = embed.put(text, ours)
    assert json.dumps(embed.take(whole)) == json.dumps(json.loads(json.dumps(ours)))
    assert embed.put(whole, ours) == whole


@QUICK
@given(foreign)
def test_foreign_text_comes_through_byte_for_byte(text: str) -> None:
    theirs = embed.strip(text)
    back = embed.strip(embed.put(text, {"v": 1}))
    assert back == theirs or theirs.split() == ["{}"] or theirs.split() == ["{", "}"]


@QUICK
@given(st.text(), st.text(), records)
def test_a_comment_keeps_its_owners_text_and_slurms_limit(
    comment: str, why: str, record: Record
) -> None:
    own = strip_mirror(comment)
    for shown in (write_mirror(comment, record), write_refusal(comment, why)):
        assert shown.startswith(own)
        assert strip_mirror(shown) == own
        assert read_opt_in(shown) == read_opt_in(comment)
        assert len(shown.encode("utf-8", "surrogatepass")) <= max(
            COMMENT_LIMIT, len(own.encode("utf-8", "surrogatepass"))
        )


@QUICK
@given(foreign, records)
def test_any_record_comes_back_out_of_any_admin_comment(text: str, record: Record) -> None:
    written = write_record(text, record)
    back = read_record(written)
    assert back is not None
    assert write_record("", back) == write_record("", record)
    assert write_record(written, back) == written


@settings(QUICK, max_examples=300)
@given(json_values, st.sampled_from(["state", "retries", "max", "attempt", "history", "step", "x"]))
@example(10**400, "attempt")
@example([1, "", 10**400, 0, "", ""], "attempt")
@example([1, "", float("nan"), 0, "", ""], "attempt")
@example([[1, "", float("inf"), 0, "", ""]], "history")
def test_a_record_of_any_json_is_read_or_refused_and_can_be_written_again(
    value: Any, key: str
) -> None:
    whole = {"v": 1, "state": "armed", "retries": 0, "max": 3, "attempt": [1, "", 0, 0, "", ""]}
    for candidate in (value, {**whole, key: value}):
        try:
            record = read_record(json.dumps({"slurm-failover": candidate}))
        except RecordError:
            continue
        if record is not None:
            write_record("", record)


@QUICK
@given(foreign)
def test_no_text_at_all_upsets_a_reader(text: str) -> None:
    read_opt_in(text)
    read_evidence("n1", text)
    try:
        read_record(text)
    except RecordError:
        return


@settings(QUICK, max_examples=300)
@given(
    st.lists(
        st.one_of(
            json_values,
            st.fixed_dictionaries(
                {
                    "job": st.one_of(json_values, numbers),
                    "start": st.one_of(json_values, numbers),
                    "cause": st.sampled_from([*JobCause, "x"]),
                    "because": json_values,
                    "time": st.one_of(json_values, numbers),
                }
            ),
        ),
        max_size=4,
    ),
    entries,
)
def test_evidence_of_any_json_is_read_and_can_be_added_to(value: Any, entry: Evidence) -> None:
    extra = json.dumps({"slurm-failover": {"v": 1, "jobs": value}, "other": 1})
    read_evidence("n1", extra)
    written = write_evidence(extra, "n1", [entry], entry.time)
    assert any(found.job_id == entry.job_id for found in read_evidence("n1", written))
    assert json.loads(written)["other"] == 1


@QUICK
@given(foreign, st.lists(entries, max_size=6))
def test_whatever_the_order_the_worst_word_on_an_attempt_stays(
    text: str, said: list[Evidence]
) -> None:
    extra = text
    for entry in said:
        extra = write_evidence(extra, "n1", [entry], 0.0)
    for entry in said:
        if entry.cause is JobCause.HARDWARE:
            kept = [e for e in read_evidence("n1", extra) if e.job_id == entry.job_id]
            assert JobCause.HARDWARE in {e.cause for e in kept if abs(e.start - entry.start) <= 2}
