"""What nodes say about jobs, inside the node's Extra field in Slurm.

A node alone writes its own Extra, so there is no race between nodes; the controller only reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from slurm_failover import embed
from slurm_failover.model import Evidence, JobCause, NodeFacts
from slurm_failover.record import tidy

VERSION = 1
KEEP_FOR = 86400.0
"""Seconds after which a node prunes an entry at its next write."""
KEEP_AT_MOST = 16
SAME_ATTEMPT = 2.0
"""Seconds by which two readings of one attempt's start may differ."""

REASON_PREFIX = "slurm-failover: "
"""How the Reason of every drain of ours begins."""
REBOOT_NEEDED = "; reboot needed"
"""How it says that."""


def is_drained_by_us(facts: NodeFacts) -> bool:
    """Whether the node is out of service by a verdict of ours."""
    return facts.has("DRAIN") and facts.reason.startswith(REASON_PREFIX)


def read_evidence(node: str, extra: str) -> list[Evidence]:
    """The entries in a node's Extra. What can not be read is no evidence, and no error."""
    value = embed.take(extra)
    if not isinstance(value, dict) or value.get("v") != VERSION:
        return []
    jobs = value.get("jobs")
    entries = [_decode(node, item) for item in jobs] if isinstance(jobs, list) else []
    return [entry for entry in entries if entry is not None]


def write_evidence(extra: str, node: str, new: Iterable[Evidence], now: float) -> str:
    """``extra`` with new entries added, old ones pruned, and all foreign members kept.

    An entry about an attempt replaces an earlier one, unless that was of hardware: a worse fault
    never gets a milder verdict. That the node stopped the job is never forgotten.
    """
    kept = [entry for entry in read_evidence(node, extra) if now - entry.time < KEEP_FOR]
    for entry in new:
        same = next((old for old in kept if about(old, entry.job_id, entry.start)), None)
        if same is None:
            kept.append(entry)
        else:
            kept[kept.index(same)] = _merge(same, entry)
    jobs = [_encode(entry) for entry in kept[-KEEP_AT_MOST:]]
    return embed.put(extra, {**_others(extra), "v": VERSION, "jobs": jobs})


def about(entry: Evidence, job_id: int, start: float) -> bool:
    """Whether an entry speaks of this attempt of this job."""
    return entry.job_id == job_id and abs(entry.start - start) <= SAME_ATTEMPT


def choose(entries: Sequence[Evidence], job_id: int, start: float) -> list[Evidence]:
    """The entries that speak of this attempt."""
    return [entry for entry in entries if about(entry, job_id, start)]


def _others(extra: str) -> dict[str, Any]:
    """What else of ours stands in a node's Extra."""
    value = embed.take(extra)
    return value if isinstance(value, dict) and value.get("v") == VERSION else {}


def _merge(old: Evidence, new: Evidence) -> Evidence:
    worse = old if old.cause is JobCause.HARDWARE else new
    return replace(worse, requeued=old.requeued or new.requeued)


def _encode(entry: Evidence) -> dict[str, Any]:
    value = {
        "job": entry.job_id,
        "start": round(entry.start),
        "cause": entry.cause.value,
        "because": tidy(entry.because),
        "time": round(entry.time),
    }
    flags = {"requeued": entry.requeued, "passing": entry.passing}
    return value | {name: True for name, is_set in flags.items() if is_set}


def _decode(node: str, item: object) -> Evidence | None:
    if not isinstance(item, dict):
        return None
    try:
        start, time = embed.read_time(item["start"]), embed.read_time(item["time"])
        return Evidence(
            node=node,
            job_id=int(item["job"]),
            start=start,
            cause=JobCause(item["cause"]),
            because=tidy(str(item["because"])),
            time=time,
            requeued=item.get("requeued") is True,
            passing=item.get("passing") is True,
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
