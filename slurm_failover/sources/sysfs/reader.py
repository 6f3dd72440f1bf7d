"""The process that reads sysfs. A file there can ask a sick device and hang, so it runs alone.

It is started as a script by an isolated interpreter, imports nothing but the standard library, and
prints one JSON object per line: what it asks next, and each section of the answer as it comes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Item = dict[str, Any]

_NVIDIA, _AMD = "0x10de", "0x1002"
_GPU_VENDORS = (_NVIDIA, _AMD)  # the display chip of a BMC is no GPU


def text(path: Path) -> str | None:
    """A file's content, or None where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def number(path: Path) -> int | None:
    """A file's content as a whole number, or None."""
    content = text(path)
    try:
        return None if content is None else int(content, 0)
    except ValueError:
        return None


def kind_of(device: Path) -> str | None:
    """What a PCI device is to us, by the class code of the PCI specification."""
    code, vendor = text(device / "class") or "", text(device / "vendor")
    if code.startswith("0x03") and vendor in _GPU_VENDORS:
        return "gpu"
    if code.startswith("0x02"):
        return "nic"
    if code.startswith("0x0604") or (code.startswith("0x0680") and vendor == _NVIDIA):
        return "switch"
    return None


def short(name: str) -> str:
    """A PCI id without its function."""
    return name.partition(".")[0]


def aer(device: Path, level: str, *, without: str = "") -> int | None:
    """The sum of a device's AER counters of one level; the file has one name and count per line."""
    content = text(device / f"aer_dev_{level}")
    if content is None:
        return None
    rows = [line.split() for line in content.splitlines()]
    return sum(
        int(row[1])
        for row in rows
        if len(row) == 2 and row[1].isdigit() and row[0] != without and row[0][:6] != "TOTAL_"
    )


def pci_devices(sys_root: Path) -> Iterator[Item]:
    """GPUs, switches and network adapters with their AER counters."""
    kinds = {d.resolve(): kind_of(d) for d in sorted((sys_root / "bus/pci/devices").glob("*"))}
    ends = [(str(device), device) for device, kind in kinds.items() if kind != "switch"]
    for device, kind in kinds.items():
        if kind is None or not (device / "aer_dev_fatal").exists():
            continue
        inside = f"{device}/"  # as text: hundreds of devices are compared with each other
        below = [end for path, end in ends if path.startswith(inside)]
        gpus = {short(d.name) for d in [*below, device] if kinds[d] == "gpu"}
        yield {
            "pci": short(device.name),
            "function": device.name,
            "kind": kind,
            "gpus": sorted(gpus),
            "others": sum(short(other.name) not in gpus for other in below),
            "fatal": aer(device, "fatal"),
            "nonfatal": aer(device, "nonfatal", without="UnsupReq"),
            "correctable": aer(device, "correctable"),
        }


def memory(sys_root: Path) -> Iterator[Item]:
    """The memory controllers that EDAC knows."""
    for controller in sorted((sys_root / "devices/system/edac/mc").glob("mc[0-9]*")):
        yield {
            "name": controller.name,
            "uncorrected": number(controller / "ue_count"),
            "corrected": number(controller / "ce_count"),
        }


def celsius(path: Path) -> float | None:
    """A temperature file, which counts thousandths of a degree."""
    value = number(path)
    return None if value is None else value / 1000


def thermometers(sys_root: Path) -> Iterator[Item]:
    """The thermal zones, and the temperatures of all sensor chips."""
    for zone in sorted((sys_root / "class/thermal").glob("thermal_zone*")):
        trips = [kind for kind in zone.glob("trip_point_*_type") if text(kind) == "critical"]
        limits = [celsius(kind.with_name(kind.name[:-4] + "temp")) for kind in trips]
        yield {
            "name": f"{zone.name} {text(zone / 'type') or ''}".strip(),
            "celsius": celsius(zone / "temp"),
            "critical": min((limit for limit in limits if limit is not None), default=None),
        }
    for sensor in sorted((sys_root / "class/hwmon").glob("hwmon*/temp*_input")):
        stem, chip = sensor.name[: -len("_input")], sensor.parent
        label = text(chip / f"{stem}_label") or stem
        alarm = number(chip / f"{stem}_crit_alarm")
        yield {
            "name": f"{chip.name} {text(chip / 'name') or ''} {label}",
            "celsius": celsius(sensor),
            "critical": celsius(chip / f"{stem}_crit"),
            "alarm": None if alarm is None else alarm != 0,
        }


def ports(sys_root: Path) -> Iterator[Item]:
    """The ports of the InfiniBand and RoCE adapters."""
    for port in sorted((sys_root / "class/infiniband").glob("*/ports/*")):
        adapter = port.parent.parent
        device = adapter / "device"
        state = text(port / "state")
        yield {
            "name": f"{adapter.name}/{port.name}",
            "pci": short(device.resolve().name) if device.exists() else None,
            "state": state.rpartition(":")[2].strip() if state else None,
            "link_downed": number(port / "counters/link_downed"),
            "retrainings": number(port / "counters/link_error_recovery"),
            "symbol_errors": number(port / "counters/symbol_error"),
            "integrity_errors": number(port / "counters/local_link_integrity_errors"),
        }


SECTIONS: dict[str, Callable[[Path], Iterator[Item]]] = {
    "pci_devices": pci_devices,
    "memory": memory,
    "thermometers": thermometers,
    "ports": ports,
}


def main(sys_root: str) -> None:
    """Print the whole answer."""
    for name, read in SECTIONS.items():
        print(json.dumps({"asking": name}), flush=True)
        print(json.dumps({name: list(read(Path(sys_root)))}), flush=True)
    print(json.dumps({"asking": None}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
