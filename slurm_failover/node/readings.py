"""The sources that show states and counters: the GPUs through NVML, the machine, its BMC.

All have one shape: a look gives a Reading, which is judged against what the node's ledger remembers
of the look before, and says what is to be remembered for the next. Nothing here changes anything.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_failover.health.memory import Memo, Memory
from slurm_failover.node.caught import WATCHER
from slurm_failover.node.gpu_events import SOURCE, XidEvent, judge_xids
from slurm_failover.sources.presence import NO_DRIVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from slurm_failover.attribution import Device
    from slurm_failover.catalogue import Catalogue, Rule
    from slurm_failover.model import Event
    from slurm_failover.settings.tables import Settings

    Rules = Callable[[], Catalogue]

NVML, DRIVER, SYSFS, BMC = "nvml", "driver", "sysfs", "bmc"
SYSFS_TIMEOUT = 5.0
BMC_TIMEOUT = 12.0
"""Seconds. With NVML's own they fit into the 45 s that prolog/healthcheck.sh allows."""


def _uptime() -> float:
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at one source at ``time``, in seconds since the epoch; ``uptime`` is when it ended,
    in seconds since boot.

    ``unseen`` says what could not be seen, and is empty if nothing was hidden. ``judge`` gives the
    events that the look shows, by the memory of the look before and the number of GPUs that the
    node should have; ``remember`` gives the memory of both looks.
    ``devices`` are the node's GPUs by all their names, where the source knows them, and
    ``utilization`` is that of each, in percent.
    """

    source: str
    time: float
    unseen: str
    judge: Callable[[Memory | None, Rules, int | None], list[Event]]
    remember: Callable[[Memory | None], Memory]
    devices: tuple[Device, ...] = ()
    utilization: tuple[tuple[str, int | None], ...] = ()
    uptime: float = field(default_factory=_uptime)


def read_gpus(settings: Settings, lock: str) -> Reading:
    """Look at the GPUs through NVML. ``lock`` is a file in a folder of ours.

    A look that NVML does not end in time gives what it showed until then.
    """
    from slurm_failover.attribution import devices_of
    from slurm_failover.health import gpu
    from slurm_failover.sources.nvml import read_state

    sources = settings.sources
    state = read_state(sources.nvml_timeout, lock=Path(lock), proc=Path(sources.proc))
    limits = settings.gpu

    return Reading(
        source=NVML,
        time=state.time,
        unseen=f"the GPUs: {state.unreadable}" if state.unreadable else "",
        judge=lambda previous, rules, gpus: gpu.judge_gpus(
            state, previous, limits, gpus, _lazily(rules)
        ),
        remember=lambda previous: gpu.remember(state, previous, limits),
        devices=devices_of(state),
        utilization=tuple((gpu.pci, gpu.utilization) for gpu in state.gpus if gpu.pci),
    )


def read_names(settings: Settings, lock: str, listed: Iterable[str]) -> Reading:
    """Read the GPUs' names where NVML is not asked: nothing is judged. ``listed`` is what the
    driver lists, in its own words, to be known again; ``lock`` is as for the GPUs.
    """
    from slurm_failover.attribution import devices_of
    from slurm_failover.sources.nvml import read_state

    sources = settings.sources
    proc = Path(sources.proc)
    state = read_state(sources.nvml_timeout, lock=Path(lock), proc=proc, nvml=False)
    known = Memory({name: Memo() for name in listed})
    return Reading(
        source=DRIVER,
        time=state.time,
        unseen=f"the GPUs' names: {state.unreadable}" if state.unreadable else "",
        judge=lambda previous, rules, gpus: [],
        remember=lambda previous: Memory() if state.unreadable else known,
        devices=devices_of(state),
    )


def read_watcher(unseen: str) -> Reading:
    """Whether the watcher answers: nothing is judged, and what is news is said."""
    return Reading(
        source=WATCHER,
        time=time.time(),
        unseen=unseen,
        judge=lambda previous, rules, gpus: [],
        remember=lambda previous: previous or Memory(),
    )


def no_gpus() -> Reading:
    """The look at a node without NVIDIA's driver: nothing is judged, and that is said."""
    return Reading(
        source=NVML,
        time=time.time(),
        unseen=NO_DRIVER,
        judge=lambda previous, rules, gpus: [],
        remember=lambda previous: previous or Memory(),
    )


def read_gpu_events(xids: list[XidEvent]) -> Reading:
    """The Xids that the watcher has heard from NVML since the last look."""
    return Reading(
        source=SOURCE,
        time=xids[-1].time,
        unseen="",
        judge=lambda previous, rules, gpus: judge_xids(xids, rules()),
        remember=lambda previous: previous or Memory(),
    )


def read_machine_around(settings: Settings, lock: str) -> Reading:
    """Look at PCIe, memory, heat and network ports through sysfs. ``lock`` is as for the GPUs."""
    from slurm_failover.health.machine import judge_machine, remember_machine
    from slurm_failover.sources.sysfs import read_machine

    sources = settings.sources
    roots = {"sys_root": Path(sources.sysfs), "proc": Path(sources.proc)}
    state = read_machine(SYSFS_TIMEOUT, **roots, lock=lock)
    return Reading(
        source=SYSFS,
        time=state.time,
        unseen=f"the machine: {state.unreadable}" if state.unreadable else "",
        judge=lambda previous, rules, gpus: judge_machine(
            state, previous, settings.machine, _lazily(rules)
        ),
        remember=lambda previous: remember_machine(state, previous),
    )


def read_management(settings: Settings, lock: str) -> Reading:
    """Ask the BMC for its sensors and for what is new in its log. ``lock`` is as for the GPUs."""
    from slurm_failover.health.bmc import judge_bmc, new_log_lines, remember_bmc
    from slurm_failover.sources.bmc import read_bmc

    sources = settings.sources
    proc = Path(sources.proc)
    state = read_bmc(BMC_TIMEOUT, ipmitool=sources.ipmitool, proc=proc, lock=lock)

    def judge(previous: Memory | None, rules: Rules, gpus: int | None) -> list[Event]:
        events = judge_bmc(state, previous, settings.machine, _lazily(rules))
        lines = new_log_lines(state, previous)
        return events + _read_log(lines, state.time, rules) if lines else events

    return Reading(
        source=BMC,
        time=state.time,
        unseen=f"the BMC: {state.unreadable}" if state.unreadable else "",
        judge=judge,
        remember=lambda previous: remember_bmc(state, previous),
    )


def _read_log(lines: tuple[str, ...], now: float, rules: Rules) -> list[Event]:
    """The events in new lines of the BMC's log. Its clock is not ours: they are of this look."""
    from dataclasses import replace

    from slurm_failover.classify import read_events
    from slurm_failover.parse import parse_lines

    records = parse_lines([line.encode() for line in lines], "ipmi-sel", now=now)
    return [
        replace(event, time=now, last_time=now, time_certain=True, source=BMC)
        for event in read_events(records, rules())
    ]


def _lazily(rules: Rules) -> Callable[[str], Rule]:
    """A finder of rules by name that loads them when the first is asked for."""
    return lambda name: rules().rule(name)
