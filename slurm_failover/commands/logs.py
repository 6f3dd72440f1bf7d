"""``slurm-failover logs``: a job's log, with its attempts marked."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

import click

from slurm_failover import joblog
from slurm_failover.cli import make_visible
from slurm_failover.commands.jobid import JOB_ID, by_task, forgotten
from slurm_failover.errors import NoSuchJob, RecordError, SourceUnreadable
from slurm_failover.model import JobFacts, Limits
from slurm_failover.record import Attempt, Record, read_record
from slurm_failover.settings.limits import read_limits
from slurm_failover.settings.tables import Settings
from slurm_failover.slurm.client import Slurm
from slurm_failover.slurm.connect import connect
from slurm_failover.view.job import view_job

_LONGEST_LINE = 1 << 20
"""Bytes; a longer one comes in parts, since nothing keeps a job from writing one without an end."""
_MOST_TASKS = 10
"""Of an array are named."""
_PAUSE = 0.3
_ASK_EVERY = 5.0
"""Seconds between two questions to Slurm whether a followed job still runs or waits."""


@click.command("logs")
@click.argument("job", type=JOB_ID)
@click.option("--attempt", type=click.IntRange(min=1), help="Show this attempt only.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.pass_obj
def command(settings: Settings, job: str, attempt: int | None, follow: bool) -> None:
    """Show the output of JOB, attempt by attempt.

    The log is read with your own rights, on a host that sees the job's files.
    """
    slurm = connect(settings, lambda _: None)
    facts = _find(slurm, job)
    record = _record(facts)
    if attempt is not None and attempt > record.attempt.number:
        count = record.attempt.number
        raise click.BadParameter(f"job {job} has had {count} attempt{'s' * (count > 1)}")
    if not facts.stdout:
        raise SourceUnreadable(
            f"job {job} has no output of its own: one of srun or salloc writes to its terminal"
        )
    path = Path(joblog.resolve(facts.stdout, facts.batch_host or "%N"))
    try:
        first = joblog.first_attempt(_read(path), record.attempt.number)
    except SourceUnreadable as error:
        if isinstance(error.__cause__, FileNotFoundError) and not _has_started(facts, record):
            raise click.ClickException(f"job {job} {_not_started(facts)}") from None
        raise
    followed = _Followed(slurm, job, read_limits(settings)) if follow else None
    shown = _show(joblog.part(_read(path, followed), first), facts, record, attempt)
    latest = record.attempt.number
    missing = [number for number in range(1, latest + 1) if number not in shown]
    if attempt is not None:
        missing = [number for number in missing if number == attempt]
    _explain_truncated(path, [number for number in missing if number < latest])
    if latest in missing:
        _explain_empty(path, latest, runs=not follow and _runs(facts))


def _find(slurm: Slurm, job: str) -> JobFacts:
    """Raises NoSuchJob with where else to look, and BadParameter for an array with its tasks."""
    asked = slurm.jobs([job])
    found = [facts for facts in asked if not facts.is_led]
    tasks = sorted((facts.label for facts in found if "_" in facts.label), key=by_task)
    if len(found) > 1 and tasks:
        some = f"{', '.join(tasks[:_MOST_TASKS])}{', …' * (len(tasks) > _MOST_TASKS)}"
        raise click.BadParameter(
            f"job {job} is an array, and each task has its own log: {some}; "
            f"for one of them: slurm-failover logs {tasks[0]}"
        )
    try:
        return found[0] if found else slurm.job(asked[0].label if asked else job)
    except NoSuchJob as error:
        raise forgotten(job) from error


def _show(
    lines: Iterator[tuple[int, bytes]], job: JobFacts, record: Record, wanted: int | None
) -> set[int]:
    """Print the lines; the numbers of the attempts that the log holds."""
    found: set[int] = set()
    for number, line in lines:
        is_new = number not in found
        found.add(number)
        if wanted not in (None, number):
            continue
        if is_new and joblog.marked(line) is None:
            _write(_heading(job, record, number).encode() + b"\n")
        _write(line)
    return found


def _heading(job: JobFacts, record: Record, number: int) -> str:
    attempts = (*record.history, record.attempt)
    unrecorded = Attempt(number, job.nodes, job.start)
    known = next((a for a in attempts if a.number == number and a.start), unrecorded)
    clock = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(known.start))
    return joblog.heading(job.label, known, clock)


def _explain_truncated(path: Path, missing: list[int]) -> None:
    if not missing:
        return
    numbers = ", ".join(map(str, missing))
    _remark(
        f"attempt{'s' * (len(missing) > 1)} {numbers}: not in {path}. A later attempt truncated "
        "it, since the job's open mode is not append (sbatch --open-mode=append), or nothing was "
        "written"
    )


def _explain_empty(path: Path, latest: int, *, runs: bool) -> None:
    _remark(f"attempt {latest}: nothing {'written yet' if runs else 'was written'} to {path}")


def _runs(job: JobFacts) -> bool:
    return job.has("RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING")


def _has_started(job: JobFacts, record: Record) -> bool:
    return bool(job.nodes or job.restarts or record.attempt.start)


def _not_started(job: JobFacts) -> str:
    if job.has("PENDING"):
        return "has not started yet: it has no log"
    return "has never started: it has no log"


def _remark(sentence: str) -> None:
    sys.stdout.flush()
    click.echo(f"slurm-failover: {make_visible(sentence)}", err=True)


def _read(path: Path, followed: _Followed | None = None) -> Iterator[bytes]:
    """The lines of a log; of a ``followed`` job also those that come until it has ended.

    A log that was truncated or replaced meanwhile is read from its beginning. Raises
    SourceUnreadable.
    """
    try:
        with _open(path) as log:
            yield from iter(partial(log.readline, _LONGEST_LINE), b"")
            if followed is not None:
                yield from _follow(log.fileno(), log.tell(), followed)
    except OSError as error:
        raise SourceUnreadable(
            f"{path}: {error.strerror}; run this where the job's files are seen"
        ) from error


def _open(path: Path) -> BinaryIO:
    """A job's owner chooses its path: what has no end is no log, and root follows no link of
    theirs. Raises SourceUnreadable, OSError.
    """
    wary = os.O_NONBLOCK | os.O_NOCTTY | (os.O_NOFOLLOW if os.geteuid() == 0 else 0)
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | wary)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise SourceUnreadable(f"{path} is no file: what the job writes there is not kept")


class _Followed:
    """A job whose log is followed: asked whether it still is to write, and told of when it waits
    for somebody.
    """

    def __init__(self, slurm: Slurm, job: str, limits: Limits) -> None:
        self._slurm = slurm
        self._job = job
        self._limits = limits
        self._told = ""

    def is_alive(self) -> bool:
        """Whether more may come."""
        try:
            facts = self._slurm.job(self._job)
        except NoSuchJob:
            return False
        held = facts.held and facts.has("PENDING") and not facts.has("COMPLETING")
        self._tell(self._describe(facts) if held else "")
        return facts.is_live

    def _describe(self, job: JobFacts) -> str:
        view = view_job(job, self._limits)
        because = f": {view.because}" if view.because else ""
        return (
            f"job {job.label} is held ({view.display}{because}): waiting until it starts again "
            "or is cancelled; Ctrl-C leaves it"
        )

    def _tell(self, sentence: str) -> None:
        """Say it, unless it was the last that was said."""
        if sentence and sentence != self._told:
            _remark(sentence)
        self._told = sentence


def _follow(log: int, at: int, followed: _Followed) -> Iterator[bytes]:
    asked, rest = float("-inf"), b""
    while True:
        at = at if os.fstat(log).st_size >= at else 0
        new = os.pread(log, 1 << 16, at)
        at += len(new)
        *lines, rest = (rest + new).split(b"\n")
        yield from (line + b"\n" for line in lines)
        if len(rest) > _LONGEST_LINE:
            yield rest
            rest = b""
        if new:
            continue
        if time.monotonic() - asked > _ASK_EVERY:
            if not followed.is_alive():
                yield rest
                return
            asked = time.monotonic()
        time.sleep(_PAUSE)


def _record(job: JobFacts) -> Record:
    try:
        return read_record(job.admin_comment) or Record()
    except RecordError:
        return Record()


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
