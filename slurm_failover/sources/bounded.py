"""Run a program that may hang for ever, and be back in time whatever it does."""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_BYTES = 4 << 20
_REAP_SECONDS = 0.1
_STEP = 0.05


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program printed, and how it ended: ``status`` is None if it was killed or is stuck."""

    output: str
    errors: str
    status: int | None
    timed_out: bool


def run_bounded(argv: Sequence[str], timeout: float, *, lock: str = "") -> Answer:
    """Run ``argv`` for at most ``timeout`` seconds and return all that it printed until then.

    The program gets a session of its own. After the time it is killed, but never waited for: a
    process that sleeps in a driver (state D) does not die until the driver wakes. ``lock`` is a
    file in a folder that only root can write: the program holds it while it lives, and is not
    started while another does, so that looks at a device that hangs leave one such process behind.
    Raises OSError if the program cannot be started, for example FileNotFoundError.
    """
    deadline = time.monotonic() + timeout
    held = _take(lock, deadline) if lock else ()
    if held is None:
        return Answer("", "", None, timed_out=True)
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=held,
        )
    finally:
        for handle in held:
            os.close(handle)
    output, errors, ended = _collect(process, deadline)
    status = _status(process, deadline) if ended else None
    if status is None:
        _kill(process)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return Answer(output, errors, status, timed_out=status is None)


def _take(lock: str, deadline: float) -> tuple[int, ...] | None:
    """The handle that holds the lock, for the program to inherit; none where there can be no lock,
    and None where it was not free in time.
    """
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return ()
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(handle)
                return None
            time.sleep(_STEP)
        except OSError:
            os.close(handle)
            return ()
        else:
            return (handle,)


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
