"""Add a line to a user's file, or read its end, as that user: root follows nobody's links, and
creates nothing.
"""

from __future__ import annotations

import os
import pwd
import signal
import stat
import time
from dataclasses import dataclass

PATIENCE = 5.0
"""Seconds that one write may take: a file system that hangs must not hold up a job."""
_STEP = 0.02
_WARY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FLAGS = os.O_RDWR | os.O_APPEND | _WARY  # no O_CREAT: what is not there stays so
_TAIL = 1 << 15
"""Bytes of a tail; a pipe takes them all before anyone reads (64 KiB, pipe(7))."""


@dataclass(frozen=True, slots=True)
class Person:
    """Whom a job belongs to."""

    uid: int
    gid: int


def append_as(person: Person, path: str, line: str) -> str:
    """Append a line to an existing regular file with the rights of ``person``. Needs root.

    Gives what stood in the way, as a clause; empty if the line is written.
    """
    child = os.fork()
    if child == 0:
        os._exit(_write(person, path, line))
    status = _wait(child, time.monotonic() + PATIENCE)
    if status is None:
        return f"{path} did not take a line in {PATIENCE:.0f} s"
    return f"{path} takes no line: {os.strerror(status)}" if status else ""


def tail_as(person: Person, path: str) -> bytes:
    """The end of a regular file, read with the rights of ``person``; empty where it can not be
    read, or not in time. Needs root.
    """
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os._exit(_read_into(sink, person, path))
    os.close(sink)
    try:
        ended = _wait(child, time.monotonic() + PATIENCE) == 0
        return os.read(source, _TAIL) if ended else b""
    finally:
        os.close(source)


def _read_into(sink: int, person: Person, path: str) -> int:
    """In a child: write the end of the file into a pipe; the errno that stood in the way."""
    try:
        _become(person)
        handle = os.open(path, os.O_RDONLY | _WARY)
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            return 22  # EINVAL: a device or pipe is no log
        os.write(sink, os.pread(handle, _TAIL, max(about.st_size - _TAIL, 0)))
    except OSError as error:
        return error.errno or 5
    return 0


def _write(person: Person, path: str, line: str) -> int:
    """In a child: the errno that stood in the way, 0 for none."""
    try:
        _become(person)
        handle = os.open(path, _FLAGS)
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            return 22  # EINVAL: a device or pipe is no log
        cut = about.st_size > 0 and os.pread(handle, 1, about.st_size - 1) != b"\n"
        os.write(handle, b"\n" * cut + line.encode("utf-8", "replace") + b"\n")
    except OSError as error:
        return error.errno or 5
    return 0


def _become(person: Person) -> None:
    try:
        os.initgroups(pwd.getpwuid(person.uid).pw_name, person.gid)
    except KeyError:
        os.setgroups([person.gid])
    os.setgid(person.gid)
    os.setuid(person.uid)


def _wait(child: int, deadline: float) -> int | None:
    """The child's exit status; None if it is stuck, or was killed for that."""
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else None
        time.sleep(_STEP)
    os.kill(child, signal.SIGKILL)
    return None
