"""The watcher's end of events.py: a child that may hang, be killed, and come back later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SCRIPT = Path(__file__).with_name("events.py")
SILENCE = 30.0
"""Seconds without a line after which the child hangs; it beats every 10."""
FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0
"""Seconds before a child that ended is started again; each pause doubles."""
_MOST = 1 << 16
_LINE = 4096


class Listener:
    """Keeps one child listening. The caller brings the clock (seconds, monotonic)."""

    def __init__(self, say: Callable[[str], None], may_answer: Callable[[], bool]) -> None:
        """``may_answer`` tells whether there is a driver to listen to."""
        self._say = say
        self._may_answer = may_answer
        self._child: subprocess.Popen[bytes] | None = None
        self._heard = self._started = 0.0
        self._start_at = float("-inf")
        self._pause = FIRST_PAUSE
        self._rest = b""
        self._why = ""

    def fileno(self) -> int | None:
        """The handle to wait for; None while no child speaks."""
        pipe = self._child.stdout if self._child else None
        return pipe.fileno() if pipe and not pipe.closed else None

    def tend(self, now: float) -> None:
        """Start the child where that is due, and end one that hangs. One that sleeps in the driver
        does not die until the driver wakes: no second is started beside it.
        """
        if self._child is not None and self.fileno() is not None:
            if now - self._heard > SILENCE:
                self._give_up(now, f"NVML gave no sign for {SILENCE:.0f} s")
        elif self._child is not None:
            if self._child.poll() is not None:
                self._child = None
        elif now >= self._start_at:
            if self._may_answer():
                self._start(now)
            else:
                self._start_at = now + FIRST_PAUSE

    def read(self, now: float) -> list[dict[str, Any]]:
        """The events since the last call."""
        handle = self.fileno()
        if handle is None:
            return []
        try:
            raw = os.read(handle, _MOST)
        except BlockingIOError:
            return []
        if not raw:
            self._give_up(now, self._why or "its process has ended")
            return []
        self._heard = now
        *lines, self._rest = (self._rest + raw).split(b"\n")
        self._rest = self._rest[-_LINE:]
        parts = [part for part in map(_parse, lines) if part is not None]
        self._why = next((str(p["refused"]) for p in parts if "refused" in p), self._why)
        if now - self._started > SILENCE:
            self._pause = FIRST_PAUSE
        return [part for part in parts if "time" in part]

    def stop(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._close()

    def _start(self, now: float) -> None:
        quiet = subprocess.DEVNULL
        argv = [sys.executable, "-I", str(_SCRIPT)]
        try:
            self._child = subprocess.Popen(
                argv, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, start_new_session=True
            )
        except OSError as error:
            self._why, self._start_at = str(error), now + LONGEST_PAUSE
            return
        assert self._child.stdout is not None  # noqa: S101 - asked for above
        os.set_blocking(self._child.stdout.fileno(), False)
        self._heard = self._started = now
        self._rest = b""

    def _give_up(self, now: float, why: str) -> None:
        if self._child is not None:
            self._child.kill()
            self._close()
        if self._pause == FIRST_PAUSE:
            self._say(f"no events from NVML: {why}")
        self._start_at = now + self._pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE)
        self._why = ""

    def _close(self) -> None:
        if self._child is not None and self._child.stdout is not None:
            self._child.stdout.close()


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        part = json.loads(line)
    except ValueError:
        return None
    return part if isinstance(part, dict) else None
