"""The attempt of a job that is in no history yet. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slurm_failover.evidence import SAME_ATTEMPT
from slurm_failover.model import JobFacts, NodeFacts
from slurm_failover.policy import Ending, describe_end
from slurm_failover.record import Attempt, Record, Step
from slurm_failover.view.states import in_words, slurm_state_of
from slurm_failover.waiting import explain_return

RUNNING = "running"
"""What has become of an attempt that has not ended."""
_UNDECIDED = "undecided"
_REQUEUED = "requeued"


def latest_attempt(job: JobFacts, record: Record, nodes: Sequence[NodeFacts]) -> Attempt | None:
    """The attempt that runs or ran last, where no end by a failure put it into the history."""
    attempt = record.attempt
    if not attempt.start or any(old.start == attempt.start for old in record.history):
        return None
    if job.runs_since(attempt.start):
        return replace(attempt, outcome=RUNNING)
    may_go_on = job.has("PENDING", "RUNNING", "SUSPENDED")
    # A job that ended while it waited has no nodes: what ended there is not this attempt.
    if may_go_on or not job.nodes or abs(job.start - attempt.start) > SAME_ATTEMPT:
        # Its end was no failure of its own, or is not decided on: Slurm has it wait, or run, again.
        outcome = _UNDECIDED if record.step is Step.HELD else _REQUEUED
        is_stopped = record.step is not Step.NONE or job.held_by_requeue
        sent_back = "" if is_stopped else explain_return(attempt.nodes, attempt.start, nodes)
        return replace(
            attempt, outcome=attempt.outcome or outcome, because=attempt.because or sent_back
        )
    failed = job.has("FAILED", "OUT_OF_MEMORY")
    return replace(
        attempt,
        end=attempt.end or job.end,
        outcome=attempt.outcome or in_words(slurm_state_of(job)).lower(),
        because=attempt.because or (describe_end(job, Ending.FAILED) if failed else ""),
    )
