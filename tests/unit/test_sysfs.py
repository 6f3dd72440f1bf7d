"""The machine around the GPUs, read from a tree that looks like /sys, and judged."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from nvml_stand_in import rule_book

from slurm_failover.health.machine import judge_machine, remember_machine
from slurm_failover.health.machine_state import MachineState
from slurm_failover.health.memory import Memory
from slurm_failover.model import Event, FaultClass, NodeAction, Role, Scope
from slurm_failover.settings.thresholds import MachineThresholds
from slurm_failover.sources.sysfs import read_machine

GPU, NIC, SWITCH, BRIDGE, DISPLAY = "0x030200", "0x020700", "0x060400", "0x060400", "0x030000"
NVIDIA, MELLANOX, PLX, ASPEED = "0x10de", "0x15b3", "0x10b5", "0x1a03"

# A GPU behind a port and a bridge of its own, and a switch with a GPU and an adapter behind it.
PORT, INNER, LONE_GPU = "0000:00:01.0", "0000:39:00.0", "0000:3b:00.0"
PLX_SWITCH, SHARED_GPU, ADAPTER = "0000:80:01.0", "0000:9b:00.0", "0000:9c:00.0"
VGA = "0000:05:00.0"


class Machine:
    """A tree like /sys and the looks at it."""

    def __init__(self, folder: Path) -> None:
        self.sys, self.proc = folder / "sys", folder / "proc"
        self.memory: Memory | None = None
        self.clock = 1000.0
        self.boot("boot-1")
        bus = "devices/pci0000:00"
        self.pci(f"{bus}/{PORT}", BRIDGE, PLX)
        self.pci(f"{bus}/{PORT}/{INNER}", BRIDGE, PLX)
        self.pci(f"{bus}/{PORT}/{INNER}/{LONE_GPU}", GPU, NVIDIA)
        self.pci(f"{bus}/{VGA}", DISPLAY, ASPEED)
        self.pci(f"devices/pci0000:80/{PLX_SWITCH}", SWITCH, PLX)
        self.pci(f"devices/pci0000:80/{PLX_SWITCH}/{SHARED_GPU}", GPU, NVIDIA)
        self.pci(f"devices/pci0000:80/{PLX_SWITCH}/{ADAPTER}", NIC, MELLANOX)

    def put(self, path: str, content: object) -> None:
        file = self.sys / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")

    def boot(self, boot_id: str) -> None:
        (self.proc / "sys/kernel/random").mkdir(parents=True, exist_ok=True)
        (self.proc / "sys/kernel/random/boot_id").write_text(boot_id)

    def pci(self, path: str, code: str, vendor: str) -> None:
        self.put(f"{path}/class", code)
        self.put(f"{path}/vendor", vendor)
        link = self.sys / "bus/pci/devices" / Path(path).name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(self.sys / path)
        self.aer(link.name)

    def aer(self, name: str, fatal: int = 0, unsupported: int = 0, **nonfatal: int) -> None:
        device = f"bus/pci/devices/{name}"
        self.put(f"{device}/aer_dev_fatal", f"DLP 0\nSDES {fatal}\nTOTAL_ERR_FATAL {fatal}")
        rows = "".join(f"{key} {count}\n" for key, count in nonfatal.items())
        total = unsupported + sum(nonfatal.values())
        self.put(
            f"{device}/aer_dev_nonfatal",
            f"{rows}UnsupReq {unsupported}\nTOTAL_ERR_NONFATAL {total}",
        )
        self.corrected(name, 0)

    def corrected(self, name: str, count: int) -> None:
        self.put(
            f"bus/pci/devices/{name}/aer_dev_correctable",
            f"RxErr 0\nBadTLP {count}\nTOTAL_ERR_COR {count}",
        )

    def ib_port(self, state: str, downed: int = 0, symbols: int = 0, **more: int) -> None:
        self.put("class/infiniband/mlx5_0/ports/1/state", state)
        self.put("class/infiniband/mlx5_0/ports/1/counters/link_downed", downed)
        self.put("class/infiniband/mlx5_0/ports/1/counters/symbol_error", symbols)
        for counter, value in more.items():
            self.put(f"class/infiniband/mlx5_0/ports/1/counters/{counter}", value)
        device = self.sys / "class/infiniband/mlx5_0/device"
        if not device.is_symlink():
            device.symlink_to(self.sys / "bus/pci/devices" / ADAPTER)

    def read(self) -> MachineState:
        return read_machine(10.0, sys_root=self.sys, proc=self.proc)

    def look(self, seconds_later: float = 60.0) -> list[Event]:
        self.clock += seconds_later
        state = replace(self.read(), time=self.clock)
        assert state.unreadable is None
        events = judge_machine(state, self.memory, MachineThresholds(), rule_book().rule)
        self.memory = Memory.from_json(remember_machine(state, self.memory).to_json())
        return events


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def rules_of(events: list[Event]) -> list[tuple[str, str | None]]:
    return [(event.rule, event.pci) for event in events]


def test_a_machine_without_any_of_it_is_read_as_nothing_known(tmp_path: Path) -> None:
    state = read_machine(10.0, sys_root=tmp_path / "nothing", proc=tmp_path)
    assert state.unreadable is None
    empty = (state.pci_devices, state.memory, state.thermometers, state.ports)
    assert empty == ((), (), (), ())


def test_gpus_switches_and_adapters_are_read_and_a_display_chip_is_not(machine: Machine) -> None:
    found = {device.pci: device for device in machine.read().pci_devices}
    assert {pci: device.kind for pci, device in found.items()} == {
        "0000:00:01": "switch",
        "0000:39:00": "switch",
        "0000:3b:00": "gpu",
        "0000:80:01": "switch",
        "0000:9b:00": "gpu",
        "0000:9c:00": "nic",
    }
    assert (found["0000:00:01"].gpus, found["0000:00:01"].others) == (("0000:3b:00",), 0)
    assert (found["0000:80:01"].gpus, found["0000:80:01"].others) == (("0000:9b:00",), 1)


def test_a_healthy_machine_gives_no_event(machine: Machine) -> None:
    machine.ib_port("4: ACTIVE")
    machine.put("devices/system/edac/mc/mc0/ue_count", 0)
    machine.put("class/hwmon/hwmon0/temp1_input", 45000)
    machine.put("class/hwmon/hwmon0/temp1_crit", 100000)
    for _ in range(3):
        assert machine.look() == []


@pytest.mark.parametrize(
    ("device", "rule", "blamed"),
    [
        (LONE_GPU, "pcie-fatal-gpu", "0000:3b:00"),
        (PORT, "pcie-fatal-gpu", "0000:3b:00"),
        (PLX_SWITCH, "pcie-fatal-node", "0000:80:01"),
        (ADAPTER, "pcie-fatal-node", "0000:9c:00"),
    ],
)
def test_a_new_fatal_pcie_error_blames_the_gpu_or_the_node(
    machine: Machine, device: str, rule: str, blamed: str
) -> None:
    machine.look()
    machine.aer(device, fatal=1)
    [event] = machine.look()
    assert (event.rule, event.pci) == (rule, blamed)
    assert event.klass is FaultClass.HARDWARE
    assert event.scope is (Scope.GPU if rule.endswith("gpu") else Scope.NODE)
    assert machine.look() == []


def test_errors_from_before_the_first_look_are_not_judged(machine: Machine) -> None:
    machine.aer(LONE_GPU, fatal=3)
    assert machine.look() == []


def test_after_a_reboot_every_error_is_new(machine: Machine) -> None:
    machine.aer(LONE_GPU, fatal=3)
    machine.look()
    machine.boot("boot-2")
    machine.aer(LONE_GPU, fatal=3)
    assert rules_of(machine.look()) == [("pcie-fatal-gpu", "0000:3b:00")]


def test_two_functions_of_one_card_keep_their_counters_apart(machine: Machine) -> None:
    second = ADAPTER[:-1] + "1"
    machine.pci(f"devices/pci0000:80/{PLX_SWITCH}/{second}", NIC, MELLANOX)
    machine.aer(ADAPTER, fatal=3)
    assert [machine.look() for _ in range(3)] == [[], [], []]
    machine.aer(second, fatal=1)
    [event] = machine.look()
    assert event.because == "sysfs: 1 new fatal PCIe errors on 0000:9c:00"
    assert event.pci == "0000:9c:00"


def test_a_gpus_own_audio_function_is_no_other_device(machine: Machine) -> None:
    audio = LONE_GPU[:-1] + "1"
    machine.pci(f"devices/pci0000:00/{PORT}/{INNER}/{audio}", "0x040300", NVIDIA)
    machine.look()
    machine.aer(PORT, fatal=1)
    assert rules_of(machine.look()) == [("pcie-fatal-gpu", "0000:3b:00")]


def test_a_nonfatal_error_is_a_hint_and_an_unsupported_request_nothing(machine: Machine) -> None:
    machine.look()
    machine.aer(LONE_GPU, CmpltTO=1)
    [event] = machine.look()
    assert (event.rule, event.klass) == ("pcie-nonfatal-gpu", FaultClass.AMBIGUOUS)
    machine.aer(LONE_GPU, unsupported=50, CmpltTO=1)
    assert machine.look() == []


def test_errors_of_a_shared_switch_and_of_a_gpu_are_told_apart_at_every_level(
    machine: Machine,
) -> None:
    machine.look()
    machine.aer(PLX_SWITCH, CmpltTO=1)
    assert rules_of(machine.look()) == [("pcie-nonfatal-node", "0000:80:01")]
    machine.corrected(LONE_GPU, 61)
    assert rules_of(machine.look()) == [("pcie-corrected-gpu", "0000:3b:00")]


def test_corrected_pcie_errors_count_by_their_rate(machine: Machine) -> None:
    machine.look()
    machine.corrected(ADAPTER, 60)
    assert machine.look() == []
    machine.corrected(ADAPTER, 121)
    assert rules_of(machine.look()) == [("pcie-corrected-node", "0000:9c:00")]


def test_new_uncorrected_memory_errors_are_the_node_s(machine: Machine) -> None:
    machine.put("devices/system/edac/mc/mc1/ue_count", 2)
    machine.put("devices/system/edac/mc/mc1/ce_count", 10)
    machine.look()
    machine.put("devices/system/edac/mc/mc1/ue_count", 3)
    [event] = machine.look()
    assert (event.rule, event.scope) == ("memory-uncorrected", Scope.NODE)
    machine.put("devices/system/edac/mc/mc1/ce_count", 111)
    assert rules_of(machine.look()) == [("memory-corrected", None)]


def test_a_critical_temperature_must_last(machine: Machine) -> None:
    machine.put("class/thermal/thermal_zone0/type", "x86_pkg_temp")
    machine.put("class/thermal/thermal_zone0/temp", 99000)
    machine.put("class/thermal/thermal_zone0/trip_point_0_type", "passive")
    machine.put("class/thermal/thermal_zone0/trip_point_0_temp", 80000)
    machine.put("class/thermal/thermal_zone0/trip_point_1_type", "critical")
    machine.put("class/thermal/thermal_zone0/trip_point_1_temp", 98000)
    assert machine.look() == []
    [event] = machine.look()
    assert event.rule == "machine-temperature"
    assert event.because == ("sysfs: thermal_zone0 x86_pkg_temp is at 99.0 °C, critical is 98.0")
    machine.put("class/thermal/thermal_zone0/temp", 90000)
    assert machine.look() == []


@pytest.mark.parametrize(
    ("now", "critical", "alarm", "faulty"),
    [
        (101000, 100000, None, True),
        (50000, 100000, 1, True),
        (50000, 100000, 0, False),
        (255000, 100000, None, False),
        (50000, 0, None, False),
        (50000, 1000, None, False),
        (101000, None, None, False),
    ],
)
def test_a_chip_s_temperature_counts_by_its_limit_or_alarm_unless_implausible(
    machine: Machine, now: int, critical: int | None, alarm: int | None, faulty: bool
) -> None:
    machine.put("class/hwmon/hwmon3/name", "nvme")
    machine.put("class/hwmon/hwmon3/temp1_input", now)
    for suffix, value in (("crit", critical), ("crit_alarm", alarm)):
        if value is not None:
            machine.put(f"class/hwmon/hwmon3/temp1_{suffix}", value)
    machine.look()
    expected = [("machine-temperature", None)] if faulty else []
    assert rules_of(machine.look()) == expected


def test_a_port_that_was_up_and_stays_down_is_a_fault(machine: Machine) -> None:
    machine.ib_port("4: ACTIVE")
    machine.look()
    machine.ib_port("1: DOWN")
    assert machine.look() == []
    assert rules_of(machine.look()) == [("ib-port-down", "0000:9c:00")]
    machine.ib_port("4: ACTIVE")
    assert machine.look() == []


def test_a_port_that_is_down_for_a_moment_is_no_fault_however_often_it_is_looked_at(
    machine: Machine,
) -> None:
    machine.ib_port("4: ACTIVE")
    machine.look()
    machine.ib_port("2: INIT")
    assert [machine.look(5.0) for _ in range(12)] == [[]] * 12
    assert rules_of(machine.look(5.0)) == [("ib-port-down", "0000:9c:00")]


def test_a_port_that_was_never_up_has_no_cable(machine: Machine) -> None:
    machine.ib_port("1: DOWN")
    for _ in range(4):
        assert machine.look() == []


def test_a_lost_link_and_many_symbol_errors_are_hints(machine: Machine) -> None:
    machine.ib_port("4: ACTIVE", downed=5, symbols=1000)
    machine.look()
    machine.ib_port("4: ACTIVE", downed=6, symbols=1000)
    assert rules_of(machine.look()) == [("ib-link-lost", "0000:9c:00")]
    machine.ib_port("4: ACTIVE", downed=6, symbols=1121)
    assert rules_of(machine.look()) == [("ib-symbol-errors", "0000:9c:00")]


@pytest.mark.parametrize(
    ("counter", "rule"),
    [
        ("link_error_recovery", "ib-link-retrained"),
        ("local_link_integrity_errors", "ib-integrity-errors"),
    ],
)
def test_a_link_that_gets_worse_is_a_hint_and_drains_nothing(
    machine: Machine, counter: str, rule: str
) -> None:
    machine.ib_port("4: ACTIVE", **{counter: 7})
    assert [machine.look(), machine.look()] == [[], []]
    machine.ib_port("4: ACTIVE", **{counter: 8})
    events = machine.look()
    assert rules_of(events) == [(rule, "0000:9c:00")]
    assert {(event.node_action, event.role) for event in events} == {(NodeAction.NONE, Role.HINT)}
    assert machine.look() == []


def test_a_file_that_hangs_costs_the_rest_of_the_look_and_no_more(machine: Machine) -> None:
    state_file = machine.sys / "class/infiniband/mlx5_0/ports/1/state"
    state_file.parent.mkdir(parents=True)
    os.mkfifo(state_file)
    started = time.monotonic()
    state = read_machine(0.7, sys_root=machine.sys, proc=machine.proc)
    assert time.monotonic() - started < 2.0
    assert len(state.pci_devices) == 6
    assert state.unreadable == "sysfs stopped answering at ports within 0.7 s"
