"""How jobs are named on the command line, and what is said of one that Slurm has forgotten."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from slurm_failover.errors import NoSuchJob
from slurm_failover.history import Run
from slurm_failover.model import JobFacts

_JOB_ID = re.compile(r"([1-9]\d*(?:_\d+)?)(?:\+\d+)?", re.ASCII)
"""With the component of a heterogeneous job, as squeue prints it."""
_SOME_TASKS = re.compile(r"([1-9]\d*)_\[([^\[\]]+)\]", re.ASCII)
"""Tasks of an array as squeue prints those that wait: ``12_[1,4-6]``, ``12_[0-9%2]``."""
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::([1-9]\d{0,8}))?)?", re.ASCII)
_LIMIT = re.compile(r"%\d+$", re.ASCII)
"""Of how many tasks of an array may run at once."""
_MOST_TASKS = 5000
"""Of one word are named to Slurm; MaxArraySize is 1001 by default."""


if TYPE_CHECKING:
    _Text = click.ParamType[str]
else:
    _Text = click.ParamType  # which takes no type argument before click 8.4


class _JobId(_Text):
    name = "job"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The flagged jobs."""
        from slurm_failover.commands.complete import complete_jobs

        return complete_jobs(ctx, param, incomplete)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The id as it was written, of a heterogeneous job's component its leader's. Fails with
        what to write instead.
        """
        if _SOME_TASKS.fullmatch(value):
            self.fail(
                f"{value!r} may be several tasks, and one is shown: write it as 4711_2", param, ctx
            )
        found = _JOB_ID.fullmatch(value)
        if found is None:
            self.fail(
                f"{value!r} is no job: write its number, as 4711, or 4711_2 for one task of an "
                "array; 'squeue --me' and 'slurm-failover status' show them",
                param,
                ctx,
            )
        return found[1]


class _Jobs(_JobId):
    """As ``_JobId``, and several tasks of an array in one word, which stay one word."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """See there."""
        some = _SOME_TASKS.fullmatch(value)
        if some is None:
            return super().convert(value, param, ctx)
        tasks = _read_tasks(some[2])
        if not tasks:
            self.fail(
                f"{value!r} names no tasks: write them as {some[1]}_[1,4-6], or {some[1]} for all "
                "of the array",
                param,
                ctx,
            )
        if sum(map(len, tasks)) > _MOST_TASKS:
            self.fail(
                f"{value!r} are too many tasks: write {some[1]} for all of the array", param, ctx
            )
        return value


JOB_ID = _JobId()
"""The type of an argument that names one job."""


def jobs_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """The argument ``jobs``: any number of jobs, tasks of arrays one by one."""
    argument = click.argument("jobs", nargs=-1, type=_Jobs(), metavar="[JOB]...", callback=_flatten)
    return argument(function)


def _flatten(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(map(_name_each, words))))


def _name_each(word: str) -> Iterator[str]:
    some = _SOME_TASKS.fullmatch(word)
    if some is None:
        yield word
        return
    for task in chain.from_iterable(_read_tasks(some[2])):
        yield f"{some[1]}_{task}"


def _read_tasks(text: str) -> list[range]:
    """The tasks in an expression of Slurm's; none where a part of it makes no sense, as Slurm cuts
    a long one off with ``...``.
    """
    found = [_RANGE.fullmatch(part) for part in _LIMIT.sub("", text).split(",")]
    ranges = [
        range(int(one[1]), int(one[2] or one[1]) + 1, int(one[3] or 1)) for one in found if one
    ]
    return ranges if all(found) and all(ranges) else []


def array_of(name: str) -> str:
    """The id by which Slurm tells of a job, and of all tasks of an array: one that waits has no
    record of its own (seen on 24.11.5 and 26.05.5).
    """
    return name.partition("_")[0]


def is_named(job: JobFacts, name: str) -> bool:
    """Whether a job is meant by a name: its own, its array's, or that of one of the waiting tasks
    for which the one record stands.
    """
    array, _, task = name.partition("_")
    if name in (str(job.job_id), job.label, array_of(job.label)):
        return True
    waiting = _read_tasks(job.tasks) if task and job.label == array else []
    return any(int(task) in some for some in waiting)


def is_run_of(run: Run, name: str) -> bool:
    """Whether a row of the accounting may be about the job of a name, as ``is_named`` has it. Of
    tasks that never started there is one row for all.
    """
    return name in (str(run.job_id), run.label, array_of(run.label)) or array_of(name) == run.label


def by_task(label: str) -> tuple[int, int]:
    """The place of a job in a list: by its number, and by its task where it is an array's."""
    job, _, task = label.partition("_")
    return int(job), int(task or -1)


def forgotten(*jobs: str) -> NoSuchJob:
    """The error of jobs that Slurm does not know, with where older ones are found."""
    return NoSuchJob(
        f"Slurm does not know job {', '.join(jobs)}; look for older jobs with "
        f"'sacct -D -j {','.join(jobs)} "
        "--format=JobID,State,NodeList,StdOut%60,Comment%60,AdminComment%200'"
    )
