"""A hang without a fault: a flagged job holds GPUs, leaves them idle, and writes nothing. Pure.

Each node says in its Extra for which attempts all GPUs that it gave have been idle for the site's
time; the job's batch host says so only while the job's log has not grown either. An attempt of
which every node says so is suspected. A user can bring that about: it harms nobody but that user.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from slurm_failover import embed
from slurm_failover.evidence import SAME_ATTEMPT
from slurm_failover.lifecycle import expand
from slurm_failover.model import JobFacts, NodeFacts

VERSION = 1
KEEP_AT_MOST = 16
_MEMBER = "quiet"


@dataclass(frozen=True, slots=True)
class Quiet:
    """One node's word on one attempt, which is named by its ``start``: quiet ``since`` a time."""

    job_id: int
    start: float
    since: float


def follow_idle(
    before: Mapping[str, float], gpus: Iterable[tuple[str, int | None]], now: float, percent: int
) -> dict[str, float]:
    """Since when each GPU has been idle. ``gpus`` are PCI ids with utilizations in percent; one
    that is unknown is not idle.
    """
    idle = [pci for pci, busy in gpus if busy is not None and busy <= percent]
    return {pci: before.get(pci, now) for pci in idle}


def quiet_since(held: Collection[str] | None, idle: Mapping[str, float]) -> float | None:
    """Since when all the GPUs in ``held`` have been idle; None if one is not, if there is none, or
    where nobody knows which they are.
    """
    if not held or any(pci not in idle for pci in held):
        return None
    return max(idle[pci] for pci in held)


def suspect(job: JobFacts, nodes: Iterable[NodeFacts]) -> float | None:
    """Since when a job is suspected to hang; None if it is not. ``nodes`` may be any."""
    if not job.runs_since(job.start):
        return None
    names = set(expand(job.nodes))
    words = {
        node.name: word.since
        for node in nodes
        if node.name in names
        for word in read_quiet(node.extra)
        if word.job_id == job.job_id and abs(word.start - job.start) <= SAME_ATTEMPT
    }
    return max(words.values()) if names and words.keys() == names else None


def read_quiet(extra: str) -> list[Quiet]:
    """The words in a node's Extra. What can not be read is none, and no error."""
    items = _ours(extra).get(_MEMBER)
    words = [_decode(item) for item in items] if isinstance(items, list) else []
    return [word for word in words if word is not None]


def write_quiet(extra: str, words: Sequence[Quiet]) -> str:
    """``extra`` with these words in place of the ones there, all else kept."""
    ours = {key: item for key, item in _ours(extra).items() if key != _MEMBER}
    if not words:
        return embed.put(extra, ours) if ours else extra
    items = [[word.job_id, round(word.start), round(word.since)] for word in words[-KEEP_AT_MOST:]]
    return embed.put(extra, {"v": VERSION, **ours, _MEMBER: items})


def _ours(extra: str) -> dict[str, Any]:
    value = embed.take(extra)
    return value if isinstance(value, dict) and value.get("v") == VERSION else {}


def _decode(item: object) -> Quiet | None:
    if not isinstance(item, list) or len(item) != 3:
        return None
    try:
        word = Quiet(int(item[0]), float(item[1]), float(item[2]))
    except (TypeError, ValueError, OverflowError):
        return None
    return word if isfinite(word.start) and isfinite(word.since) else None
