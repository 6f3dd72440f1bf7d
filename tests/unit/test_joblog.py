"""The lines in a job's log, and the attempts that they part it into."""

from __future__ import annotations

import pytest

from slurm_failover import joblog
from slurm_failover.record import Attempt, Record, State

RECORD = Record(
    state=State.RESUMED,
    attempt=Attempt(2, "n[2-3]", 200.0),
    history=(Attempt(1, "n1", 100.0, 150.0, "failover", "n1: Xid 79 on GPU 0000:3b:00"),),
)
MARK = joblog.separator("7", 2, "2026-01-01T00:00:00+0000", "n[2-3]", RECORD)


def test_a_separator_names_attempt_time_nodes_and_cause() -> None:
    assert MARK == (
        "=== slurm-failover: attempt 2 of job 7 started 2026-01-01T00:00:00+0000 on n[2-3]; "
        "attempt 1 ended: n1: Xid 79 on GPU 0000:3b:00 ==="
    )
    assert joblog.marked(MARK.encode() + b"\n") == 2


def test_an_attempt_that_nobody_judged_was_requeued() -> None:
    line = joblog.separator("7_1", 3, "now", "n4", RECORD)
    assert line.endswith("attempt 2 ended: it was requeued ===")


def test_a_cause_can_not_add_lines_of_its_own() -> None:
    forged = Record(history=(Attempt(1, "n1", because="a\n=== slurm-failover: attempt 9 of"),))
    assert "\n" not in joblog.separator("7", 2, "now", "n1", forged)


def test_a_denial_begins_no_attempt() -> None:
    line = joblog.denial("7", RECORD, "now", "held")
    assert joblog.marked(line.encode()) is None
    assert line.endswith("; the job is held ===")


def test_only_the_latest_attempt_tells_that_no_other_follows() -> None:
    line = joblog.denial("7", RECORD, "now", "held").encode()
    assert joblog.is_closed(b"one\n" + line + b"\n", "7", 2)
    assert not joblog.is_closed(line, "7", 3)
    assert not joblog.is_closed(line + b"\n" + MARK.encode() + b"\ntwo\n", "7", 2)


def test_a_log_is_parted_at_its_marks() -> None:
    lines = [b"one\n", MARK.encode() + b"\n", b"two\n"]
    first = joblog.first_attempt(lines, 2)
    assert [(number, line[:3]) for number, line in joblog.part(lines, first)] == [
        (1, b"one"),
        (2, b"==="),
        (2, b"two"),
    ]


def test_a_log_without_marks_is_the_latest_attempts() -> None:
    assert joblog.first_attempt([b"three\n"], 3) == 3


def test_an_attempt_is_known_by_its_start() -> None:
    assert joblog.current_attempt(RECORD, 200.0) == 2
    assert joblog.current_attempt(RECORD, 300.0) == 3


def test_what_differs_between_nodes_is_resolved() -> None:
    assert joblog.resolve("/home/a/%N-1.out", "n1.example.com") == "/home/a/n1-1.out"


def test_a_job_that_names_no_output_writes_where_sbatch_lets_it() -> None:
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_WORK_DIR": "/home/alice"}
    task = {**job, "SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "2"}
    assert joblog.default_output(job) == "/home/alice/slurm-7.out"
    assert joblog.default_output(task) == "/home/alice/slurm-5_2.out"


@pytest.mark.parametrize(
    ("told", "path"),
    [
        ("slurm-%j.out", "/home/alice/slurm-7.out"),
        ("slurm-%A_%a.out", "/home/alice/slurm-5_2.out"),
        ("/logs/%u/%4j.%N", "/logs/alice/0007.%N"),
        ("/logs/%x", "/logs/%x"),
    ],
)
def test_an_epilogs_word_of_the_output_is_resolved_as_sbatch_would(told: str, path: str) -> None:
    job = {
        "SLURM_JOB_ID": "7",
        "SLURM_ARRAY_JOB_ID": "5",
        "SLURM_ARRAY_TASK_ID": "2",
        "SLURM_JOB_USER": "alice",
        "SLURM_JOB_WORK_DIR": "/home/alice",
    }
    assert joblog.output_of(told, job) == path
