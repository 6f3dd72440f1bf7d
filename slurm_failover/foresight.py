"""What would become of a flagged job, were we to act: for observe mode. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slurm_failover import lifecycle
from slurm_failover.evidence import choose, read_evidence
from slurm_failover.model import JobCause, JobFacts, Limits, NodeFacts
from slurm_failover.optin import read_opt_in
from slurm_failover.policy import Ending, decide, read_ending, retry_limit
from slurm_failover.record import Record, read_record, write_record


def show_as_it_is(job: JobFacts, record: Record) -> JobFacts:
    """The job as Slurm shows it: where we act, nothing is left to imagine."""
    return job


def imagine_held(job: JobFacts, record: Record) -> JobFacts:
    """A job as it would be had it been requeued, held and given this record."""
    return replace(
        job,
        states=frozenset({"PENDING"}),
        held=True,
        held_by_requeue=True,
        reason="JobHeldUser",
        admin_comment=write_record(job.admin_comment, record),
    )


def foresee(job: JobFacts, nodes: Sequence[NodeFacts], limits: Limits) -> Record | None:
    """The record that the decision would leave; None for a job that it would leave alone.

    Raises RecordError.
    """
    wish = read_opt_in(job.comment)
    if wish is None or wish.problem or job.has("COMPLETING"):
        return None
    is_hit = _is_hit_while_running(job, _among(nodes, job.nodes))
    seen = replace(job, states=frozenset({"PENDING"}), failed_node="") if is_hit else job
    ending, _ = read_ending(seen, is_hit, limits=limits)
    if ending is Ending.LEFT_ALONE:
        return None
    begun = lifecycle.start_attempt(job, read_record(job.admin_comment), retry_limit(wish, limits))
    if not lifecycle.is_running(begun):
        return None
    held = lifecycle.hold(begun, job, ending, 0.0 if job.runs_since(job.start) else job.end)
    heard = _among(nodes, held.attempt.nodes)
    verdict = decide(imagine_held(job, held), held, heard, limits)
    return lifecycle.apply_verdict(held, verdict)


def _among(nodes: Sequence[NodeFacts], hostlist: str) -> list[NodeFacts]:
    names = frozenset(lifecycle.expand(hostlist))
    return [node for node in nodes if node.name in names]


def _is_hit_while_running(job: JobFacts, nodes: Sequence[NodeFacts]) -> bool:
    """Whether a node of the job would have stopped it: what its Epilog finds comes later."""
    runs = job.runs_since(job.start)
    if not runs and (job.is_live or not job.end):
        return False
    return any(
        entry.cause in (JobCause.HARDWARE, JobCause.HUNG) and (runs or entry.time < job.end)
        for node in nodes
        for job_id in job.components or (job.job_id,)
        for entry in choose(read_evidence(node.name, node.extra), job_id, job.start)
    )
