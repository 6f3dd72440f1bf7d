"""The kernel's log as it grows, from its oldest record on.

/dev/kmsg and FIFOs are waited for; a regular file in the same format, as tests and collectors write
it, is looked at in short intervals, and may be emptied or replaced meanwhile. Where there is no log
to read, the journal is followed.
"""

from __future__ import annotations

import os
import stat
import subprocess
from typing import Protocol

from slurm_failover.errors import SourceUnreadable
from slurm_failover.sources import kmsg
from slurm_failover.sources.journal import Numbered, query, read_journal

FILE_INTERVAL = 0.1
"""Seconds between two looks at a regular file."""
MOST_RECORDS = 10_000
_CHUNK = 1 << 20


class Follower(Protocol):
    """A log that grows. ``interval`` is the longest wait in seconds between two readings, where
    nothing can be waited for; ``lost`` counts records that were overwritten before they were read.
    """

    interval: float
    lost: int

    def fileno(self) -> int | None:
        """The handle to wait for; None where there is none."""

    def read(self) -> list[bytes]:
        """The next records, none if all were read. Raises SourceUnreadable."""

    def close(self) -> None:
        """Read no more."""


def follow(path: str, journalctl: str) -> Follower:
    """The kernel's log at ``path``; the journal where there is no path, or no log that can be read.

    Raises SourceUnreadable.
    """
    try:
        if path:
            return _open(path)
    except SourceUnreadable as error:
        if not journalctl:
            raise
        return _follow_instead(journalctl, error)
    return JournalFollower(journalctl)


def _follow_instead(journalctl: str, error: SourceUnreadable) -> Follower:
    try:
        return JournalFollower(journalctl)
    except SourceUnreadable as other:
        raise SourceUnreadable(f"{error}; {other}") from other


def _open(path: str) -> Follower:
    handle = kmsg.open_log(path)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return FileFollower(path, handle)
    if stat.S_ISFIFO(mode):
        os.close(handle)
        # Open for both, so that a writer's leaving is no end of file.
        return PipeFollower(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    return DeviceFollower(handle)


class DeviceFollower:
    """/dev/kmsg: one record a reading, and a number for each."""

    def __init__(self, handle: int) -> None:
        self.interval = float("inf")
        self.lost = 0
        self._handle = handle
        self._last = -1

    def fileno(self) -> int | None:
        """The device."""
        return self._handle

    def read(self) -> list[bytes]:
        """The next records. A gap in their numbers is what the kernel had to overwrite."""
        records = kmsg.read_device(self._handle, MOST_RECORDS)
        if records:
            first, last = kmsg.sequence(records[0]), kmsg.sequence(records[-1])
            expected = len(records) + (first - self._last - 1 if self._last >= 0 else 0)
            self.lost += max(last - first + 1 - len(records), 0) + max(expected - len(records), 0)
            self._last = last
        return records

    def close(self) -> None:
        """Read no more."""
        os.close(self._handle)


class PipeFollower:
    """A pipe: what was read is gone."""

    def __init__(self, handle: int) -> None:
        self.interval = float("inf")
        self.lost = 0
        self._handle = handle
        self._rest = b""

    def fileno(self) -> int | None:
        """The pipe."""
        return self._handle

    def read(self) -> list[bytes]:
        """The next whole records."""
        whole, self._rest = _whole(self._rest + kmsg.read_some(self._handle, _CHUNK))
        return kmsg.split(whole)

    def close(self) -> None:
        """Read no more."""
        os.close(self._handle)


class FileFollower:
    """A regular file, which may be emptied, or replaced by another."""

    def __init__(self, path: str, handle: int) -> None:
        self.interval = FILE_INTERVAL
        self.lost = 0
        self._path = path
        self._handle = handle
        self._rest = b""

    def fileno(self) -> int | None:
        """A regular file is always ready, which says nothing."""
        return None

    def read(self) -> list[bytes]:
        """The next whole records. Raises SourceUnreadable where the file is gone."""
        self._reopen_if_replaced()
        whole, self._rest = _whole(self._rest + kmsg.read_some(self._handle, _CHUNK))
        return kmsg.split(whole)

    def close(self) -> None:
        """Read no more."""
        os.close(self._handle)

    def _reopen_if_replaced(self) -> None:
        """Begin anew where the file was emptied, or another one has its name."""
        try:
            named = os.stat(self._path)  # noqa: PTH116 - beside os.fstat
        except OSError as error:
            raise SourceUnreadable(f"the kernel log {self._path}: {error.strerror}") from error
        held = os.fstat(self._handle)
        if (named.st_dev, named.st_ino) != (held.st_dev, held.st_ino):
            os.close(self._handle)
            self._handle, self._rest = kmsg.open_log(self._path), b""
        elif held.st_size < os.lseek(self._handle, 0, os.SEEK_CUR):
            os.lseek(self._handle, 0, os.SEEK_SET)
            self._rest = b""


class JournalFollower:
    """journalctl, as it follows the kernel's messages of this boot."""

    def __init__(self, journalctl: str) -> None:
        self.interval = float("inf")
        self.lost = 0
        self._numbered = Numbered()
        self._rest = b""
        read_journal(journalctl, "--lines=1")
        argv = query(journalctl, "--follow", "--lines=all")
        quiet = subprocess.DEVNULL
        try:
            self._child = subprocess.Popen(argv, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet)
        except OSError as error:
            raise SourceUnreadable(f"{journalctl} can not be started: {error.strerror}") from error
        assert self._child.stdout is not None  # noqa: S101 - asked for above
        self._handle = self._child.stdout.fileno()
        os.set_blocking(self._handle, False)

    def fileno(self) -> int | None:
        """The end of journalctl's pipe."""
        return self._handle

    def read(self) -> list[bytes]:
        """The next records. Raises SourceUnreadable where journalctl has ended."""
        try:
            raw = os.read(self._handle, _CHUNK)
        except BlockingIOError:
            return []
        if not raw:
            raise SourceUnreadable(f"journalctl has ended with status {self._child.wait()}")
        whole, self._rest = _whole(self._rest + raw)
        return self._numbered.records(whole.split(b"\n"))

    def close(self) -> None:
        """Read no more."""
        self._child.kill()
        self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()


def _whole(raw: bytes) -> tuple[bytes, bytes]:
    """What is whole of ``raw``, up to its last line's end, and the rest."""
    whole, newline, rest = raw.rpartition(b"\n")
    return whole + newline, rest
