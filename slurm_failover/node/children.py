"""The checks that the watcher has made: processes of their own, so that what hangs or leaks there
is not the watcher's. At most one of each name runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

LIMITS = {"faults": 40.0, "healthcheck": 55.0}
"""The checks and the seconds that each may take: what the log and NVML's events say, and a look
with every source."""


@dataclass(slots=True)
class Child:
    """A check that runs; ``begun`` is the moment, in monotonic seconds, of its start."""

    process: subprocess.Popen[bytes]
    begun: float
    killed: bool = False


class Children:
    """Starts checks, reaps them, and kills those that take too long."""

    def __init__(self, hooks: str, say: Callable[[str], None]) -> None:
        self._hooks = hooks
        self._say = say
        self._running: dict[str, Child] = {}

    def runs(self, name: str) -> bool:
        """Whether this check runs now."""
        return name in self._running

    def start(self, name: str, now: float) -> None:
        """Begin a check. Raises OSError where no process can be started."""
        argv = [sys.executable, "-I", "-S", self._hooks, name]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(
            argv, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
        )
        self._running[name] = Child(process, now)

    def reap(self, now: float) -> list[str]:
        """The names of the checks that have ended since the last call."""
        for name, child in self._running.items():
            if now - child.begun > LIMITS[name] and not child.killed:
                child.killed = True
                self._say(f"{name} has not ended in {LIMITS[name]:.0f} s; no verdict")
                _kill(child.process)
        ended = [name for name, child in self._running.items() if child.process.poll() is not None]
        for name in ended:
            del self._running[name]
        return ended

    def next_limit(self, now: float) -> float:
        """Seconds until a check that runs has used its time."""
        ends = [c.begun + LIMITS[n] for n, c in self._running.items() if not c.killed]
        return min(ends, default=float("inf")) - now


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
