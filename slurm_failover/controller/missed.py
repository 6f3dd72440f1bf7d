"""What no hook lived to record: starts, ends and late words that reconcile finds in Slurm itself.

What is found goes the way of a hook's arrival, or back to the decider.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence

from slurm_failover import embed, lifecycle
from slurm_failover.controller.arrivals import Arrival, Kind, Queue
from slurm_failover.controller.endings import write_both
from slurm_failover.deed import Deed
from slurm_failover.evidence import SAME_ATTEMPT, read_evidence
from slurm_failover.model import Evidence, JobFacts, Limits, NodeFacts
from slurm_failover.optin import SITE_DEFAULT, has_wish, read_refusal
from slurm_failover.policy import Action, decide
from slurm_failover.record import Record, State, Step, is_wished
from slurm_failover.refusal import refuse_job
from slurm_failover.slurm.client import Slurm
from slurm_failover.stopped import read_stops, read_stops_without_record

Say = Callable[[str], None]
Recorded = tuple[JobFacts, Record]

SETTLED = 30.0
"""Seconds in which the hook of a start records it by itself."""


class Missed:
    """Takes up what hooks have missed. ``queue`` is where their arrivals wait."""

    def __init__(self, slurm: Slurm, queue: Queue, limits: Limits, say: Say) -> None:
        self._slurm = slurm
        self._queue = queue
        self._limits = limits
        self._say = say

    def hand_in(self, found: Iterable[tuple[JobFacts, Record | None]]) -> None:
        """Hand in the starts and ends of which no record tells. Raises SlurmError."""
        now, found = time.time(), list(found)
        held = {job.job_id for job, record in found if _may_be_stopped(job, record, self._limits)}
        nodes = [node for node in self._slurm.nodes() if _has_stopped(node)] if held else []
        for job, record in found:
            is_held = job.job_id in held
            stop = find_stop_without_record(job, record, nodes, now) if is_held else None
            arrival = stop or find_missed_arrival(job, record, now)
            if arrival is not None:
                self._say(f"job {job.label}: its {arrival.kind} was missed")
                self._queue.add(arrival)

    def take_up(self, recorded: Sequence[Recorded]) -> list[Recorded]:
        """Take up attempts that ended without a word, and denials that a late word overturns. The
        jobs with their records as they are now. Raises SlurmError.
        """
        outrun = [(job, r) for job, r in recorded if lifecycle.is_outrun(r, job)]
        denied = [(job, r) for job, r in recorded if _is_denied(job, r)]
        nodes = self._ask_nodes(outrun, denied)
        new = {job.job_id: self._take_up_stop(job, r, nodes) for job, r in outrun}
        new |= {job.job_id: self._reopen(job, r, nodes) for job, r in denied}
        return [(job, new.get(job.job_id, record)) for job, record in recorded]

    def _ask_nodes(self, outrun: list[Recorded], denied: list[Recorded]) -> list[NodeFacts]:
        """Where an unrecorded attempt ran nobody knows: any node may tell."""
        if outrun:
            return self._slurm.nodes()
        names = lifecycle.merge_nodes(*(record.attempt.nodes for _, record in denied))
        return self._slurm.nodes(names) if names else []

    def _take_up_stop(self, job: JobFacts, record: Record, nodes: Sequence[NodeFacts]) -> Record:
        """The end of a later attempt is handed in where a node stopped it; else it is someone's."""
        if job.has("COMPLETING"):
            return record
        arrival = find_unrecorded_stop(job, record, nodes)
        if arrival is None:
            return self._write(job, lifecycle.step_back(record, "it was requeued and held again"))
        self._say(f"job {job.label}: the end of a later attempt was missed")
        self._queue.add(arrival)
        return record

    def _reopen(self, job: JobFacts, record: Record, nodes: Sequence[NodeFacts]) -> Record:
        opened = overturn(job, record, nodes, self._limits)
        return record if opened is None else self._write(job, opened)

    def _write(self, job: JobFacts, record: Record) -> Record:
        self._slurm.update_job(job.label, write_both(job, record))
        self._say(Deed(f"job {job.label}: {record.because}"))
        return record


def has_failed_before(job: JobFacts, since: float) -> bool:
    """Whether a job failed before that moment, in seconds since the epoch. Slurm's times are whole
    seconds, cut.
    """
    return _has_failed(job) and job.end <= since


def find_missed_arrival(job: JobFacts, record: Record | None, now: float) -> Arrival | None:
    """The start or the failure of an attempt of which ``record`` knows nothing; None if it does."""
    if not _is_flagged(job, record) or (record is not None and record.attempt.start >= job.start):
        return None
    kind = _kind(job, now)
    if kind is None:
        return None
    return Arrival(kind, str(job.job_id), job.start, job.nodes, _option(record))


def find_unrecorded_stop(
    job: JobFacts, record: Record, nodes: Iterable[NodeFacts]
) -> Arrival | None:
    """The end of a later attempt than the recorded one that a node stopped; neither its start nor
    its end was recorded.
    """
    later = record.attempt.start + SAME_ATTEMPT
    return _end_of(job, record, [word for word in read_stops(job, nodes) if word.start > later])


def find_stop_without_record(
    job: JobFacts, record: Record | None, nodes: Iterable[NodeFacts], now: float
) -> Arrival | None:
    """The end of an attempt that a node stopped of a job of which no attempt is recorded."""
    return _end_of(job, record, read_stops_without_record(job, nodes, now))


def _end_of(job: JobFacts, record: Record | None, words: Collection[Evidence]) -> Arrival | None:
    """The arrival of the latest end of which the words of nodes tell. What a node has stopped is
    taken up though its owner took the wish back since: it would stay held for ever.
    """
    if not words:
        return None
    asked = str(record.max_retries) if record is not None else SITE_DEFAULT
    option = _option(record) if has_wish(job.comment) else asked
    start = max(word.start for word in words)
    names = ",".join(sorted(word.node for word in words if word.start == start))
    return Arrival(Kind.END, str(job.job_id), start, names, option)


def _is_denied(job: JobFacts, record: Record) -> bool:
    """Whether a job is held for its owner, since no node of its attempt had a hardware fault."""
    waits = job.has("PENDING") and job.held_by_requeue and not job.has("COMPLETING")
    return waits and record.state is State.INTERNALERROR and record.step is Step.NONE


def overturn(
    job: JobFacts, record: Record, nodes: Sequence[NodeFacts], limits: Limits
) -> Record | None:
    """The record of a denied job with its decision open again, where a node that could not tell in
    time now tells of a hardware fault; None where that changes nothing.
    """
    names = lifecycle.expand(record.attempt.nodes)
    opened = lifecycle.reopen(record)
    verdict = decide(job, opened, [node for node in nodes if node.name in names], limits)
    return opened if verdict.action in (Action.FAILOVER, Action.EXCEED) else None


def _is_flagged(job: JobFacts, record: Record | None) -> bool:
    if record is None:
        return has_wish(job.comment) and not read_refusal(job.comment)
    return is_wished(job.comment, record)


def _kind(job: JobFacts, now: float) -> Kind | None:
    if job.has("COMPLETING"):
        return None
    if job.has("RUNNING", "SUSPENDED") and now - job.start > SETTLED:
        return Kind.START
    return Kind.END if _has_failed(job) else None


def _has_failed(job: JobFacts) -> bool:
    return job.has("FAILED", "OUT_OF_MEMORY")


def _option(record: Record | None) -> str | None:
    """What the job's ``--failover`` asked for, if it was submitted with that."""
    return str(record.max_retries) if record is not None and record.by_option else None


def _may_be_stopped(job: JobFacts, record: Record | None, limits: Limits) -> bool:
    """Whether a job of which no hook of ours has recorded an attempt may be held by its node. A
    record that can not be read is one. What its comment says of a refusal, the node did not ask
    either.
    """
    waits = job.has("PENDING") and job.held and job.held_by_requeue and not job.has("COMPLETING")
    unread = record is None and embed.take(job.admin_comment) is not None
    is_new = not unread and (record is None or not record.attempt.start)
    return waits and is_new and not refuse_job(job, limits)


def _has_stopped(node: NodeFacts) -> bool:
    return any(entry.requeued for entry in read_evidence(node.name, node.extra))
