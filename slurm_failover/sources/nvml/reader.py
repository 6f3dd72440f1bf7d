"""The process that asks NVML. It may hang, so it runs alone and prints each answer as it comes.

It is started as a script by an isolated interpreter and imports nothing but the standard library
and pynvml: one JSON object per line on standard output, the GPU's identity before its readings.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

Nvml = Any  # pynvml has no types: the module itself, its opaque handles, and what it answers
Handle = Any
Readings = dict[str, Any]
Readers = dict[str, Callable[[Nvml, Handle], Any]]

# Field numbers that kept their meaning in every release of nvml.h that has them. Others did not:
# the clock event counters are 251–253 in nvidia-ml-py 13.580 and 269–271 in 13.615, so an older
# driver would answer another question; they are not used.
FIELD_NVLINK_REPLAYS = 161
FIELD_NVLINK_RECOVERIES = 162
FIELD_NVLINK_CRC = 163
FIELD_NVLINK_FAILED_RECOVERIES = 214
FIELD_RECOVERY_ACTION = 230

_NVLINK_FIELDS = {
    FIELD_NVLINK_REPLAYS: "nvlink_replays",
    FIELD_NVLINK_RECOVERIES: "nvlink_recoveries",
    FIELD_NVLINK_CRC: "nvlink_crc_errors",
    FIELD_NVLINK_FAILED_RECOVERIES: "nvlink_failed_recoveries",
}
_MOST_LINKS = 36

# Errors that say something of the GPU itself, and the reading in which we say it.
FLAGS = {
    "GpuIsLost": "lost",
    "ResetRequired": "reset_required",
    "CorruptedInforom": "inforom_corrupted",
}


def say(part: Readings) -> None:
    """Print one part of the answer at once, so that a later hang does not take it along."""
    print(json.dumps(part, separators=(",", ":")), flush=True)


def driver_devices(proc: Path) -> Iterator[Readings]:
    """The GPUs that the kernel driver lists, a lost one included, an excluded one not."""
    for folder in sorted((proc / "driver/nvidia/gpus").glob("*")):
        try:
            text = (folder / "information").read_text(errors="replace")
        except OSError:
            text = ""
        lines = (line.partition(":") for line in text.splitlines())
        facts = {key.strip(): value.strip() for key, _, value in lines}
        if facts.get("GPU Excluded") == "Yes":
            continue
        minor, uuid = facts.get("Device Minor", ""), facts.get("GPU UUID", "?")
        yield {
            "pci": folder.name,
            "minor": int(minor) if minor.isdigit() else None,
            "uuid": None if "?" in uuid else uuid,
        }


def mig(nvml: Nvml, handle: Handle) -> Readings:
    try:
        enabled = nvml.nvmlDeviceGetMigMode(handle)[0] == 1
    except nvml.NVMLError_NotSupported:  # a GPU without MIG mode; Slurm reads it so too
        enabled = False
    return {"mig": enabled, "instances": list(_instances(nvml, handle)) if enabled else []}


def _instances(nvml: Nvml, handle: Handle) -> Iterator[Readings]:
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
        except nvml.NVMLError_NotFound:
            continue
        yield {
            "uuid": nvml.nvmlDeviceGetUUID(instance),
            "gpu_instance": nvml.nvmlDeviceGetGpuInstanceId(instance),
            "compute_instance": nvml.nvmlDeviceGetComputeInstanceId(instance),
        }


def recovery_action(nvml: Nvml, handle: Handle) -> int | None:
    return _field(nvml, nvml.nvmlDeviceGetFieldValues(handle, [FIELD_RECOVERY_ACTION])[0])


def _field(nvml: Nvml, value: Handle) -> int | None:
    if value.nvmlReturn != nvml.NVML_SUCCESS:
        return None
    kinds = {
        nvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    }
    member = kinds.get(value.valueType)
    return None if member is None else int(getattr(value.value, member))


def sram(nvml: Nvml, handle: Handle) -> Readings:
    status = nvml.c_nvmlEccSramErrorStatus_v1_t()
    nvml.nvmlDeviceGetSramEccErrorStatus(handle, nvml.byref(status))
    return {
        "sram_uncorrected": status.volatileUncParity + status.volatileUncSecDed,
        "sram_threshold_exceeded": bool(status.bThresholdExceeded),
    }


def remapped_rows(nvml: Nvml, handle: Handle) -> Readings:
    _, uncorrected, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
    return {
        "rows_remapped": uncorrected,
        "remap_pending": bool(pending),
        "remap_failed": bool(failed),
    }


def retired_pages(nvml: Nvml, handle: Handle) -> int:
    causes = range(nvml.NVML_PAGE_RETIREMENT_CAUSE_COUNT)
    return sum(len(nvml.nvmlDeviceGetRetiredPages(handle, cause)) for cause in causes)


def clock_events(nvml: Nvml, handle: Handle) -> int:
    try:
        return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except nvml.NVMLError_FunctionNotFound:  # drivers before R535 have the older name
        return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


def nvlinks(nvml: Nvml, handle: Handle) -> list[bool]:
    states: list[bool] = []
    for link in range(_MOST_LINKS):
        try:
            states.append(nvml.nvmlDeviceGetNvLinkState(handle, link) == nvml.NVML_FEATURE_ENABLED)
        except (nvml.NVMLError_InvalidArgument, nvml.NVMLError_NotSupported):
            break
    return states


def nvlink_errors(nvml: Nvml, handle: Handle, links: int) -> Readings:
    wanted = [(field, link) for field in _NVLINK_FIELDS for link in range(links)]
    totals: Readings = {}
    for value in nvml.nvmlDeviceGetFieldValues(handle, wanted):
        count = _field(nvml, value)
        if count is not None:
            key = _NVLINK_FIELDS[value.fieldId]
            totals[key] = totals.get(key, 0) + count
    return totals


def fabric(nvml: Nvml, handle: Handle) -> Readings:
    info = nvml.c_nvmlGpuFabricInfoV_t()
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, nvml.byref(info))
    return {
        "fabric_state": info.state,
        "fabric_status": info.status,
        "fabric_health": info.healthMask,
    }


# By the name of the reading; a dict holds several readings.
IDENTITY: Readers = {
    "pci": lambda nvml, gpu: nvml.nvmlDeviceGetPciInfo(gpu).busId,
    "uuid": lambda nvml, gpu: nvml.nvmlDeviceGetUUID(gpu),
    "minor": lambda nvml, gpu: nvml.nvmlDeviceGetMinorNumber(gpu),
    "name": lambda nvml, gpu: nvml.nvmlDeviceGetName(gpu),
    "mig": mig,
}
HEALTH: Readers = {
    "recovery_action": recovery_action,
    "ecc_uncorrected": lambda nvml, gpu: nvml.nvmlDeviceGetTotalEccErrors(
        gpu, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    ),
    "sram": sram,
    "retired_pages": retired_pages,
    "retirement_pending": lambda nvml, gpu: bool(nvml.nvmlDeviceGetRetiredPagesPendingStatus(gpu)),
    "remapped_rows": remapped_rows,
    "clock_events": clock_events,
    "thermal_ns": lambda nvml, gpu: (
        nvml.nvmlDeviceGetViolationStatus(gpu, nvml.NVML_PERF_POLICY_THERMAL).violationTime
    ),
    "temperature": lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
    "utilization": lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
    "pcie_width": lambda nvml, gpu: nvml.nvmlDeviceGetCurrPcieLinkWidth(gpu),
    "pcie_width_max": lambda nvml, gpu: nvml.nvmlDeviceGetMaxPcieLinkWidth(gpu),
    "pcie_generation": lambda nvml, gpu: nvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu),
    "pcie_generation_max": lambda nvml, gpu: nvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu),
    "pcie_replays": lambda nvml, gpu: nvml.nvmlDeviceGetPcieReplayCounter(gpu),
    "nvlinks": nvlinks,
    "fabric": fabric,
}


class Asked:
    """The answers of one GPU: a call that fails costs its own readings and no other's."""

    def __init__(self, nvml: Nvml, index: int) -> None:
        self.nvml = nvml
        self.readings: Readings = {"index": index, "failed_calls": {}}

    def handle(self) -> Handle:
        """NVML's handle of the GPU, or None if it will not give one."""
        index = self.readings["index"]
        return self._try("handle", lambda: self.nvml.nvmlDeviceGetHandleByIndex(index))

    def all_of(self, readers: Readers, handle: Handle) -> None:
        """Put each reader's values among the readings; a GPU that is lost is asked no further."""
        for name, read in readers.items():
            if self.readings.get("lost"):
                return
            values = self._try(name, partial(read, self.nvml, handle))
            if values is not None:
                self.readings.update(values if isinstance(values, dict) else {name: values})

    def _try(self, what: str, call: Callable[[], Handle]) -> Handle:
        try:
            answer = call()
        except self.nvml.NVMLError as error:
            self._note(what, type(error).__name__.removeprefix("NVMLError_"))
            return None
        except (AttributeError, ValueError) as error:  # bindings that lack the call, odd bytes
            self._note(what, str(error))
            return None
        for flag in FLAGS.values():
            self.readings.setdefault(flag, False)
        return answer

    def _note(self, what: str, error: str) -> None:
        self.readings["failed_calls"][what] = error
        flag = FLAGS.get(error)
        if flag is not None:
            self.readings[flag] = True


def ask_gpu(nvml: Nvml, index: int) -> None:
    """Ask one GPU for everything, its identity first."""
    asked = Asked(nvml, index)
    say({"asking": True, "gpu": asked.readings})
    handle = asked.handle()
    if handle is not None:
        asked.all_of(IDENTITY, handle)
        say({"asking": True, "gpu": asked.readings})
        asked.all_of(HEALTH, handle)
        links = len(asked.readings.get("nvlinks", ()))
        if links:
            asked.all_of({"nvlink_errors": partial(nvlink_errors, links=links)}, handle)
    say({"gpu": asked.readings})


def wait_for_turn(lock: str) -> None:
    """Wait for the lock file, and hold it until this process is really gone. On a disk that takes
    no file any more nobody waits.
    """
    say({"unreadable": "another look at NVML is running or stuck"})
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        return
    fcntl.flock(handle, fcntl.LOCK_EX)


def main(proc: str, lock: str = "", ask: str = "nvml") -> None:
    """Print the whole answer; what is said first holds if nothing follows. ``ask`` is "driver" for
    the driver's own list alone.
    """
    if lock:
        wait_for_turn(lock)
    say({"unreadable": "the NVIDIA driver did not answer"})
    say({"driver_devices": list(driver_devices(Path(proc)))})
    if ask == "driver":
        say({"unreadable": None})
        return
    try:
        import pynvml as nvml
    except ImportError:
        say({"unreadable": "the Python package nvidia-ml-py is not installed"})
        return
    try:
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        named = type(error).__name__.removeprefix("NVMLError_")
        say({"init_error": named, "unreadable": f"NVML does not start: {error}"})
        return
    say({"count": count, "unreadable": None if count == 0 else "NVML stopped answering"})
    for index in range(count):
        ask_gpu(nvml, index)
    try:
        say({"driver": nvml.nvmlSystemGetDriverVersion()})
    except nvml.NVMLError:
        return


if __name__ == "__main__":
    main(*sys.argv[1:])
