"""Slurm's state of a job and ours, as users read both. Pure."""

from __future__ import annotations

from slurm_failover.model import JobFacts
from slurm_failover.record import Record, State, Step

HELD_STATES = (State.INTERNALERROR, State.MAXRETRIESEXCEEDED, State.IMAGEPULLBACKOFF)
"""In these a job waits for its owner."""
_FLAGS = ("COMPLETING", "CONFIGURING", "SPECIAL_EXIT", "REQUEUE_HOLD", "REQUEUED", "STOPPED")


def state_of(job: JobFacts, record: Record | None) -> State | None:
    """The record's state, brought up to what Slurm shows by now."""
    if record is None:
        return None
    if record.state is State.FAILOVERINPROGRESS and job.has("RUNNING"):
        return State.RESUMED
    if record.state is State.FAILOVERINPROGRESS and job.has("CANCELLED"):
        return State.ARMED  # Slurm takes no more words on it, and nothing is in progress
    under_way = record.step is not Step.NONE and job.has("PENDING", "CANCELLED")
    if record.state in HELD_STATES and not (job.held or under_way):
        return State.ARMED
    return record.state


def slurm_state_of(job: JobFacts) -> str:
    """Slurm's base state, without the flags beside it."""
    base = sorted(job.states.difference(_FLAGS)) or sorted(job.states)
    return base[0] if base else "UNKNOWN"


def display(slurm_state: str, state: State | None) -> str:
    """Slurm's state, with ours where ours is why the job waits."""
    words = in_words(slurm_state).capitalize()
    waits = state is State.FAILOVERINPROGRESS and slurm_state == "PENDING"
    stays = state in HELD_STATES and slurm_state in ("PENDING", "CANCELLED")
    return f"{words} - {state}" if waits or stays else words


def in_words(slurm_state: str) -> str:
    """Slurm's name of a state without underscores."""
    return slurm_state.replace("_", " ")
