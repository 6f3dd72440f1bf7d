"""``--watch``: what a command shows, again and again, until Ctrl-C."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from io import StringIO
from types import FrameType
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from slurm_failover.cli import make_visible, say_to_terminal
from slurm_failover.commands.banner import clock
from slurm_failover.errors import FailoverError
from slurm_failover.settings.tables import Settings

EVERY = 2.0
"""Seconds between two rounds, as watch(1) has it."""
_ENDS = (signal.SIGTERM, signal.SIGQUIT, signal.SIGTSTP)
"""What ends or stops a program without its leave: a plain kill, Ctrl-\\ and Ctrl-Z."""
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


def settings_for(settings: Settings, every: float | None) -> Settings:
    """The settings to watch with: each round asks Slurm once, for the next one is the next try. Who
    watches sees at once that Slurm does not answer, and not after all the patience of a command.
    """
    if every is None:
        return settings
    return replace(settings, slurm=replace(settings.slurm, patience=0))


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
    """Draw on the terminal, which is as it was whenever somebody ends or stops us."""
    while True:
        try:
            with (
                _told_of_signals(),
                Live(console=Console(), screen=True, auto_refresh=False) as live,
            ):
                _show(live, every, "waiting for Slurm")
                while True:
                    _show(live, every, _capture(draw))
                    time.sleep(every)
        except _Told as told:
            signal.raise_signal(told.number)


def _show(live: Live, every: float, page: str) -> None:
    """Rows too wide are folded, as a terminal does it with what is printed once."""
    head = f"Every {every:g} s, {clock(time.time())}\n\n"
    live.update(Text.from_ansi(head + page, overflow="fold"), refresh=True)


class _Told(BaseException):
    """A signal came that would end or stop us."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def _told_of_signals() -> Iterator[None]:
    """Raises _Told inside at each signal of ``_ENDS`` that nobody has taken or ignores."""
    taken = [number for number in _ENDS if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _raise_told)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _raise_told(number: int, _: FrameType | None) -> NoReturn:
    raise _Told(number)


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
        tell(make_visible(str(error)))
    except click.exceptions.Exit:
        return
