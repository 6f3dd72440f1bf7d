"""What sysfs showed of the machine around the GPUs: plain values, None where unknown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class PciDevice:
    """The AER counters of a GPU, a switch or a network adapter: of one function of the card.

    ``pci`` names the card and ``function`` the one that counts, ``0000:3b:00.1``.
    ``gpus`` are the GPUs that this fault would reach: the device itself, or those behind a bridge;
    ``others`` is how many further devices lie behind it. ``nonfatal`` leaves out UnsupReq, which
    mere probing raises.
    """

    pci: str
    function: str
    kind: str
    gpus: tuple[str, ...] = ()
    others: int = 0
    fatal: int | None = None
    nonfatal: int | None = None
    correctable: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryController:
    """The EDAC counters of one memory controller."""

    name: str
    uncorrected: int | None = None
    corrected: int | None = None


@dataclass(frozen=True, slots=True)
class Thermometer:
    """A temperature and its critical limit, in degrees Celsius; ``alarm`` is the chip's word."""

    name: str
    celsius: float | None = None
    critical: float | None = None
    alarm: bool | None = None


@dataclass(frozen=True, slots=True)
class Port:
    """A port of an InfiniBand or RoCE adapter; ``state`` is ACTIVE, DOWN, INIT and so on."""

    name: str
    pci: str | None = None
    state: str | None = None
    link_downed: int | None = None
    retrainings: int | None = None
    symbol_errors: int | None = None
    integrity_errors: int | None = None


@dataclass(frozen=True, slots=True)
class MachineState:
    """One look at sysfs. ``unreadable`` says why it is incomplete, or is None."""

    time: float = 0.0
    boot_id: str = ""
    pci_devices: tuple[PciDevice, ...] = ()
    memory: tuple[MemoryController, ...] = ()
    thermometers: tuple[Thermometer, ...] = ()
    ports: tuple[Port, ...] = ()
    unreadable: str | None = None


_SECTIONS = {
    "pci_devices": PciDevice,
    "memory": MemoryController,
    "thermometers": Thermometer,
    "ports": Port,
}


def from_sysfs_reader(lines: Iterable[str], time: float, boot_id: str) -> MachineState:
    """Build a state from the reader's answer, one JSON object per line, however much came.

    Raises ValueError, TypeError, KeyError or AttributeError if a line is not of the reader's form.
    """
    state = MachineState(time=time, boot_id=boot_id, unreadable="the sysfs reader gave no answer")
    for line in lines:
        part: Mapping[str, Any] = json.loads(line)
        if "asking" in part:
            asking = part["asking"]
            why = f"sysfs stopped answering at {asking}" if asking else None
            state = replace(state, unreadable=why)
            continue
        [(section, items)] = part.items()
        kind = _SECTIONS[section]
        found: Any = {section: tuple(kind(**{**item, **_tuples(item)}) for item in items)}
        state = replace(state, **found)
    return state


def _tuples(item: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    return {key: tuple(value) for key, value in item.items() if isinstance(value, list)}
