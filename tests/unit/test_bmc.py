"""What ipmitool prints, read and judged; its forms are those of several vendors' machines."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from nvml_stand_in import rule_book

from slurm_failover.classify import read_events
from slurm_failover.health.bmc import (
    BmcState,
    LogLine,
    Sensor,
    judge_bmc,
    new_log_lines,
    parse_log,
    parse_sensors,
    remember_bmc,
)
from slurm_failover.health.memory import Memory
from slurm_failover.model import Event, FaultClass, Scope
from slurm_failover.parse import parse_lines
from slurm_failover.settings.thresholds import MachineThresholds
from slurm_failover.sources.bmc import read_bmc

HARDWARE = FaultClass.HARDWARE
HEALTHY = """\
VRM 1            | 01h | ok  |  9.1 | Device Present
UID Light        | 03h | ok  | 23.1 |
Power Supply 1   | 06h | ok  | 10.1 | 95 Watts, Presence detected
Power Supply 2   | 07h | ok  | 10.2 | 95 Watts, Presence detected
Power Supplies   | 08h | ok  | 10.3 | Fully Redundant
PS Redundancy    | 77h | ok  |  7.1 | Fully Redundant
Fan Block 1      | 09h | ok  |  7.1 | 21.56 percent, Transition to Running
Fan1 RPM         | 30h | ok  |  7.1 | 5520 RPM
Temp             | 0Eh | ok  |  3.1 | 48 degrees C
Temp             | 0Fh | ok  |  3.2 | 51 degrees C
Inlet Temp       | 04h | ok  |  7.1 | 24 degrees C
Exhaust Temp     | 01h | ns  |  7.1 | No Reading
12V              | 20h | ok  |  7.1 | 12.06 Volts
"""

LOG = """\
   1 | 12/17/2019 | 02:57:25 | Event Logging Disabled #0x72 | Log area reset/cleared | Asserted
   2 |  Pre-Init  |0000000012| Memory #0x02 | Correctable ECC | Asserted
   3 | Pre-Init Time-stamp   | Power Supply #0x64 | Presence detected | Asserted
   a | 02/06/2020 | 18:30:50 | Power Supply #0xfb | Power Supply AC lost | Asserted
   b | 02/06/2020 | 18:31:50 | Power Supply #0xfb | Power Supply AC lost | Deasserted
"""


def with_line(line: str) -> str:
    name = line.split("|")[1]
    kept = [old for old in HEALTHY.splitlines() if old.split("|")[1] != name]
    return "\n".join([*kept, line, ""])


class Bmc:
    """A BMC that is looked at again and again."""

    def __init__(self) -> None:
        self.memory: Memory | None = None
        self.clock = 1000.0
        self.sensors, self.log = HEALTHY, LOG
        self.new_lines: tuple[str, ...] = ()

    def look(self) -> list[Event]:
        self.clock += 300
        state = BmcState(
            time=self.clock,
            boot_id="boot-1",
            sensors=parse_sensors(self.sensors),
            log=parse_log(self.log),
        )
        events = judge_bmc(state, self.memory, MachineThresholds(), rule_book().rule)
        self.new_lines = new_log_lines(state, self.memory)
        self.memory = Memory.from_json(remember_bmc(state, self.memory).to_json())
        return events


@pytest.fixture
def bmc() -> Bmc:
    return Bmc()


def test_sensors_are_read_in_every_form() -> None:
    sensors = parse_sensors(HEALTHY + "a line of another kind\n")
    assert len(sensors) == 13
    assert sensors[1] == Sensor("UID Light", "ok", "23.1", "")
    assert sensors[11] == Sensor("Exhaust Temp", "ns", "7.1", "No Reading")


def test_log_records_are_read_with_and_without_a_time() -> None:
    lines = LOG.splitlines()
    numbers = [1, 2, 3, 10, 11]
    assert parse_log(LOG + "SEL has no entries\n") == tuple(map(LogLine, numbers, lines))


def test_a_healthy_machine_gives_no_event_however_often_it_is_looked_at(bmc: Bmc) -> None:
    for _ in range(3):
        assert bmc.look() == []


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (
            "Power Supply 1   | 06h | ok  | 10.1 | 0 Watts, Presence detected, Failure detected",
            "bmc-power-supply",
        ),
        (
            "Power Supply 2   | 07h | ok  | 10.2 | Presence detected, Power Supply AC lost",
            "bmc-power-supply",
        ),
        (
            "Power Supplies   | 08h | ok  | 10.3 | Non-Redundant: Insufficient Resources",
            "bmc-power-supply",
        ),
        ("PS Redundancy    | 77h | ok  |  7.1 | Redundancy Lost", "bmc-power-supply"),
        ("PSU2_Status      | C9h | ok  | 10.2 | Presence detected, AC lost", "bmc-power-supply"),
        ("Inlet Temp       | 04h | cr  |  7.1 | 52 degrees C", "bmc-temperature"),
        ("Temp             | 0Eh | nr  |  3.1 | 105 degrees C", "bmc-temperature"),
        (
            "CPU1 Status      | 60h | ok  |  3.1 | Presence detected, Thermal Trip",
            "bmc-temperature",
        ),
        ("12V              | 20h | cr  |  7.1 | 10.20 Volts", "bmc-voltage"),
        ("Fan1 RPM         | 30h | cr  |  7.1 | 0 RPM", "bmc-fan"),
    ],
)
def test_a_bad_sensor_is_a_fault_at_the_second_look(bmc: Bmc, line: str, rule: str) -> None:
    bmc.sensors = with_line(line)
    assert bmc.look() == []
    [event] = bmc.look()
    assert (event.rule, event.scope) == (rule, Scope.NODE)
    bmc.sensors = HEALTHY
    assert bmc.look() == []


@pytest.mark.parametrize(
    "line",
    [
        "Power Supply 1   | 06h | ok  | 10.1 | Presence detected, Predictive failure",
        "Power Supplies   | 08h | ok  | 10.3 | Non-Redundant: Sufficient from Redundant",
        "Inlet Temp       | 04h | nc  |  7.1 | 42 degrees C",
        "Inlet Temp       | 04h | cr  |  7.1 | 0 degrees C",
        "Inlet Temp       | 04h | ns  |  7.1 | Disabled",
        "Fan Redundancy   | 75h | ok  |  7.1 | Redundancy Lost",
        "Drive 3          | 63h | ok  | 26.3 | Drive Fault",
    ],
)
def test_what_is_a_warning_or_unknown_is_no_fault(bmc: Bmc, line: str) -> None:
    bmc.sensors = with_line(line)
    bmc.look()
    assert bmc.look() == []


def test_two_sensors_of_one_name_are_two_sensors(bmc: Bmc) -> None:
    bmc.sensors = HEALTHY.replace("0Eh | ok  |  3.1 | 48 degrees", "0Eh | cr  |  3.1 | 99 degrees")
    bmc.look()
    assert [event.because for event in bmc.look()] == ["BMC: Temp: 99 degrees C"]


def test_a_new_record_of_the_log_is_handed_on_once(bmc: Bmc) -> None:
    bmc.look()
    assert bmc.new_lines == ()
    record = "   c | 03/27/24 | 10:11:12 UTC | Power Supply #0xfb | Failure detected | Asserted"
    bmc.log += record + "\n"
    bmc.look()
    assert bmc.new_lines == (record,)
    bmc.look()
    assert bmc.new_lines == ()


def test_a_new_record_is_judged_by_the_rules_on_messages() -> None:
    line = b"  1f | 03/27/2024 | 10:11:12 | Power Supply #0xfb | Failure detected | Asserted"
    records = parse_lines([line], "ipmi-sel", now=2e9)
    assert [event.rule for event in read_events(records, rule_book())] == ["psu-lost"]


def test_a_record_that_takes_a_fault_back_is_none() -> None:
    line = b"  20 | 03/27/2024 | 10:12:12 | Power Supply #0xfb | Failure detected | Deasserted"
    records = parse_lines([line], "ipmi-sel", now=2e9)
    assert [e.rule for e in read_events(records, rule_book()) if e.klass is HARDWARE] == []


def test_after_the_log_was_cleared_its_records_are_new(bmc: Bmc) -> None:
    bmc.look()
    bmc.log = (
        "   1 | 03/27/2024 | 10:11:12 | Event Logging Disabled | Log area reset/cleared\n"
        "   2 | 03/27/2024 | 10:12:12 | Power Supply #0xfb | Failure detected | Asserted\n"
    )
    bmc.look()
    assert bmc.new_lines == tuple(bmc.log.splitlines())
    bmc.look()
    assert bmc.new_lines == ()


def test_a_log_that_could_not_be_read_is_not_taken_for_a_cleared_one(bmc: Bmc) -> None:
    bmc.look()
    unread = BmcState(time=bmc.clock + 1, boot_id="boot-1", sensors=(), log=None)
    assert new_log_lines(unread, bmc.memory) == ()
    bmc.memory = remember_bmc(unread, bmc.memory)
    bmc.look()
    assert bmc.new_lines == ()


def tool(folder: Path, script: str) -> str:
    path = folder / "ipmitool"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_ipmitool_is_asked_for_sensors_and_the_newest_records(tmp_path: Path) -> None:
    (tmp_path / "sdr").write_text(HEALTHY)
    (tmp_path / "sel").write_text(LOG)
    script = f'echo "$*" >> {tmp_path}/calls; cat {tmp_path}/$1'
    state = read_bmc(10.0, ipmitool=tool(tmp_path, script), proc=tmp_path)
    assert replace(state, time=0.0) == BmcState(sensors=parse_sensors(HEALTHY), log=parse_log(LOG))
    assert (tmp_path / "calls").read_text() == "sdr elist\nsel elist last 64\n"


def test_without_ipmitool_nothing_is_known_and_that_is_said() -> None:
    state = read_bmc(1.0, ipmitool="/does/not/exist")
    assert (state.sensors, state.log) == ((), None)
    assert state.unreadable == "/does/not/exist could not be started: No such file or directory"


def test_without_a_bmc_ipmitool_s_own_words_are_passed_on(tmp_path: Path) -> None:
    path = tool(tmp_path, "echo 'Could not open device at /dev/ipmi0' >&2; exit 1")
    state = read_bmc(5.0, ipmitool=path)
    assert (state.sensors, state.log) == ((), None)
    assert state.unreadable is not None
    assert state.unreadable.endswith("failed with status 1: Could not open device at /dev/ipmi0")


def test_a_bmc_that_hangs_is_left_behind(tmp_path: Path) -> None:
    path = tool(tmp_path, "exec sleep 30")
    started = time.monotonic()
    state = read_bmc(0.5, ipmitool=path)
    assert time.monotonic() - started < 2.0
    assert state.unreadable == f"{path} sdr elist did not end in time"
