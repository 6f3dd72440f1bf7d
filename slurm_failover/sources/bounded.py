"""Run a program that may hang for ever, and be back in time whatever it does."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_BYTES = 4 << 20
_REAP_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program printed, and how it ended: ``status`` is None if it was killed or is stuck."""

    output: str
    errors: str
    status: int | None
    timed_out: bool


def run_bounded(argv: Sequence[str], timeout: float) -> Answer:
    """Run ``argv`` for at most ``timeout`` seconds and return all that it printed until then.

    The program gets a session of its own. After the time it is killed, but never waited for: a
    process that sleeps in a driver (state D) does not die until the driver wakes. Raises OSError
    if the program cannot be started, for example FileNotFoundError.
    """
    deadline = time.monotonic() + timeout
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    output, errors, ended = _collect(process, deadline)
    status = _status(process, deadline) if ended else None
    if status is None:
        _kill(process)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return Answer(output, errors, status, timed_out=status is None)


def _collect(process: subprocess.Popen[bytes], deadline: float) -> tuple[str, str, bool]:
    """Read both pipes until they close or time is up; the flag says that they closed."""
    parts: dict[int, bytearray] = {}
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None  # noqa: S101 - both were asked for above
            parts[pipe.fileno()] = bytearray()
            selector.register(pipe, selectors.EVENT_READ)
        order = list(parts)
        while selector.get_map():
            remaining = deadline - time.monotonic()
            ready = selector.select(max(remaining, 0.0))
            if not ready and remaining <= 0:
                break
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                parts[key.fd] += chunk
                if not chunk or len(parts[key.fd]) > _MOST_BYTES:
                    selector.unregister(key.fileobj)
        ended = not selector.get_map()
    output, errors = (parts[fd].decode("utf-8", "replace") for fd in order)
    return output, errors, ended


def _status(process: subprocess.Popen[bytes], deadline: float) -> int | None:
    try:
        return process.wait(max(deadline - time.monotonic(), 0.01))
    except subprocess.TimeoutExpired:
        return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(_REAP_SECONDS)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        return
