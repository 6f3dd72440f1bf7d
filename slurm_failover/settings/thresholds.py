"""From where on a reading counts as a fault: a class per source, a default and a sentence each."""

from __future__ import annotations

from slurm_failover.frozen import dataclass
from slurm_failover.settings.declare import setting


@dataclass(frozen=True, slots=True)
class GpuThresholds:
    """Limits for what NVML shows of a GPU."""

    clock_event_looks: int = setting(
        3,
        "Looks in a row at which heat or the power brake must hold a GPU's clocks down.",
        at_least=2,
        at_most=100,
    )
    clock_event_seconds: int = setting(
        60, "Seconds that these looks must span at least.", at_least=1, at_most=86400
    )
    thermal_percent: int = setting(
        50,
        "Share of the time between two looks, in percent, for which heat held the clocks down; "
        "counts if that time is `clock_event_seconds` or more.",
        at_least=1,
        at_most=100,
    )
    retired_pages: int = setting(
        60,
        "Retired memory pages of a GPU from before Ampere (NVIDIA's limit for a return is 60).",
        at_least=1,
        at_most=64,
    )
    pcie_looks: int = setting(
        2,
        "Looks in a row at which a PCIe link must be narrower or slower than it can be.",
        at_least=1,
        at_most=100,
    )
    pcie_load_percent: int = setting(
        20,
        "Utilization in percent from which a PCIe link must run at its full generation. An idle "
        "GPU slows its link down by itself.",
        at_least=1,
        at_most=100,
    )
    pcie_replays_per_minute: int = setting(
        8, "PCIe replays of a GPU per minute (DCGM's limit is 8).", at_least=1, at_most=1000000
    )
    nvlinks_expected: int = setting(
        0,
        "Active NVLinks that every GPU of the node must have. 0: as many as it was seen with.",
        at_least=0,
        at_most=36,
    )
    nvlink_crc_per_minute: int = setting(
        6000,
        "NVLink CRC errors of a GPU per minute (DCGM's limit is 100 per second).",
        at_least=1,
        at_most=100000000,
    )
    fabric_looks: int = setting(
        3,
        "Looks in a row at which a GPU must not have joined the NVLink fabric.",
        at_least=1,
        at_most=100,
    )


@dataclass(frozen=True, slots=True)
class MachineThresholds:
    """Limits for what sysfs and the BMC show of the machine around the GPUs."""

    looks: int = setting(
        2,
        "Looks in a row at which a sensor or an InfiniBand port must be in a bad state.",
        at_least=1,
        at_most=100,
    )
    aer_correctable_per_minute: int = setting(
        60, "Corrected PCIe errors of one device per minute.", at_least=1, at_most=1000000
    )
    edac_correctable_per_minute: int = setting(
        100, "Corrected memory errors of one controller per minute.", at_least=1, at_most=1000000
    )
    ib_down_seconds: int = setting(
        60,
        "Seconds that the looks at a port that is down must span at least: a subnet manager or a "
        "switch that comes back takes a moment.",
        at_least=1,
        at_most=86400,
    )
    ib_errors_per_minute: int = setting(
        120, "Symbol errors of one InfiniBand port per minute.", at_least=1, at_most=100000000
    )
