"""The kernel's log as it grows: records that were written since the last reading.

/dev/kmsg is waited for with poll; a regular file in the same format, as tests and collectors write
it, is looked at in short intervals, and may be emptied or replaced meanwhile.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Iterator

from slurm_failover.errors import SourceUnreadable
from slurm_failover.sources import kmsg

FILE_INTERVAL = 0.1
"""Seconds between two looks at a regular file."""


class Follower:
    """Follows one log from the moment of its opening; close it, or use it in ``with``."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._handle = kmsg.open_log(path)
        self._is_device = stat.S_ISCHR(os.fstat(self._handle).st_mode)
        self._rest = b""
        os.lseek(self._handle, 0, os.SEEK_END)

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def wait(self, seconds: float) -> None:
        """Return when there may be something to read, after ``seconds`` at the latest."""
        if self._is_device:
            poll = select.poll()
            poll.register(self._handle, select.POLLIN)
            poll.poll(seconds * 1000)
        elif not self._has_grown():
            select.select([], [], [], min(seconds, FILE_INTERVAL))

    def read(self) -> Iterator[bytes]:
        """The new records. Raises SourceUnreadable."""
        if self._is_device:
            yield from kmsg.read_device(self._handle)
            return
        self._reopen_if_replaced()
        raw = self._rest + kmsg.read_stream(self._handle)
        whole, newline, self._rest = raw.rpartition(b"\n")
        yield from kmsg.split(whole + newline)

    def _has_grown(self) -> bool:
        return os.fstat(self._handle).st_size != os.lseek(self._handle, 0, os.SEEK_CUR)

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
