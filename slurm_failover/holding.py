"""Which of a node's GPUs a job holds, as slurmctld says, and as slurmd says to its hooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from slurm_failover.gres import GresSlot, indexes_on_node, names_all

if TYPE_CHECKING:
    from slurm_failover.model import JobFacts


@dataclass(frozen=True, slots=True)
class JobGpus:
    """What Slurm says of the GPUs that a job holds on this node.

    ``indexes`` are GRES indexes, None where Slurm did not say. ``uuids`` are the UUIDs of GPUs or
    MIG instances, empty where Slurm names none; they need no map and therefore go first.
    """

    job_id: int
    indexes: frozenset[int] | None = None
    uuids: frozenset[str] = frozenset()

    @property
    def is_told(self) -> bool:
        """Whether Slurm said what the job holds, be it nothing."""
        return self.indexes is not None or bool(self.uuids)


def job_gpus(job: JobFacts, node: str) -> JobGpus:
    """What Slurm's controller says of the GPUs that a job holds on ``node``. Of one that completes
    it has forgotten that: then none named is none held for a job that never asked for any, and has
    no whole nodes, with which it was given their GPUs (gres_stepmgr_job_alloc_whole_node).
    """
    may_hold = job.wants_gpus or (job.has_whole_nodes and job.has("COMPLETING"))
    if not job.gres_detail and may_hold:
        return JobGpus(job.job_id)
    return JobGpus(job.job_id, indexes_on_node(job.gres_detail, job.allocated, node))


def from_hook_environment(environment: Mapping[str, str]) -> JobGpus:
    """What slurmd tells a Prolog or Epilog of its job's GPUs.

    slurmd writes GRES indexes into ``SLURM_JOB_GPUS``, for a job that holds GPUs, shards or MPS and
    for no other; of GPUs whose file is no device it writes none (``join_words``). Into
    ``CUDA_VISIBLE_DEVICES`` it writes UUIDs for MIG instances, and from 25.11 on for whole GPUs
    (gres_common_prep_set_env in gres_common.c). Neither comes from the user. Where there is neither
    nothing is said: slurmctld, started anew, may end a job before it knows what that holds (seen on
    26.05.5).
    Raises KeyError or ValueError where ``SLURM_JOB_ID`` is not a number.
    """
    told = environment.get("SLURM_JOB_GPUS")
    words = (told or "").split(",")
    numbers = [word.strip() for word in words if word.strip()]
    visible = environment.get("CUDA_VISIBLE_DEVICES", "").split(",")
    is_told = told is not None and all(map(str.isdecimal, numbers))
    return JobGpus(
        job_id=int(environment["SLURM_JOB_ID"]),
        indexes=frozenset(map(int, numbers)) if is_told else None,
        uuids=frozenset(word.strip() for word in visible if word.startswith(("GPU-", "MIG-"))),
    )


def join_words(
    by_slurmd: JobGpus, by_slurmctld: Iterable[JobGpus], slots: tuple[GresSlot, ...] | None
) -> JobGpus:
    """What a job holds by what slurmd tells its hooks and by what slurmctld tells, if it does.

    Where slurmd does not name all of ``slots`` to its hooks, none named is not none held: without
    slurmctld's word that is unknown.
    """
    told = next((job.indexes for job in by_slurmctld), None)
    if told is None:
        is_silent = not by_slurmd.indexes and not by_slurmd.uuids
        is_known = names_all(slots) or not is_silent
        return by_slurmd if is_known else replace(by_slurmd, indexes=None)
    if by_slurmd.indexes is not None and told <= by_slurmd.indexes:
        return by_slurmd
    return replace(by_slurmd, indexes=told | (by_slurmd.indexes or frozenset()), uuids=frozenset())
