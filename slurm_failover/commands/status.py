"""``slurm-failover status``: where every flagged job stands, and why."""

from __future__ import annotations

import sys
import time

import click

from slurm_failover.commands.banner import ask_nodes, end_with, show_banner
from slurm_failover.commands.jobid import (
    array_of,
    by_task,
    forgotten,
    is_named,
    jobs_argument,
)
from slurm_failover.commands.watch import repeat, settings_for, watch_option
from slurm_failover.errors import NoSuchJob
from slurm_failover.history import KINDS
from slurm_failover.model import JobFacts
from slurm_failover.render import NOTHING, print_json, print_table
from slurm_failover.settings.limits import read_limits
from slurm_failover.settings.tables import Settings
from slurm_failover.slurm.client import Slurm
from slurm_failover.slurm.connect import connect_for_many
from slurm_failover.view.job import (
    JobView,
    asks_too_late,
    is_flagged,
    join_components,
    may_be_expedited,
    view_foreseen,
    view_job,
)

COLUMNS = ("JOBID", "USER", "NAME", "STATE", "RETRIES", "NODES", "EXCLUDED", "CAUSE")
_OUTCOMES: dict[str, str] = {action.value: kind.value for action, kind in KINDS.items()}
"""What became of an attempt, in the words of ``history``."""


@click.command("status")
@jobs_argument
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object for each job.")
@watch_option
@click.pass_obj
def command(settings: Settings, jobs: tuple[str, ...], as_json: bool, every: float | None) -> None:
    """Show flagged jobs: state, retries, nodes and the last cause.

    With one JOB, its attempts as well. An array's number stands for all its tasks, and some of
    them are written as squeue does: '4711_[1,4-6]'. What became of jobs that Slurm has forgotten is
    in `slurm-failover history`.
    """
    asked = settings_for(settings, every)
    repeat(lambda: _show(asked, jobs, as_json), every, for_programs=as_json)


def _show(settings: Settings, jobs: tuple[str, ...], as_json: bool) -> None:
    """Print where the jobs stand now."""
    slurm, limits = connect_for_many(settings, lambda _: None), read_limits(settings)
    known = _find(slurm, jobs)
    found, missing = join_components(known), _missing(jobs, known)
    nodes = ask_nodes(slurm)
    breaker = show_banner(settings, nodes, aside=as_json)
    views = [
        view_job(
            job,
            limits,
            nodes,
            now=time.time(),
            expedited=_is_held_by_slurm(slurm, job),
            asked_too_late=asks_too_late(job, known),
        )
        for job in found
    ]
    if settings.failover.mode == "observe":
        views = [
            view_foreseen(view, job, nodes, limits) for view, job in zip(views, found, strict=True)
        ]
    if as_json:
        print_json([view.as_json() for view in views])
    elif views or not missing:
        print_table(COLUMNS, [_row(view) for view in views], "No job has failover on.")
    if missing:
        sys.stdout.flush()
        raise forgotten(*missing)
    if not as_json and len(jobs) == 1 and len(views) == 1:
        _print_more(views[0])
    end_with(breaker)


def _find(slurm: Slurm, wanted: tuple[str, ...]) -> list[JobFacts]:
    """The wanted jobs that Slurm knows, or all flagged ones; each once, in the order of tasks."""
    arrays = dict.fromkeys(map(array_of, wanted))
    jobs = {job.job_id: job for job in slurm.jobs(arrays) if _is_wanted(job, wanted)}
    leaders = {job.label for job in jobs.values() if job.is_led and job.components[0] not in jobs}
    jobs |= {job.job_id: job for job in (slurm.jobs(leaders) if leaders else ())}
    flagged = {job.label for job in jobs.values() if is_flagged(job)}
    found = [job for job in jobs.values() if wanted or job.label in flagged]
    return sorted(found, key=lambda job: (*by_task(job.label), job.job_id))


def _is_wanted(job: JobFacts, wanted: tuple[str, ...]) -> bool:
    return not wanted or any(is_named(job, name) for name in wanted)


def _is_held_by_slurm(slurm: Slurm, job: JobFacts) -> bool:
    """Whether Slurm's own expedited requeue holds the job. It may be forgotten meanwhile."""
    try:
        return may_be_expedited(job) and slurm.is_expedited(job.label)
    except NoSuchJob:
        return False


def _missing(wanted: tuple[str, ...], found: list[JobFacts]) -> list[str]:
    """The wanted jobs that Slurm does not know (any more)."""
    return [name for name in wanted if not any(is_named(job, name) for job in found)]


def _row(view: JobView) -> tuple[str, ...]:
    return (
        view.job,
        view.user,
        view.name,
        view.display,
        f"{view.retries}/{view.max_retries}" if view.state else "off",
        _fold(view.nodes),
        _fold(view.excluded_nodes),
        view.because or view.cause or NOTHING,
    )


def _print_more(view: JobView) -> None:
    """What there is to say of one job alone: its owner's way out, and its attempts."""
    if view.can_be_released:
        release, cancel = f"scontrol release {view.label}", f"scancel {view.label}"
        click.echo(f"\nHeld. Start it again: {release} - end it: {cancel}")
    if view.not_before > time.time():
        begin = "Once released, it starts" if view.can_be_released else "\nSlurm starts it"
        click.echo(f"{begin} at {_clock(view.not_before)} at the earliest (BeginTime).")
    if not (view.state or view.history):
        return
    attempts = [*view.history, *filter(None, [view.latest])]
    rows = [
        (
            str(attempt.number),
            _clock(attempt.start),
            _clock(attempt.end),
            attempt.nodes or NOTHING,
            _OUTCOMES.get(attempt.outcome, attempt.outcome) or NOTHING,
            attempt.because or NOTHING,
        )
        for attempt in attempts
    ]
    click.echo()
    columns = ("ATTEMPT", "START", "END", "NODES", "OUTCOME", "BECAUSE")
    print_table(columns, rows, "No attempt of this job has ended by a failure.")


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds)) if seconds else NOTHING


def _fold(names: tuple[str, ...]) -> str:
    from slurm_failover.lifecycle import merge_nodes

    return merge_nodes(*names) or NOTHING
