"""Whose GPU was it: from a fault's device to the jobs that hold it on this node.

Four orders name the same GPUs and none is another: the PCI bus, the driver's minor numbers
(/dev/nvidiaN), NVML's index, and Slurm's GRES index. The way from one to the next is

    PCI id ── driver and NVML ── UUID, minor ── device file of the GRES ── GRES index ── job

and where a step is missing the answer is "cannot tell". A job is never blamed on a guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from slurm_failover.gres import GresSlot
from slurm_failover.health.gpu_state import MigInstance
from slurm_failover.holding import JobGpus
from slurm_failover.model import Scope

if TYPE_CHECKING:
    from slurm_failover.health.gpu_state import GpuState
    from slurm_failover.model import Event


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU by all its lasting names."""

    pci: str
    uuid: str | None = None
    minor: int | None = None
    instances: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True)
class Attribution:
    """The jobs that a fault hit, those of which nobody can tell, and why in one sentence."""

    hit: frozenset[int]
    unsure: frozenset[int]
    because: str


@dataclass(frozen=True, slots=True)
class _Node:
    devices: tuple[Device, ...]
    slots: tuple[GresSlot, ...] | None
    gpus: int | None


@dataclass(frozen=True, slots=True)
class _Held:
    pci: str
    instance: MigInstance | None = None


def devices_of(state: GpuState) -> tuple[Device, ...]:
    """The node's GPUs as NVML and the driver's own list name them.

    A minor number of which the two disagree is unknown.
    """
    listed = {device.pci: device for device in state.driver_devices}
    seen = {gpu.pci: gpu for gpu in state.gpus if gpu.pci is not None}
    found = []
    for pci in sorted(listed.keys() | seen.keys()):
        gpu, device = seen.get(pci), listed.get(pci)
        minors = {x.minor for x in (gpu, device) if x is not None and x.minor is not None}
        uuids = [x.uuid for x in (gpu, device) if x is not None and x.uuid is not None]
        found.append(
            Device(
                pci=pci,
                uuid=uuids[0] if uuids else None,
                minor=minors.pop() if len(minors) == 1 else None,
                instances=gpu.instances if gpu is not None else (),
            )
        )
    return tuple(found)


def devices_to_json(devices: Iterable[Device]) -> str:
    """The devices as one line of JSON, for the node's ledger."""
    return json.dumps([asdict(device) for device in devices], separators=(",", ":"))


def devices_from_json(text: str) -> tuple[Device, ...]:
    """Read what ``devices_to_json`` wrote. Raises ValueError, TypeError or KeyError otherwise."""
    return tuple(
        Device(**{**raw, "instances": tuple(MigInstance(**i) for i in raw["instances"])})
        for raw in json.loads(text)
    )


def merge_devices(now: Iterable[Device], before: Iterable[Device]) -> tuple[Device, ...]:
    """The devices of a look, with what an earlier look of the same boot knew of them and this one
    could not see: a GPU that is lost, or that hangs, does not say its own name any more.
    """
    known = {device.pci: device for device in before}
    for device in now:
        old = known.get(device.pci, device)
        known[device.pci] = Device(
            pci=device.pci,
            uuid=device.uuid or old.uuid,
            minor=old.minor if device.minor is None else device.minor,
            instances=device.instances or old.instances,
        )
    return tuple(known[pci] for pci in sorted(known))


def held_gpus(
    job: JobGpus, devices: Iterable[Device], slots: tuple[GresSlot, ...] | None
) -> frozenset[str] | None:
    """The PCI ids of the GPUs that a job holds, whole or in part; None where one is unknown."""
    held = _held(job, tuple(devices), slots)
    return None if held is None else frozenset(item.pci for item in held)


def jobs_hit(
    event: Event,
    jobs: Iterable[JobGpus],
    devices: Iterable[Device],
    slots: tuple[GresSlot, ...] | None,
    gpu_instance: int | None = None,
    *,
    gpus: int | None = None,
) -> Attribution:
    """Which of the node's jobs a fault hit.

    ``slots`` is the node's GPU GRES in order, () where the node has none, None where it is unknown
    whether it has any; ``gpus`` is how many slurmctld gives out there, None where it does not say.
    ``gpu_instance`` is the MIG GPU instance that the fault names, if it names one. A fault of the
    node or of a switch hits every job; a fault of a GPU, or of its own place in the fabric, hits
    the jobs that hold it: by NVIDIA's Fabric Manager user guide a GPU whose links fail loses
    NVLink, and the others keep theirs.
    """
    running = tuple(jobs)
    everyone = frozenset(job.job_id for job in running)
    if event.scope is Scope.NODE or (event.scope is Scope.FABRIC and event.gpu is None):
        return Attribution(everyone, frozenset(), f"a fault of the {event.scope} hits all its jobs")
    if slots == ():
        return _without_gres(everyone)
    if event.pci is None:
        return _without_device(running, devices, slots)
    return _by_device(event.pci, running, _Node(tuple(devices), slots, gpus), gpu_instance)


def finds_holder_of_all(devices: Iterable[Device], slots: tuple[GresSlot, ...] | None) -> bool:
    """Whether a fault of any GPU is surely that of a job which holds all that Slurm gives out, also
    where no map leads from the GPU to its job; slurmctld counts as many as ``slots``.
    """
    known, count = tuple(devices), len(slots or ())
    node = _Node(known, slots, count)
    holder = JobGpus(0, frozenset(range(count)))
    return count > 0 and all(_holds_all(device.pci, holder, node) for device in known)


def _without_gres(everyone: frozenset[int]) -> Attribution:
    """Where GPUs are no GRES every job can use every GPU, so only a lone job is certain."""
    if len(everyone) <= 1:
        return Attribution(
            everyone, frozenset(), "the node's GPUs are no GRES: its job had them all"
        )
    because = "the node's GPUs are no GRES and several jobs could use them"
    return Attribution(frozenset(), everyone, because)


def _without_device(
    running: tuple[JobGpus, ...], devices: Iterable[Device], slots: tuple[GresSlot, ...] | None
) -> Attribution:
    """A fault that names no GPU has surely hit a job that holds all of them."""
    known = tuple(devices)
    hit, idle = set(), set()
    for job in running:
        if _held(job, known, slots) == frozenset():
            idle.add(job.job_id)
        elif _has_all(job, slots):
            hit.add(job.job_id)
    unsure = frozenset(job.job_id for job in running) - hit - idle
    return Attribution(frozenset(hit), unsure, "the fault does not say on which GPU it was")


def _by_device(
    pci: str,
    running: tuple[JobGpus, ...],
    node: _Node,
    gpu_instance: int | None,
) -> Attribution:
    hit, unsure = set(), set()
    for job in running:
        held = _held(job, node.devices, node.slots)
        if held is not None:
            verdict = _holds(held, pci, gpu_instance)
        else:
            verdict = True if _holds_all(pci, job, node) else None
        if verdict is None:
            unsure.add(job.job_id)
        elif verdict:
            hit.add(job.job_id)
    return Attribution(frozenset(hit), frozenset(unsure), _sentence(pci, hit, unsure))


def _has_all(job: JobGpus, slots: tuple[GresSlot, ...] | None) -> bool:
    """Whether a job holds all the GPUs that Slurm gives out on the node: then no other does."""
    return bool(slots) and job.indexes == frozenset(range(len(slots or ())))


def _holds_all(pci: str, job: JobGpus, node: _Node) -> bool:
    """Whether a job surely holds a GPU to which no map leads: it holds all that Slurm gives out, by
    slurmctld's own count, since slurmd may list fewer.

    Where the node's GPUs are known by name, one of them may be outside GRES, and another's to use:
    then they have to be as many, and none of them shared out in instances. Where none is known,
    those that Slurm gives out are all of which anybody knows.
    """
    if node.gpus != len(node.slots or ()) or not _has_all(job, node.slots):
        return False
    if not node.devices:
        return True
    whole = {device.pci for device in node.devices if not device.instances}
    return pci in whole and len(whole) == len(node.devices) == _whole_gpus(job, node)


def _whole_gpus(job: JobGpus, node: _Node) -> int | None:
    """How many whole GPUs stand behind the GRES; None where some may be parts of one, or another
    than the node's ``devices``.
    """
    slots = node.slots or ()
    minors = [slot.minor for slot in slots if slot.minor is not None]
    uuids = [*job.uuids, *(slot.unique_id or "" for slot in slots)]
    has_parts = len(set(minors)) < len(minors) or any(uuid.startswith("MIG-") for uuid in uuids)
    known = {device.minor for device in node.devices}
    is_elsewhere = None not in known and not set(minors) <= known
    return None if has_parts or is_elsewhere else len(slots)


def _holds(held: frozenset[_Held], pci: str, gpu_instance: int | None) -> bool | None:
    """Whether a job that holds these holds the faulty one; None where the instance is unknown."""
    mine = [item for item in held if item.pci == pci]
    if not mine or gpu_instance is None:
        return bool(mine)
    numbers = {item.instance.gpu_instance if item.instance else None for item in mine}
    if gpu_instance in numbers:
        return True
    return None if None in numbers else False


def _held(
    job: JobGpus, devices: tuple[Device, ...], slots: tuple[GresSlot, ...] | None
) -> frozenset[_Held] | None:
    """The GPUs or instances that a job holds, or None if one of them cannot be identified."""
    if job.uuids:
        found = [_by_uuid(uuid, devices) for uuid in job.uuids]
    elif job.indexes is None or (slots is None and not job.indexes):
        return None
    else:
        found = [_by_index(index, devices, slots or ()) for index in job.indexes]
    known = frozenset(item for item in found if item is not None)
    return known if None not in found else None


def _by_index(index: int, devices: tuple[Device, ...], slots: tuple[GresSlot, ...]) -> _Held | None:
    if index >= len(slots):
        return None
    slot = slots[index]
    if slot.unique_id is not None:
        return _by_uuid(slot.unique_id, devices)
    matching = [d for d in devices if slot.minor is not None and d.minor == slot.minor]
    return _Held(matching[0].pci) if len(matching) == 1 else None


def _by_uuid(uuid: str, devices: tuple[Device, ...]) -> _Held | None:
    """The device of a UUID: a GPU's, a MIG instance's, or ``MIG-GPU-…/G/C`` of older drivers."""
    for device in devices:
        if device.uuid == uuid:
            return _Held(device.pci)
        for instance in device.instances:
            if instance.uuid == uuid:
                return _Held(device.pci, instance)
        if device.uuid is not None and uuid.startswith(f"MIG-{device.uuid}/"):
            return _Held(device.pci)
    return None


def _sentence(pci: str, hit: set[int], unsure: set[int]) -> str:
    if hit:
        return f"GPU {pci} belongs to job {', '.join(map(str, sorted(hit)))}"
    if unsure:
        return f"which job holds GPU {pci} cannot be told"
    return f"no job holds GPU {pci}"
