"""From a fault's device to the job that holds it, and never to another's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_failover.attribution import Attribution, Device, devices_of, jobs_hit
from slurm_failover.gres import (
    UNKNOWN_SLOT,
    GresSlot,
    count_gpus,
    expand,
    held_indexes,
    indexes_on_node,
    names_all,
    physical_gpus,
    slots_from_slurmd,
)
from slurm_failover.health.gpu_state import DriverDevice, Gpu, GpuState, MigInstance
from slurm_failover.holding import JobGpus
from slurm_failover.model import Event, FaultClass, Scope

# PCI order, minor order, NVML order and GRES order all differ.
DEVICES = (
    Device("0000:3b:00", "GPU-b", minor=2),
    Device("0000:5e:00", "GPU-c", minor=0),
    Device("0000:9b:00", "GPU-a", minor=1),
)
SLOTS = (GresSlot(minor=1), GresSlot(minor=2), GresSlot(minor=0))
IN_SLOT_ORDER = ("0000:9b:00", "0000:3b:00", "0000:5e:00")

MIG = Device(
    "0000:c1:00", "GPU-m", 3, (MigInstance("MIG-x", gpu_instance=1), MigInstance("MIG-y", 2))
)


def fault(pci: str | None, scope: Scope = Scope.GPU) -> Event:
    return Event("gpu", FaultClass.HARDWARE, scope, "gpu-lost", "because", pci=pci)


def hit(answer: Attribution) -> tuple[list[int], list[int]]:
    return sorted(answer.hit), sorted(answer.unsure)


@pytest.mark.parametrize("slot", range(3))
def test_the_job_is_found_through_minor_and_gres_order(slot: int) -> None:
    jobs = [JobGpus(100 + index, frozenset({index})) for index in range(3)]
    answer = jobs_hit(fault(IN_SLOT_ORDER[slot]), jobs, DEVICES, SLOTS)
    assert hit(answer) == ([100 + slot], [])
    assert answer.because == f"GPU {IN_SLOT_ORDER[slot]} belongs to job {100 + slot}"


def test_a_gpu_that_no_job_holds_hits_no_job() -> None:
    answer = jobs_hit(fault("0000:9b:00"), [JobGpus(1, frozenset({1, 2}))], DEVICES, SLOTS)
    assert hit(answer) == ([], [])


@pytest.mark.parametrize(
    "event",
    [
        fault("0000:9b:00", Scope.NODE),
        fault(None, Scope.FABRIC),
        replace(fault("0000:9b:00", Scope.FABRIC), kind="sxid"),
    ],
    ids=["node", "fabric", "switch"],
)
def test_a_fault_of_node_or_fabric_hits_every_job(event: Event) -> None:
    jobs = [JobGpus(1, frozenset({0})), JobGpus(2, frozenset()), JobGpus(3)]
    assert hit(jobs_hit(event, jobs, DEVICES, None)) == ([1, 2, 3], [])


def test_a_fault_of_one_gpus_links_hits_the_jobs_that_hold_it() -> None:
    jobs = [JobGpus(100 + index, frozenset({index})) for index in range(3)]
    link = fault(IN_SLOT_ORDER[1], Scope.FABRIC)
    assert hit(jobs_hit(link, jobs, DEVICES, SLOTS)) == ([101], [])
    assert hit(jobs_hit(link, jobs, DEVICES, None)) == ([], [100, 101, 102])


@pytest.mark.parametrize(
    ("job", "slots"),
    [
        (JobGpus(1), SLOTS),
        (JobGpus(1, frozenset({0})), None),
        (JobGpus(1, frozenset({7})), SLOTS),
        (JobGpus(1, frozenset({0, 7})), SLOTS),
        (JobGpus(1, frozenset({0})), (GresSlot(),)),
        (JobGpus(1, frozenset({0})), (GresSlot(minor=9),)),
        (JobGpus(1, None, frozenset({"GPU-unheard-of"})), SLOTS),
    ],
)
def test_where_a_step_is_missing_nobody_is_blamed_and_nobody_cleared(
    job: JobGpus, slots: tuple[GresSlot, ...] | None
) -> None:
    assert hit(jobs_hit(fault("0000:9b:00"), [job], DEVICES, slots)) == ([], [1])


def test_two_devices_of_one_minor_number_identify_nothing() -> None:
    twins = (Device("0000:01:00", minor=1), Device("0000:02:00", minor=1))
    answer = jobs_hit(fault("0000:01:00"), [JobGpus(1, frozenset({0}))], twins, SLOTS)
    assert hit(answer) == ([], [1])


def test_uuids_need_no_map() -> None:
    jobs = [
        JobGpus(1, frozenset({0}), frozenset({"GPU-b"})),
        JobGpus(2, frozenset({1}), frozenset({"GPU-c"})),
    ]
    assert hit(jobs_hit(fault("0000:3b:00"), jobs, DEVICES, None)) == ([1], [])


def test_a_fault_of_a_whole_gpu_hits_the_jobs_of_all_its_mig_instances() -> None:
    jobs = [JobGpus(1, None, frozenset({"MIG-x"})), JobGpus(2, None, frozenset({"MIG-y"}))]
    assert hit(jobs_hit(fault(MIG.pci), jobs, (*DEVICES, MIG), None)) == ([1, 2], [])


def test_a_fault_of_one_mig_instance_hits_its_job_only() -> None:
    jobs = [
        JobGpus(1, None, frozenset({"MIG-x"})),
        JobGpus(2, None, frozenset({"MIG-y"})),
        JobGpus(3, None, frozenset({"MIG-GPU-m/2/0"})),
    ]
    answer = jobs_hit(fault(MIG.pci), jobs, (*DEVICES, MIG), None, gpu_instance=2)
    assert hit(answer) == ([2], [3])


def test_a_fault_without_a_device_hits_only_a_job_that_holds_every_gpu() -> None:
    whole, part = JobGpus(1, frozenset({0, 1, 2})), JobGpus(2, frozenset({1}))
    assert hit(jobs_hit(fault(None), [whole], DEVICES, SLOTS)) == ([1], [])
    assert hit(jobs_hit(fault(None), [part, JobGpus(3)], DEVICES, SLOTS)) == ([], [2, 3])
    assert hit(jobs_hit(fault(None), [JobGpus(4, frozenset())], DEVICES, SLOTS)) == ([], [])
    assert hit(jobs_hit(fault(None), [JobGpus(5)], DEVICES, None)) == ([], [5])


def test_where_gpus_are_no_gres_a_lone_job_had_them_and_of_several_none_is_blamed() -> None:
    lone, other = JobGpus(1, frozenset()), JobGpus(2, frozenset())
    assert hit(jobs_hit(fault("0000:9b:00"), [lone], DEVICES, ())) == ([1], [])
    assert hit(jobs_hit(fault("0000:9b:00"), [lone, other], DEVICES, ())) == ([], [1, 2])


def test_devices_join_what_nvml_and_the_driver_say() -> None:
    state = GpuState(
        gpus=(
            Gpu(0, "0000:9b:00", "GPU-a", minor=1),
            Gpu(1, "0000:3b:00", "GPU-b", minor=2),
            Gpu(2, None),
        ),
        driver_devices=(
            DriverDevice("0000:9b:00", 1),
            DriverDevice("0000:3b:00", 5),
            DriverDevice("0000:5e:00", 0, "GPU-c"),
        ),
    )
    assert devices_of(state) == (
        Device("0000:3b:00", "GPU-b", None),
        Device("0000:5e:00", "GPU-c", 0),
        Device("0000:9b:00", "GPU-a", 1),
    )


@pytest.mark.parametrize(
    ("detail", "indexes"),
    [
        ("gpu:2(IDX:0-1)", {0, 1}),
        ("gpu:a100:3(IDX:0,2-3)", {0, 2, 3}),
        ("gpu:a100:1(IDX:0),gpu:h100:1(IDX:4)", {0, 4}),
        ("gres/gpu:1(IDX:3)", {3}),
        ("license:3,gpu:1(IDX:0)", {0}),
        ("gpu:0", set()),
        ("(null)", set()),
        ("", set()),
        ("gpu:2", None),
        ("gpu:1(IDX:N/A)", None),
        ("gpu:3(IDX:0-1)", None),
        ("shard:gpu:2(1/4,1/4)", None),
        ("mps:100(50/100,50/100)", None),
    ],
)
def test_slurm_s_text_for_held_gpus_is_read(detail: str, indexes: set[int] | None) -> None:
    assert held_indexes(detail) == indexes


def test_each_of_several_nodes_has_its_own_gpus() -> None:
    details = ("gpu:2(IDX:0-1)", "gpu:2(IDX:2-3)")
    assert indexes_on_node(details, ("n9", "n1"), "n1") == {2, 3}
    assert indexes_on_node(details, ("n9", "n1"), "n9") == {0, 1}
    assert indexes_on_node(details, ("n9", "n1"), "n2") is None
    assert indexes_on_node(details, ("n9",), "n9") is None
    assert indexes_on_node(details, (), "n1") is None
    assert indexes_on_node((), ("n9", "n1"), "n1") == frozenset()


def test_slurmd_s_own_list_gives_the_order() -> None:
    text = """\
slurmd: Gres Name=gpu Type=a100 Count=2 Index=2 ID=7696487 File=/dev/nvidia[1-2] Links=(null) \
Flags=HAS_FILE,HAS_TYPE,ENV_NVML
slurmd: Gres Name=gpu Type=a100 Count=1 Index=0 ID=7696487 File=/dev/nvidia0 Cores=0-3 CoreCnt=8 \
Links=-1,0 Flags=HAS_FILE UniqueId=GPU-c
slurmd: Gres Name=shard Type=(null) Count=8 Index=0 ID=1 File=/dev/nvidia0 Links=(null) Flags=X
"""
    assert slots_from_slurmd(text) == (
        GresSlot(1),
        GresSlot(2),
        GresSlot(0, "GPU-c"),
    )


def test_a_file_that_is_no_device_is_not_named_to_hooks() -> None:
    text = """\
slurmd: error: /tmp/nvidia1 is not a valid character or block device, fix your gres.conf
slurmd: Gres Name=gpu Type=(null) Count=2 Index=0 ID=7696487 File=/tmp/nvidia[0-1] Links=(null)
slurmd: Gres Name=gpu Type=(null) Count=1 Index=2 ID=7696487 File=/dev/nvidia2 Links=(null)
"""
    slots = slots_from_slurmd(text)
    assert slots == (GresSlot(0, named=False), GresSlot(1, named=False), GresSlot(2))
    assert [names_all(some) for some in (slots, slots[2:], (), None)] == [False, True, True, False]


def test_a_mig_instance_of_several_device_files_is_one_slot() -> None:
    text = (
        "slurmd: Gres Name=gpu Type=a100_1g.5gb Count=1 Index=22 ID=7696487 File=/dev/nvidia3,"
        "/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22 Links=-1 Flags=HAS_FILE\n"
    )
    assert slots_from_slurmd(text * 2) == (GresSlot(3), GresSlot(3))
    assert physical_gpus(slots_from_slurmd(text * 2)) == 1


@pytest.mark.parametrize(
    ("gres", "count"),
    [
        ("", 0),
        ("gpu", 1),
        ("gpu:2", 2),
        ("gpu:a100", 1),
        ("gpu:a100:4(S:0-1)", 4),
        ("gpu:a100:4(S:0,2),gpu:3090:2(S:1)", 6),
        ("nic:2,gpu:2(S:0),shard:16,gpu_memory:80", 2),
        ("shard:gpu:8", 0),
        ("gpu:a100:no_consume:4(S:0-1)", None),
        ("shard:1K(S:0-1),gpu:1K", None),
    ],
)
def test_the_gpus_that_slurmctld_names_are_counted(gres: str, count: int | None) -> None:
    assert count_gpus(gres) == count


def test_where_only_the_number_of_gpus_is_known_a_fault_hits_the_job_that_holds_them_all() -> None:
    all_of_them = frozenset({0, 1, 2})
    jobs = [JobGpus(1, all_of_them), JobGpus(2, frozenset({0})), JobGpus(3, frozenset())]
    answer = jobs_hit(fault("0000:9b:00"), jobs, DEVICES, (GresSlot(),) * 3, gpus=3)
    assert hit(answer) == ([1], [2])


@pytest.mark.parametrize(
    ("pci", "devices", "slots"),
    [
        ("0000:9b:00", DEVICES, (GresSlot(),) * 2),
        ("0000:9b:00", DEVICES[:2], (GresSlot(),) * 2),
        ("0000:3b:00", (DEVICES[0], MIG), (GresSlot(),) * 2),
        ("0000:3b:00", DEVICES[:2], (GresSlot(minor=7), GresSlot(minor=7))),
        ("0000:3b:00", DEVICES[:2], (GresSlot(minor=0), GresSlot(minor=7))),
        ("0000:3b:00", DEVICES[:2], (GresSlot(unique_id="MIG-x"), GresSlot(unique_id="MIG-y"))),
    ],
    ids=["more GPUs", "another GPU", "instances", "parts of one GPU", "another minor", "MIG"],
)
def test_where_a_gpu_may_be_outside_gres_a_job_that_holds_all_gres_is_not_blamed(
    pci: str, devices: tuple[Device, ...], slots: tuple[GresSlot, ...]
) -> None:
    jobs = [JobGpus(1, frozenset({0, 1}))]
    assert hit(jobs_hit(fault(pci), jobs, devices, slots, gpus=2)) == ([], [1])


@pytest.mark.parametrize("event", [fault("0000:9b:00"), fault(None)], ids=["a GPU", "some GPU"])
@pytest.mark.parametrize(
    "slots",
    [SLOTS[:2], (GresSlot(),) * 2, (GresSlot(7), GresSlot(7)), (GresSlot(0, named=False),) * 2],
    ids=["files", "a count", "instances", "no devices"],
)
def test_a_job_that_holds_all_that_slurm_gives_out_needs_no_map_where_no_gpu_is_known(
    event: Event, slots: tuple[GresSlot, ...]
) -> None:
    jobs = [JobGpus(1, frozenset({0, 1})), JobGpus(2, frozenset({0})), JobGpus(3, frozenset())]
    assert hit(jobs_hit(event, jobs, (), slots, gpus=2)) == ([1], [2])
    assert hit(jobs_hit(event, jobs, (), (*slots, UNKNOWN_SLOT), gpus=3)) == ([], [1, 2])


@pytest.mark.parametrize("gpus", [None, 3])
def test_a_job_that_holds_all_that_slurmd_lists_may_hold_less_than_slurm_gives_out(
    gpus: int | None,
) -> None:
    job = JobGpus(1, frozenset({0, 1}))
    assert hit(jobs_hit(fault("0000:9b:00"), [job], (), SLOTS[:2], gpus=gpus)) == ([], [1])


def test_a_job_that_holds_all_holds_a_gpu_whose_minor_number_is_not_known() -> None:
    devices = (Device("0000:3b:00"), Device("0000:5e:00", minor=0))
    jobs = [JobGpus(1, frozenset({0, 1})), JobGpus(2, frozenset({0}))]
    answer = jobs_hit(fault("0000:3b:00"), jobs, devices, (GresSlot(0), GresSlot(7)), gpus=2)
    assert hit(answer) == ([1], [])


def test_mig_instances_that_a_job_holds_are_not_taken_for_as_many_gpus() -> None:
    job = JobGpus(1, frozenset({0, 1}), frozenset({"MIG-1", "MIG-2"}))
    answer = jobs_hit(fault("0000:3b:00"), [job], DEVICES[:2], (GresSlot(),) * 2, gpus=2)
    assert hit(answer) == ([], [1])


def test_where_nothing_is_known_of_gres_a_job_without_indexes_may_hold_any_gpu() -> None:
    jobs = [JobGpus(1, frozenset())]
    assert hit(jobs_hit(fault("0000:9b:00"), jobs, DEVICES, None)) == ([], [1])
    assert hit(jobs_hit(fault(None), jobs, DEVICES, None)) == ([], [1])
    assert hit(jobs_hit(fault("0000:9b:00"), jobs, DEVICES, SLOTS)) == ([], [])


def test_gpus_are_counted_only_where_every_slot_names_one() -> None:
    assert physical_gpus(SLOTS) == 3
    assert physical_gpus((GresSlot(0), GresSlot())) is None
    assert physical_gpus(None) is None


def test_a_hostlist_keeps_its_order_and_padding() -> None:
    assert expand("/dev/nvidia[4,0-1],/dev/nvidia9") == [
        "/dev/nvidia4",
        "/dev/nvidia0",
        "/dev/nvidia1",
        "/dev/nvidia9",
    ]
    assert expand("n[08-10]") == ["n08", "n09", "n10"]
    assert expand("r[1-2]n[1-2]") == ["r1n1", "r1n2", "r2n1", "r2n2"]
    assert expand("odd[a-b]") == ["odd[a-b]"]
