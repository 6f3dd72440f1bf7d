"""The kernel's log, record by record, with a prefilter that keeps a healthy look cheap.

Format: ``priority,sequence,microseconds,flags[,…];text`` with continuation lines that begin with a
blank (Documentation/ABI/testing/dev-kmsg). A regular file or a FIFO in the same format serves too.
This module is on the healthy path of every hook and imports next to nothing.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from slurm_failover.errors import SourceUnreadable
from slurm_failover.frozen import dataclass

_RECORD_SIZE = 16384
_CHUNK = 1 << 20
_BOOT_ID = "sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Glance:
    """The records that might speak of a fault, and the sequence number of the last one read."""

    suspicious: list[bytes]
    last: int


def glance(path: str, anchors: tuple[bytes, ...], after: int = -1) -> Glance:
    """The records after sequence number ``after`` that hold one of the anchors.

    Reads what is there now and returns. Raises SourceUnreadable if the log can not be read.
    """
    return pick(read_log(path), anchors, after)


def pick(records: list[bytes], anchors: tuple[bytes, ...], after: int = -1) -> Glance:
    """Of a log's ``records`` those after sequence number ``after`` that hold one of the anchors."""
    newest = next((n for raw in reversed(records) if (n := sequence(raw)) >= 0), after)
    # One search of the whole for each anchor: most stand nowhere, and then no record is searched.
    whole = b"".join(records)
    present = [anchor for anchor in anchors if anchor in whole]
    suspicious = [
        raw
        for raw in (records if present else ())
        if sequence(raw) > after and any(anchor in raw for anchor in present)
    ]
    return Glance(suspicious, max(newest, after))


def boot_id(proc: str = "/proc") -> str:
    """The kernel's id of this boot, from its files under ``proc``; empty where it can not be read.

    Never raises.
    """
    try:
        with open(f"{proc}/{_BOOT_ID}", encoding="ascii") as file:  # noqa: PTH123 - no pathlib on this path
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def boot_time() -> float:
    """The moment of boot in seconds since the epoch, by the clock that stamps kernel records."""
    return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)


def sequence(raw: bytes) -> int:
    """The sequence number of a record; -1 if these bytes are no record."""
    fields = raw[:64].split(b",", 2)
    return int(fields[1]) if len(fields) == 3 and fields[1].isdigit() else -1


def open_log(path: str) -> int:
    """A handle on a log, to be read without waiting. Raises SourceUnreadable."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise SourceUnreadable(
            f"the kernel log {path} can not be read: {error.strerror}; "
            "set [sources] kmsg, or run as root"
        ) from error


def read_device(handle: int, most: float = float("inf")) -> list[bytes]:
    """The records that /dev/kmsg holds, at most so many. Each read gives one; EPIPE says that the
    oldest were overwritten meanwhile. Raises SourceUnreadable.
    """
    records: list[bytes] = []
    while len(records) < most:
        try:
            raw = os.read(handle, _RECORD_SIZE)
        except BlockingIOError:
            return records
        except OSError as error:
            if error.errno in (errno.EPIPE, errno.EINVAL):
                continue
            raise SourceUnreadable(f"the kernel log: {error.strerror}") from error
        if not raw:
            break
        records.append(raw)
    return records


def read_some(handle: int, size: int) -> bytes:
    """The next bytes of a file or FIFO, none where there are none now. Raises SourceUnreadable."""
    try:
        return os.read(handle, size)
    except BlockingIOError:
        return b""
    except OSError as error:
        raise SourceUnreadable(f"the kernel log: {error.strerror}") from error


def read_stream(handle: int) -> bytes:
    """What a file or FIFO holds from here on. Raises SourceUnreadable."""
    return b"".join(iter(lambda: read_some(handle, _CHUNK), b""))


def split(raw: bytes) -> list[bytes]:
    """The records in a text of many: a line that begins with a blank goes on the one before."""
    records: list[bytes] = []
    for line in raw.split(b"\n"):
        if line[:1] == b" " and records:
            records[-1] += line + b"\n"
        elif line:
            records.append(line + b"\n")
    return records


def seconds(raw: bytes) -> float:
    """When a record was written, in seconds since boot; infinite if these bytes do not say."""
    fields = raw[:64].split(b",", 3)
    stamp = fields[2] if len(fields) == 4 else b""
    return int(stamp) / 1e6 if stamp.isdigit() else float("inf")


def read_log(path: str) -> list[bytes]:
    """The records that a log holds now. Raises SourceUnreadable."""
    handle = open_log(path)
    try:
        if stat.S_ISCHR(os.fstat(handle).st_mode):
            return read_device(handle)
        return split(read_stream(handle))
    finally:
        os.close(handle)
