"""Records → events: the parts of one print and the repeats of one message are one event.

Memory is bounded whatever the log holds: after ``MOST`` events, further ones are counted into one
event per rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from slurm_failover.catalogue import Catalogue
from slurm_failover.classify.match import match
from slurm_failover.model import Event, FaultClass, NodeAction, Record, Role

MOST = 4096
GAP = 600.0
PRINT = 3
_Key = tuple[object, ...]

_RISING = (
    FaultClass.INFORMATIONAL,
    FaultClass.AMBIGUOUS,
    FaultClass.IMAGE_PULL,
    FaultClass.INTERNAL,
    FaultClass.HARDWARE,
)
_NEEDS = (NodeAction.NONE, NodeAction.DRAIN, NodeAction.REBOOT)


def read_events(records: Iterable[Record], catalogue: Catalogue) -> list[Event]:
    """The events that the records stand for, in the order of their first lines.

    Two messages are one event where kind, code (or rule), device, role and trust are the same and
    not more than ten minutes lie between them: a week-old fault and today's are two.
    """
    folder = _Folder()
    for record in records:
        event = match(record, catalogue)
        if event is not None:
            folder.add(event)
    return folder.events


@dataclass(slots=True)
class _Folder:
    events: list[Event] = field(default_factory=list)
    open: dict[_Key, int] = field(default_factory=dict)
    last: Event | None = None

    def add(self, event: Event) -> None:
        event = _continued(self.last, event)
        self.last = event
        key = self._key(event)
        at = self.open.get(key)
        if at is not None and _near(self.events[at], event):
            self.events[at] = merge(self.events[at], event)
            return
        if len(self.events) >= MOST:
            self._overflow(event)
            return
        self.open[key] = len(self.events)
        self.events.append(event)

    def _overflow(self, event: Event) -> None:
        key: _Key = ("overflow", event.rule, event.trusted)
        at = self.open.setdefault(key, len(self.events))
        if at == len(self.events):
            self.events.append(event)
        else:
            self.events[at] = merge(self.events[at], event)

    @staticmethod
    def _key(event: Event) -> _Key:
        what = event.rule if event.code is None else event.code
        return (event.kind, what, event.pci, event.role is Role.CANCEL, event.trusted)


def _continued(before: Event | None, event: Event) -> Event:
    """The event with the device that an earlier line of the same print named.

    A text log splits one message of several lines: the first names the device, the last one says
    what happened to it.
    """
    if before is None or event.pci is not None or before.pci is None or event.kind != before.kind:
        return event
    if not 0 <= event.line - before.line <= PRINT or not _near(before, event, seconds=1.0):
        return event
    return replace(event, pci=before.pci, because=f"{event.because} ({before.pci})"[:160])


def _near(one: Event, other: Event, seconds: float = GAP) -> bool:
    if one.last_time is None or other.time is None:
        return True
    return abs(other.time - one.last_time) <= seconds


def merge(one: Event, other: Event) -> Event:
    """One event for both: the first one's place, the worse one's meaning, the count of both."""
    worse = other if _RISING.index(other.klass) > _RISING.index(one.klass) else one
    return replace(
        worse,
        node_action=max(one.node_action, other.node_action, key=_NEEDS.index),
        time=one.time,
        last_time=other.last_time if other.last_time is not None else one.last_time,
        time_certain=one.time_certain and other.time_certain,
        line=one.line,
        lines=one.lines + other.lines,
        sequence=one.sequence if other.sequence is None else other.sequence,
        implied=one.implied or other.implied,
    )
