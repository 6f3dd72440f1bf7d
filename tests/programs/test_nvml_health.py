"""What NVML shows of a GPU, judged: healthy and faulty, through the real bindings."""

from __future__ import annotations

import dataclasses

import nvml_stand_in
import pytest
from nvml_stand_in import FIRST, SECOND, Node, rule_book

from slurm_failover.catalogue import Rule
from slurm_failover.health.gpu import judge_gpus
from slurm_failover.health.gpu_state import GpuState
from slurm_failover.model import Event, FaultClass, NodeAction, Scope
from slurm_failover.settings.thresholds import GpuThresholds

node, stand_in_library = nvml_stand_in.node, nvml_stand_in.stand_in_library


def rules_of(events: list[Event]) -> list[tuple[str, str | None]]:
    return [(event.rule, event.pci) for event in events]


def test_healthy_gpus_give_no_event_and_need_no_rules(node: Node) -> None:
    def no_rule(name: str) -> Rule:
        raise AssertionError(f"rule {name} was asked for")

    assert judge_gpus(node.read(), None, node.limits, 2, no_rule) == []
    assert node.look() == []
    assert node.look() == []


@pytest.mark.parametrize(
    ("answers", "rule"),
    [
        ({"gpu0.error.nvmlDeviceGetTotalEccErrors": 16}, "gpu-reset-required"),
        ({"gpu0.field.230": 1}, "gpu-recovery-reset"),
        ({"gpu0.field.230": 2}, "gpu-recovery-reboot"),
        ({"gpu0.field.230": 3}, "gpu-recovery-drain-p2p"),
        ({"gpu0.field.230": 4}, "gpu-recovery-reset"),
        ({"gpu0.field.230": 5}, "gpu-recovery-imex"),
        ({"gpu0.field.230": 6}, "gpu-recovery-reset"),
        ({"gpu0.field.230": 7}, "gpu-recovery-reboot"),
        ({"gpu0.error.nvmlDeviceGetTotalEccErrors": 15}, "gpu-lost"),
        ({"gpu0.ecc": 1}, "gpu-ecc-uncorrectable"),
        ({"gpu0.sram_parity": 1}, "gpu-sram-uncorrectable"),
        ({"gpu0.sram_secded": 1}, "gpu-sram-uncorrectable"),
        ({"gpu0.sram_threshold": 1}, "gpu-sram-threshold"),
        ({"gpu0.remap_failed": 1}, "gpu-remap-failed"),
        ({"gpu0.remap_pending": 1}, "gpu-remap-pending"),
        ({"gpu0.retired_double": 31, "gpu0.retired_single": 29}, "gpu-retired-pages"),
        ({"gpu0.retired_pending": 1}, "gpu-retirement-pending"),
        ({"gpu0.error.nvmlDeviceGetName": 14}, "gpu-inforom-corrupted"),
        ({"gpu0.fabric_state": 3, "gpu0.fabric_status": 999}, "gpu-fabric-failed"),
        ({"gpu0.fabric_state": 3, "gpu0.fabric_health": 0x1}, "gpu-fabric-unhealthy"),
        ({"gpu0.fabric_state": 3, "gpu0.fabric_health": 0x10}, "gpu-fabric-unhealthy"),
        ({"gpu0.fabric_state": 3, "gpu0.fabric_health": 0x500}, "gpu-fabric-unhealthy"),
        ({"gpu0.fabric_state": 3, "gpu0.fabric_health": 0x400}, "gpu-fabric-misconfigured"),
    ],
)
def test_a_faulty_state_is_a_fault_at_the_first_look_and_names_the_gpu(
    node: Node, answers: dict[str, object], rule: str
) -> None:
    node.facts.update(answers)
    assert rules_of(node.look()) == [(rule, FIRST)]


@pytest.mark.parametrize(
    "answers",
    [
        {"gpu0.field.230": 0},
        {"gpu0.field.230": 99},
        {"gpu0.remap_uncorrected": 3},
        {"gpu0.retired_double": 30, "gpu0.retired_single": 29},
        {"gpu0.clock_events": 0x4 | 0x8 | 0x20},
        {"gpu0.fabric_state": 3, "gpu0.fabric_health": 0x1AA},
        {"gpu0.fabric_state": 3, "gpu0.fabric_health": 0x1A6},
        {"gpu0.fabric_state": 2, "gpu0.fabric_health": 0x10},
        {"gpu0.error": 3, "gpu0.error.nvmlDeviceGetHandleByIndex_v2": 0},
        {"gpu0.error": 999},
    ],
)
def test_what_is_harmless_or_unknown_is_no_fault(node: Node, answers: dict[str, object]) -> None:
    node.facts.update(answers)
    assert node.look() == []


def test_uncorrectable_errors_are_judged_when_they_are_new_and_not_again(node: Node) -> None:
    assert rules_of(node.look(gpu0__ecc=2)) == [("gpu-ecc-uncorrectable", FIRST)]
    assert node.look() == []
    [event] = node.look(gpu0__ecc=5)
    assert event.because == f"NVML: GPU {FIRST} counts 3 new uncorrectable ECC errors"
    node.boot("boot-2")
    [event] = node.look(gpu0__ecc=6)
    assert event.because == f"NVML: GPU {FIRST} counts 6 new uncorrectable ECC errors"
    assert rules_of(node.look(gpu0__ecc=1)) == [("gpu-ecc-uncorrectable", FIRST)]


def test_a_replaced_gpu_does_not_inherit_the_old_one_s_counters(node: Node) -> None:
    node.look(gpu0__ecc=2)
    assert rules_of(node.look(gpu0__uuid="GPU-new", gpu0__ecc=2)) == [
        ("gpu-ecc-uncorrectable", FIRST)
    ]


@pytest.mark.parametrize(
    ("bit", "rule"), [(0x40, "gpu-thermal-slowdown"), (0x80, "gpu-power-brake")]
)
def test_a_slowdown_is_a_fault_once_it_lasts_over_looks_and_time(
    node: Node, bit: int, rule: str
) -> None:
    assert node.look(gpu1__clock_events=bit) == []
    assert node.look() == []
    assert rules_of(node.look()) == [(rule, SECOND)]
    assert node.look(gpu1__clock_events=1) == []
    assert node.look(gpu1__clock_events=bit) == []


def test_many_looks_within_seconds_are_no_lasting_slowdown(node: Node) -> None:
    for _ in range(5):
        assert node.look(1.0, gpu0__clock_events=0x40) == []


def test_a_look_that_failed_neither_ends_nor_lengthens_a_slowdown(node: Node) -> None:
    node.look(gpu0__clock_events=0x40)
    node.look()
    assert node.look(gpu0__error__nvmlDeviceGetCurrentClocksEventReasons=999) == []
    facts = node.look(gpu0__error__nvmlDeviceGetCurrentClocksEventReasons=0)
    assert rules_of(facts) == [("gpu-thermal-slowdown", FIRST)]


def test_heat_between_two_looks_is_seen_after_the_job(node: Node) -> None:
    node.look(gpu0__thermal_ns=5 * 10**9)
    assert rules_of(node.look(200.0, gpu0__thermal_ns=125 * 10**9)) == [
        ("gpu-thermal-slowdown", FIRST)
    ]
    assert node.look(600.0, gpu0__thermal_ns=225 * 10**9) == []
    assert node.look(20.0, gpu0__thermal_ns=245 * 10**9) == []


def test_lost_pcie_lanes_are_a_fault_at_the_second_look(node: Node) -> None:
    assert node.look(gpu0__pcie_width=8) == []
    assert rules_of(node.look()) == [("gpu-pcie-width", FIRST)]
    assert node.look(gpu0__pcie_width=16) == []


def test_a_slow_pcie_link_is_a_fault_of_a_busy_gpu_only(node: Node) -> None:
    assert node.look(gpu0__pcie_generation=1) == []
    assert node.look() == []
    assert node.look(gpu0__utilization=90) == []
    assert rules_of(node.look()) == [("gpu-pcie-generation", FIRST)]


def test_pcie_replays_count_by_their_rate(node: Node) -> None:
    assert node.look(gpu0__pcie_replays=5000) == []
    assert node.look(gpu0__pcie_replays=5008) == []
    assert rules_of(node.look(gpu0__pcie_replays=5017)) == [("gpu-pcie-replays", FIRST)]


def test_an_nvlink_that_was_up_and_is_down_is_a_fault_until_it_is_up(node: Node) -> None:
    node.facts.update({"gpu0.links": 4, "gpu0.link3": 0})
    assert node.look() == []
    expected = [("gpu-nvlink-down", FIRST)]
    assert rules_of(node.look(gpu0__link1=0)) == expected
    node.boot("boot-2")
    assert rules_of(node.look()) == expected
    assert node.look(gpu0__link1=1) == []


def test_a_site_can_say_how_many_nvlinks_a_gpu_has(node: Node) -> None:
    node.limits = dataclasses.replace(GpuThresholds(), nvlinks_expected=4)
    node.facts.update({"gpu0.links": 4, "gpu1.links": 4, "gpu0.link3": 0})
    assert rules_of(node.look()) == [("gpu-nvlink-down", FIRST)]


@pytest.mark.parametrize("call", ["nvmlDeviceGetMigMode", "nvmlDeviceGetFieldValues"])
def test_an_nvlink_that_is_down_is_a_fault_whatever_else_the_gpu_does_not_support(
    node: Node, call: str
) -> None:
    node.facts.update({"gpu0.links": 4, f"gpu0.error.{call}": 3})
    assert [node.look() for _ in range(2)] == [[], []]
    assert rules_of(node.look(gpu0__link2=0)) == [("gpu-nvlink-down", FIRST)]


def test_mig_mode_that_takes_the_nvlinks_away_is_no_fault(node: Node) -> None:
    node.look(gpu0__links=4)
    node.facts.update({f"gpu0.link{link}": 0 for link in range(4)})
    assert node.look(gpu0__mig=1) == []


def test_nvlink_errors_are_a_hint_and_a_failed_recovery_is_a_fault(node: Node) -> None:
    node.facts.update({"gpu0.links": 1, "gpu0.field.163.0": 5})
    node.facts.update({"gpu0.field.162.0": 1, "gpu0.field.214.0": 0})
    assert node.look() == []
    assert node.look(gpu0__field__163__0=6005) == []
    assert rules_of(node.look(gpu0__field__163__0=13000)) == [("gpu-nvlink-errors", FIRST)]
    assert rules_of(node.look(gpu0__field__162__0=2)) == [("gpu-nvlink-errors", FIRST)]
    assert rules_of(node.look(gpu0__field__214__0=1)) == [("gpu-nvlink-recovery-failed", FIRST)]


def test_a_gpu_that_stays_outside_the_fabric_makes_the_node_unfit(node: Node) -> None:
    assert node.look(gpu0__fabric_state=2) == []
    assert node.look() == []
    assert rules_of(node.look()) == [("gpu-fabric-not-ready", FIRST)]
    assert node.look(gpu0__fabric_state=3) == []


def test_a_lost_gpu_that_nvml_cannot_name_is_named_by_elimination(node: Node) -> None:
    node.driver_lists("0000:3b:00.0", 0)
    node.driver_lists("0000:9b:00.0", 1)
    assert rules_of(node.look(gpu0__error=15)) == [("gpu-lost", FIRST)]


def test_a_lost_gpu_is_named_from_an_earlier_look_of_this_boot(node: Node) -> None:
    node.look()
    assert rules_of(node.look(gpu1__error=15)) == [("gpu-lost", SECOND)]
    assert rules_of(node.look(gpu0__error=15)) == [("gpu-lost", SECOND), ("gpu-lost", FIRST)]


def test_a_gpu_that_gives_no_handle_until_it_is_reset_is_named_by_elimination(node: Node) -> None:
    node.look()
    assert rules_of(node.look(gpu0__error=16)) == [("gpu-reset-required", FIRST)]


def test_a_lost_gpu_that_nothing_names_has_no_name(node: Node) -> None:
    assert rules_of(node.look(gpu0__error=15)) == [("gpu-lost", None)]


def test_a_gpu_that_the_driver_lists_and_nvml_does_not_is_missing(node: Node) -> None:
    node.driver_lists("0000:3b:00.0", 0)
    node.driver_lists("0000:9b:00.0", 1)
    node.expected = None
    assert node.look() == []
    node.facts["gpu0.pci"] = TWO_AS_ONE
    assert rules_of(node.look(count=1)) == [("gpu-missing", FIRST)]


def test_a_gpu_that_nvml_showed_is_missing_even_where_slurm_counts_what_is_left(
    node: Node,
) -> None:
    node.driver_lists("0000:3b:00.0", 0)
    node.driver_lists("0000:9b:00.0", 1)
    node.expected = 1
    assert node.look() == []
    node.facts["gpu0.pci"] = TWO_AS_ONE
    assert rules_of(node.look(count=1)) == [("gpu-missing", FIRST)]


def test_a_gpu_that_left_the_driver_is_not_missed_beyond_slurms_count(node: Node) -> None:
    node.driver_lists("0000:3b:00.0", 0)
    node.expected = 1
    node.look()
    node.facts["gpu0.pci"] = TWO_AS_ONE
    assert node.look(count=1) == []


TWO_AS_ONE = "00000000:3B:00.0"


def test_fewer_gpus_than_configured_are_missing_even_if_none_was_ever_seen(node: Node) -> None:
    node.expected = 4
    [event] = node.look()
    assert (event.rule, event.pci) == ("gpu-missing", None)
    assert event.because == "NVML: 2 of 4 GPUs are gone, and it does not say which"


def test_more_gpus_than_configured_are_no_fault(node: Node) -> None:
    node.expected = 1
    assert node.look() == []


def test_a_gpu_that_hangs_is_unknown_and_no_gpu_counts_as_missing(node: Node) -> None:
    node.facts["gpu0.hang.nvmlDeviceGetUUID"] = 1
    state = node.read(timeout=0.5)
    assert state.unreadable is not None
    assert judge_gpus(state, None, node.limits, 2, rule_book().rule) == []


def test_nvml_that_does_not_answer_at_all_is_no_fault(node: Node) -> None:
    state = GpuState(unreadable="the NVIDIA driver did not answer within 5 s")
    assert judge_gpus(state, None, node.limits, 8, rule_book().rule) == []


def test_a_driver_of_two_versions_is_the_node_s_condition_and_no_hardware_fault(node: Node) -> None:
    [event] = node.look(init=18)
    assert event.rule == "gpu-driver-mismatch"
    assert event.klass is FaultClass.INTERNAL
    assert event.scope is Scope.NODE


def test_a_driver_that_is_not_loaded_matters_only_where_gpus_are_configured(node: Node) -> None:
    assert rules_of(node.look(init=9)) == [("gpu-driver-not-loaded", None)]
    node.expected = None
    assert node.look() == []


def test_an_event_carries_the_words_of_its_rule_and_the_time_of_the_look(node: Node) -> None:
    [event] = node.look(gpu0__ecc=1)
    rule = rule_book().rule("gpu-ecc-uncorrectable")
    assert (event.klass, event.scope) == (FaultClass.HARDWARE, Scope.GPU)
    assert event.node_action is NodeAction.DRAIN
    assert (event.meaning, event.action, event.kind) == (rule.meaning, rule.action, "gpu")
    assert (event.time, event.trusted, event.source) == (node.clock, True, "nvml")
