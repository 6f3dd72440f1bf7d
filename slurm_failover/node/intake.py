"""What the watcher has taken in of the kernel's log and of NVML's events, and what of it is new."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from slurm_failover.node.catch import Catch, kind_of
from slurm_failover.node.caught import Caught, write_caught
from slurm_failover.node.gpu_events import KEEP, SOURCE, XidEvent, read_heard, write_xids
from slurm_failover.sources import kmsg
from slurm_failover.sources.sieve import Sieve

if TYPE_CHECKING:
    from slurm_failover.node.ledger import Ledger

STATE = b"a state that NVML told of"
"""The kind of an event that is no Xid: only a look at the GPUs can tell what it was."""


class Intake:
    """Keeps what could be a fault, and lays it out for the hooks in the watcher's ``folder``.

    ``cursor`` is the last record that was judged before; what is taken in behind it is new.
    ``noticed`` is the moment of the newest thing that could be a fault, new or not, in seconds
    since the epoch.
    """

    def __init__(self, folder: str, anchors: tuple[bytes, ...], boot: str, cursor: int) -> None:
        self.noticed = 0.0
        self._folder = folder
        self._sieve = Sieve(anchors)
        self._boot = boot
        self._boot_time = kmsg.boot_time()
        self._cursor = cursor
        self._position = -1
        self._suspect = -1
        self._catch = Catch()
        self._xids: list[XidEvent] = []
        self._is_flushed = False

    def take(self, records: Sequence[bytes]) -> set[bytes]:
        """Take records in; the kinds of those that are new and could be faults."""
        numbers = (kmsg.sequence(raw) for raw in reversed(records))
        self._position = max(self._position, next((n for n in numbers if n >= 0), -1))
        self._is_flushed = False
        kinds: set[bytes] = set()
        newest = b""
        for anchor, raw in self._sieve.sift(records):
            number = kmsg.sequence(raw)
            if number < 0:
                continue
            self._catch.add(anchor, raw)
            newest = raw
            if number > self._cursor:
                kinds.add(kind_of(raw))
                self._suspect = max(self._suspect, number)
        if newest:
            self.noticed = max(self.noticed, self._boot_time + min(kmsg.seconds(newest), 1e10))
        return kinds

    def hear(self, parts: Iterable[dict[str, Any]]) -> set[bytes]:
        """Take NVML's events in; their kinds."""
        kinds: set[bytes] = set()
        for part in parts:
            self.noticed = time.time()
            xid = read_heard(part)
            if xid is None:
                kinds.add(STATE)
                continue
            self._xids = [*self._xids, xid][-KEEP:]
            self._is_flushed = False
            kinds.add(f"{xid.pci} {xid.xid}".encode())
        return kinds

    def flush(self) -> None:
        """Lay out for the hooks all that was taken in. Raises OSError."""
        if self._is_flushed:
            return
        write_caught(self._folder, Caught(self._boot, self._position, self._catch.records()))
        if self._xids:
            write_xids(self._folder, self._xids)
        self._is_flushed = True

    def is_judged(self, ledger: Ledger) -> bool:
        """Whether all that could be a fault has been judged, by what the ledger says."""
        xids = not self._xids or ledger.note(SOURCE).time >= self._xids[-1].time
        cursor = ledger.cursor if ledger.boot == self._boot else -1
        return xids and cursor >= self._suspect
