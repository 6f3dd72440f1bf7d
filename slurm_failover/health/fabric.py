"""What NVML says of a GPU's place in the NVLink fabric (nvmlGpuFabricInfo_v2_t of nvml.h)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from slurm_failover.health.finding import Finding

if TYPE_CHECKING:
    from slurm_failover.health.gpu_state import Gpu

STATE_NOT_STARTED = 1
STATE_IN_PROGRESS = 2
STATE_COMPLETED = 3

_YES = 1
_FIRST_BAD_CONFIGURATION = 2
_INSUFFICIENT_NVLINKS = 5


def fabric_not_ready(gpu: Gpu) -> bool | None:
    """Whether the GPU still waits for the fabric manager; None where NVML did not say."""
    if gpu.fabric_state is None:
        return None
    return gpu.fabric_state in (STATE_NOT_STARTED, STATE_IN_PROGRESS)


def fabric_finding(gpu: Gpu) -> Iterator[Finding]:
    """What is wrong with a GPU that has finished joining. The health mask is valid only then."""
    if gpu.fabric_state != STATE_COMPLETED:
        return
    if gpu.fabric_status:
        because = f"NVML: GPU {gpu.pci} failed to join the NVLink fabric, error {gpu.fabric_status}"
        yield Finding("gpu-fabric-failed", because, gpu.pci)
    mask = gpu.fabric_health or 0
    bad = []
    if _bits(mask, 0, 2) == _YES:
        bad.append("its bandwidth is degraded")
    if _bits(mask, 4, 2) == _YES:
        bad.append("its route is unhealthy")
    if _bits(mask, 8, 4) == _INSUFFICIENT_NVLINKS:
        bad.append("it has too few NVLinks")
    if bad:
        because = f"NVML: GPU {gpu.pci} in the NVLink fabric: {', '.join(bad)}"
        yield Finding("gpu-fabric-unhealthy", because, gpu.pci)
    elif _bits(mask, 8, 4) >= _FIRST_BAD_CONFIGURATION:
        because = f"NVML: GPU {gpu.pci} is misconfigured in the NVLink fabric"
        yield Finding("gpu-fabric-misconfigured", f"{because}, health mask {mask:#x}", gpu.pci)


def _bits(mask: int, shift: int, width: int) -> int:
    return mask >> shift & (1 << width) - 1
