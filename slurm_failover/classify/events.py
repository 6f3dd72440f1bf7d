"""Records → events: the parts of one print and the repeats of one message are one event.

Memory is bounded whatever the log holds: after ``MOST`` events, further ones are counted into one
event per rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from slurm_failover.catalogue import Catalogue
from slurm_failover.classify.match import LONGEST, match
from slurm_failover.model import Event, FaultClass, NodeAction, Record, Role

MOST = 4096
GAP = 600.0
PRINT = 3
_MEMO = 1024
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

    Two messages are one event where kind, code (or rule), device and trust are the same and not
    more than ten minutes lie between them: a week-old fault and today's are two.
    """
    folder = _Folder(catalogue)
    for record in records:
        folder.add(record)
    return [entry.folded() for entry in folder.entries]


@dataclass(slots=True)
class _Entry:
    """An event in the making: its worst message, and the span and number of all of them."""

    worst: Event
    first: Record
    last: Record
    last_time: float | None
    certain: bool
    sequence: int | None
    node_action: NodeAction
    implied: FaultClass | None
    lines: int

    def add(self, event: Event, record: Record) -> None:
        """Fold one more message in."""
        if event is not self.worst:
            if _RISING.index(event.klass) > _RISING.index(self.worst.klass):
                self.worst = _on_device(event, self.worst.pci)
            self.node_action = max(self.node_action, event.node_action, key=_NEEDS.index)
            self.implied = self.implied or event.implied
        self.last = record
        self.last_time = record.time if record.time is not None else self.last_time
        self.sequence = record.sequence if record.sequence is not None else self.sequence
        self.certain = self.certain and record.time_certain
        self.lines += record.repeats

    def folded(self) -> Event:
        """The event: the first message's place, the worst one's meaning, the count of all."""
        return replace(
            self.worst,
            node_action=self.node_action,
            implied=self.implied,
            time=self.first.time,
            last_time=self.last_time,
            time_certain=self.certain,
            line=self.first.line,
            lines=self.lines,
            sequence=self.sequence,
            source=self.first.source,
        )


def _on_device(event: Event, device: str | None) -> Event:
    if event.pci is not None or device is None:
        return event
    return replace(event, pci=device, because=f"{event.because} ({device})"[:LONGEST])


def _entry(event: Event, record: Record) -> _Entry:
    return _Entry(
        worst=event,
        first=record,
        last=record,
        last_time=record.time,
        certain=record.time_certain,
        sequence=record.sequence,
        node_action=event.node_action,
        implied=event.implied,
        lines=record.repeats,
    )


@dataclass(slots=True)
class _Folder:
    catalogue: Catalogue
    entries: list[_Entry] = field(default_factory=list)
    open: dict[_Key, _Entry] = field(default_factory=dict)
    last: _Entry | None = None
    memo: dict[tuple[str, str, bool], Event | None] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Fold one record in. Storms repeat their texts, so their meanings are remembered."""
        key = (record.text, record.origin, record.trusted)
        if key not in self.memo:
            if len(self.memo) >= _MEMO:
                self.memo.clear()
            self.memo[key] = match(record, self.catalogue)
        event = self.memo[key]
        if event is None:
            return
        if self.last is not None and _continues(self.last, event, record):
            self.last.add(event, record)
        else:
            self._place(event, record)

    def _place(self, event: Event, record: Record) -> None:
        key = _key(event)
        entry = self.open.get(key)
        if entry is None or not _near(entry, record, GAP):
            if len(self.entries) >= MOST:
                key = ("overflow", event.rule, event.trusted)
                entry = self.open.get(key)
            else:
                entry = None
        if entry is None:
            entry = self.open[key] = _entry(event, record)
            self.entries.append(entry)
        else:
            entry.add(event, record)
        self.last = entry


def _key(event: Event) -> _Key:
    what = event.rule if event.code is None else event.code
    device = (event.pci, event.gpu_instance)
    return (event.kind, what, device, event.role is Role.CANCEL, event.trusted)


def _near(entry: _Entry, record: Record, seconds: float) -> bool:
    if entry.last_time is None or record.time is None:
        return True
    return abs(record.time - entry.last_time) <= seconds


def _continues(entry: _Entry, event: Event, record: Record) -> bool:
    """Whether the record is a further part of the print that the entry began.

    A text log splits one message of several lines: the first names the device, the last one says
    what happened to it.
    """
    if event.pci is not None or entry.worst.pci is None or event.kind != entry.worst.kind:
        return False
    beside = 0 <= record.line - entry.last.line <= PRINT
    return beside and entry.worst.trusted == event.trusted and _near(entry, record, 1.0)
