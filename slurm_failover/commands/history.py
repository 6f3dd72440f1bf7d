"""``slurm-failover history``: what failed over, was denied or was drained, and what it cost."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click

from slurm_failover.commands.banner import clock
from slurm_failover.commands.complete import complete_nodes
from slurm_failover.commands.jobid import jobs_argument
from slurm_failover.commands.past import Past, look_back, span_options
from slurm_failover.errors import RecordError, SlurmError
from slurm_failover.history import Entry, lost, on_nodes
from slurm_failover.lifecycle import expand, merge_nodes
from slurm_failover.render import print_json, print_table
from slurm_failover.settings.tables import Settings
from slurm_failover.slurm.accounting import Span

COLUMNS = (
    *("TIME", "EVENT", "JOB", "USER", "NODES"),
    *("RAN", "RESTART", "GPU-TIME LOST", "BECAUSE"),
)


@click.command("history")
@jobs_argument
@span_options("now-7days")
@click.option(
    "--node",
    "nodelist",
    default="",
    metavar="NODELIST",
    shell_complete=complete_nodes,
    help="Only on these nodes.",
)
@click.option("--user", default="", help="Only jobs of this user.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object for each event.")
@click.pass_obj
def command(
    settings: Settings,
    *,
    jobs: tuple[str, ...],
    span: Span,
    nodelist: str,
    user: str,
    as_json: bool,
) -> None:
    """Show what failed over, was denied or was drained.

    It comes from Slurm's accounting, oldest first, as far as you may see it.

    RAN is how long the run had lasted, RESTART how long the job then took to start again, and
    GPU-TIME LOST both of them times the run's GPUs: the most that a fault can have cost, for Slurm
    does not know which checkpoint the job went on from.

    With JOB or --user drains are left out. Of JOB everything is shown, unless --since is given.
    """
    wanted = expand(nodelist)
    past = look_back(settings, span, jobs=jobs, user=user)
    entries = on_nodes(past.entries, wanted) if wanted else past.entries
    nowhere = sorted(set(wanted) - past.nodes) if past.nodes else []
    asks_for_none = len(past.strangers) == len(jobs) > 0 or len(nowhere) == len(wanted) > 0
    if as_json:
        print_json([_as_json(entry) for entry in entries])
    elif entries or not asks_for_none:
        print_table(COLUMNS, [row_of(entry) for entry in entries], _nothing(past))
    if past.strangers or nowhere:
        sys.stdout.flush()
        raise SlurmError("; ".join(_unheard_of(past.strangers, nowhere)))


def _unheard_of(jobs: Sequence[str], nodes: Sequence[str]) -> Iterator[str]:
    """That nothing can have happened to these, since there are none, or none that may be seen."""
    if jobs:
        yield (
            f"neither Slurm nor its accounting knows job {', '.join(jobs)}, as far as you may see; "
            "see `squeue --me`, or `slurm-failover history` without a job"
        )
    if nodes:
        yield (
            f"Slurm does not know node {merge_nodes(*nodes)}, and nothing in that time names it; "
            "see `sinfo -N`"
        )


def _nothing(past: Past) -> str:
    seen = f"{past.runs_seen} run{'s' * (past.runs_seen != 1)} of jobs"
    return f"Nothing happened: {seen} in that time, and none failed over, was denied or exceeded."


def _as_json(entry: Entry) -> dict[str, Any]:
    return entry.as_json() | {"gpu_seconds_lost": lost(entry) if entry.job else None}


def row_of(entry: Entry) -> tuple[str, ...]:
    """The cells of ``COLUMNS``."""
    is_job = bool(entry.job)
    return (
        clock(entry.time),
        entry.kind.value,
        entry.job or "-",
        entry.user or "-",
        _fold(entry.nodes) or "-",
        span_of(entry.ran) if is_job else "-",
        span_of(entry.waited) if entry.waited is not None else "-",
        span_of(lost(entry)) if lost(entry) else "-",
        entry.because,
    )


def _fold(hostlist: str) -> str:
    """The nodes as Slurm prints them; what is no list of nodes as it is."""
    try:
        return merge_nodes(hostlist)
    except RecordError:
        return hostlist


def span_of(seconds: float) -> str:
    """A length of time as Slurm writes elapsed ones: ``[D-]HH:MM:SS``."""
    days, rest = divmod(round(seconds), 86400)
    hours, rest = divmod(rest, 3600)
    words = f"{hours:02}:{rest // 60:02}:{rest % 60:02}"
    return f"{days}-{words}" if days else words
