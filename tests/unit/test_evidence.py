"""What nodes say about jobs, in their Extra."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from slurm_failover import evidence
from slurm_failover.evidence import (
    KEEP_FOR,
    KEEP_OTHERS,
    LONGEST_EXTRA,
    Dropped,
    about,
    choose,
    read_dropped,
    read_evidence,
    tell_dropped,
)
from slurm_failover.evidence import write_evidence as write
from slurm_failover.model import Evidence, JobCause

NOW = 1_700_000_000.0
ENTRY = Evidence("n1", 42, NOW - 100, JobCause.HARDWARE, "GPU lost", NOW, requeued=True)
ENTRY_WITH = {"job": 42, "start": 1, "cause": "hardware", "because": "", "time": 1}
INTERNAL = replace(ENTRY, cause=JobCause.INTERNAL, because="bad kernel", requeued=False)


@pytest.mark.parametrize("foreign", ["", "words", '{"other": 1}'])
def test_an_entry_comes_back_as_it_was_written(foreign: str) -> None:
    extra = write(foreign, "n1", [ENTRY], NOW)
    assert read_evidence("n1", extra) == [ENTRY]
    assert foreign.rstrip("}") in extra


def test_written_again_nothing_changes() -> None:
    extra = write('{"other": 1}', "n1", [ENTRY], NOW)
    assert write(extra, "n1", [ENTRY], NOW) == extra


def test_a_worse_fault_takes_the_place_of_a_milder_one() -> None:
    extra = write(write("", "n1", [INTERNAL], NOW), "n1", [ENTRY], NOW)
    assert read_evidence("n1", extra) == [ENTRY]


def test_a_milder_fault_never_takes_the_place_of_a_worse_one() -> None:
    extra = write(write("", "n1", [ENTRY], NOW), "n1", [INTERNAL], NOW)
    assert read_evidence("n1", extra) == [ENTRY]


def test_that_the_node_stopped_the_job_is_never_forgotten() -> None:
    plain = replace(ENTRY, requeued=False)
    assert read_evidence("n1", write(write("", "n1", [plain], NOW), "n1", [ENTRY], NOW)) == [ENTRY]
    assert read_evidence("n1", write(write("", "n1", [ENTRY], NOW), "n1", [plain], NOW)) == [ENTRY]


def jobs(extra: str) -> list[int]:
    return [entry.job_id for entry in read_evidence("n1", extra)]


def many(entry: Evidence, first: int, count: int) -> list[Evidence]:
    """Words like this one on so many jobs, each with a start of its own."""
    numbers = range(first, first + count)
    return [replace(entry, job_id=job, start=entry.start + 10 * job) for job in numbers]


HARDWARE = replace(ENTRY, requeued=False)
STOPPED = replace(INTERNAL, requeued=True)
BUSY = replace(INTERNAL, cause=JobCause.IMAGE_PULL, passing=True)
A_FULL_EXTRA = 1000
"""Words enough that an Extra has no room for all."""


@pytest.mark.parametrize("word", [HARDWARE, STOPPED])
def test_a_word_that_a_job_may_wait_for_is_pushed_out_by_no_number_of_others(
    word: Evidence,
) -> None:
    extra = write("", "n1", many(word, 1, 200), NOW)
    extra = write(extra, "n1", many(INTERNAL, 1000, A_FULL_EXTRA), NOW)
    assert jobs(extra)[:200] == list(range(1, 201))
    assert read_dropped(extra) is None


def test_of_words_that_only_explain_the_latest_are_kept() -> None:
    extra = write("", "n1", many(INTERNAL, 1, KEEP_OTHERS), NOW)
    assert jobs(write(extra, "n1", many(INTERNAL, 1000, 2), NOW)) == [
        *range(3, KEEP_OTHERS + 1),
        *(1000, 1001),
    ]


def test_a_word_on_an_image_that_can_be_fetched_later_outlives_explanations() -> None:
    extra = write("", "n1", [BUSY, *many(INTERNAL, 1000, A_FULL_EXTRA)], NOW)
    assert len(jobs(extra)) == KEEP_OTHERS
    assert jobs(extra)[0] == BUSY.job_id
    assert read_dropped(extra) is None


@pytest.mark.parametrize("foreign", ["", "words", json.dumps({"other": "x" * 5000})])
def test_an_extra_stays_as_short_as_scontrol_can_bear(foreign: str) -> None:
    long = replace(ENTRY, because="\U0001f525" * 300)
    extra = write(foreign, "n1", many(long, 1, A_FULL_EXTRA), NOW)
    assert LONGEST_EXTRA - 3000 < len(extra.encode()) <= LONGEST_EXTRA
    assert foreign.rstrip("}") in extra


def test_where_all_can_not_stay_the_oldest_go_and_that_the_node_stopped_a_job_goes_last() -> None:
    stops = many(STOPPED, 1, 3)
    extra = write("", "n1", [*stops, *many(HARDWARE, 10, A_FULL_EXTRA)], NOW)
    kept = jobs(extra)
    assert kept[:3] == [1, 2, 3]
    assert kept[3:] == list(range(kept[3], A_FULL_EXTRA + 10))
    last = HARDWARE.start + 10 * (kept[3] - 1)
    assert read_dropped(extra) == Dropped(HARDWARE.start + 100, last, NOW)


def test_a_node_remembers_on_which_attempts_it_had_no_room_for_a_word() -> None:
    full = write("", "n1", many(ENTRY, 1000, A_FULL_EXTRA), NOW)
    dropped = read_dropped(full)
    assert dropped is not None
    assert dropped.stopped
    assert [dropped.covers(ENTRY.start + at) for at in (9_997, 9_998)] == [False, True]
    assert [dropped.covers(dropped.last + after) for after in (2, 3)] == [True, False]
    more = read_dropped(write(full, "n1", many(HARDWARE, 1, 1), NOW + 5))
    assert more == replace(dropped, first=HARDWARE.start + 10, time=NOW + 5)


def test_the_log_is_told_once_that_there_was_no_room() -> None:
    full = write("", "n1", many(ENTRY, 1, A_FULL_EXTRA), NOW)
    assert tell_dropped("", full) == (
        "the node's Extra has no room for all words on its jobs (65536 bytes): a job whose word is "
        "lost is held as internalerror, and `slurm-failover status` says so"
    )
    assert tell_dropped(full, write(full, "n1", [], NOW + 1)) == ""
    assert tell_dropped("", write("", "n1", [ENTRY], NOW)) == ""


def test_that_there_was_no_room_is_forgotten_as_the_words_are() -> None:
    full = write("", "n1", many(ENTRY, 1, A_FULL_EXTRA), NOW)
    assert read_dropped(write(full, "n1", [], NOW + KEEP_FOR - 1)) is not None
    assert read_dropped(write(full, "n1", [], NOW + KEEP_FOR)) is None


@pytest.mark.parametrize(
    "value", [5, {}, {"first": 1, "last": 2}, {"first": 1, "last": 1e999, "time": 1}]
)
def test_a_damaged_trace_of_lost_words_is_none(value: object) -> None:
    extra = json.dumps({"slurm-failover": {"v": 1, "jobs": [], "dropped": value}})
    assert read_dropped(extra) is None
    assert jobs(write(extra, "n1", [ENTRY], NOW)) == [42]


def test_an_entry_is_about_one_attempt_of_one_job() -> None:
    assert about(ENTRY, 42, ENTRY.start + 1)
    assert not about(ENTRY, 42, ENTRY.start + 10)
    assert not about(ENTRY, 43, ENTRY.start)
    assert choose([ENTRY, replace(ENTRY, job_id=43)], 43, ENTRY.start)[0].job_id == 43


@pytest.mark.parametrize(
    "value",
    [
        5,
        {"v": 2, "jobs": []},
        {"v": 1},
        {"v": 1, "jobs": 3},
        {"v": 1, "jobs": [3, {}, {"job": "x"}, {"job": 1, "start": "x"}]},
        {"v": 1, "jobs": [ENTRY_WITH | {"start": float("nan")}, ENTRY_WITH | {"time": 1e999}]},
        {"v": 1, "jobs": [{"job": 1e999, "start": 1, "cause": "hardware"}]},
        {"v": 1, "jobs": [{"job": 1, "start": 1, "cause": "bad luck", "because": "", "time": 1}]},
    ],
)
def test_what_can_not_be_read_is_no_evidence(value: object) -> None:
    assert read_evidence("n1", json.dumps({"slurm-failover": value})) == []


def test_one_bad_entry_does_not_hide_a_good_one() -> None:
    whole = json.loads(write("", "n1", [ENTRY], NOW))
    whole["slurm-failover"]["jobs"].insert(0, "rubbish")
    assert read_evidence("n1", json.dumps(whole)) == [ENTRY]


def test_only_true_says_that_a_node_requeued_the_job() -> None:
    whole = json.loads(write("", "n1", [ENTRY], NOW))
    whole["slurm-failover"]["jobs"][0]["requeued"] = "yes"
    assert not read_evidence("n1", json.dumps(whole))[0].requeued


def test_an_extra_is_never_longer_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [replace(ENTRY, job_id=42 + n) for n in range(30)]
    for bound in range(600, 1200, 7):
        monkeypatch.setattr(evidence, "LONGEST_EXTRA", bound)
        extra = write('{"theirs":"x"}', "n1", words, NOW)
        assert len(extra) <= bound
        assert 0 < len(read_evidence("n1", extra)) < len(words)
