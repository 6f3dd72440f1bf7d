"""``logs`` reads what a job's owner named as its output: anything may be there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from slurm_failover.commands import logs
from slurm_failover.errors import SourceUnreadable
from slurm_failover.model import JobFacts
from slurm_failover.record import Attempt, Record, State, write_record
from slurm_failover.settings.tables import Settings


class OneJob:
    """Slurm with job 7, which has ended and wrote to ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def job(self, _: str) -> JobFacts:
        return JobFacts(7, "7", states=frozenset({"FAILED"}), stdout=str(self.path))

    def jobs(self, _: object) -> list[JobFacts]:
        return [self.job("7")]


class OneArray(OneJob):
    """Slurm with array 7, of whose ``tasks`` the last one bears the array's own id."""

    def __init__(self, path: Path, tasks: int) -> None:
        super().__init__(path)
        self.tasks = [replace(self.job("7"), job_id=8 + n, label=f"7_{n}") for n in range(tasks)]

    def jobs(self, _: object) -> list[JobFacts]:
        return [*self.tasks[1:], replace(self.tasks[0], job_id=7)]


def show(
    monkeypatch: pytest.MonkeyPatch, path: Path, *options: str, slurm: OneJob | None = None
) -> Result:
    monkeypatch.setattr(logs, "connect", lambda *_: slurm or OneJob(path))
    monkeypatch.setattr(logs, "_ASK_EVERY", 0.0)
    return CliRunner().invoke(logs.command, ["7", *options], obj=Settings())


@pytest.mark.parametrize("options", [(), ("-f",)])
def test_a_line_without_an_end_comes_whole_and_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 3_000_000 + b"\nend\n")
    done = show(monkeypatch, log, *options)
    assert done.exit_code == 0, done
    assert done.stdout_bytes.endswith(b"x" * 3_000_000 + b"\nend\n")
    assert max(map(len, logs._read(log))) <= 1 << 20


@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_what_is_no_file_is_named_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = Path("/dev/zero")
    if kind == "a pipe":
        path = tmp_path / "pipe"
        os.mkfifo(path)
    done = show(monkeypatch, path)
    assert isinstance(done.exception, SourceUnreadable)
    assert str(done.exception).startswith(f"{path} is no file")


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"states": frozenset({"PENDING"})}, "job 7 has not started yet: it has no log"),
        ({"states": frozenset({"CANCELLED"})}, "job 7 has never started: it has no log"),
        ({"nodes": "n1"}, "run this where the job's files are seen"),
        ({"states": frozenset({"PENDING"}), "restarts": 1}, "run this where the job's files"),
    ],
)
def test_a_log_that_is_not_there_is_missed_only_of_a_job_that_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: dict[str, object], why: str
) -> None:
    class Job(OneJob):
        def job(self, name: str) -> JobFacts:
            return replace(super().job(name), **facts)  # type: ignore[arg-type]

    done = show(monkeypatch, tmp_path / "log", slurm=Job(tmp_path / "log"))
    assert done.exit_code == 1
    assert why in f"{done.output}{done.exception}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is wary of links")
def test_root_follows_no_link_in_place_of_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("secret\n")
    link = tmp_path / "log"
    link.symlink_to(tmp_path / "secret")
    done = show(monkeypatch, link)
    assert "secret\n" not in done.output
    assert isinstance(done.exception, SourceUnreadable)


def test_an_array_is_asked_which_of_its_tasks_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.write_text("words\n")
    done = show(monkeypatch, log, slurm=OneArray(log, 3))
    assert done.exit_code == 2
    assert "job 7 is an array, and each task has its own log: 7_0, 7_1, 7_2; " in done.output
    assert "slurm-failover logs 7_0" in done.output
    assert "words" not in done.output
    many = show(monkeypatch, log, slurm=OneArray(log, 30)).output
    assert "7_9, …; for" in many
    assert "7_10" not in many


def test_an_array_of_one_task_needs_no_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.write_text("words\n")
    done = show(monkeypatch, log, slurm=OneArray(log, 1))
    assert (done.exit_code, done.stdout.endswith("words\n")) == (0, True)


# --- what is not there ----------------------------------------------------------------------------


class OneStory(OneJob):
    """Slurm with job 7, which is seen in one state after the other, and then stays in the last."""

    def __init__(self, path: Path, *seen: str, attempt: int = 1) -> None:
        super().__init__(path)
        self.seen = list(seen)
        record = Record(
            State.INTERNALERROR, because="n3: Xid 79", attempt=Attempt(attempt, "n3", 100.0)
        )
        self.record = write_record("", record)

    def job(self, _: str) -> JobFacts:
        state = self.seen.pop(0) if len(self.seen) > 1 else self.seen[0]
        held = state == "PENDING"
        return JobFacts(
            *(7, "7"),
            states=frozenset({state}),
            stdout=str(self.path),
            admin_comment=self.record,
            held=held,
            held_by_requeue=held,
        )


@pytest.mark.parametrize(
    ("state", "told"),
    [("RUNNING", "nothing written yet to"), ("PENDING", "nothing was written to")],
)
def test_a_job_that_wrote_nothing_is_not_said_to_be_truncated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, told: str
) -> None:
    log = tmp_path / "log"
    log.touch()
    done = show(monkeypatch, log, slurm=OneStory(log, state))
    assert done.stderr == f"slurm-failover: attempt 1: {told} {log}\n"


def test_only_an_attempt_that_another_followed_may_have_been_truncated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.touch()
    first, second = show(
        monkeypatch, log, slurm=OneStory(log, "RUNNING", attempt=2)
    ).stderr.splitlines()
    assert f"attempt 1: not in {log}. A later attempt truncated it" in first
    assert "attempt 2: nothing written yet" in second
    one = show(monkeypatch, log, "--attempt", "2", slurm=OneStory(log, "RUNNING", attempt=2))
    assert one.stderr.splitlines() == [second]


# --- a job that is followed -----------------------------------------------------------------------


def test_who_follows_a_held_job_is_told_once_that_it_is_held_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.write_text("words\n")
    monkeypatch.setattr(logs, "_PAUSE", 0.0)
    story = OneStory(log, *["PENDING"] * 5, "CANCELLED")
    done = show(monkeypatch, log, "-f", slurm=story)
    assert done.stderr == (
        "slurm-failover: job 7 is held (Pending - internalerror: n3: Xid 79): waiting until it "
        "starts again or is cancelled; Ctrl-C leaves it\n"
    )
    assert done.stdout.endswith("words\n")


def test_who_follows_a_running_job_is_told_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.write_text("words\n")
    monkeypatch.setattr(logs, "_PAUSE", 0.0)
    done = show(monkeypatch, log, "-f", slurm=OneStory(log, *["RUNNING"] * 4, "COMPLETED"))
    assert done.stderr == ""


def test_the_name_of_a_jobs_output_can_not_steer_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "a\x1b[2J.out"
    log.touch()
    done = show(monkeypatch, log)
    assert "nothing was written to" in done.stderr
    assert "a\\x1b[2J.out" in done.stderr
    assert "\x1b" not in done.output


def test_a_job_without_an_output_of_its_own_is_told_apart_from_an_odd_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(OneJob):
        def job(self, _: str) -> JobFacts:
            return JobFacts(7, "7", states=frozenset({"RUNNING"}), batch=False)

    done = show(monkeypatch, tmp_path, slurm=Terminal(tmp_path))
    assert isinstance(done.exception, SourceUnreadable)
    assert "job 7 has no output of its own: one of srun or salloc" in str(done.exception)


def test_who_follows_a_log_gets_an_enormous_line_piece_by_piece(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * (3 * logs._LONGEST_LINE))
    gone = Mock(is_alive=lambda: False)
    with log.open("rb") as file:
        pieces = list(logs._follow(file.fileno(), 0, gone))
    assert sum(map(len, pieces)) == 3 * logs._LONGEST_LINE
    assert max(map(len, pieces)) < 1.1 * logs._LONGEST_LINE
