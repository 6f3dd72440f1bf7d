"""The GPU GRES of a node, and which of them a job holds, by slurmd and by slurmctld."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from slurm_failover.evidence import SAME_ATTEMPT
from slurm_failover.gres import UNKNOWN_SLOT, GresSlot, names_all
from slurm_failover.holding import JobGpus, from_hook_environment, job_gpus, join_words
from slurm_failover.model import JobFacts
from slurm_failover.node.attempts import told_at_start
from slurm_failover.sources import slurmd

Slots = tuple[GresSlot, ...]


class NodeGres:
    """What one node's GPUs are to Slurm, asked once. ``program`` is slurmd's."""

    def __init__(self, program: str, node: str) -> None:
        self._program = program
        self._node = node

    @cached_property
    def slots(self) -> Slots | None:
        """The GRES by slurmd; None where it does not tell."""
        return slurmd.read_slots(self._program, self._node)

    def known(self, counted: int | None) -> Slots | None:
        """Those by slurmd, and those that slurmctld alone counts: slurmd may not say in time, or
        not list a GPU that is gone.
        """
        if counted is None:
            return self.slots
        if self.slots is None:
            return (GresSlot(),) * counted
        return self.slots + (UNKNOWN_SLOT,) * (counted - len(self.slots))

    def asks_who_holds(self, counted: int | None) -> bool:
        """Whether only slurmctld can tell which job holds which GPU. Where GPUs are no GRES, whose
        one was depends on who else was there.
        """
        known = self.known(counted)
        return not known or not names_all(known)

    def held_by(self, ending: JobGpus, known: Sequence[JobFacts], counted: int | None) -> JobGpus:
        """What a job that ends holds, with what slurmctld tells of that attempt, as far as that was
        asked and it is ``known`` there.
        """
        told = [job_gpus(job, self._node) for job in known]
        return join_words(ending, told, self.known(counted))

    def held(self, job: JobFacts, counted: int | None) -> JobGpus:
        """What a job on this node holds by slurmctld or, where that does not tell, by what slurmd
        told its Prolog.
        """
        told = job_gpus(job, self._node)
        noted = {} if told.is_told else told_at_start(str(job.job_id))
        is_its_own = noted and abs(float(noted["SLURM_JOB_START_TIME"]) - job.start) <= SAME_ATTEMPT
        at_start = from_hook_environment(noted) if is_its_own else told
        return join_words(at_start, [told], self.known(counted))
