"""Judge a look at the machine around the GPUs: PCIe, memory, heat and network ports.

A fault of one GPU's own link is that GPU's. A fault of a switch with several devices behind it, of
an adapter, of memory or of heat is the node's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from slurm_failover.health.finding import Finding, to_events
from slurm_failover.health.memory import (
    Growth,
    Memo,
    Memory,
    Reading,
    growth,
    keep,
    next_memo,
    streak_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurm_failover.catalogue import Rule
    from slurm_failover.health.machine_state import (
        MachineState,
        MemoryController,
        PciDevice,
        Port,
        Thermometer,
    )
    from slurm_failover.model import Event
    from slurm_failover.settings.thresholds import MachineThresholds

# A limit or reading beyond these, in degrees Celsius, is a sensor that is not connected.
_LIMITS = (30.0, 150.0)
_MOST_CELSIUS = 200.0


def judge_machine(
    state: MachineState,
    previous: Memory | None,
    thresholds: MachineThresholds,
    rule: Callable[[str], Rule],
) -> list[Event]:
    """What is wrong with the machine, as events of the time of the look.

    ``previous`` is what ``remember_machine`` gave after the last look, None at the first.
    """
    findings = find_machine_faults(state, previous, thresholds)
    return to_events(findings, rule, time=state.time, source="sysfs")


def find_machine_faults(
    state: MachineState, previous: Memory | None, thresholds: MachineThresholds
) -> list[Finding]:
    """The faults that ``judge_machine`` turns into events."""
    now = remember_machine(state, previous)
    findings: list[Finding] = []
    for device in state.pci_devices:
        findings += _pci_faults(
            device, _grown(device.function, _aer(device), state, previous), thresholds
        )
    for controller in state.memory:
        grown = _grown(controller.name, _edac(controller), state, previous)
        findings += _memory_faults(controller.name, grown, thresholds)
    for thermometer in state.thermometers:
        if streak_of(now.of(thermometer.name), "hot") >= thresholds.looks:
            because = f"sysfs: {thermometer.name} is at {thermometer.celsius} °C"
            limit = "" if thermometer.critical is None else f", critical is {thermometer.critical}"
            findings.append(Finding("machine-temperature", because + limit))
    for port in state.ports:
        grown = _grown(port.name, _link(port), state, previous)
        findings += _port_faults(port, now.of(port.name), grown, thresholds)
    return findings


def remember_machine(state: MachineState, previous: Memory | None) -> Memory:
    """What to keep of this look for the next one."""
    memos = {}
    for name, reading in _readings(state):
        memo = previous.of(name) if previous else None
        memos[name] = next_memo(memo, reading, time=state.time, boot_id=state.boot_id)
    return keep(previous, memos)


def _readings(state: MachineState) -> Iterator[tuple[str, Reading]]:
    for device in state.pci_devices:
        yield device.function, Reading(counters=_aer(device))
    for controller in state.memory:
        yield controller.name, Reading(counters=_edac(controller))
    for thermometer in state.thermometers:
        yield thermometer.name, Reading(conditions={"hot": _hot(thermometer)})
    for port in state.ports:
        active = None if port.state is None else port.state == "ACTIVE"
        yield (
            port.name,
            Reading(
                counters=_link(port),
                peaks={"active": active},
                conditions={"down": None if active is None else not active},
            ),
        )


def _aer(device: PciDevice) -> Mapping[str, int | None]:
    return {level: getattr(device, level) for level in ("fatal", "nonfatal", "correctable")}


def _edac(controller: MemoryController) -> Mapping[str, int | None]:
    return {"uncorrected": controller.uncorrected, "corrected": controller.corrected}


def _link(port: Port) -> Mapping[str, int | None]:
    names = ("link_downed", "retrainings", "symbol_errors", "integrity_errors")
    return {name: getattr(port, name) for name in names}


def _grown(
    name: str, counters: Mapping[str, int | None], state: MachineState, previous: Memory | None
) -> Mapping[str, Growth]:
    memo = previous.of(name) if previous else None
    return {
        counter: growth(memo, counter, value, state.time, state.boot_id)
        for counter, value in counters.items()
    }


def _pci_faults(
    device: PciDevice, grown: Mapping[str, Growth], limits: MachineThresholds
) -> Iterator[Finding]:
    own = len(device.gpus) == 1 and not device.others
    where, pci = ("gpu", device.gpus[0]) if own else ("node", device.pci)
    for level in ("fatal", "nonfatal"):
        if grown[level].count:
            because = f"sysfs: {grown[level].count} new {level} PCIe errors on {device.pci}"
            yield Finding(f"pcie-{level}-{where}", because, pci)
    rate = grown["correctable"].per_minute()
    if rate is not None and rate > limits.aer_correctable_per_minute:
        because = f"sysfs: {rate:.0f} corrected PCIe errors a minute on {device.pci}"
        yield Finding(f"pcie-corrected-{where}", because, pci)


def _memory_faults(
    name: str, grown: Mapping[str, Growth], limits: MachineThresholds
) -> Iterator[Finding]:
    if grown["uncorrected"].count:
        because = f"sysfs: {grown['uncorrected'].count} new uncorrected memory errors on {name}"
        yield Finding("memory-uncorrected", because)
    rate = grown["corrected"].per_minute()
    if rate is not None and rate > limits.edac_correctable_per_minute:
        yield Finding("memory-corrected", f"sysfs: {rate:.0f} memory errors a minute on {name}")


def _port_faults(
    port: Port, memo: Memo | None, grown: Mapping[str, Growth], limits: MachineThresholds
) -> Iterator[Finding]:
    """A port that was never up may have no cable; one that was up and is down is a fault."""
    streak = memo.streaks.get("down") if memo and memo.peaks.get("active") else None
    lasted = streak.lasted(memo.time) if memo and streak else 0.0
    if streak and streak.looks >= limits.looks and lasted >= limits.ib_down_seconds:
        yield Finding("ib-port-down", f"sysfs: port {port.name} is {port.state}", port.pci)
    if grown["link_downed"].count:
        because = f"sysfs: port {port.name} lost its link {grown['link_downed'].count} times"
        yield Finding("ib-link-lost", because, port.pci)
    rate = grown["symbol_errors"].per_minute()
    if rate is not None and rate > limits.ib_errors_per_minute:
        because = f"sysfs: port {port.name} sees {rate:.0f} symbol errors a minute"
        yield Finding("ib-symbol-errors", because, port.pci)
    for counter, rule, happened in (
        ("retrainings", "ib-link-retrained", "trained its link anew"),
        ("integrity_errors", "ib-integrity-errors", "saw more local errors than its link allows"),
    ):
        if grown[counter].count:
            because = f"sysfs: port {port.name} {happened} {grown[counter].count} times"
            yield Finding(rule, because, port.pci)


def _hot(thermometer: Thermometer) -> bool | None:
    now, critical = thermometer.celsius, thermometer.critical
    if thermometer.alarm:
        return True
    if now is None or critical is None:
        return None if thermometer.alarm is None else False
    lowest, highest = _LIMITS
    return lowest <= critical <= highest and critical <= now <= _MOST_CELSIUS
