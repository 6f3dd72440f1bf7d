"""Nodes that are back in service: waiting jobs may run there again.

Only a job's list of excluded nodes is changed, and only by nodes that our own failovers put there:
a job has run on those, so its owner had not excluded them. Slurm refuses the change once the job
has started, which makes it safe beside whatever else happens to the job.
"""

from __future__ import annotations

from collections.abc import Callable

from ClusterShell.NodeSet import NodeSet

from slurm_failover.breaker.notes import read_notes
from slurm_failover.deed import Deed
from slurm_failover.errors import FailoverError, RecordError
from slurm_failover.lifecycle import merge_nodes
from slurm_failover.model import JobFacts, NodeFacts
from slurm_failover.record import Step, read_record
from slurm_failover.slurm.client import JobChange, Slurm


def readmit_nodes(slurm: Slurm, say: Callable[[str], None]) -> int:
    """Take every node that is in service again off the lists of the jobs that wait. How many jobs.

    Raises SlurmError where Slurm can not be asked; what it refuses for one job is said.
    """
    excluded = {job.label: (job, ours) for job in slurm.jobs() if (ours := _excluded_by_us(job))}
    if not excluded:
        return 0
    back = _in_service(slurm, NodeSet.fromlist([ours for _, ours in excluded.values()]))
    done = [_readmit(slurm, job, ours & back, say) for job, ours in excluded.values()]
    return sum(done)


def _excluded_by_us(job: JobFacts) -> NodeSet:
    """The nodes that we keep a waiting job from. One whose decision is under way is left alone."""
    try:
        record = read_record(job.admin_comment) if job.has("PENDING") else None
        if record is None or record.step not in (Step.NONE, Step.PLACED):
            return NodeSet()
        return NodeSet(merge_nodes(record.excluded)) & NodeSet(job.excluded)
    except RecordError:
        return NodeSet()


def _in_service(slurm: Slurm, names: NodeSet) -> NodeSet:
    return NodeSet.fromlist([n.name for n in slurm.nodes(str(names)) if _is_back(n)])


def _is_back(node: NodeFacts) -> bool:
    """A node that the circuit breaker has kept from its drain was never out of service, nor fit."""
    waits = any(note.waits for note in read_notes(node.name, node.extra))
    return not (waits or node.has("DRAIN", "DOWN", "FAIL"))


def _readmit(slurm: Slurm, job: JobFacts, back: NodeSet, say: Callable[[str], None]) -> bool:
    if not back:
        return False
    try:
        slurm.update_job(job.label, JobChange(excluded=str(NodeSet(job.excluded) - back)))
    except FailoverError as error:
        say(f"job {job.label} stays excluded from {back}: {error}")
        return False
    say(Deed(f"job {job.label} may run on {back} again"))
    return True
