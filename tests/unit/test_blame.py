"""Whose a node's findings are: every job is judged by what hit it, and a doubt stops nobody."""

from __future__ import annotations

import pytest

from slurm_failover.attribution import Device, devices_from_json, devices_to_json, merge_devices
from slurm_failover.catalogue import load_rules
from slurm_failover.classify import read_events
from slurm_failover.gres import GresSlot
from slurm_failover.health.gpu_state import MigInstance
from slurm_failover.holding import JobGpus
from slurm_failover.model import (
    Event,
    FaultClass,
    JobCause,
    NodeAction,
    Role,
    Scope,
    Window,
)
from slurm_failover.node.blame import Blame, Share
from slurm_failover.parse import parse_kmsg

# GRES 0 is minor 1 is GPU 86; GRES 1 is minor 0 is GPU 3b, which has two MIG instances.
SLOTS = (GresSlot(minor=1), GresSlot(minor=0))
DEVICES = (
    Device("0000:3b:00", "GPU-3b", 0, (MigInstance("MIG-1", 1, 0), MigInstance("MIG-2", 2, 0))),
    Device("0000:86:00", "GPU-86", 1),
)
NOW = 1000.0
WINDOW = Window(start=500.0, end=NOW)


def event(
    pci: str | None = "0000:3b:00",
    klass: FaultClass = FaultClass.HARDWARE,
    scope: Scope = Scope.GPU,
    time: float = 990.0,
    **more: object,
) -> Event:
    need = NodeAction.DRAIN if klass is FaultClass.HARDWARE else NodeAction.NONE
    facts = {"node_action": need, "trusted": True, "last_time": time, **more}
    return Event("gpu", klass, scope, "rule", f"fault of {pci}", pci=pci, time=time, **facts)


def blame(*fresh: Event, earlier: tuple[Event, ...] = (), **more: object) -> Blame:
    known = {"devices": DEVICES, "slots": SLOTS}
    return Blame(fresh, earlier, **{**known, **more})


def running(job_id: int, *indexes: int) -> JobGpus:
    return JobGpus(job_id, frozenset(indexes))


def cause_of(share: Share) -> tuple[JobCause, bool]:
    return share.judgement.cause, bool(share.doubt)


def test_a_gpus_fault_is_its_holders_and_no_other_jobs() -> None:
    found = blame(event())
    assert cause_of(found.of_running(running(1, 1), WINDOW)) == (JobCause.HARDWARE, False)
    assert cause_of(found.of_running(running(2, 0), WINDOW)) == (JobCause.UNKNOWN, False)
    assert cause_of(found.of_running(running(3), WINDOW)) == (JobCause.UNKNOWN, False)


def test_each_of_two_faults_finds_its_own_job() -> None:
    found = blame(event(), event("0000:86:00"))
    shares = [found.of_running(running(n, n), WINDOW).judgement for n in (0, 1)]
    assert [share.because for share in shares] == ["fault of 0000:86:00", "fault of 0000:3b:00"]


@pytest.mark.parametrize("scope", [Scope.NODE, Scope.FABRIC])
def test_a_fault_of_node_or_fabric_is_every_jobs(scope: Scope) -> None:
    found = blame(event(None, scope=scope))
    for job in (running(1, 1), running(2)):
        assert cause_of(found.of_running(job, WINDOW)) == (JobCause.HARDWARE, False)


@pytest.mark.parametrize("missing", [{"devices": ()}, {"slots": None}])
def test_where_the_gpu_can_not_be_mapped_there_is_a_doubt_and_no_verdict(missing: dict) -> None:
    share = blame(event(), **missing).of_ending(JobGpus(1, frozenset({1})), WINDOW)
    assert cause_of(share) == (JobCause.UNKNOWN, True)
    assert share.doubt == "fault of 0000:3b:00; whether that hit this job can not be told"


def test_an_application_fault_that_can_not_be_mapped_is_no_doubt() -> None:
    share = blame(event(klass=FaultClass.INTERNAL), devices=()).of_ending(
        JobGpus(1, frozenset({1})), WINDOW
    )
    assert cause_of(share) == (JobCause.UNKNOWN, False)


def test_a_fault_of_one_mig_instance_spares_the_other() -> None:
    found = blame(event(gpu_instance=2))
    first = JobGpus(1, None, frozenset({"MIG-1"}))
    second = JobGpus(2, None, frozenset({"MIG-2"}))
    assert cause_of(found.of_ending(first, WINDOW)) == (JobCause.UNKNOWN, False)
    assert cause_of(found.of_ending(second, WINDOW)) == (JobCause.HARDWARE, False)


def test_a_gpu_that_has_to_be_rebooted_takes_all_its_instances_along() -> None:
    found = blame(event(gpu_instance=2, node_action=NodeAction.REBOOT))
    share = found.of_ending(JobGpus(1, None, frozenset({"MIG-1"})), WINDOW)
    assert cause_of(share) == (JobCause.HARDWARE, False)


def test_where_gpus_are_no_gres_only_a_lone_job_is_certain() -> None:
    alone = blame(event(), slots=(), jobs=(JobGpus(1),))
    assert cause_of(alone.of_ending(JobGpus(1), WINDOW)) == (JobCause.HARDWARE, False)
    shared = blame(event(), slots=(), jobs=(JobGpus(1), JobGpus(2)))
    assert cause_of(shared.of_ending(JobGpus(1), WINDOW)) == (JobCause.UNKNOWN, True)


def test_what_was_before_a_job_is_not_the_jobs() -> None:
    share = blame(event(time=400.0)).of_running(running(1, 1), WINDOW)
    assert cause_of(share) == (JobCause.UNKNOWN, False)


def test_a_job_that_was_started_on_a_gpu_that_needs_a_reboot_has_met_its_fault() -> None:
    lost = event(time=400.0, node_action=NodeAction.REBOOT)
    assert cause_of(blame(lost).of_ending(JobGpus(1, (1,)), WINDOW))[0] is JobCause.HARDWARE
    assert cause_of(blame(lost).of_running(running(1, 1), WINDOW))[0] is JobCause.HARDWARE
    assert cause_of(blame(lost).of_ending(JobGpus(2, (0,)), WINDOW))[0] is JobCause.UNKNOWN


@pytest.mark.parametrize(
    "other",
    [
        {"klass": FaultClass.INTERNAL, "node_action": NodeAction.REBOOT},
        {"role": Role.ECHO, "node_action": NodeAction.REBOOT},
        {"node_action": NodeAction.DRAIN},
    ],
)
def test_what_may_be_over_before_a_job_began_is_not_the_jobs(other: dict) -> None:
    found = blame(event(**{"time": 400.0, **other}))
    assert cause_of(found.of_ending(JobGpus(1, (1,)), WINDOW))[0] is JobCause.UNKNOWN


def test_what_needed_a_reboot_and_was_judged_before_may_be_mended() -> None:
    found = blame(earlier=(event(time=400.0, node_action=NodeAction.REBOOT),))
    assert cause_of(found.of_ending(JobGpus(1, (1,)), WINDOW))[0] is JobCause.UNKNOWN


def test_what_was_judged_before_costs_a_running_job_nothing_and_explains_an_ending_one() -> None:
    found = blame(earlier=(event(),))
    assert cause_of(found.of_running(running(1, 1), WINDOW)) == (JobCause.UNKNOWN, False)
    share = found.of_ending(JobGpus(1, frozenset({1})), WINDOW)
    assert cause_of(share) == (JobCause.HARDWARE, False)


def test_a_reset_after_a_fault_of_the_program_is_the_programs_whenever_it_is_seen() -> None:
    bad_kernel = event(klass=FaultClass.INTERNAL, time=900.0)
    needs_reset = event(role=Role.ECHO)
    alone = blame(needs_reset)
    assert alone.of_node().cause is JobCause.HARDWARE
    told = blame(needs_reset, earlier=(bad_kernel,))
    assert (told.of_node().cause, told.of_node().node) == (JobCause.INTERNAL, NodeAction.DRAIN)
    share = told.of_running(running(1, 1), WINDOW)
    assert share.judgement.cause is JobCause.INTERNAL


def test_the_kernels_log_names_the_instance_and_two_instances_are_two_faults() -> None:
    text = "NVRM: Xid (PCI:0000:3b:00 GPU-I:{}): 94, pid=7, Contained: CE User Channel"
    lines = [f"3,{n},{n}000000,-;{text.format(f'0{n}')}" for n in (1, 2)]
    records = [parse_kmsg(line.encode(), 980.0) for line in lines]
    found = blame(*read_events(records, load_rules()))
    assert [event.gpu_instance for event in found.fresh] == [1, 2]
    for number in (1, 2):
        job = JobGpus(number, None, frozenset({f"MIG-{number}"}))
        root = found.of_ending(job, WINDOW).judgement.root
        assert root is not None
        assert root.gpu_instance == number


def test_a_gpu_that_went_silent_keeps_the_names_it_had() -> None:
    silent = (Device("0000:3b:00"), Device("0000:86:00", "GPU-new", 7))
    merged = merge_devices(silent, devices_from_json(devices_to_json(DEVICES)))
    assert merged == (DEVICES[0], Device("0000:86:00", "GPU-new", 7))
