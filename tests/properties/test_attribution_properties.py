"""Attribution over nodes of any order: the right job, and never a wrong one."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slurm_failover.attribution import Device, jobs_hit
from slurm_failover.gres import GresSlot, held_indexes
from slurm_failover.holding import JobGpus
from slurm_failover.model import Event, FaultClass, Scope

FAULT = Event("gpu", FaultClass.HARDWARE, Scope.GPU, "gpu-lost", "because")


@st.composite
def nodes(draw: st.DrawFn):
    """A node: devices, slots, jobs, and who truly holds which PCI id."""
    count = draw(st.integers(1, 8))
    minors = draw(st.permutations(range(count)))
    devices = [Device(f"0000:{i:02x}:00", f"GPU-{i}", minor) for i, minor in enumerate(minors)]
    order = draw(st.permutations(devices))
    slots = tuple(GresSlot(device.minor) for device in order)
    owners = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    held = {job: {i for i, owner in enumerate(owners) if owner == job} for job in range(1, 4)}
    jobs = []
    for job, indexes in held.items():
        uuids = {order[i].uuid for i in indexes} if draw(st.booleans()) else set()
        jobs.append(JobGpus(job, frozenset(indexes), frozenset(uuids)))
    truth = {order[i].pci: owner for i, owner in enumerate(owners)}
    return tuple(devices), slots, jobs, truth


@given(nodes(), st.data())
def test_the_holder_is_found_whatever_the_orders(node, data) -> None:
    devices, slots, jobs, truth = node
    pci = data.draw(st.sampled_from(sorted(truth)))
    answer = jobs_hit(replace(FAULT, pci=pci), jobs, devices, slots)
    assert answer.hit == ({truth[pci]} if truth[pci] else set())
    assert not answer.unsure


@given(nodes(), st.data())
def test_with_facts_missing_the_wrong_job_is_never_blamed_and_the_right_one_never_cleared(
    node, data
) -> None:
    devices, slots, jobs, truth = node
    pci = data.draw(st.sampled_from([*sorted(truth), None]))
    devices = tuple(
        replace(
            device,
            minor=data.draw(st.sampled_from([device.minor, None])),
            uuid=data.draw(st.sampled_from([device.uuid, None])),
        )
        for device in devices
        if data.draw(st.booleans())
    )
    gpus = data.draw(st.sampled_from([len(slots), None]))
    slots = data.draw(st.sampled_from([slots, None, *(slots[:n] for n in range(1, len(slots)))]))
    jobs = [replace(job, indexes=data.draw(st.sampled_from([job.indexes, None]))) for job in jobs]
    answer = jobs_hit(replace(FAULT, pci=pci), jobs, devices, slots, gpus=gpus)
    if pci is None:
        return
    assert answer.hit <= {truth[pci]}
    assert truth[pci] == 0 or truth[pci] in answer.hit | answer.unsure


@given(st.text(max_size=60))
def test_any_text_for_held_gpus_is_read_without_an_error(detail: str) -> None:
    held_indexes(detail)
