"""What a fault asks for, and whether that was done."""

from __future__ import annotations

import pytest

from slurm_failover.catalogue import load_rules
from slurm_failover.model import Event, FaultClass, JobCause, Judgement, NodeAction, Scope
from slurm_failover.node.ledger import JudgedFault
from slurm_failover.node.repair import is_repaired, repair_of


def fault(rule: str) -> Judgement:
    found = load_rules().rule(rule)
    event = Event(
        found.kind,
        found.klass or FaultClass.HARDWARE,
        Scope.GPU,
        rule,
        "because",
        action=found.action,
        node_action=found.node_action,
    )
    return Judgement(JobCause.HARDWARE, found.node_action, "because", event)


@pytest.mark.parametrize(
    ("rule", "repair"),
    [
        ("gpu-lost", "reboot"),
        ("gpu-recovery-reboot", "reboot"),
        ("gpu-reset-required", "reset"),
        ("gpu-ecc-uncorrectable", "reset"),
        ("gpu-remap-failed", ""),
        ("gpu-pcie-width", ""),
        ("bmc-power-supply", ""),
        ("xid-79", "reboot"),
        ("xid-64", "reset"),
        ("edac-uncorrected", ""),
    ],
)
def test_the_recommended_action_says_what_a_fault_asks_for(rule: str, repair: str) -> None:
    assert repair_of(fault(rule)) == repair


@pytest.mark.parametrize(
    ("rule", "repair", "same_boot", "repaired"),
    [
        ("gpu-lost", "reboot", True, False),
        ("gpu-lost", "reboot", False, True),
        ("gpu-ecc-uncorrectable", "reset", True, False),
        ("gpu-ecc-uncorrectable", "reset", False, True),
        ("gpu-reset-required", "reset", True, True),
        ("gpu-remap-failed", "", False, False),
    ],
)
def test_a_reboot_repairs_what_asked_for_it_and_a_reset_shows_in_the_state_alone(
    rule: str, repair: str, same_boot: bool, repaired: bool
) -> None:
    judged = JudgedFault(1.0, rule, "because", (), "boot-1", repair)
    assert is_repaired(judged, "boot-1" if same_boot else "boot-2") is repaired


def test_a_fault_without_a_root_asks_for_what_the_node_needs() -> None:
    assert repair_of(Judgement(JobCause.UNKNOWN, NodeAction.REBOOT, "because")) == "reboot"


def test_a_fault_that_came_with_one_that_needs_more_is_not_repaired_by_a_reboot() -> None:
    lost, worn, hint = (fault(rule).root for rule in ("gpu-lost", "gpu-remap-failed", "xid-45"))
    reset = fault("gpu-reset-required")
    assert repair_of(fault("gpu-lost"), [lost, hint]) == "reboot"
    assert repair_of(fault("gpu-lost"), [lost, worn]) == ""
    assert repair_of(reset, [reset.root, lost]) == "reboot"
