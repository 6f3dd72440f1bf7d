"""What a node does about a judgement: drain, leave word for the controller, stop the hit jobs.

The order matters, since any step can be the last: first the drain and the evidence, in one request,
then the jobs. Done again, it changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from slurm_failover.breaker import drop_waiting, read_notes, write_notes
from slurm_failover.deed import Deed
from slurm_failover.errors import RecordError
from slurm_failover.evidence import (
    REASON_PREFIX,
    REBOOT_NEEDED,
    is_drained_by_us,
    tell_dropped,
    write_evidence,
)
from slurm_failover.model import (
    Evidence,
    JobCause,
    JobFacts,
    Judgement,
    Limits,
    NodeAction,
    NodeFacts,
)
from slurm_failover.node.checkpoint import stop_job
from slurm_failover.record import is_wished, read_record, tidy
from slurm_failover.refusal import ANYWHERE, refuse_job
from slurm_failover.settings.tables import NO_CHECKPOINT, CheckpointSettings
from slurm_failover.slurm.client import NodeChange, Slurm

if TYPE_CHECKING:
    from slurm_failover.node.blame import Share

REASON_LIMIT = 240
"""Slurm's accounting database keeps 255 characters of a reason."""
SLURMS_OWN = frozenset({"reboot issued", "reboot complete", "reboot timed out", "Not responding"})
"""What slurmctld appends to any reason, each behind " : " (set_node_reason in node_mgr.c)."""


@dataclass(frozen=True, slots=True)
class EndingJob:
    """The job whose Epilog runs now, and what this node's log says of it.

    The controller holds it, so the node does not.
    """

    job_id: int
    start: float
    judgement: Judgement


def all_hit(
    running: Sequence[tuple[JobFacts, Share]], ends: Sequence[JobFacts], ending: EndingJob | None
) -> list[JobFacts]:
    """The jobs that a fault has hit, with the one that ``ends``, if Slurm still knows it."""
    hit = [job for job, share in running if share.judgement.cause is JobCause.HARDWARE]
    if ending is not None and ending.judgement.cause is JobCause.HARDWARE:
        hit += [replace(job, start=ending.start) for job in ends]
    return hit


@dataclass(frozen=True, slots=True)
class Response:
    """What was done: the ids of the running jobs that were hit, and the Reason under which we took
    the node out of service; empty where it was out of service already.
    """

    hit: tuple[int, ...] = ()
    reason: str = ""


class Responder:
    """Acts for one node."""

    def __init__(
        self,
        slurm: Slurm,
        node: str,
        say: Callable[[str], None],
        limits: Limits = ANYWHERE,
        checkpoint: CheckpointSettings = NO_CHECKPOINT,
        *,
        acts: bool = True,
    ) -> None:
        """``acts`` is False in observe mode: then no word says that the node stopped a job."""
        self._acts = acts
        self._slurm = slurm
        self._limits = limits
        self._checkpoint = checkpoint
        self._node = node
        self._say = say

    def respond(
        self,
        facts: NodeFacts,
        fault: Judgement | None,
        running: Sequence[tuple[JobFacts, Share]] = (),
        ending: EndingJob | None = None,
        noted: str | None = None,
    ) -> Response:
        """Drain the node for a new ``fault``, requeue the ``running`` flagged jobs that it hit, and
        leave word on the ``ending`` job.

        ``facts`` are the node's, and ``noted`` is its Extra as it shall be beside this word, if not
        as it is. The reason of a node that is out of service already is left as it
        is, whoever placed it.
        """
        hit = [(job, share) for job, share in running if _is_hit(share)]
        self._say_doubts(running, ending)
        stopped = [job for job, _ in hit if is_ours_to_stop(job, self._limits)]
        entries = [
            self._entry(job, share.judgement, self._acts and job in stopped) for job, share in hit
        ]
        if ending is not None:
            entries.append(self._entry(ending, ending.judgement, False))
        reason = write_reason(fault, [job for job, _ in hit], ending) if fault else ""
        self._write(facts, facts.extra if noted is None else noted, reason, entries)
        for job in stopped:
            stop_job(self._slurm, job, self._checkpoint, self._say)
        ours = is_in_service(facts) or facts.reason == reason
        return Response(tuple(job.job_id for job, _ in hit), reason if ours else "")

    def word_on(self, facts: NodeFacts, ending: EndingJob | None) -> str:
        """The node's Extra with word on the ``ending`` job, to be written before anything else."""
        entries = [self._entry(ending, ending.judgement, False)] if ending is not None else []
        return self._add(facts.extra, entries)

    def _add(self, extra: str, entries: list[Evidence]) -> str:
        """``extra`` with these words; what it has no room for is said."""
        told = write_evidence(extra, self._node, entries, time.time())
        full = tell_dropped(extra, told)
        if full:
            self._say(full)
        return told

    def _say_doubts(
        self, running: Sequence[tuple[JobFacts, Share]], ending: EndingJob | None
    ) -> None:
        for job, share in running:
            if share.doubt and not job.has("COMPLETING"):
                self._say(f"job {job.label} runs on: {share.doubt}")
        if ending is not None and ending.judgement.cause is JobCause.UNKNOWN:
            self._say(f"job {ending.job_id} failed: {ending.judgement.because}")

    def _write(self, facts: NodeFacts, noted: str, reason: str, entries: list[Evidence]) -> None:
        """One request for the drain and the evidence; none where both are there already."""
        in_service = is_in_service(facts)
        extra = self._add(noted, entries)
        if reason:
            extra = write_notes(extra, drop_waiting(read_notes(self._node, extra)), time.time())
        change = NodeChange(
            drain=reason if reason and in_service else None,
            extra=extra if extra != facts.extra else None,
        )
        if change != NodeChange():
            self._slurm.update_node(self._node, change)
        if reason:
            kept = "" if in_service else f"; out of service already: {facts.reason}"
            self._say(Deed(f"drain: {reason}{kept}"))

    def _entry(self, job: JobFacts | EndingJob, judgement: Judgement, requeued: bool) -> Evidence:
        return Evidence(
            node=self._node,
            job_id=job.job_id,
            start=job.start,
            cause=judgement.cause,
            because=judgement.because,
            time=time.time(),
            requeued=requeued,
        )


def write_reason(fault: Judgement, hit: Iterable[JobFacts], ending: EndingJob | None) -> str:
    """The drain reason: who says it, what was found, which jobs it hit."""
    labels = [job.label for job in hit]
    if ending is not None and ending.judgement.cause is JobCause.HARDWARE:
        labels.insert(0, str(ending.job_id))
    tail = f" (job{'s' * (len(labels) > 1)} {', '.join(labels[:4])})" if labels else ""
    needs = REBOOT_NEEDED if fault.node is NodeAction.REBOOT else ""
    room = REASON_LIMIT - len(REASON_PREFIX) - len(needs) - len(tail)
    return f"{REASON_PREFIX}{tidy(fault.because, room)}{needs}{tail}"


def is_in_service(facts: NodeFacts) -> bool:
    """Whether Slurm may start jobs on a node."""
    return not facts.has("DRAIN", "DOWN", "FAIL")


def is_as_written(reason: str, written: str) -> bool:
    """Whether a reason is the one that we wrote, but for what Slurm itself has appended."""
    before, _, appended = reason.partition(written)
    return (
        not before
        and not set(appended.split(" : ")[1:]) - SLURMS_OWN
        and (not appended or appended.startswith(" : "))
    )


def lift_drain(slurm: Slurm, node: str, written: str) -> str:
    """Return a node to service that is out of it by our own drain; else a sentence why not.

    ``written`` is the Reason that we gave, empty where that is not known: one that somebody has
    changed since is theirs. Raises SlurmError.
    """
    facts = slurm.nodes(node)[0]
    if is_in_service(facts):
        return f"{node} is in service"
    if not is_drained_by_us(facts):
        return f"its reason is not ours: {facts.reason or 'none given'}"
    if written and not is_as_written(facts.reason, written):
        return f"its reason was changed since we wrote it: {facts.reason}"
    slurm.update_node(node, NodeChange(resume=True))
    return ""


def _is_hit(share: Share) -> bool:
    """A fault that is not the hardware's drains a node at most; it is no running job's."""
    return share.judgement.cause is JobCause.HARDWARE


def is_ours_to_stop(job: JobFacts, limits: Limits) -> bool:
    """Whether a job is flagged, and still running."""
    return (
        job.has("RUNNING", "SUSPENDED") and not job.has("COMPLETING") and _is_flagged(job, limits)
    )


def _is_flagged(job: JobFacts, limits: Limits) -> bool:
    """A later component of a heterogeneous job is flagged by its leader alone, whose record it
    bears: one that was stopped for words of its own would be held, and nobody would decide on it.
    """
    try:
        record = read_record(job.admin_comment)
    except RecordError:
        return False
    wished = record is not None if job.is_led else is_wished(job.comment, record)
    return wished and not refuse_job(job, limits)
