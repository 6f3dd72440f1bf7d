"""What would become of a flagged job that ended, were we to act: for observe mode. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slurm_failover import lifecycle
from slurm_failover.model import JobFacts, Limits, NodeFacts
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
    ending, _ = read_ending(job, limits=limits)
    if ending is Ending.LEFT_ALONE:
        return None
    begun = lifecycle.start_attempt(job, read_record(job.admin_comment), retry_limit(wish, limits))
    held = lifecycle.hold(begun, job, ending, job.end)
    heard = [node for node in nodes if node.name in lifecycle.expand(held.attempt.nodes)]
    verdict = decide(imagine_held(job, held), held, heard, limits)
    return lifecycle.apply_verdict(held, verdict)
