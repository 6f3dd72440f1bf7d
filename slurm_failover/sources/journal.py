"""The kernel's messages out of the systemd journal, where /dev/kmsg can not be read.

They come in the form of /dev/kmsg's records, so that whatever reads those reads these. The journal
does not keep the kernel's sequence numbers: the moment in nanoseconds serves, since journald keeps
the order of the messages of one microsecond, and a boot's first message is always among them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from slurm_failover.errors import SourceUnreadable

FIELDS = "MESSAGE,PRIORITY,SYSLOG_FACILITY,_TRANSPORT,_SOURCE_MONOTONIC_TIMESTAMP"
# Every message of this boot whose transport is the kernel: a user can not write that field.
_QUERY = ("--dmesg", "--boot", "--output=json", f"--output-fields={FIELDS}", "--no-pager", "--all")
_TIMEOUT = 20.0
_USER = 1
"""The facility of a record that does not say: the kernel's own is 0."""


def query(journalctl: str, *more: str) -> list[str]:
    """The command that prints the kernel's messages of this boot."""
    return [journalctl, *_QUERY, *more]


def read_journal(journalctl: str, *more: str) -> list[bytes]:
    """The kernel's messages of this boot as records. Raises SourceUnreadable, also where there is
    none: no kernel boots in silence.
    """
    import subprocess

    argv, quiet = query(journalctl, *more), subprocess.DEVNULL
    try:
        done = subprocess.run(
            argv, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, timeout=_TIMEOUT, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SourceUnreadable(f"the kernel's messages in the journal: {error}") from error
    records = Numbered().records(done.stdout.split(b"\n"))
    if not records:
        raise SourceUnreadable("the journal holds no message of the kernel")
    return records


class Numbered:
    """Turns entries into records, numbered in the order in which they come."""

    def __init__(self) -> None:
        self._last = -1

    def records(self, lines: Iterable[bytes]) -> list[bytes]:
        """The records in lines of ``journalctl --output=json``; other lines give none."""
        return [record for line in lines if (record := self._record(line)) is not None]

    def _record(self, line: bytes) -> bytes | None:
        try:
            entry: dict[str, Any] = json.loads(line)
            if entry["_TRANSPORT"] != "kernel":
                return None
            micros = _number(entry["_SOURCE_MONOTONIC_TIMESTAMP"])
            level = _number(entry["PRIORITY"])
            facility = _number(entry.get("SYSLOG_FACILITY", _USER))
            text = _text(entry["MESSAGE"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return None
        self._last = max(micros * 1000, self._last + 1)
        return b"%d,%d,%d,-;%s\n" % (facility << 3 | level & 7, self._last, micros, text)


def _number(value: Any) -> int:
    """A field's number. Raises ValueError for one that no clock and no table of facilities has."""
    number = int(value)
    if not 0 <= number < 1 << 53:
        raise ValueError(f"{number} is out of reach")
    return number


def _text(message: Any) -> bytes:
    """The text as the kernel would print it; the journal gives what is not UTF-8 as numbers."""
    raw = bytes(message) if isinstance(message, list) else str(message).encode("utf-8", "replace")
    return raw.replace(b"\\", b"\\x5c").replace(b"\n", b"\\x0a")
