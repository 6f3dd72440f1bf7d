"""NVML's events as the watcher heard them, in a file beside what it caught of the kernel's log.

They say no more than the kernel's log does, and are there where the log is not: overwritten, or
out of reach. An Xid in both is judged by the log's record, which says more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slurm_failover import files
from slurm_failover.node.caught import EVENTS

if TYPE_CHECKING:
    from slurm_failover.catalogue import Catalogue
    from slurm_failover.model import Event

SOURCE = "nvml-events"
KEEP = 64
SAME_XID = 60.0
"""Seconds between a record of the kernel and NVML's event of the same Xid on the same GPU."""


@dataclass(frozen=True, slots=True)
class XidEvent:
    """A critical Xid on the GPU ``pci`` at ``time``, in seconds since the epoch."""

    time: float
    pci: str
    xid: int
    gpu_instance: int | None = None


def read_heard(part: dict[str, Any]) -> XidEvent | None:
    """The Xid in a line of events.py; None for any other event, and for a GPU without a name."""
    from slurm_failover.health.gpu_state import canonical_pci

    try:
        pci = canonical_pci(str(part["pci"]))
        return XidEvent(float(part["time"]), pci, int(part["xid"]), part.get("gpu_instance"))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def write_xids(folder: str, xids: Iterable[XidEvent]) -> None:
    """Replace the file by the newest of ``xids``."""
    rows = [[xid.time, xid.pci, xid.xid, xid.gpu_instance] for xid in xids]
    files.write_whole(f"{folder}/{EVENTS}", json.dumps(rows[-KEEP:]) + "\n")


def read_xids(folder: str, after: float = 0.0) -> list[XidEvent]:
    """The Xids after ``after``, in seconds since the epoch; none where the file is damaged."""
    try:
        text = files.read_whole(f"{folder}/{EVENTS}")
        return [xid for row in json.loads(text or "[]") if (xid := XidEvent(*row)).time > after]
    except (OSError, ValueError, TypeError):
        return []


def judge_xids(xids: Iterable[XidEvent], rules: Catalogue) -> list[Event]:
    """The events that the Xids stand for, by the rules for the kernel's own messages."""
    from slurm_failover.classify import read_events
    from slurm_failover.model import Record

    return read_events((Record(**_as_kernel(xid)) for xid in xids), rules)


def _as_kernel(xid: XidEvent) -> dict[str, Any]:
    instance = "" if xid.gpu_instance is None else f" GPU-I:{xid.gpu_instance:02}"
    text = f"NVRM: Xid (PCI:{xid.pci}{instance}): {xid.xid}, reported by NVML"
    trusted: dict[str, Any] = {"trusted": True, "origin": "kernel", "time_certain": True}
    return {"text": text, "time": xid.time, "source": SOURCE, **trusted}


def not_in_log(shown: Iterable[Event], records: Iterable[Event]) -> list[Event]:
    """The events of ``shown`` without NVML's Xids that the log's ``records`` tell as well."""
    logged = [event for event in records if event.code is not None]
    return [
        event
        for event in shown
        if event.source != SOURCE or not any(_is_same(event, record) for record in logged)
    ]


def _is_same(event: Event, record: Event) -> bool:
    if (event.code, event.pci) != (record.code, record.pci):
        return False
    first, last = record.time or 0.0, record.last_time or record.time or 0.0
    return first - SAME_XID <= (event.time or 0.0) <= last + SAME_XID
