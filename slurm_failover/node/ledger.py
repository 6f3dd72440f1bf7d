"""A node's ledger: what has been judged here, and what the looks at its sources remember.

It keeps a node that an admin resumed from being drained again for an old record. The ledger knows
its boot: after a reboot every record since boot is new. What the healthy path does not need stays
text until it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from slurm_failover.embed import read_time
from slurm_failover.frozen import dataclass, field, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_failover.model import Event

KEEP_FAULTS = 100
KEEP_EVENTS = 64
KEEP_EVENTS_FOR = 86400.0
"""Seconds after which an event that no log keeps is forgotten."""
SAME_EVENT = 3600.0
"""Seconds between two looks that show the same event; beyond, it is another one. The BMC, the most
seldom looked at, is looked at every ten minutes."""


@dataclass(frozen=True, slots=True)
class JudgedFault:
    """One fault that was judged on this node, in boot ``boot``.

    ``repair`` is what its recommended action asks for: "reboot", "reset", or nothing that a node
    can see. ``reason`` is the Reason with which it took the node out of service; empty where the
    node was out of service already.
    """

    time: float
    rule: str
    because: str
    jobs: tuple[int, ...] = ()
    boot: str = ""
    repair: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SourceNote:
    """What the last look at a source left: its time, what it could not see, and its memory.

    ``uptime`` is the same moment in seconds since boot, 0 where that is not known. Where a drain is
    put off, ``told`` is when the first look told of what has come since this one, and ``seen`` is
    the memory of the latest one; else they are 0 and empty.
    """

    time: float = 0.0
    unseen: str = ""
    memory: str = ""
    uptime: float = 0.0
    told: float = 0.0
    seen: str = ""


@dataclass(frozen=True, slots=True)
class Ledger:
    """``cursor`` is the sequence number of the last kernel record that was judged in ``boot``.

    ``events`` are those that no log keeps, from sources that show a state: as JSON values.
    ``open`` are the faults for which this node was drained and is not known to be back in service.
    ``devices`` are the node's GPUs as last seen in this boot.
    ``waits`` is the boot in which a drain was put off that a reboot makes up for; empty where none
    was since the last drain. ``told_by`` are the sources that told of what a drain is put off for.
    """

    boot: str = ""
    cursor: int = -1
    faults: tuple[JudgedFault, ...] = field(default_factory=tuple)
    open: tuple[JudgedFault, ...] = field(default_factory=tuple)
    sources: Mapping[str, SourceNote] = field(default_factory=dict)
    events: tuple[dict[str, Any], ...] = field(default_factory=tuple)
    devices: str = ""
    waits: str = ""
    told_by: tuple[str, ...] = field(default_factory=tuple)

    def at_boot(self, boot: str) -> Ledger:
        """The ledger as it stands in this boot: after a reboot the cursor starts anew."""
        return self if self.boot == boot else replace(self, boot=boot, cursor=-1, devices="")

    def since(self, now: float, first_look: float) -> float:
        """From when on records are new: on a node's very first look only the latest are."""
        return 0.0 if self.boot else now - first_look

    def note(self, source: str) -> SourceNote:
        """What is noted of a source; an empty note if it was never looked at."""
        return self.sources.get(source) or SourceNote()

    def noted(self, source: str, note: SourceNote) -> Ledger:
        """The ledger with a source's note replaced."""
        return replace(self, sources={**self.sources, source: note})

    def judged(self, cursor: int, fault: JudgedFault | None = None) -> Ledger:
        """The ledger with the log judged up to ``cursor``, and the node drained for a fault."""
        moved = replace(self, cursor=max(cursor, self.cursor))
        if fault is None:
            return moved
        faults = (*self.faults, fault)[-KEEP_FAULTS:]
        drained = replace(moved, faults=faults, open=(*self.open, fault)[-KEEP_FAULTS:])
        return drained.waiting_no_more()

    def waiting_no_more(self) -> Ledger:
        """The ledger of a node for which no drain is put off."""
        return replace(self, waits="", told_by=())

    def returned(self) -> Ledger:
        """The ledger of a node that is back in service."""
        return replace(self, open=())

    def left_alone(self) -> Ledger:
        """The ledger of a node that somebody else keeps out of service: no repair lifts that."""
        return replace(self, open=tuple(replace(fault, repair="") for fault in self.open))

    @property
    def reason(self) -> str:
        """The Reason with which we last took the node out of service; empty if none is known."""
        return next((fault.reason for fault in reversed(self.open) if fault.reason), "")


def read_events_kept(ledger: Ledger) -> list[Event]:
    """The events that the ledger keeps. One that can not be read is left out: another release of
    this program may have written it.
    """
    from typing import get_type_hints

    from slurm_failover.model import Event

    types = get_type_hints(Event)
    events = (_event(raw, types) for raw in ledger.events)
    return [event for event in events if event is not None]


def _event(raw: dict[str, Any], types: Mapping[str, Any]) -> Event | None:
    from slurm_failover.model import Event

    try:
        return Event(**{key: _value(types[key], value) for key, value in raw.items()})
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _value(wanted: Any, value: Any) -> Any:
    """A value of a type as an Event declares it, which may be ``X | None``, in JSON."""
    from enum import Enum
    from typing import get_args

    kinds = get_args(wanted) or (wanted,)
    if value is None and type(None) in kinds:
        return None
    kind = kinds[0]
    if kind is float:
        return read_time(value)
    if issubclass(kind, Enum):
        return kind(value)
    if type(value) is not kind:
        raise TypeError(f"not of type {kind.__name__}: {value!r}")
    return value


def keep_events(ledger: Ledger, shown: Iterable[Event], now: float) -> Ledger:
    """The ledger with the events of a look. One that lasts is one event that grows longer."""
    import dataclasses

    kept = [event for event in read_events_kept(ledger) if last_of(event) > now - KEEP_EVENTS_FOR]
    for event in shown:
        same = next((old for old in kept if is_same(old, event)), None)
        if same is None:
            kept.append(event)
        else:
            kept.remove(same)
            kept.append(dataclasses.replace(event, time=same.time, lines=same.lines + 1))
    newest = kept[-KEEP_EVENTS:]
    return replace(ledger, events=tuple(dataclasses.asdict(event) for event in newest))


def is_same(old: Event, new: Event) -> bool:
    """Whether a look shows again what an earlier one has shown."""
    return (old.rule, old.pci, old.source) == (new.rule, new.pci, new.source) and (
        abs(last_of(new) - last_of(old)) <= SAME_EVENT
    )


def last_of(event: Event) -> float:
    """When an event was last seen, in seconds since the epoch; 0 where that is not known."""
    return event.last_time or event.time or 0.0


def read_ledger(text: str) -> Ledger:
    """The ledger in a file's text. Raises ValueError if it is damaged."""
    raw: Any = json.loads(text)
    try:
        return Ledger(
            boot=str(raw["boot"]),
            cursor=int(raw["cursor"]),
            faults=tuple(_fault(fault) for fault in raw["faults"]),
            open=tuple(_fault(fault) for fault in raw["open"]),
            sources={str(k): _note(v) for k, v in raw["sources"].items()},
            events=tuple(dict(event) for event in raw["events"]),
            devices=str(raw["devices"]),
            waits=str(raw.get("waits", "")),
            told_by=tuple(str(source) for source in raw.get("told_by", ())),
        )
    except (KeyError, TypeError, OverflowError, AttributeError) as error:
        raise ValueError(f"not a ledger: {error!r}") from error


def write_ledger(ledger: Ledger) -> str:
    """The ledger as a file's text."""
    return json.dumps(vars(ledger), default=vars, indent=1) + "\n"


def _note(raw: dict[str, Any]) -> SourceNote:
    """A later release may note more."""
    return SourceNote(
        time=read_time(raw.get("time", 0.0)),
        unseen=str(raw.get("unseen", "")),
        memory=str(raw.get("memory", "")),
        uptime=read_time(raw.get("uptime", 0.0)),
        told=read_time(raw.get("told", 0.0)),
        seen=str(raw.get("seen", "")),
    )


def _fault(raw: dict[str, Any]) -> JudgedFault:
    return JudgedFault(
        time=read_time(raw["time"]),
        rule=str(raw["rule"]),
        because=str(raw["because"]),
        jobs=tuple(int(job) for job in raw["jobs"]),
        boot=str(raw["boot"]),
        repair=str(raw["repair"]),
        reason=str(raw.get("reason", "")),
    )
