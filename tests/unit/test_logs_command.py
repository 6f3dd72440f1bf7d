"""``logs`` reads what a job's owner named as its output: anything may be there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_failover.commands import logs
from slurm_failover.errors import SourceUnreadable
from slurm_failover.model import JobFacts
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
