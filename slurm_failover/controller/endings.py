"""What PrologSlurmctld and EpilogSlurmctld do: record the start, and hold the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from slurm_failover import lifecycle
from slurm_failover.controller.notes import Note, Notes
from slurm_failover.evidence import choose, read_evidence
from slurm_failover.model import JobFacts, Limits
from slurm_failover.optin import has_wish, read_opt_in
from slurm_failover.policy import Ending, describe_end, read_ending, retry_limit
from slurm_failover.record import (
    Record,
    read_record,
    write_mirror,
    write_record,
    write_refusal,
)
from slurm_failover.refusal import refuse_wish
from slurm_failover.slurm.client import JobChange, Slurm

Say = Callable[[str], None]


def record_start(
    slurm: Slurm, limits: Limits, job_id: str, option: str | None, say: Say, *, nodes: str = ""
) -> None:
    """Record that an attempt of a flagged job starts; an unflagged job is left as it is.

    ``option`` is the value of ``sbatch --failover`` where it was used. ``nodes`` are the attempt's,
    where Slurm shows those of one component only.
    """
    job = slurm.job(job_id)
    job = replace(job, nodes=nodes or job.nodes)
    wish = read_opt_in(job.comment, option)
    if wish is None:
        return
    refusal = refuse_wish(wish, job, limits)
    if refusal:
        say(f"job {job.label}: failover is off: {refusal}")
        comment = write_refusal(job.comment, refusal)
        slurm.update_job(job.label, JobChange(comment=comment))
        return
    # Before the job ever ran there was nothing for us to record: such a record is a forgery.
    old = read_record(job.admin_comment) if job.restarts else None
    record = lifecycle.start_attempt(job, old, retry_limit(wish, limits))
    slurm.update_job(job.label, write_both(job, record))


def hold_end(
    slurm: Slurm,
    notes: Notes,
    limits: Limits,
    job_id: str,
    *,
    nodes: str,
    start: float,
    option: str | None,
    say: Say,
) -> bool:
    """Hold a flagged job that ended by a failure, and record it. True if a decision is due.

    ``nodes`` and ``start`` (seconds since the epoch) are the attempt's own: of a completing job
    Slurm shows only the nodes that have not finished, and of a requeued array task another start
    (seen on 24.11.5). Running it twice for one end changes nothing the second time.
    """
    now = slurm.job(job_id)
    wish = read_opt_in(now.comment, option)
    if wish is None or wish.problem:
        return False
    job = replace(now, nodes=nodes or now.nodes, start=start or now.start)
    old = read_record(job.admin_comment)
    record = lifecycle.start_attempt(job, old, retry_limit(wish, limits))
    if not lifecycle.is_running(record):
        return lifecycle.is_unfinished(record)
    stopped = _stopped_by_node(slurm, job, record)
    ending, why = read_ending(job, stopped, record.attempt.nodes, limits)
    if ending is Ending.LEFT_ALONE:
        say(f"job {job.label} is left alone: {why}")
        return False
    held = lifecycle.hold(record, job, ending, time.time())
    note = Note(job.job_id, job.label, ending, held)
    notes.add(note)
    finish_hold(slurm, job, note)
    say(f"job {job.label} is held as failoverinprogress: {describe_end(job, ending)}")
    return True


def find_missed_end(slurm: Slurm, limits: Limits, job: JobFacts, record: Record) -> Note | None:
    """A note for an end of which EpilogSlurmctld died before it left one; None if there is none.

    ``record`` still shows the attempt as running. A job whose owner took the wish back meanwhile is
    not brought back.
    """
    if job.has("COMPLETING", "RUNNING") or not has_wish(job.comment):
        return None
    ended = replace(job, start=record.attempt.start)
    stopped = _stopped_by_node(slurm, ended, record)
    ending, _ = read_ending(ended, stopped, record.attempt.nodes, limits)
    if ending is Ending.LEFT_ALONE:
        return None
    return Note(job.job_id, job.label, ending, lifecycle.hold(record, job, ending, time.time()))


def finish_hold(slurm: Slurm, job: JobFacts, note: Note) -> None:
    """Hold the job, unless it is held, and write its held record."""
    if note.ending is Ending.FAILED and not job.has("PENDING"):
        slurm.requeue_and_hold(job.label)
    elif note.ending is Ending.NODE_LOST and not job.held:
        slurm.hold(job.label)
    slurm.update_job(job.label, write_both(job, note.record))


def write_both(job: JobFacts, record: Record) -> JobChange:
    """The record and its mirror, as one change."""
    return JobChange(
        comment=write_mirror(job.comment, record),
        admin_comment=write_record(job.admin_comment, record),
    )


def _stopped_by_node(slurm: Slurm, job: JobFacts, record: Record) -> bool:
    """Whether a node of the attempt wrote that it requeued and held the job."""
    if not (job.has("PENDING") and job.held):
        return False
    ids = job.components or (job.job_id,)
    return any(
        entry.requeued
        for node in slurm.nodes(record.attempt.nodes)
        for job_id in ids
        for entry in choose(read_evidence(node.name, node.extra), job_id, job.start)
    )
