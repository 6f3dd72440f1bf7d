"""How a job is named on the command line, and what is said of one that Slurm has forgotten."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from slurm_failover.errors import NoSuchJob

_JOB_ID = re.compile(r"([1-9]\d*(?:_\d+)?)(?:\+\d+)?", re.ASCII)
"""With the component of a heterogeneous job, as squeue prints it."""


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
        found = _JOB_ID.fullmatch(value)
        if found is None:
            self.fail(
                f"{value!r} is no job: write its number, as 4711, or 4711_2 for one task of an "
                "array; 'squeue --me' and 'slurm-failover status' show them",
                param,
                ctx,
            )
        return found[1]


JOB_ID = _JobId()
"""The type of an argument that names a job."""


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
