"""All that a decision rests on, gathered from the job, its record and its nodes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ClusterShell.NodeSet import NodeSet

from slurm_failover.breaker import read_notes
from slurm_failover.evidence import choose, is_drained_by_us, read_dropped, read_evidence
from slurm_failover.model import Evidence, JobCause, JobFacts, Limits, NodeFacts
from slurm_failover.record import Record
from slurm_failover.refusal import refuse_job

EPILOG_FAILED = "its Epilog failed, and it has not told why"
WORD_LOST = "its Extra in Slurm had no room for all its words, and one on this job may be lost"
_EPILOG_ERROR = re.compile(r"Epilog error\b")
"""How the Reason begins that slurmctld gives to such a node (job_epilog_complete in job_mgr.c);
what others append stands behind " : ".
"""


@dataclass(frozen=True, slots=True)
class Case:
    """All that a decision rests on.

    ``pinned`` are the faulty nodes that the job asks for by name, so that it can run nowhere else.
    ``owing`` are the nodes whose Epilog failed and that have not told of a fault of the hardware:
    what else they say they knew before, since ours fails for nothing milder.
    ``shows_fault`` says that one of the nodes shows a fault of its own since the attempt began,
    whichever job it hit.
    """

    record: Record
    limits: Limits
    limit: int
    refusal: str
    pinned: str
    hardware: tuple[Evidence, ...]
    internal: tuple[Evidence, ...]
    image: tuple[Evidence, ...]
    busy: tuple[Evidence, ...]
    hung: tuple[Evidence, ...]
    unknown: tuple[Evidence, ...]
    owing: tuple[str, ...] = ()
    shows_fault: bool = False

    @property
    def pause(self) -> int:
        """Seconds before the next try: they double, up to the site's limit."""
        longest = self.limits.image_longest_wait
        doubled = self.limits.image_first_wait << min(self.record.backoffs, 20)
        return min(doubled, longest)


def gather(
    job: JobFacts, record: Record, nodes: Iterable[NodeFacts], limits: Limits, silent: bool
) -> Case:
    """What job, record and nodes say. ``silent`` says that an Epilog has not ended in time."""
    entries: list[Evidence] = []
    owing: list[str] = []
    for node in nodes:
        found = read_evidence(node.name, node.extra)
        own = [
            entry
            for job_id in job.components or (job.job_id,)
            for entry in choose(found, job_id, record.attempt.start)
        ]
        entries += own
        entries += _read_node_state(node, job, record, limits, silent)
        is_told = any(entry.cause is JobCause.HARDWARE for entry in own)
        if not is_told and _failed_in_epilog(node, record.attempt.start):
            owing.append(node.name)
            entries.append(_entry(job, record, JobCause.UNKNOWN, node.name, EPILOG_FAILED))
        dropped = read_dropped(node.extra)
        if not is_told and dropped and dropped.covers(record.attempt.start):
            entries.append(_entry(job, record, JobCause.UNKNOWN, node.name, WORD_LOST))
    if silent:
        entries.append(_entry(job, record, JobCause.UNKNOWN, "", "a node's Epilog has not ended"))
    by_cause = {cause: tuple(e for e in entries if e.cause is cause) for cause in JobCause}
    images = by_cause[JobCause.IMAGE_PULL]
    hardware = by_cause[JobCause.HARDWARE]
    return Case(
        record=record,
        limits=limits,
        limit=min(record.max_retries, limits.max_retries),
        refusal=refuse_job(job, limits),
        pinned=str(nodes_of(hardware) & NodeSet(job.required)),
        hardware=hardware,
        internal=by_cause[JobCause.INTERNAL],
        image=tuple(e for e in images if not e.passing),
        busy=tuple(e for e in images if e.passing),
        hung=by_cause[JobCause.HUNG],
        unknown=by_cause[JobCause.UNKNOWN],
        owing=tuple(owing),
        shows_fault=any(_shows_fault(node, record.attempt.start) for node in nodes),
    )


def nodes_of(entries: Iterable[Evidence]) -> NodeSet:
    """The nodes that the entries speak of."""
    return NodeSet.fromlist([entry.node for entry in entries])


def _read_node_state(
    node: NodeFacts, job: JobFacts, record: Record, limits: Limits, silent: bool
) -> list[Evidence]:
    """What Slurm itself knows against a node: it is lost, or a trusted tool drained it.

    A node that does not answer is lost only if it has also let the time for its Epilog pass: Slurm
    may take as long as that to call it DOWN, and shows every resumed node so for a moment.
    """
    if node.has("DOWN", "FAIL") or node.name == record.lost:
        return [_entry(job, record, JobCause.HARDWARE, node.name, "Slurm lost the node")]
    if silent and {"NOT_RESPONDING", "COMPLETING"} <= node.states:
        words = "the node does not answer, and its Epilog has not ended in time"
        return [_entry(job, record, JobCause.HARDWARE, node.name, words)]
    in_time = node.reason_time >= record.attempt.start
    if node.has("DRAIN") and in_time and _matches(node.reason, limits.trusted_reasons):
        words = f"drained by another tool: {node.reason}"
        return [_entry(job, record, JobCause.HARDWARE, node.name, words)]
    return []


def _failed_in_epilog(node: NodeFacts, since: float) -> bool:
    """Whether Slurm drained a node for an Epilog that failed. Ours does so where it has found a
    fault of the hardware and can not tell slurmctld, which slurmd does for it.
    """
    said = any(_EPILOG_ERROR.match(part) for part in node.reason.split(" : "))
    return said and node.has("DRAIN") and node.reason_time >= since


def _shows_fault(node: NodeFacts, since: float) -> bool:
    """Whether a node tells of a fault of its own that came since: by our drain, or by its note
    where it was out of service before or the drain waits.
    """
    is_ours = is_drained_by_us(node) and node.reason_time >= since
    return is_ours or any(note.time >= since for note in read_notes(node.name, node.extra))


def _entry(job: JobFacts, record: Record, cause: JobCause, node: str, because: str) -> Evidence:
    return Evidence(node, job.job_id, record.attempt.start, cause, because)


def _matches(reason: str, patterns: Iterable[str]) -> bool:
    return any(re.match(pattern, reason) for pattern in patterns)
