"""What PrologSlurmctld and EpilogSlurmctld do: record the start, and hold the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from slurm_failover import lifecycle
from slurm_failover.controller.account import account_restart, is_restart
from slurm_failover.controller.arrivals import Arrival
from slurm_failover.controller.notes import Note, Notes
from slurm_failover.deed import Deed
from slurm_failover.evidence import choose, is_drained_by_us, read_dropped, read_evidence
from slurm_failover.model import JobFacts, Limits, NodeFacts
from slurm_failover.optin import read_opt_in
from slurm_failover.policy import Ending, describe_end, read_ending, retry_limit
from slurm_failover.record import (
    Record,
    is_wished,
    read_record,
    write_mirror,
    write_record,
    write_refusal,
)
from slurm_failover.refusal import refuse_wish
from slurm_failover.reporter import Report, report_to_nobody
from slurm_failover.slurm.client import JobChange, Slurm

Say = Callable[[str], None]


def record_start(
    slurm: Slurm,
    limits: Limits,
    shown: JobFacts,
    arrival: Arrival,
    *,
    say: Say,
    report: Report = report_to_nobody,
) -> None:
    """Record that an attempt of a flagged job starts; an unflagged job is left as it is."""
    job = replace(shown, nodes=arrival.nodes or shown.nodes)
    wish = read_opt_in(job.comment, arrival.option)
    # A hook that was served late: the attempt has ended, and its end brings all that is needed.
    if wish is None or job.has("PENDING", "COMPLETING"):
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
    record = replace(record, by_option=arrival.option is not None)
    slurm.update_job(job.label, write_both(job, record))
    if old is not None and is_restart(old, record):
        report(account_restart(job, old, record))


def hold_end(
    slurm: Slurm,
    notes: Notes,
    limits: Limits,
    shown: JobFacts,
    arrival: Arrival,
    *,
    nodes: Sequence[NodeFacts],
    say: Say,
) -> None:
    """Hold a flagged job that ended by a failure, record it, and leave a note for the decider.

    ``nodes`` are those of the attempt that a pending job may have been stopped by. Done twice for
    one end, it changes nothing the second time.
    """
    wish = read_opt_in(shown.comment, arrival.option)
    if wish is None or wish.problem:
        return
    job = replace(shown, nodes=arrival.nodes or shown.nodes, start=arrival.start or shown.start)
    old = read_record(job.admin_comment)
    record = lifecycle.start_attempt(job, old, retry_limit(wish, limits))
    if not lifecycle.is_running(record):
        if lifecycle.is_unfinished(record):
            notes.add(Note(job.job_id, job.label, Ending.STOPPED_BY_NODE, record))
        return
    job = _with_lost_node(job, record, nodes)
    ending, why = _read_ending(job, record, nodes, limits)
    if ending is Ending.LEFT_ALONE:
        say(f"job {job.label} is left alone: {why}")
        return
    note = Note(job.job_id, job.label, ending, lifecycle.hold(record, job, ending, time.time()))
    notes.add(note)
    if ending is Ending.SENT_BACK:
        return
    finish_hold(slurm, job, note)
    say(Deed(f"job {job.label} is held as failoverinprogress: {describe_end(job, ending)}"))


def find_missed_end(
    limits: Limits, job: JobFacts, record: Record, nodes: Sequence[NodeFacts]
) -> Note | None:
    """A note for an end of which EpilogSlurmctld died before it left one; None if there is none.

    ``record`` still shows the attempt as running. A job whose owner took the wish back meanwhile is
    not brought back; where a node of ours stopped it before, it is not left held either.
    """
    if job.has("COMPLETING", "RUNNING"):
        return None
    ended = _with_lost_node(replace(job, start=record.attempt.start), record, nodes)
    ending, _ = _read_ending(ended, record, nodes, limits)
    is_ours = ending is Ending.STOPPED_BY_NODE or is_wished(job.comment, record)
    if ending in (Ending.LEFT_ALONE, Ending.SENT_BACK) or not is_ours:
        return None
    return Note(job.job_id, job.label, ending, lifecycle.hold(record, ended, ending, time.time()))


def finish_hold(slurm: Slurm, job: JobFacts, note: Note) -> None:
    """Hold the job, unless it is held, and write its held record."""
    if note.ending is Ending.FAILED and not job.has("PENDING"):
        # Somebody may have held it while it ran; that hold is not ours to replace.
        again = slurm.requeue if job.held else slurm.requeue_and_hold
        again(job.label)
    elif note.ending is Ending.NODE_LOST and not job.held:
        slurm.hold(job.label)
    slurm.update_job(job.label, write_both(job, note.record))


def write_both(job: JobFacts, record: Record) -> JobChange:
    """The record and its mirror, as one change."""
    return JobChange(
        comment=write_mirror(job.comment, record),
        admin_comment=write_record(job.admin_comment, record),
    )


def _with_lost_node(job: JobFacts, record: Record, nodes: Iterable[NodeFacts]) -> JobFacts:
    """The job with the node that it lost. Slurm shows that itself only until the job has left
    COMPLETING; later it can be told by a node of the attempt that went down since.
    """
    if job.failed_node or job.held or not job.has("PENDING"):
        return job
    mine = set(lifecycle.expand(record.attempt.nodes))
    down = (
        node.name
        for node in nodes
        if node.name in mine and node.has("DOWN") and node.reason_time >= record.attempt.start
    )
    return replace(job, failed_node=next(down, ""))


def _read_ending(
    job: JobFacts, record: Record, nodes: Iterable[NodeFacts], limits: Limits
) -> tuple[Ending, str]:
    """How the attempt ended, by the job and, where it waits again, by its nodes."""
    stopped = sent_back = False
    if job.has("PENDING"):
        mine = set(lifecycle.expand(record.attempt.nodes))
        heard = [node for node in nodes if node.name in mine]
        stopped = job.held and _stopped_by_node(job, heard)
        # No program of the job has run where a Prolog refused: its node is drained, and says why.
        sent_back = not job.held and any(map(is_drained_by_us, heard))
    return read_ending(
        job,
        attempt_nodes=record.attempt.nodes,
        limits=limits,
        stopped_by_node=stopped,
        sent_back=sent_back,
    )


def _stopped_by_node(job: JobFacts, nodes: Sequence[NodeFacts]) -> bool:
    """Whether a node of the attempt wrote that it requeued and held the job, or had no room left
    for that word: such a job stays held, and is told why.
    """
    told = any(
        entry.requeued
        for node in nodes
        for job_id in job.components or (job.job_id,)
        for entry in choose(read_evidence(node.name, node.extra), job_id, job.start)
    )
    return told or (job.held_by_requeue and any(_dropped_stop(node, job.start) for node in nodes))


def _dropped_stop(node: NodeFacts, start: float) -> bool:
    dropped = read_dropped(node.extra)
    return dropped is not None and dropped.stopped and dropped.covers(start)
