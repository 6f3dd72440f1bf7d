"""What one look at a node's GPUs showed: plain values, None where a reading is unknown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any


def canonical_pci(text: str) -> str:
    """Bring a PCI id to the form ``0000:3b:00``: lower case, the function digit dropped.

    NVML writes the domain with eight digits, the kernel with four, and some messages without one.
    Raises ValueError where ``text`` is no PCI id.
    """
    parts = text.strip().removeprefix("PCI:").split(".")[0].split(":")
    if len(parts) == 2:
        parts.insert(0, "0")
    domain, bus, device = (int(part, 16) for part in parts)
    return f"{domain:04x}:{bus:02x}:{device:02x}"


@dataclass(frozen=True, slots=True)
class MigInstance:
    """One MIG device of a GPU: its UUID, and the ids by which the kernel names it."""

    uuid: str
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclass(frozen=True, slots=True)
class DriverDevice:
    """A GPU as the kernel driver lists it under ``/proc/driver/nvidia/gpus``."""

    pci: str
    minor: int | None = None
    uuid: str | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as NVML shows it. ``index`` is NVML's order and names nothing else.

    ``lost`` and ``reset_required`` are None where no call was answered at all. Counters count since
    the driver was loaded or the GPU was reset; ``thermal_ns`` is the time in nanoseconds for which
    heat held the clocks down (nvmlDeviceGetViolationStatus, NVML_PERF_POLICY_THERMAL).
    ``clock_events`` is the bit mask of nvmlDeviceGetCurrentClocksEventReasons. ``nvlinks`` holds
    one state per link, True for an active one. ``failed_calls`` says why a reading is unknown.
    """

    index: int
    pci: str | None = None
    uuid: str | None = None
    minor: int | None = None
    name: str | None = None
    mig: bool | None = None
    instances: tuple[MigInstance, ...] = ()
    lost: bool | None = None
    reset_required: bool | None = None
    inforom_corrupted: bool | None = None
    recovery_action: int | None = None
    ecc_uncorrected: int | None = None
    sram_uncorrected: int | None = None
    sram_threshold_exceeded: bool | None = None
    retired_pages: int | None = None
    retirement_pending: bool | None = None
    rows_remapped: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    clock_events: int | None = None
    thermal_ns: int | None = None
    temperature: int | None = None
    utilization: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_replays: int | None = None
    nvlinks: tuple[bool | None, ...] = ()
    nvlink_replays: int | None = None
    nvlink_recoveries: int | None = None
    nvlink_crc_errors: int | None = None
    nvlink_failed_recoveries: int | None = None
    fabric_state: int | None = None
    fabric_status: int | None = None
    fabric_health: int | None = None
    failed_calls: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class GpuState:
    """One look at a node's GPUs.

    ``unreadable`` is a sentence that says why the look is incomplete, or None. ``init_error`` is
    the name that NVML gave to its refusal to start, for example ``LibRmVersionMismatch``.
    ``count`` is how many GPUs NVML lists; ``gpus`` may hold fewer if the look was cut short.
    """

    time: float = 0.0
    boot_id: str = ""
    driver: str | None = None
    init_error: str | None = None
    count: int | None = None
    gpus: tuple[Gpu, ...] = ()
    driver_devices: tuple[DriverDevice, ...] = ()
    unreadable: str | None = None

    def to_json(self) -> str:
        """The state as one line of JSON, unknown readings left out."""
        return json.dumps(asdict(self, dict_factory=_without_unknown), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> GpuState:
        """Read what ``to_json`` wrote. Raises ValueError or TypeError for anything else."""
        raw = _known_keys(cls, json.loads(text))
        raw["gpus"] = tuple(_gpu(gpu) for gpu in raw.get("gpus", ()))
        raw["driver_devices"] = tuple(_driver_device(d) for d in raw.get("driver_devices", ()))
        return cls(**raw)


def from_reader(lines: Iterable[str], time: float, boot_id: str) -> GpuState:
    """Build a state from the reader's answer, one JSON object per line, however much came.

    Where the answer stops short, the GPU that was being asked stays as a GPU without readings and
    ``unreadable`` names it. Raises ValueError, TypeError, KeyError or AttributeError if a line is
    not of the reader's form.
    """
    state = GpuState(time=time, boot_id=boot_id, unreadable="the NVML reader gave no answer")
    gpus: dict[int, Gpu] = {}
    for line in lines:
        part = json.loads(line)
        if "gpu" in part:
            gpu = _gpu(part["gpu"])
            gpus[gpu.index] = gpu
            state = replace(state, unreadable=_stuck_at(gpu) if part.get("asking") else None)
        elif "driver_devices" in part:
            devices = tuple(_driver_device(device) for device in part["driver_devices"])
            state = replace(state, driver_devices=devices)
        else:
            state = replace(state, **_known_keys(GpuState, part))
    return replace(state, gpus=tuple(gpus[index] for index in sorted(gpus)))


def _stuck_at(gpu: Gpu) -> str:
    return f"NVML stopped answering at GPU {gpu.pci or f'number {gpu.index} of NVML'}"


def _gpu(raw: Mapping[str, Any]) -> Gpu:
    known = _known_keys(Gpu, raw)
    known["instances"] = tuple(MigInstance(**item) for item in known.get("instances", ()))
    known["nvlinks"] = tuple(known.get("nvlinks", ()))
    if known.get("pci") is not None:
        known["pci"] = canonical_pci(known["pci"])
    return Gpu(**known)


def _driver_device(raw: Mapping[str, Any]) -> DriverDevice:
    device = DriverDevice(**_known_keys(DriverDevice, raw))
    return replace(device, pci=canonical_pci(device.pci))


def _known_keys(kind: type, raw: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(kind)}
    return {key: value for key, value in raw.items() if key in names}


def _without_unknown(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in pairs if value is not None and value != ()}
