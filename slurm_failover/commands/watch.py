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
from typing import Any

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
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGTSTP)
"""What ends or stops a program: Ctrl-C, and without its leave a plain kill, Ctrl-\\ and Ctrl-Z."""
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
            with _Signals() as signals, _screen(signals) as live:
                _show(live, signals, every, "waiting for Slurm")
                while True:
                    _show(live, signals, every, _capture(draw))
                    time.sleep(every)
        except _Told as told:
            signal.raise_signal(told.number)


def _show(live: Live, signals: _Signals, every: float, page: str) -> None:
    """Rows too wide are folded, as a terminal does it with what is printed once."""
    head = f"Every {every:g} s, {clock(time.time())}\n\n"
    with signals.put_off():
        live.update(Text.from_ansi(head + page, overflow="fold"), refresh=True)


@contextmanager
def _screen(signals: _Signals) -> Iterator[Live]:
    """The terminal as a page of ours, until the end of the block."""
    live = Live(console=Console(), screen=True, auto_refresh=False)
    try:
        with signals.put_off():
            live.start()
        yield live
    finally:
        with signals.put_off():
            live.stop()


class _Told(BaseException):
    """A signal came that would end or stop us."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Signals:
    """Raises _Told in the block at each signal of ``_ENDS`` that nobody has taken or ignores."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._came: list[int] = []
        self._waits = False

    def __enter__(self) -> _Signals:
        for number in _ENDS:
            now = signal.getsignal(number)
            if now in (signal.SIG_DFL, signal.default_int_handler):
                self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """A signal waits for the end of the block: rich that is cut off while it writes keeps all
        that it is to write afterwards. One that was lost before is told of here: Python drops what
        is raised while it frees an object.
        """
        self._waits = True
        try:
            yield
        finally:
            self._waits = False
        if self._came:
            raise _Told(self._came[0])

    def _hear(self, number: int, _: FrameType | None) -> None:
        self._came.append(number)
        if not self._waits:
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
