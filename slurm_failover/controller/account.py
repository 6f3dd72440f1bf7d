"""What is told of a decision, and of the start after it."""

from __future__ import annotations

from slurm_failover.happening import Happening, Kind
from slurm_failover.history import KINDS
from slurm_failover.model import JobFacts
from slurm_failover.policy import Verdict
from slurm_failover.record import Record, State, Step


def account(job: JobFacts, record: Record, verdict: Verdict) -> Happening:
    """A decision on a job. ``record`` is the one that it leaves."""
    return Happening(
        KINDS[verdict.action],
        verdict.because,
        job=job.label,
        user=job.user,
        state=record.state.value,
        retries=record.retries,
        nodes=verdict.bad_nodes,
    )


def is_restart(old: Record, new: Record) -> bool:
    """Whether an attempt has just begun that a failover brought about."""
    moved = old.state is State.FAILOVERINPROGRESS and old.step in (Step.DECIDED, Step.PLACED)
    return moved and old.attempt.start != new.attempt.start and old.attempt.end > 0


def account_restart(job: JobFacts, old: Record, new: Record) -> Happening:
    """The start of an attempt after a failover."""
    return Happening(
        Kind.RESUMED,
        f"attempt {new.attempt.number} runs on {new.attempt.nodes}",
        job=job.label,
        user=job.user,
        state=new.state.value,
        retries=new.retries,
        seconds=max(0.0, job.start - old.attempt.end),
    )
