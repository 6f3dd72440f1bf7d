"""Why a job is where it is, where its record alone does not tell. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slurm_failover.breaker import read_notes
from slurm_failover.evidence import choose, is_drained_by_us, read_evidence
from slurm_failover.lifecycle import names_in
from slurm_failover.model import JobFacts, NodeFacts
from slurm_failover.record import Record, State, Step
from slurm_failover.stopped import read_stops_without_record
from slurm_failover.suspicion import suspect
from slurm_failover.waiting import explain_named, explain_wait, what_drained


def explain(job: JobFacts, record: Record | None, nodes: Sequence[NodeFacts], now: float) -> str:
    """Why a job waits, is held or runs on; empty where there is nothing to say beside its record.
    ``nodes`` are those of the cluster, as far as they are known; ``now`` is in seconds since the
    epoch.
    """
    if record is None:
        return _explain_suspicion(job, nodes)
    return (
        _explain_wait(job, record, nodes)
        or _explain_hold(job, record, nodes, now)
        or _explain_suspicion(job, nodes)
        or _explain_stay(job, nodes)
    )


def is_looking_for_nodes(job: JobFacts, record: Record | None) -> bool:
    """Whether a job was failed over and has not started since."""
    waits = record is not None and record.state is State.FAILOVERINPROGRESS
    return waits and job.has("PENDING") and not job.held


def _explain_wait(job: JobFacts, record: Record, nodes: Sequence[NodeFacts]) -> str:
    named = explain_named(job, nodes) if job.has("PENDING") and not job.held else ""
    looks = bool(nodes) and is_looking_for_nodes(job, record)
    return named or (explain_wait(job, nodes) if looks else "")


def _explain_suspicion(job: JobFacts, nodes: Sequence[NodeFacts]) -> str:
    if suspect(job, nodes) is None:
        return ""
    return "suspected to hang: its GPUs are idle, and its log does not grow"


def _is_held_after_all(job: JobFacts, record: Record) -> bool:
    """Whether a job is held that we have released."""
    moved = record.state is State.FAILOVERINPROGRESS and record.step is Step.PLACED
    return moved and job.held and job.has("PENDING")


def _explain_unrecorded(job: JobFacts, nodes: Sequence[NodeFacts], now: float) -> str:
    """Why a job is held of which no start is recorded, as far as its nodes tell."""
    if not nodes:
        return (
            "requeued and held, and no start of it is recorded: reconcile takes it up if its node "
            "did that"
        )
    if read_stops_without_record(job, nodes, now):
        return "held by its node, and no start of it is recorded: reconcile takes it up"
    return (
        "requeued and held, and left as it is: no start of it is recorded, and it was requeued "
        "more often than nodes say that they stopped it"
    )


def _explain_hold(job: JobFacts, record: Record, nodes: Sequence[NodeFacts], now: float) -> str:
    """Why a job that was released does not start; the record tells of a hold that it knows. Nor
    does one start of which nothing is recorded.
    """
    if not record.attempt.start and job.has("PENDING") and job.held and job.held_by_requeue:
        return _explain_unrecorded(job, nodes, now)
    if not _is_held_after_all(job, record):
        return ""
    if record.because.endswith("holds the job"):
        return record.because
    if job.reason == "JobHeldAdmin":
        return f"{record.because}; an administrator holds the job"
    return f"{record.because}; held since: `scontrol release {job.label}` starts it"


def _explain_stay(job: JobFacts, nodes: Iterable[NodeFacts]) -> str:
    """Why a job runs on though a node of its own is out of service by a verdict of ours; empty
    where that is not so, or where it was hit as well. A node stops the jobs that hold what broke,
    and none of which it can not tell.
    """
    drained = [node for node in nodes if is_drained_by_us(node)]
    if not drained or not job.runs_since(job.start):
        return ""
    mine = set(names_in(job.nodes))
    spared = [node for node in drained if node.name in mine]
    if not spared or any(_was_hit(job, node) for node in spared):
        return ""
    return (
        f"runs on, since it is not known to hold what broke on {spared[0].name}, which is drained: "
        f"{what_drained(spared[0])}"
    )


def _was_hit(job: JobFacts, node: NodeFacts) -> bool:
    """Whether a node has any word on this attempt, or notes a fault of its own for the job."""
    ids = job.components or (job.job_id,)
    told = read_evidence(node.name, node.extra)
    noted = {one for note in read_notes(node.name, node.extra) for one, _ in note.attempts}
    return not noted.isdisjoint(ids) or any(choose(told, one, job.start) for one in ids)
