"""What ``history`` and ``report`` look back on: one question to each of Slurm's memories."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import click
from rich.console import Console

from slurm_failover.cli import say_to_terminal
from slurm_failover.commands.banner import ask_nodes
from slurm_failover.commands.jobid import is_named, is_run_of
from slurm_failover.errors import NoSuchTime, SlurmUnavailable
from slurm_failover.history import Entry, Run, named_nodes, tell
from slurm_failover.model import JobFacts, NodeFacts
from slurm_failover.settings.tables import Settings
from slurm_failover.slurm.accounting import Accounting, Span
from slurm_failover.slurm.connect import connect_for_many

QUIET = 2.0
"""Seconds after which a person is told that we wait."""


@dataclass(frozen=True, slots=True)
class Past:
    """What happened in a span, and the runs that it was read from.

    ``strangers`` are those of the jobs asked for that neither slurmctld nor the accounting knows,
    and ``nodes`` all that Slurm has or that the span names. Both are empty where slurmctld tells
    nothing: then nobody can say.
    """

    runs: list[Run]
    entries: list[Entry]
    strangers: tuple[str, ...] = ()
    nodes: frozenset[str] = field(default_factory=frozenset)

    @property
    def runs_seen(self) -> int:
        """How many runs of jobs the accounting showed us."""
        return len(self.runs)


def span_options(since: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options --since and --until, handed on as one ``span``. ``since`` is what --since is
    where no jobs are named.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--since", default="", metavar="TIME", help=f"{_FORMS} Default: {since}.")
        @click.option("--until", default="", metavar="TIME", help="And no later than this.")
        @wraps(function)
        def wrapped(*args: Any, since: str, until: str, **rest: Any) -> Any:
            return function(*args, span=Span(since or default_of(rest), until), **rest)

        return wrapped

    def default_of(rest: dict[str, Any]) -> str:
        return "" if rest.get("jobs") else since

    return decorate


_FORMS = "Runs and drains from this time on, as sacct takes it: now-7days, 2026-01-31, 01/31-12:00."


def look_back(
    settings: Settings, span: Span, *, jobs: tuple[str, ...] = (), user: str = ""
) -> Past:
    """What happened, as far as whoever asks may see it. Raises SlurmError."""
    accounting = Accounting(settings.slurm.bin)
    with told("waiting for Slurm's accounting"):
        runs = _runs(accounting, span, jobs, user)
        about_all = not (jobs or user)
        outages = accounting.outages(span) if about_all else []
        living, nodes = _ask_controller(settings)
        lacking = _lacking(jobs, runs, living) if nodes else []
        if lacking and (user or span != Span()):
            lacking = _lacking(lacking, accounting.runs(Span(), lacking), living)
    entries = tell(runs, living, outages, nodes if about_all and not span.until else ())
    there = {node.name for node in nodes}
    known = frozenset(there | named_nodes(runs, outages) if there else ())
    return Past(runs, entries, tuple(lacking), known)


def _lacking(jobs: Sequence[str], runs: list[Run], living: list[JobFacts]) -> list[str]:
    """The jobs that are neither among the ``runs`` nor among the ``living``."""
    return [
        name
        for name in jobs
        if not any(is_run_of(run, name) for run in runs)
        and not any(is_named(job, name) for job in living)
    ]


def _runs(accounting: Accounting, span: Span, jobs: tuple[str, ...], user: str) -> list[Run]:
    """Which times there are is for sacct to know: it refuses others before it asks anyone."""
    try:
        return accounting.runs(span, jobs, user)
    except NoSuchTime as error:
        option = "--since" if str(error) == span.since else "--until"
        raise click.BadParameter(
            f"{str(error)!r} is no time: write now-7days, 2026-01-31 or 01/31-12:00, as for sacct",
            param_hint=option,
        ) from error


def _ask_controller(settings: Settings) -> tuple[list[JobFacts], list[NodeFacts]]:
    """What slurmctld knows now; nothing, and a word on it, where it does not answer."""
    slurm = connect_for_many(settings, lambda _: None)
    try:
        return slurm.jobs(), ask_nodes(slurm)
    except SlurmUnavailable as error:
        say_to_terminal(f"without what only slurmctld knows, of jobs that run or wait now: {error}")
        return [], []


@contextmanager
def told(words: str) -> Iterator[None]:
    """Tell a person at a terminal what is waited for, once it takes long."""
    if not sys.stderr.isatty():
        yield
        return
    status = Console(stderr=True).status(words)
    timer = threading.Timer(QUIET, status.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()
