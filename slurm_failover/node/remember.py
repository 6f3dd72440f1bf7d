"""Take looks into the ledger: judge each by the one before, and note what it could not see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from slurm_failover.node.clock import set_by
from slurm_failover.node.ledger import Ledger, SourceNote, read_events_kept
from slurm_failover.node.readings import BMC, DRIVER, NVML, SYSFS

if TYPE_CHECKING:
    from slurm_failover.attribution import Device
    from slurm_failover.catalogue import Catalogue
    from slurm_failover.gres import GresSlot
    from slurm_failover.health.memory import Memory
    from slurm_failover.model import Event
    from slurm_failover.node.readings import Reading
    from slurm_failover.settings.tables import SourceSettings

    Slots = Callable[[], tuple[GresSlot, ...] | None]
    _Times = dict[tuple[str, str | None], float]

GRES = "gres"
"""The name under which the ledger notes how many GPUs the node should have."""
GRES_INTERVAL = 3600.0
"""Seconds after which a health check asks slurmd again for the node's GRES."""
OVERTAKEN = 60.0
"""Seconds by which a look can have been overtaken by another; beyond, the clock was set back."""

_COUNTED = ("gpu-missing", "gpu-driver-not-loaded")
"""The rules that rest on how many GPUs the node should have."""


def take(
    ledger: Ledger,
    readings: Iterable[Reading],
    rules: Callable[[], Catalogue],
    slots: Slots,
    say: Callable[[str], None],
) -> tuple[Ledger, list[Event]]:
    """The ledger with the ``readings`` noted, and the events that they show.

    A reading that was overtaken by a newer one shows nothing that the newer did not.
    """
    shown: list[Event] = []
    for reading in readings:
        note = ledger.note(reading.source)
        if is_overtaken(ledger, reading):
            continue
        previous = _recall(note, reading)
        events = reading.judge(previous, rules, expected_gpus(ledger))
        if any(event.rule in _COUNTED for event in events):
            ledger = count_gpus(ledger, reading.time, slots)
            events = reading.judge(previous, rules, expected_gpus(ledger))
        memory = reading.remember(previous)
        if note.told:
            # Without a memory of the latest look all that ever was would be new.
            known = [one for one in (memory, _read_memory(note.seen)) if one is not None]
            counts = expected_gpus(ledger)
            now = [event for one in known for event in reading.judge(one, rules, counts)]
            events = _as_told(events, now, _last_told(ledger, reading.source), note.told)
        shown += events
        if bool(reading.unseen) != bool(note.unseen):
            hidden = f"can not see {reading.unseen}"
            say(hidden if reading.unseen else f"can see again what {reading.source} shows")
        seen = SourceNote(reading.time, reading.unseen, memory.to_json(), reading.uptime)
        ledger = ledger.noted(reading.source, seen)
        ledger = _with_devices(ledger, reading)
    return ledger, shown


def drop_switched_off(ledger: Ledger, sources: SourceSettings) -> Ledger:
    """The ledger without what could not be seen through sources that the site has switched off
    since: no look of theirs takes that back. What they remember is kept for the day on which they
    are switched on again.
    """
    for source in switched_off(sources):
        note = ledger.note(source)
        if note.unseen:
            ledger = ledger.noted(source, replace(note, unseen=""))
    return ledger


def switched_off(sources: SourceSettings) -> frozenset[str]:
    """The sources at which this site has its nodes not look."""
    is_on = {
        NVML: sources.nvml,
        DRIVER: not sources.nvml,
        SYSFS: bool(sources.sysfs),
        BMC: bool(sources.ipmitool),
    }
    return frozenset(source for source, on in is_on.items() if not on)


def is_overtaken(ledger: Ledger, reading: Reading) -> bool:
    """Whether a newer look at the same source was judged while this one waited."""
    return 0 <= ledger.note(reading.source).time - reading.time < OVERTAKEN


def expected_gpus(ledger: Ledger) -> int | None:
    """How many physical GPUs the node should have, None where unknown."""
    memory = ledger.note(GRES).memory
    return int(memory) if memory.isdecimal() else None


def what_is_hidden(ledger: Ledger) -> str:
    """Why a node that should have GPUs can not be called healthy; empty if its GPUs are seen."""
    unseen = ledger.note(NVML).unseen
    has_gpus = bool(ledger.devices or expected_gpus(ledger))
    return f"can not see {unseen}" if unseen and has_gpus else ""


def is_count_due(ledger: Ledger, now: float) -> bool:
    """Whether the health check should ask for the node's GRES."""
    return abs(now - ledger.note(GRES).time) >= GRES_INTERVAL


def count_gpus(ledger: Ledger, now: float, slots: Slots) -> Ledger:
    """The ledger with the number of GPUs that the node's GRES call for."""
    from slurm_failover.gres import physical_gpus

    count = physical_gpus(slots())
    return ledger.noted(GRES, SourceNote(now, "", "" if count is None else str(count)))


def read_devices(ledger: Ledger) -> tuple[Device, ...]:
    """The node's GPUs by all their names, as far as looks in this boot have seen them."""
    from slurm_failover.attribution import devices_from_json

    try:
        return devices_from_json(ledger.devices) if ledger.devices else ()
    except (ValueError, TypeError, KeyError):
        return ()


def _as_told(
    events: Iterable[Event], now: Iterable[Event], last: _Times, first: float
) -> list[Event]:
    """The events of a look at a source for which a drain is put off, with those that it told of
    before and only once at the time at which it did: they have hit no job that has started since.
    ``now`` is what the look shows by its own memory, to which no count and no line is new, and by
    that of the look before, to which only those are that have come since.
    """
    new = {(event.rule, event.pci) for event in now}

    def at(event: Event) -> Event:
        told = last.get((event.rule, event.pci), first)
        return replace(event, time=told, last_time=told)

    return [event if (event.rule, event.pci) in new else at(event) for event in events]


def _last_told(ledger: Ledger, source: str) -> _Times:
    """When a source last told of each event that the ledger keeps of it."""
    kept = [event for event in read_events_kept(ledger) if event.source == source]
    kept.sort(key=lambda event: event.last_time or 0.0)
    return {(event.rule, event.pci): event.last_time or 0.0 for event in kept}


def _read_memory(text: str) -> Memory | None:
    """What a note remembers; a damaged memory is none."""
    from slurm_failover.health.memory import Memory

    try:
        return Memory.from_json(text) if text else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _recall(note: SourceNote, reading: Reading) -> Memory | None:
    """The memory of the look before, in times of today's clock; a damaged one is none, and this is
    a first look.
    """
    # After a reboot the two times since boot have nothing in common to tell a set clock by.
    is_rebooted = reading.uptime < note.uptime
    now = (reading.time, reading.uptime)
    by = 0.0 if is_rebooted else set_by((note.time, note.uptime), now)
    memory = _read_memory(note.memory)
    try:
        return memory.shifted(by) if memory and by else memory
    except (TypeError, AttributeError):
        return None


def _with_devices(ledger: Ledger, reading: Reading) -> Ledger:
    """The ledger with what this look and earlier ones know of the GPUs' names."""
    if not reading.devices:
        return ledger
    from slurm_failover.attribution import devices_to_json, merge_devices

    merged = merge_devices(reading.devices, read_devices(ledger))
    return replace(ledger, devices=devices_to_json(merged))
