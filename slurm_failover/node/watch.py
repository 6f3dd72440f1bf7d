"""The resident watcher: seconds instead of an interval between a fault and what follows from it.

It reads the kernel's log as it grows, hears NVML's events, and judges nothing itself. What could be
a fault it lays out for the hooks, and has it judged at once by a check in a process of its own; all
that shows itself in no log is looked at by another, at a slow cadence. It answers hooks that ask
what it knows. Nothing here waits for anything but the next of these, so that an answer is prompt,
and a silent watcher is a broken one.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from slurm_failover.node.ask import BLIND, BUSY, CLEAN, Desk, Question
from slurm_failover.node.intake import STATE, Intake
from slurm_failover.node.ledger import Ledger
from slurm_failover.node.schedule import Schedule
from slurm_failover.sources.follow import Follower
from slurm_failover.sources.nvml.listener import Listener

BEAT = 10.0
"""Seconds after which a watcher that nothing happens to shows that it lives."""
DRAIN_LIMIT = 0.5
"""Seconds for which the log is read while hooks wait for an answer."""
BLIND_AFTER = 2
"""Checks in a row that judged nothing, after which the hooks do the work themselves."""
FAULTS, LOOK = "faults", "healthcheck"
"""The two checks: of what was noticed, and of everything."""
_NEVER = float("inf")

Say = Callable[[str], None]


class Checks(Protocol):
    """Runs checks in processes of their own: see children.py."""

    def runs(self, name: str) -> bool:
        """Whether this check runs now."""

    def start(self, name: str, now: float) -> None:
        """Begin a check. Raises OSError."""

    def reap(self, now: float) -> list[str]:
        """The checks that have ended since the last call."""

    def next_limit(self, now: float) -> float:
        """Seconds until a check that runs has used its time."""


@dataclass(frozen=True, slots=True)
class Ears:
    """What the watcher waits for: the kernel's log, hooks that ask, and NVML's events."""

    log: Follower
    desk: Desk
    listener: Listener | None = None

    def close(self) -> None:
        """Listen no more."""
        self.desk.close()
        self.log.close()
        if self.listener is not None:
            self.listener.stop()


class Watcher:
    """Watches one node until it is told to stop. ``read_ledger`` tells what was judged."""

    def __init__(
        self,
        intake: Intake,
        ears: Ears,
        schedule: Schedule,
        *,
        checks: Checks,
        read_ledger: Callable[[], Ledger],
        say: Say,
    ) -> None:
        self._intake = intake
        self._log, self._desk, self._listener = ears.log, ears.desk, ears.listener
        self._schedule = schedule
        self._checks = checks
        self._read_ledger = read_ledger
        self._say = say
        self._lost = 0
        self._has_events = False
        self._stopped = False
        self._woken, self.wake_handle = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def stop(self) -> None:
        """Let ``run`` return after what it does now."""
        self._stopped = True
        os.write(self.wake_handle, b"\0")

    def run(self, beat: Callable[[], None]) -> None:
        """Watch; ``beat`` is called at least every BEAT seconds. Raises SourceUnreadable."""
        while not self._stopped:
            drained = self._read_log()
            now = time.monotonic()
            self._hear(now)
            self._reap(now)
            self._begin_due(now)
            self._answer()
            beat()
            if drained:
                self._wait(time.monotonic())

    # --- taking in ------------------------------------------------------------------------------

    def _read_log(self) -> bool:
        """Take the next records in; whether there was none left."""
        records = self._log.read()
        for kind in self._intake.take(records) if records else ():
            self._schedule.notice(kind)
        if self._log.lost != self._lost:
            overwritten, self._lost = self._log.lost - self._lost, self._log.lost
            self._say(f"{overwritten} records of the kernel were overwritten before they were read")
            self._schedule.hurry(time.monotonic())
        return not records

    def _hear(self, now: float) -> None:
        if self._listener is None:
            return
        self._listener.tend(now)
        for kind in self._intake.hear(self._listener.read(now)):
            if kind == STATE:
                self._schedule.hurry(now)
            else:
                self._schedule.notice(kind)

    # --- having judged --------------------------------------------------------------------------

    def _reap(self, now: float) -> None:
        for name in self._checks.reap(now):
            ledger = self._read_ledger()
            self._has_events = bool(ledger.events)
            if self._intake.is_judged(ledger):
                self._schedule.judged()
            elif name == FAULTS:
                self._schedule.failed(now)

    def _begin_due(self, now: float) -> None:
        if self._judge_in(now) <= 0:
            self._schedule.judge(now)
            self._start(FAULTS, now)
        elif self._look_in(now) <= 0:
            self._schedule.look(now)
            self._start(LOOK, now)

    def _judge_in(self, now: float) -> float:
        return _NEVER if self._checks.runs(FAULTS) else self._schedule.judge_in(now)

    def _look_in(self, now: float) -> float:
        running = self._checks.runs(FAULTS) or self._checks.runs(LOOK)
        return _NEVER if running else self._schedule.look_in(now)

    def _start(self, name: str, now: float) -> None:
        try:
            self._intake.flush()
            self._checks.start(name, now)
        except OSError as error:
            self._say(f"{name} can not be started: {error}")
            self._schedule.failed(now)

    # --- answering ------------------------------------------------------------------------------

    def _answer(self) -> None:
        questions = self._desk.questions()
        if not questions:
            return
        deadline = time.monotonic() + DRAIN_LIMIT
        drained = self._read_log()
        while not drained and time.monotonic() < deadline:
            drained = self._read_log()
        self._hear(time.monotonic())
        try:
            self._intake.flush()
        except OSError as error:
            self._say(f"what was caught can not be laid out, so no hook is answered: {error}")
            return
        for question in questions:
            self._desk.answer(question, self._word(question) if drained else BUSY)

    def _word(self, question: Question) -> str:
        if self._schedule.failures >= BLIND_AFTER:
            return BLIND
        if self._schedule.is_waiting or self._checks.runs(FAULTS):
            return BUSY
        since = question.start
        if since and (self._has_events or self._intake.noticed >= since - 1.0):
            return BUSY
        return CLEAN

    # --- waiting --------------------------------------------------------------------------------

    def _wait(self, now: float) -> None:
        poll = select.poll()
        ears = self._listener.fileno() if self._listener else None
        for handle in (self._log.fileno(), self._desk.fileno(), self._woken, ears):
            if handle is not None:
                poll.register(handle, select.POLLIN)
        due = min(self._judge_in(now), self._look_in(now), self._checks.next_limit(now))
        poll.poll(max(min(due, self._log.interval, BEAT), 0.0) * 1000)
        try:
            os.read(self._woken, 4096)
        except BlockingIOError:
            return
