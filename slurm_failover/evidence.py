"""What nodes say about jobs, inside the node's Extra field in Slurm.

A node alone writes its own Extra, so there is no race between nodes; the controller only reads.

A job waits for its node's word until the decider has read it, which takes seconds, or days while
the circuit breaker is open; the node is never told when. So a word that decides what becomes of a
job goes by age and for lack of room alone, and that one went for lack of room stands there as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from slurm_failover import embed
from slurm_failover.model import Evidence, JobCause, NodeFacts
from slurm_failover.record import tidy

VERSION = 1
KEEP_FOR = 7 * 86400.0
"""Seconds after which a node prunes a word of hardware, or that it stopped a job, at its next
write: jobs wait for these while the circuit breaker is open, over a long weekend if need be."""
KEEP_OTHERS_FOR = 86400.0
"""Seconds after which it prunes any other: they are read within minutes of the job's end."""
KEEP_OTHERS = 64
"""How many of these others are kept, the latest: more than jobs that can end together on the GPUs
of a node (8 in 7 instances each), and few enough that a user whose jobs all fail does not bloat the
answer on all nodes that ``status`` asks for."""
LONGEST_EXTRA = 1 << 16
"""Bytes that an Extra may have for a word to be added: some 400 words of 150. Slurm itself has no
limit but 1 GiB for any string (MAX_PACK_MEM_LEN in pack.h; update_node in node_mgr.c takes what it
gets); Linux has one of 128 KiB for one argument of scontrol (MAX_ARG_STRLEN, execve(2))."""
SAME_ATTEMPT = 2.0
"""Seconds by which two readings of one attempt's start may differ."""

_DROPPED = "dropped"
_HARDWARE, _STOPPED = 2, 3
"""Weights of words."""

REASON_PREFIX = "slurm-failover: "
"""How the Reason of every drain of ours begins."""
REBOOT_NEEDED = "; reboot needed"
"""How it says that."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """That words went for lack of room: on attempts that started from ``first`` to ``last``.

    ``time`` is when the latest went; all are in seconds since the epoch. ``stopped`` says that the
    node stopped one of these jobs.
    """

    first: float
    last: float
    time: float
    stopped: bool = False

    def covers(self, start: float) -> bool:
        """Whether a word on an attempt that started then may be among them."""
        return self.first - SAME_ATTEMPT <= start <= self.last + SAME_ATTEMPT


_LONGEST_TRACE = Dropped(embed.LAST_TIME, embed.LAST_TIME, embed.LAST_TIME, stopped=True)


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


def read_dropped(extra: str) -> Dropped | None:
    """Which words a node's Extra had no room for; None where it had room for all."""
    value = _others(extra).get(_DROPPED)
    if not isinstance(value, dict):
        return None
    try:
        first, last, time = (embed.read_time(value[key]) for key in ("first", "last", "time"))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return Dropped(first, last, time, value.get("stopped") is True)


def write_evidence(extra: str, node: str, new: Iterable[Evidence], now: float) -> str:
    """``extra`` with new entries added, old ones pruned, and all foreign members kept.

    An entry about an attempt replaces an earlier one, unless that was of hardware: a worse fault
    never gets a milder verdict. That the node stopped the job is never forgotten. What there is no
    room for is left out, the mildest and oldest first; ``read_dropped`` tells where it was more
    than an explanation.
    """
    words = [word for word in read_evidence(node, extra) if now - word.time < _life(word)]
    for entry in new:
        same = next((old for old in words if about(old, entry.job_id, entry.start)), None)
        if same is None:
            words.append(entry)
        else:
            words[words.index(same)] = _merge(same, entry)
    return _put(extra, words, now)


def tell_dropped(before: str, after: str) -> str:
    """A sentence for the log where an Extra had no room for words as it was written; else empty."""
    dropped = read_dropped(after)
    if dropped is None or dropped == read_dropped(before):
        return ""
    return (
        f"the node's Extra has no room for all words on its jobs ({LONGEST_EXTRA} bytes): a job "
        "whose word is lost is held as internalerror, and `slurm-failover status` says so"
    )


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


def _put(extra: str, words: Sequence[Evidence], now: float) -> str:
    """``extra`` with as many of the words as there is room for, and of the others a trace."""
    before = read_dropped(extra)
    dropped = before if before is not None and now - before.time < KEEP_FOR else None
    rest = {key: item for key, item in _others(extra).items() if key != _DROPPED}
    bare = embed.put(extra, {**rest, "v": VERSION, "jobs": [], **_trace(_LONGEST_TRACE)})
    kept = _choose_kept(words, LONGEST_EXTRA - len(bare.encode("utf-8", "surrogatepass")))
    for index in sorted(set(range(len(words))) - kept):
        if _weight(words[index]):
            dropped = _add_dropped(dropped, words[index], now)
    jobs = [_encode(words[index]) for index in sorted(kept)]
    return embed.put(extra, {**rest, "v": VERSION, "jobs": jobs, **_trace(dropped)})


def _trace(dropped: Dropped | None) -> dict[str, Any]:
    """The member that tells of words that went; none where none did."""
    if dropped is None:
        return {}
    times = {"first": dropped.first, "last": dropped.last, "time": dropped.time}
    value: dict[str, Any] = {key: round(time) for key, time in times.items()}
    return {_DROPPED: value | ({"stopped": True} if dropped.stopped else {})}


def _choose_kept(words: Sequence[Evidence], room: int) -> set[int]:
    """The places of the words that are kept in so many bytes: the weightiest, then the latest."""
    latest = sorted(range(len(words)), reverse=True)
    ranked = sorted(latest, key=lambda index: _weight(words[index]), reverse=True)
    decisive = [index for index in ranked if _is_decisive(words[index])]
    wanted = [*decisive, *ranked[len(decisive) :][:KEEP_OTHERS]]
    sizes = accumulate(_size(words[index]) for index in wanted)
    return {index for index, size in zip(wanted, sizes, strict=True) if size <= room}


def _weight(word: Evidence) -> int:
    """How much a job depends on a word; 0 where it only explains: without it the job is held too.

    Without a word that its node stopped it no decision comes at all; without one of hardware, or
    of an image that can be fetched later, one that is too hard.
    """
    if word.requeued:
        return _STOPPED
    return _HARDWARE if word.cause is JobCause.HARDWARE else int(word.passing)


def _is_decisive(word: Evidence) -> bool:
    """Whether a job may wait for this word as long as the circuit breaker is open."""
    return _weight(word) >= _HARDWARE


def _life(word: Evidence) -> float:
    return KEEP_FOR if _is_decisive(word) else KEEP_OTHERS_FOR


def _size(word: Evidence) -> int:
    """Bytes of a word with the comma before it."""
    return len(json.dumps(_encode(word), separators=(",", ":"))) + 1


def _add_dropped(before: Dropped | None, word: Evidence, now: float) -> Dropped:
    first, last, stopped = word.start, word.start, word.requeued
    if before is not None:
        first, last = min(before.first, first), max(before.last, last)
        stopped = stopped or before.stopped
    return Dropped(first, last, now, stopped)


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
