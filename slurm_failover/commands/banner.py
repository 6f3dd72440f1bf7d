"""The loud line above what a command shows: an open circuit breaker, and a mode that only looks."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from slurm_failover.breaker import Breaker, Trip, read_breaker
from slurm_failover.cli import say_to_terminal
from slurm_failover.errors import NotPermitted
from slurm_failover.model import NodeFacts
from slurm_failover.settings.tables import Settings
from slurm_failover.slurm.client import Slurm

OPEN = 3
"""The exit status of commands that have seen the circuit breaker open."""


def ask_nodes(slurm: Slurm) -> list[NodeFacts]:
    """All nodes; none, and a word on it, where Slurm shows this user none (PrivateData=nodes)."""
    try:
        return slurm.nodes()
    except NotPermitted as error:
        missing = "without what nodes tell, also of the circuit breaker"
        say_to_terminal(f"{missing}: Slurm does not show you any: {error}")
        return []


def show_banner(
    settings: Settings, nodes: Sequence[NodeFacts], *, aside: bool = False, trips: bool = True
) -> Breaker:
    """Print what everyone should know first, or to standard error where ``aside`` says that the
    output is for programs. ``nodes`` are all of the cluster. Without ``trips`` nothing is said of
    an open breaker, where it is about to be closed.
    """
    if settings.failover.mode == "observe":
        click.secho("OBSERVE MODE: nothing is drained, held or moved.", err=aside, bold=True)
    breaker = read_breaker(nodes, settings.breaker, time.time())
    for trip in breaker.trips if trips else ():
        click.secho(describe_trip(trip), err=aside, bold=True, fg="red")
    return breaker


def end_with(breaker: Breaker) -> None:
    """End the command, with a status of its own where the breaker is open."""
    if breaker.is_open:
        click.get_current_context().exit(OPEN)


def describe_trip(trip: Trip) -> str:
    """One cause to be open, what is stopped by it, and how it ends."""
    what = f"job {trip.job} is not moved" if trip.job else "nothing is drained or moved"
    ends = f" or {clock(trip.until)}" if trip.until else ""
    return (
        f"CIRCUIT BREAKER OPEN since {clock(trip.since)}: {trip.because}; {what} until "
        f"`slurm-failover breaker close`{ends}."
    )


def clock(seconds: float) -> str:
    """A time as Slurm's commands show it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(seconds))
