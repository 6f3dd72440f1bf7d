"""What a node does about a judgement: drain, leave word for the controller, stop the hit jobs.

The order matters, since any step can be the last: first the drain and the evidence, in one request,
then the jobs. Done again, it changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from slurm_failover.errors import RecordError
from slurm_failover.evidence import write_evidence
from slurm_failover.model import (
    Evidence,
    JobCause,
    JobFacts,
    Judgement,
    NodeAction,
    NodeFacts,
    Scope,
)
from slurm_failover.optin import read_opt_in
from slurm_failover.policy import refuse_job
from slurm_failover.record import read_record, tidy
from slurm_failover.slurm.client import NodeChange, Slurm

PREFIX = "slurm-failover: "
REASON_LIMIT = 240
"""Slurm's accounting database keeps 255 characters of a reason."""

_OUT_OF_SERVICE = ("DRAIN", "DOWN", "FAIL")


@dataclass(frozen=True, slots=True)
class EndingJob:
    """The job whose Epilog runs now, and what this node's log says of it.

    The controller holds it, so the node does not.
    """

    job_id: int
    start: float
    judgement: Judgement


class Responder:
    """Acts for one node."""

    def __init__(self, slurm: Slurm, node: str, say: Callable[[str], None]) -> None:
        self._slurm = slurm
        self._node = node
        self._say = say

    def respond(
        self, fault: Judgement | None, ending: EndingJob | None = None, starting: int | None = None
    ) -> tuple[int, ...]:
        """Drain the node for a new ``fault``, requeue the running flagged jobs that it hit, and
        leave word on the ``ending`` job. Returns the ids of the jobs that were hit.

        The ``starting`` job, whose Prolog this is, has lost nothing yet: Slurm itself sends it
        elsewhere. The reason of a node that is out of service already is left as it is, whoever
        placed it.
        """
        facts = self._slurm.nodes(self._node)[0]
        jobs = self._slurm.jobs_on(self._node) if fault else []
        jobs = [job for job in jobs if job.job_id != starting]
        hit = _choose_hit(fault, jobs, ending) if fault else []
        stopped = self._choose_stopped(fault, hit)
        entries = [self._entry(job, fault, job in stopped) for job in hit if fault]
        if ending is not None:
            entries.append(self._entry(ending, ending.judgement, False))
        reason = write_reason(fault, hit, ending) if fault else None
        self._write(facts, reason, entries)
        for job in stopped:
            self._slurm.requeue_and_hold(job.label)
            self._say(f"job {job.label} is requeued and held")
        return tuple(job.job_id for job in hit)

    @staticmethod
    def _choose_stopped(fault: Judgement | None, hit: list[JobFacts]) -> list[JobFacts]:
        """A fault that is not the hardware's drains a node at most; it stops no job."""
        if fault is None or fault.cause is not JobCause.HARDWARE:
            return []
        return [job for job in hit if _is_ours_to_stop(job)]

    def _write(self, facts: NodeFacts, reason: str | None, entries: list[Evidence]) -> None:
        """One request for the drain and the evidence; none where both are there already."""
        in_service = not facts.has(*_OUT_OF_SERVICE)
        extra = write_evidence(facts.extra, self._node, entries, time.time())
        change = NodeChange(
            drain=reason if in_service else None, extra=extra if extra != facts.extra else None
        )
        if change != NodeChange():
            self._slurm.update_node(self._node, change)
        if reason:
            kept = "" if in_service else f"; out of service already: {facts.reason}"
            self._say(f"drain: {reason}{kept}")

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
    needs = "; reboot needed" if fault.node is NodeAction.REBOOT else ""
    room = REASON_LIMIT - len(PREFIX) - len(needs) - len(tail)
    return f"{PREFIX}{tidy(fault.because, room)}{needs}{tail}"


def _choose_hit(fault: Judgement, jobs: list[JobFacts], ending: EndingJob | None) -> list[JobFacts]:
    """The other jobs that a fault belongs to; none where it could be any of several."""
    root = fault.root
    whole = root is not None and root.scope in (Scope.NODE, Scope.FABRIC)
    ours = jobs if whole or len(jobs) == 1 else []
    return [job for job in ours if ending is None or job.job_id != ending.job_id]


def _is_ours_to_stop(job: JobFacts) -> bool:
    """Whether a job is flagged, and still running."""
    return job.has("RUNNING", "SUSPENDED") and not job.has("COMPLETING") and _is_flagged(job)


def _is_flagged(job: JobFacts) -> bool:
    try:
        recorded = read_record(job.admin_comment) is not None
    except RecordError:
        return False
    wish = read_opt_in(job.comment)
    wished = wish is not None and not wish.problem
    return (recorded or wished) and not refuse_job(job)
