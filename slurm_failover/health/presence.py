"""Which GPUs should be there and are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from slurm_failover.health.finding import Finding

if TYPE_CHECKING:
    from slurm_failover.health.gpu_state import GpuState
    from slurm_failover.health.memory import Memory


def startup_faults(state: GpuState, expected_count: int | None) -> Iterator[Finding]:
    """Why NVML did not start, where that is a fault and not just a node without GPUs."""
    if state.init_error == "LibRmVersionMismatch":
        because = "NVML: the driver's library and kernel module are of different versions"
        yield Finding("gpu-driver-mismatch", because)
    if state.init_error == "DriverNotLoaded" and expected_count:
        because = f"NVML: the driver is not loaded on a node with {expected_count} GPUs"
        yield Finding("gpu-driver-not-loaded", because)


def name_by_elimination(state: GpuState, previous: Memory | None) -> GpuState:
    """Give the one GPU that NVML lists without a name its PCI id, where only one is left over."""
    nameless = [gpu for gpu in state.gpus if gpu.pci is None]
    left_over = _known_pcis(state, previous) - {gpu.pci for gpu in state.gpus}
    if len(nameless) != 1 or len(left_over) != 1 or len(state.gpus) != state.count:
        return state
    named = replace(nameless[0], pci=left_over.pop())
    return replace(state, gpus=tuple(named if g.pci is None else g for g in state.gpus))


def absent_gpus(
    state: GpuState, previous: Memory | None, expected_count: int | None
) -> Iterator[Finding]:
    """The GPUs that are lost (NVML lists them and they do not answer) or missing.

    NVML does not name a GPU that is gone. It is named where elimination leaves no doubt: as many
    known GPUs are unaccounted for as are gone. Otherwise the finding has no PCI id.
    """
    for gpu in state.gpus:
        if gpu.lost and gpu.pci is not None:
            yield Finding("gpu-lost", f"NVML: GPU {gpu.pci} is lost", gpu.pci)
    nameless = sum(bool(gpu.lost and gpu.pci is None) for gpu in state.gpus)
    missing = _missing(state, previous, expected_count)
    gone = nameless + missing
    if not gone:
        return
    candidates = sorted(_known_pcis(state, previous) - {gpu.pci for gpu in state.gpus})
    rule = "gpu-missing" if missing else "gpu-lost"
    count = f"{gone} of {(state.count or 0) + missing} GPUs"
    if len(candidates) == gone and _all_listed(state, nameless):
        for pci in candidates:
            yield Finding(rule, f"NVML: GPU {pci} is gone ({count})", pci)
    else:
        yield Finding(rule, f"NVML: {count} are gone, and it does not say which")


def _missing(state: GpuState, previous: Memory | None, expected_count: int | None) -> int:
    """How many GPUs NVML does not even list.

    With AutoDetect Slurm counts those that are left. So one that NVML has shown since this boot and
    that the driver still lists should be there too, whatever the count.
    """
    if state.count is None:
        return 0
    seen, listed = _seen_pcis(state, previous), _listed_pcis(state)
    should = len(seen | listed) if expected_count is None else expected_count
    return max(should - state.count, len(seen & listed) - state.count, 0)


def _known_pcis(state: GpuState, previous: Memory | None) -> set[str]:
    return _seen_pcis(state, previous) | _listed_pcis(state)


def _seen_pcis(state: GpuState, previous: Memory | None) -> set[str]:
    memos = previous.devices.items() if previous else ()
    return {pci for pci, memo in memos if memo.boot_id == state.boot_id}


def _listed_pcis(state: GpuState) -> set[str]:
    return {device.pci for device in state.driver_devices}


def _all_listed(state: GpuState, nameless: int) -> bool:
    """Whether every GPU that NVML lists has a name or is known to be lost."""
    named = sum(gpu.pci is not None for gpu in state.gpus)
    return named + nameless == state.count
