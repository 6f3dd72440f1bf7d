"""The process that waits for NVML's events. It may hang, so it runs alone and shows that it lives.

Started as a script by an isolated interpreter, like reader.py: one JSON object per line on standard
output. ``{"beat": true}`` comes at least every BEAT seconds, an event as it happens. The types are
those of nvml.h: critical Xids, uncorrectable ECC errors, and where the driver knows them a GPU that
is unavailable or asks for recovery.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from typing import Any

Nvml = Any  # pynvml has no types: the module itself, its opaque handles, and what it answers
Handle = Any

BEAT = 10
"""Seconds. A wait in nvmlEventSetWait costs nothing, its end a few microseconds."""
XID = 0x8
DOUBLE_BIT = 0x2
UNAVAILABLE, RECOVERY = 0x4000, 0x8000
WANTED = XID | DOUBLE_BIT | UNAVAILABLE | RECOVERY
NO_INSTANCE = 0xFFFFFFFF
"""What NVML gives as the GPU instance where an event names none."""


def say(part: dict[str, Any]) -> None:
    """Print one line; this process ends where nobody reads it any more."""
    print(json.dumps(part, separators=(",", ":")), flush=True)


def register(nvml: Nvml) -> tuple[Handle, dict[int, str]]:
    """An event set with every GPU that has events, and those GPUs' PCI ids by their handles."""
    events = nvml.nvmlEventSetCreate()
    names: dict[int, str] = {}
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            gpu = nvml.nvmlDeviceGetHandleByIndex(index)
            wanted = nvml.nvmlDeviceGetSupportedEventTypes(gpu) & WANTED
            if wanted:
                nvml.nvmlDeviceRegisterEvents(gpu, wanted, events)
                names[_address(gpu)] = nvml.nvmlDeviceGetPciInfo(gpu).busId
        except nvml.NVMLError as error:
            say({"refused": f"GPU number {index} of NVML: {error}"})
    return events, names


def _address(gpu: Handle) -> int:
    return ctypes.cast(gpu, ctypes.c_void_p).value or 0


def describe(event: Any, names: dict[int, str]) -> dict[str, Any]:
    """What NVML gave as an event, in our words. A GPU that is gone is not asked for its name."""
    kind = int(event.eventType)
    part: dict[str, Any] = {"time": time.time(), "pci": names.get(_address(event.device))}
    if kind == XID:
        part["xid"] = int(event.eventData)
        if event.gpuInstanceId not in (0, NO_INSTANCE):
            part["gpu_instance"] = int(event.gpuInstanceId)
    return part


def listen(nvml: Nvml) -> None:
    """Wait for events until NVML refuses to."""
    events, names = register(nvml)
    while names:
        say({"beat": True})
        try:
            event = nvml.nvmlEventSetWait_v2(events, BEAT * 1000)
        except nvml.NVMLError_Timeout:
            continue
        say(describe(event, names))
    say({"refused": "no GPU here has events"})


def main() -> None:
    """Listen; say why where that is not possible."""
    try:
        import pynvml as nvml
    except ImportError:
        say({"refused": "the Python package nvidia-ml-py is not installed"})
        return
    try:
        nvml.nvmlInit()
        listen(nvml)
    except nvml.NVMLError as error:
        say({"refused": str(error)})


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.exit(0)
