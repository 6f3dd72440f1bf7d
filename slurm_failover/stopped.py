"""Attempts of a job that its nodes have stopped, by their words in Slurm. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from slurm_failover.evidence import SAME_ATTEMPT, read_evidence
from slurm_failover.model import Evidence, JobFacts, NodeFacts

_YOUNG = 86400.0
"""Seconds after which a word may be on an earlier job of the same number."""


def read_stops(job: JobFacts, nodes: Iterable[NodeFacts]) -> list[Evidence]:
    """The words of nodes that they stopped an attempt of the job."""
    ids = job.components or (job.job_id,)
    words = (word for node in nodes for word in read_evidence(node.name, node.extra))
    return [word for word in words if word.requeued and word.job_id in ids]


def read_stops_without_record(
    job: JobFacts, nodes: Iterable[NodeFacts], now: float
) -> list[Evidence]:
    """These words on a held job of which nothing is recorded, if its nodes hold it by them; ``now``
    is in seconds since the epoch. One that was restarted more often than nodes have stopped it may
    be held by another, and is left alone; so is one whose nodes said so more than a day ago.
    """
    words = [word for word in read_stops(job, nodes) if now - word.time < _YOUNG]
    return words if _count_attempts(words) >= job.restarts else []


def _count_attempts(words: Iterable[Evidence]) -> int:
    """Of how many attempts the words of nodes tell."""
    starts = sorted(word.start for word in words)
    return len(starts[:1]) + sum(later - one > SAME_ATTEMPT for one, later in pairwise(starts))
