"""Read what the BMC says, in the words of ``ipmitool``, and judge its sensors.

Sensors say what is wrong now, and must say so at several looks. The event log (SEL) says what has
happened: the lines that came since the last look are messages like those of any other log, of the
format ``ipmi-sel``, and are parsed and classified as such.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurm_failover.health.finding import Finding, to_events
from slurm_failover.health.memory import Memo, Memory, Reading, keep, next_memo, streak_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurm_failover.catalogue import Rule
    from slurm_failover.model import Event
    from slurm_failover.settings.thresholds import MachineThresholds

_LOG = "event log"
_CRITICAL = ("cr", "nr", "lcr", "lnr", "ucr", "unr")
# ipmitool marks too low and too high alike; below this a critical temperature is a loose sensor.
_HOT_CELSIUS = 40.0
_POWER_LOST = re.compile(
    r"(?<!Predictive )Failure detected|AC lost|Power Supply AC lost|Input lost"
    r"|Redundancy Lost|Non-Redundant: Insufficient",
    re.IGNORECASE,
)
_POWER_ENTITIES = ("10", "19", "20", "21")  # power supply, unit, module, power management board
_POWER_NAME = re.compile(r"power supp|\bpsu?\d*\b|power unit|ps redundancy", re.IGNORECASE)
_RECORD = re.compile(r"\s*([0-9a-fA-F]{1,4})\s*\|")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Sensor:
    """A line of ``ipmitool sdr elist``: status is ``ok``, ``nc``, ``cr``, ``nr``, ``ns`` …"""

    name: str
    status: str
    entity: str
    reading: str

    @property
    def key(self) -> str:
        """A name that no other sensor has: machines have several called ``Temp``."""
        return f"{self.name} ({self.entity})"


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of ``ipmitool sel elist`` and the number of its record."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class BmcState:
    """One look at the BMC. ``unreadable`` says why it is incomplete, or is None."""

    time: float = 0.0
    boot_id: str = ""
    sensors: tuple[Sensor, ...] = ()
    log: tuple[LogLine, ...] | None = None
    unreadable: str | None = None


def parse_sensors(text: str) -> tuple[Sensor, ...]:
    """The sensors in what ``ipmitool sdr elist`` prints; other lines are passed over."""
    rows = ([part.strip() for part in line.split("|")] for line in text.splitlines())
    return tuple(Sensor(row[0], row[2], row[3], row[4]) for row in rows if len(row) == 5)


def parse_log(text: str) -> tuple[LogLine, ...]:
    """The records in what ``ipmitool sel elist`` prints; other lines are passed over."""
    numbered = ((line, _RECORD.match(line)) for line in text.splitlines())
    return tuple(LogLine(int(found[1], 16), line) for line, found in numbered if found)


def new_log_lines(state: BmcState, previous: Memory | None) -> tuple[str, ...]:
    """The lines of the event log that came since the last look, for the rules on messages.

    At the first look of all none is known to be new. After the log was cleared all are.
    """
    memo = previous.of(_LOG) if previous else None
    if memo is None or not state.log:
        return ()
    last = memo.counters.get("last", 0)
    cleared = max(line.number for line in state.log) < last
    return tuple(line.text for line in state.log if cleared or line.number > last)


def judge_bmc(
    state: BmcState,
    previous: Memory | None,
    thresholds: MachineThresholds,
    rule: Callable[[str], Rule],
) -> list[Event]:
    """What is wrong by the BMC's sensors, as events of the time of the look.

    ``previous`` is what ``remember_bmc`` gave after the last look, None at the first.
    """
    findings = _sensor_faults(state, previous, thresholds)
    return to_events(findings, rule, time=state.time, source="bmc")


def remember_bmc(state: BmcState, previous: Memory | None) -> Memory:
    """What to keep of this look for the next one."""
    readings = {
        sensor.key: Reading(conditions={"bad": _sensor_rule(sensor) is not None})
        for sensor in state.sensors
    }
    if state.log is not None:
        last = max((record.number for record in state.log), default=0)
        readings[_LOG] = Reading(counters={"last": last})
    memos: dict[str, Memo] = {}
    for name, reading in readings.items():
        memo = previous.of(name) if previous else None
        memos[name] = next_memo(memo, reading, time=state.time, boot_id=state.boot_id)
    return keep(previous, memos)


def _sensor_faults(
    state: BmcState, previous: Memory | None, limits: MachineThresholds
) -> Iterator[Finding]:
    now = remember_bmc(state, previous)
    for sensor in state.sensors:
        rule = _sensor_rule(sensor)
        if rule and streak_of(now.of(sensor.key), "bad") >= limits.looks:
            yield Finding(rule, f"BMC: {sensor.name}: {sensor.reading}")


def _sensor_rule(sensor: Sensor) -> str | None:
    """The rule that a sensor's present reading calls for; None if it is well or unknown."""
    is_power = sensor.entity.split(".")[0] in _POWER_ENTITIES or _POWER_NAME.search(sensor.name)
    if is_power and _POWER_LOST.search(sensor.reading):
        return "bmc-power-supply"
    if "Thermal Trip" in sensor.reading:
        return "bmc-temperature"
    if sensor.status not in _CRITICAL:
        return None
    value = _NUMBER.search(sensor.reading)
    if "degrees C" in sensor.reading:
        return "bmc-temperature" if value and float(value.group()) >= _HOT_CELSIUS else None
    if "Volts" in sensor.reading:
        return "bmc-voltage"
    return "bmc-fan" if "RPM" in sensor.reading else None
