"""``slurm-failover breaker``: what the circuit breaker stops, and an admin's word on it."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click

from slurm_failover.breaker import Breaker, FaultNote, Word, read_word, write_word
from slurm_failover.breaker.word import CLOSED, OPEN
from slurm_failover.cli import SuggestingGroup, say_to_terminal
from slurm_failover.commands.banner import clock, end_with, show_banner
from slurm_failover.errors import SlurmError, SlurmUnavailable, WrongUser
from slurm_failover.model import NodeFacts
from slurm_failover.render import NOTHING, print_json, print_table
from slurm_failover.settings.tables import Settings
from slurm_failover.slurm.client import NodeChange, Slurm
from slurm_failover.slurm.connect import connect
from slurm_failover.view.node import drain_for

COLUMNS = ("NODE", "SINCE", "JOBS", "DRAIN", "FAULT")


@click.group("breaker", cls=SuggestingGroup)
def command() -> None:
    """Show, open or close the circuit breaker.

    While it is open, no node is drained and no job is moved: too many faults at once are rarely
    the hardware's. What waits for it is done when it closes.
    """


@command.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def status(settings: Settings, as_json: bool) -> None:
    """Show whether it is open, why, and the faults that count. Exit status 3: it is open.

    DRAIN says what became of a fault's drain: drained, waits, over (the node is in service),
    observed (in observe mode, which drains nothing), or lost (by Slurm: no drain of ours).
    """
    nodes = connect(settings, say_to_terminal).nodes()
    breaker = show_banner(settings, nodes, aside=as_json)
    if as_json:
        print_json(_as_json(breaker, nodes))
    else:
        if not breaker.is_open:
            click.echo("The circuit breaker is closed.")
        rows = [
            (
                note.node,
                clock(note.time),
                ",".join(map(str, sorted({job for job, _ in note.attempts}))) or NOTHING,
                drain,
                note.because or note.code,
            )
            for note, drain in _with_drains(breaker, nodes)
        ]
        print_table(COLUMNS, rows, "No fault counts.")
    end_with(breaker)


@command.command("open")
@click.argument("reason", nargs=-1)
@click.option(
    "--for",
    "seconds",
    type=click.IntRange(1, 31536000),
    metavar="SECONDS",
    help="Close it again by itself after so many seconds.",
)
@click.pass_obj
def open_by_hand(settings: Settings, reason: tuple[str, ...], seconds: int | None) -> None:
    """Stop all drains and failovers, for a REASON that users can read. Run as root or SlurmUser."""
    now = time.time()
    _say_word(settings, Word(OPEN, now, _person(), " ".join(reason), now + (seconds or -now)))
    click.echo("The circuit breaker is open: nothing is drained or moved.")
    _reconcile(settings)


@command.command("close")
@click.pass_obj
def close(settings: Settings) -> None:
    """Let drains and failovers go on.

    What was noted until now counts no more. Nodes whose drain waits are drained at their next
    health check, if the fault still stands; jobs that wait for a decision are decided at once. Run
    as root or SlurmUser.
    """
    breaker = _say_word(settings, Word(CLOSED, time.time(), _person()))
    click.echo("The circuit breaker is closed.")
    for note in breaker.waiting:
        what = "would" if settings.failover.mode == "observe" else "to"
        click.echo(f"{note.node}: {what} be drained at its next look: {note.because}")
    _reconcile(settings)


def _say_word(settings: Settings, word: Word) -> Breaker:
    """Write the word where an earlier one is, or else to the first node. What it found before."""
    acting = replace(settings, failover=replace(settings.failover, mode="act"))
    slurm: Slurm = connect(acting, say_to_terminal)
    nodes = slurm.nodes()
    breaker = show_banner(settings, nodes, aside=True, trips=word.state == OPEN)
    said = read_word(nodes)
    carrier = next((n for n in nodes if said is not None and n.name == said[1]), nodes[0])
    change = NodeChange(comment=write_word(carrier.comment, word))
    try:
        slurm.update_node(carrier.name, change)
    except SlurmUnavailable:
        raise
    except SlurmError as error:
        raise WrongUser(f"{error}; run this as root or SlurmUser") from error
    return breaker


def _reconcile(settings: Settings) -> None:
    """Decide on the jobs that wait, as the controller's own user where we are root there."""
    state = Path(settings.state.directory) / "controller"
    try:
        owner = state.stat()
    except OSError:
        say_to_terminal("run `slurm-failover reconcile` on the controller, or wait for its timer")
        return
    command = [sys.argv[0], "reconcile"]
    try:
        if os.geteuid() == owner.st_uid:
            subprocess.run(command, check=False)
        else:
            uid, gid = owner.st_uid, owner.st_gid
            subprocess.run(command, check=False, user=uid, group=gid, extra_groups=[])
    except OSError as error:
        say_to_terminal(f"run `slurm-failover reconcile` as the owner of {state}: {error.strerror}")


def _person() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _with_drains(breaker: Breaker, nodes: Sequence[NodeFacts]) -> list[tuple[FaultNote, str]]:
    """The faults that count, each with what became of its drain."""
    facts = {node.name: node for node in nodes}
    return [(note, drain_for(note, facts[note.node])) for note in breaker.notes]


def _as_json(breaker: Breaker, nodes: Sequence[NodeFacts]) -> dict[str, object]:
    return {
        "open": breaker.is_open,
        "trips": [asdict(trip) for trip in breaker.trips],
        "faults": [asdict(note) | {"drain": drain} for note, drain in _with_drains(breaker, nodes)],
        "waiting": sorted({note.node for note in breaker.waiting}),
        "word": asdict(breaker.word) if breaker.word else None,
    }
