"""Judge a look at the GPUs: which readings are faults.

A state that still holds is a fault at every look. A counter is one only when it has grown since the
last look, so a GPU that an admin returned to service is not judged for the old errors again. Heat,
the power brake, a degraded PCIe link and a GPU outside the fabric must last over several looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from slurm_failover.health.fabric import fabric_finding, fabric_not_ready
from slurm_failover.health.finding import Finding, to_events
from slurm_failover.health.memory import Memo, Memory, Reading, growth, keep, next_memo, streak_of
from slurm_failover.health.presence import absent_gpus, name_by_elimination, startup_faults

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurm_failover.catalogue import Rule
    from slurm_failover.health.gpu_state import Gpu, GpuState
    from slurm_failover.model import Event
    from slurm_failover.settings.thresholds import GpuThresholds

# Bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h). HwSlowdown, 0x8, is not used: NVIDIA says
# that it may also show while the GPU changes its performance state.
HW_THERMAL_SLOWDOWN = 0x40
HW_POWER_BRAKE = 0x80

# nvmlDeviceGpuRecoveryAction_t of nvml.h.
_RECOVERY_RULES = {
    1: "gpu-recovery-reset",
    2: "gpu-recovery-reboot",
    3: "gpu-recovery-drain-p2p",
    4: "gpu-recovery-reset",
    5: "gpu-recovery-imex",
    6: "gpu-recovery-reset",
    7: "gpu-recovery-reboot",
}
_RECOVERY_WORDS = {
    1: "GPU reset",
    2: "node reboot",
    3: "drain P2P",
    4: "drain and reset",
    5: "recover IMEX domain",
    6: "bus reset",
    7: "system reboot",
}

_COUNTERS = (
    "ecc_uncorrected",
    "sram_uncorrected",
    "thermal_ns",
    "pcie_replays",
    "nvlink_replays",
    "nvlink_recoveries",
    "nvlink_crc_errors",
    "nvlink_failed_recoveries",
)


def judge_gpus(
    state: GpuState,
    previous: Memory | None,
    thresholds: GpuThresholds,
    expected_count: int | None,
    rule: Callable[[str], Rule],
) -> list[Event]:
    """What is wrong with the GPUs, as events of the time of the look.

    ``previous`` is what ``remember`` gave after the last look, None at the first. The number of
    *physical* GPUs that the node is configured with is ``expected_count``, None where unknown.
    ``rule`` finds a rule by name and is called for faults only.
    """
    findings = find_gpu_faults(state, previous, thresholds, expected_count)
    return to_events(findings, rule, time=state.time, source="nvml")


def find_gpu_faults(
    state: GpuState,
    previous: Memory | None,
    thresholds: GpuThresholds,
    expected_count: int | None,
) -> list[Finding]:
    """The faults that ``judge_gpus`` turns into events."""
    state = name_by_elimination(state, previous)
    findings = [*startup_faults(state, expected_count)]
    findings += absent_gpus(state, previous, expected_count)
    for gpu in state.gpus:
        memo = previous.of(gpu.pci, gpu.uuid) if previous else None
        findings += _state_faults(gpu, thresholds)
        findings += _grown_faults(gpu, memo, state, thresholds)
        findings += _lasting_faults(gpu, _look(gpu, memo, state, thresholds), state, thresholds)
        findings += _link_faults(gpu, memo, thresholds)
    return findings


def remember(state: GpuState, previous: Memory | None, thresholds: GpuThresholds) -> Memory:
    """What to keep of this look for the next one."""
    memos = {
        gpu.pci: _look(gpu, previous.of(gpu.pci, gpu.uuid) if previous else None, state, thresholds)
        for gpu in state.gpus
        if gpu.pci is not None
    }
    return keep(previous, memos)


def _look(gpu: Gpu, memo: Memo | None, state: GpuState, limits: GpuThresholds) -> Memo:
    reading = Reading(
        counters={name: getattr(gpu, name) for name in _COUNTERS},
        peaks={"nvlinks": _active_links(gpu)},
        conditions={
            "thermal": _has_bit(gpu.clock_events, HW_THERMAL_SLOWDOWN),
            "power_brake": _has_bit(gpu.clock_events, HW_POWER_BRAKE),
            "pcie_width": _below(gpu.pcie_width, gpu.pcie_width_max),
            "pcie_generation": _slow_under_load(gpu, limits),
            "fabric": fabric_not_ready(gpu),
        },
    )
    return next_memo(memo, reading, time=state.time, boot_id=state.boot_id, uuid=gpu.uuid)


def _state_faults(gpu: Gpu, limits: GpuThresholds) -> Iterator[Finding]:
    """What is wrong as long as it reads so."""
    if gpu.reset_required:
        yield Finding("gpu-reset-required", f"NVML: GPU {gpu.pci} requires a reset", gpu.pci)
    if gpu.recovery_action in _RECOVERY_RULES:
        words = _RECOVERY_WORDS[gpu.recovery_action]
        because = f"NVML: the driver asks for this recovery of GPU {gpu.pci}: {words}"
        yield Finding(_RECOVERY_RULES[gpu.recovery_action], because, gpu.pci)
    if gpu.sram_threshold_exceeded:
        because = f"NVML: GPU {gpu.pci} has exceeded its limit of uncorrectable SRAM errors"
        yield Finding("gpu-sram-threshold", because, gpu.pci)
    if gpu.remap_failed:
        because = f"NVML: a row of GPU {gpu.pci}'s memory could not be remapped"
        yield Finding("gpu-remap-failed", because, gpu.pci)
    if gpu.remap_pending:
        because = f"NVML: a row of GPU {gpu.pci}'s memory waits for a reset to be remapped"
        yield Finding("gpu-remap-pending", because, gpu.pci)
    if gpu.retired_pages is not None and gpu.retired_pages >= limits.retired_pages:
        because = f"NVML: GPU {gpu.pci} has {gpu.retired_pages} retired pages"
        yield Finding("gpu-retired-pages", because, gpu.pci)
    if gpu.retirement_pending:
        because = f"NVML: pages of GPU {gpu.pci} wait for a reset to be retired"
        yield Finding("gpu-retirement-pending", because, gpu.pci)
    if gpu.inforom_corrupted:
        because = f"NVML: the InfoROM of GPU {gpu.pci} is corrupted"
        yield Finding("gpu-inforom-corrupted", because, gpu.pci)
    yield from fabric_finding(gpu)


def _grown_faults(
    gpu: Gpu, memo: Memo | None, state: GpuState, limits: GpuThresholds
) -> Iterator[Finding]:
    """What is wrong because a counter grew."""
    grown = {
        name: growth(memo, name, getattr(gpu, name), state.time, state.boot_id)
        for name in _COUNTERS
    }
    # At the first look of all, errors since the last reset count: DCGM fails a GPU for any.
    first = memo is None
    ecc = (gpu.ecc_uncorrected or 0) if first else grown["ecc_uncorrected"].count
    if ecc:
        because = f"NVML: GPU {gpu.pci} counts {ecc} new uncorrectable ECC errors"
        yield Finding("gpu-ecc-uncorrectable", because, gpu.pci)
    sram = (gpu.sram_uncorrected or 0) if first else grown["sram_uncorrected"].count
    if sram:
        because = f"NVML: GPU {gpu.pci} counts {sram} new uncorrectable SRAM errors"
        yield Finding("gpu-sram-uncorrectable", because, gpu.pci)
    rate = grown["pcie_replays"].per_minute()
    if rate is not None and rate > limits.pcie_replays_per_minute:
        because = f"NVML: the PCIe link of GPU {gpu.pci} replays {rate:.0f} packets a minute"
        yield Finding("gpu-pcie-replays", because, gpu.pci)
    hot, seconds = grown["thermal_ns"].count / 1e9, grown["thermal_ns"].seconds
    enough = hot >= limits.clock_event_seconds
    if seconds and enough and hot * 100 >= seconds * limits.thermal_percent:
        because = (
            f"NVML: heat held the clocks of GPU {gpu.pci} down for {hot:.0f} of {seconds:.0f} s"
        )
        yield Finding("gpu-thermal-slowdown", because, gpu.pci)
    yield from _nvlink_errors(gpu, grown["nvlink_crc_errors"].per_minute(), limits)
    for name, rule, words in (
        ("nvlink_recoveries", "gpu-nvlink-errors", "was recovered"),
        ("nvlink_failed_recoveries", "gpu-nvlink-recovery-failed", "could not be recovered"),
    ):
        if grown[name].count:
            because = f"NVML: an NVLink of GPU {gpu.pci} {words} {grown[name].count} times"
            yield Finding(rule, because, gpu.pci)


def _nvlink_errors(gpu: Gpu, rate: float | None, limits: GpuThresholds) -> Iterator[Finding]:
    if rate is not None and rate > limits.nvlink_crc_per_minute:
        because = f"NVML: the NVLinks of GPU {gpu.pci} see {rate:.0f} CRC errors a minute"
        yield Finding("gpu-nvlink-errors", because, gpu.pci)


def _lasting_faults(
    gpu: Gpu, look: Memo, state: GpuState, limits: GpuThresholds
) -> Iterator[Finding]:
    """What is wrong because it lasts; ``look`` already counts the present one."""
    for name, rule, words in (
        ("thermal", "gpu-thermal-slowdown", "heat has held"),
        ("power_brake", "gpu-power-brake", "the power brake has held"),
    ):
        streak = look.streaks.get(name)
        lasted = streak.lasted(state.time) if streak else 0.0
        long_enough = lasted >= limits.clock_event_seconds
        if streak and streak.looks >= limits.clock_event_looks and long_enough:
            because = f"NVML: {words} the clocks of GPU {gpu.pci} down for {lasted:.0f} s"
            at = f" at {gpu.temperature} °C" if gpu.temperature is not None else ""
            yield Finding(rule, because + at, gpu.pci)
    if streak_of(look, "pcie_width") >= limits.pcie_looks:
        because = (
            f"NVML: GPU {gpu.pci} runs on x{gpu.pcie_width} of x{gpu.pcie_width_max} PCIe lanes"
        )
        yield Finding("gpu-pcie-width", because, gpu.pci)
    if streak_of(look, "pcie_generation") >= limits.pcie_looks:
        because = (
            f"NVML: the busy GPU {gpu.pci} runs at PCIe generation {gpu.pcie_generation} "
            f"of {gpu.pcie_generation_max}"
        )
        yield Finding("gpu-pcie-generation", because, gpu.pci)
    if streak_of(look, "fabric") >= limits.fabric_looks:
        because = f"NVML: GPU {gpu.pci} has not joined the NVLink fabric"
        yield Finding("gpu-fabric-not-ready", because, gpu.pci)


def _link_faults(gpu: Gpu, memo: Memo | None, limits: GpuThresholds) -> Iterator[Finding]:
    """NVLinks that are down: fewer than the site says, or than this GPU was seen with.

    A link that was never up may lead nowhere: PCIe boards without a bridge have such.
    """
    active = _active_links(gpu)
    wanted = limits.nvlinks_expected or (memo.peaks.get("nvlinks", 0) if memo else 0)
    if active is not None and active < wanted:
        because = f"NVML: {wanted - active} of {wanted} NVLinks of GPU {gpu.pci} are down"
        yield Finding("gpu-nvlink-down", because, gpu.pci)


def _active_links(gpu: Gpu) -> int | None:
    """How many NVLinks are up; None where NVML did not say, or MIG mode has taken them away."""
    if gpu.mig is not False or not gpu.nvlinks or None in gpu.nvlinks:
        return None
    return sum(link is True for link in gpu.nvlinks)


def _slow_under_load(gpu: Gpu, limits: GpuThresholds) -> bool | None:
    busy = None if gpu.utilization is None else gpu.utilization >= limits.pcie_load_percent
    slow = _below(gpu.pcie_generation, gpu.pcie_generation_max)
    return slow if busy else (None if slow else False)


def _below(now: int | None, most: int | None) -> bool | None:
    return None if now is None or most is None else 0 < now < most


def _has_bit(mask: int | None, bit: int) -> bool | None:
    return None if mask is None else bool(mask & bit)
