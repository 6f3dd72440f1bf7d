"""What nodes say about jobs, in their Extra."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from slurm_failover.evidence import KEEP_AT_MOST, KEEP_FOR, about, choose, read_evidence
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


def test_old_entries_go_at_the_next_write_and_the_latest_are_kept() -> None:
    old = replace(ENTRY, job_id=1, time=NOW - KEEP_FOR)
    many = [replace(ENTRY, job_id=job) for job in range(2, KEEP_AT_MOST + 5)]
    kept = read_evidence("n1", write(write("", "n1", [old], NOW), "n1", many, NOW))
    assert [entry.job_id for entry in kept] == list(range(5, KEEP_AT_MOST + 5))


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
