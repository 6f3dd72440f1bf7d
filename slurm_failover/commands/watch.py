"""``--watch``: what a command shows, again and again, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from slurm_failover.cli import say_to_terminal
from slurm_failover.commands.banner import clock
from slurm_failover.errors import FailoverError

EVERY = 2.0
"""Seconds between two rounds, as watch(1) has it."""
_BOUNDS = click.FloatRange(0.5, 3600)

watch_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--watch",
    "every",
    type=_BOUNDS,
    is_flag=False,
    flag_value=EVERY,
    metavar="[SECONDS]",
    help=f"Show it again every SECONDS (default: {EVERY:g}) until Ctrl-C. "
    "Without SECONDS write it last.",
)
"""The option ``every``: None where a command is to be shown once."""


def repeat(draw: Callable[[], None], every: float | None, *, for_programs: bool) -> None:
    """Let ``draw`` write to standard output, once, or every so many seconds.

    A terminal is drawn anew each time. A pipe gets one round after the other, each under a line
    with the time, or nothing but the rounds where the output is ``for_programs``. Slurm may be away
    for a while: that is shown, and the next round looks again.
    """
    if every is None:
        draw()
        return
    try:
        if sys.stdout.isatty() and not for_programs:
            _draw_anew(draw, every)
        else:
            _write_on(draw, every, heads=not for_programs)
    except KeyboardInterrupt:
        return


def _draw_anew(draw: Callable[[], None], every: float) -> None:
    with Live(console=Console(), screen=True, auto_refresh=False) as live:
        while True:
            shown = f"Every {every:g} s, {clock(time.time())}\n\n{_capture(draw)}"
            live.update(Text.from_ansi(shown, no_wrap=True, overflow="crop"), refresh=True)
            time.sleep(every)


def _write_on(draw: Callable[[], None], every: float, *, heads: bool) -> None:
    while True:
        if heads:
            sys.stdout.write(f"=== {clock(time.time())}\n")
        _draw_once(draw, say_to_terminal)
        sys.stdout.flush()
        time.sleep(every)


class _Page(StringIO):
    """A page for the terminal: what is written to it may be coloured as if it were one."""

    def isatty(self) -> bool:
        return True


def _capture(draw: Callable[[], None]) -> str:
    with redirect_stdout(_Page()) as page:
        _draw_once(draw, click.echo)
    return page.getvalue()


def _draw_once(draw: Callable[[], None], tell: Callable[[str], None]) -> None:
    """Draw; an error is told, and the exit status of one round is not that of the watch."""
    try:
        draw()
    except FailoverError as error:
        tell(str(error))
    except click.exceptions.Exit:
        return
