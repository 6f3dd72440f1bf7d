"""``slurm-failover status``: where every flagged job stands, and why."""

from __future__ import annotations

import time

import click

from slurm_failover.errors import NoSuchJob
from slurm_failover.model import JobFacts
from slurm_failover.render import print_json, print_table
from slurm_failover.settings.limits import read_limits
from slurm_failover.settings.tables import Settings
from slurm_failover.slurm.client import Slurm
from slurm_failover.slurm.connect import connect
from slurm_failover.view import (
    JobView,
    is_flagged,
    join_components,
    view_job,
    waits_for_nodes,
)

COLUMNS = ("JOBID", "USER", "NAME", "STATE", "RETRIES", "NODES", "EXCLUDED", "CAUSE")


@click.command("status")
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object for each job.")
@click.pass_obj
def command(settings: Settings, jobs: tuple[str, ...], as_json: bool) -> None:
    """Show flagged jobs: Slurm's state, the failover state, retries, nodes, and the last cause.

    With one JOB, its history as well. Jobs that Slurm has forgotten are in `sacct -D`.
    """
    slurm, limits = connect(settings, lambda _: None), read_limits(settings)
    found = join_components(_find(slurm, jobs))
    nodes = slurm.nodes() if any(waits_for_nodes(job) for job in found) else []
    views = [view_job(job, limits, nodes) for job in found]
    if as_json:
        print_json([view.as_json() for view in views])
        return
    print_table(COLUMNS, [_row(view) for view in views], "No job has failover on.")
    if len(jobs) == 1 and len(views) == 1 and (views[0].state or views[0].history):
        _print_history(views[0])


def _find(slurm: Slurm, wanted: tuple[str, ...]) -> list[JobFacts]:
    """The wanted jobs, or all flagged ones. Raises NoSuchJob."""
    jobs = slurm.jobs(wanted)
    if not wanted:
        return [job for job in jobs if is_flagged(job)]
    known = {str(job.job_id) for job in jobs} | {job.label for job in jobs}
    known |= {job.label.split("_")[0] for job in jobs}
    missing = [name for name in wanted if name not in known]
    if missing:
        raise NoSuchJob(
            f"Slurm does not know job {', '.join(missing)}; look for older jobs with "
            f"'sacct -D -j {','.join(missing)} --format=JobID,State,NodeList,Comment,AdminComment'"
        )
    return jobs


def _row(view: JobView) -> tuple[str, ...]:
    return (
        view.label,
        view.user,
        view.name,
        view.display,
        f"{view.retries}/{view.max_retries}" if view.state else "off",
        _fold(view.nodes),
        _fold(view.excluded_nodes),
        view.because or view.cause,
    )


def _print_history(view: JobView) -> None:
    rows = [
        (
            str(attempt.number),
            _clock(attempt.start),
            _clock(attempt.end),
            attempt.nodes,
            attempt.outcome,
            attempt.because,
        )
        for attempt in view.history
    ]
    click.echo()
    columns = ("ATTEMPT", "START", "END", "NODES", "OUTCOME", "BECAUSE")
    print_table(columns, rows, "No attempt of this job has ended by a failure.")


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds)) if seconds else "-"


def _fold(names: tuple[str, ...]) -> str:
    from slurm_failover.lifecycle import merge_nodes

    return merge_nodes(*names) or "-"
