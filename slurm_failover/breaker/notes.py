"""The faults that nodes have judged lately, as each notes them in its own Extra."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slurm_failover import embed
from slurm_failover.record import tidy

VERSION = 1
KEEP_FOR = 86400.0
"""Seconds after which a note is pruned at the node's next write, unless its drain still waits."""
KEEP_AT_MOST = 8
"""Notes; one whose drain waits goes last."""
KEEP_ATTEMPTS = 64
"""Of a note: more jobs hardly share a node."""
_MEMBER = "faults"
_SENTENCE = 120


@dataclass(frozen=True, slots=True)
class FaultNote:
    """One fault of one node, judged at ``time``. ``code`` is the name of the rule.

    ``attempts`` are the attempts of jobs that it hit, each by job id and start; ``who`` names the
    users of these jobs in a way that tells two of them apart and no more. ``waits`` says that the
    node has not been drained for it yet, ``observed`` that it was judged in observe mode, so that
    the node was never drained for it. ``last`` is when the
    fault was last seen by then, in whole seconds; 0 where that is not known.
    """

    node: str
    time: float
    code: str
    because: str = ""
    driver: str = ""
    attempts: tuple[tuple[int, int], ...] = ()
    who: tuple[str, ...] = ()
    waits: bool = False
    observed: bool = False
    last: float = 0.0


def read_notes(node: str, extra: str) -> list[FaultNote]:
    """The notes in a node's Extra. What can not be read is no note, and no error."""
    value = _ours(extra)
    items = value.get(_MEMBER)
    notes = [_decode(node, item) for item in items] if isinstance(items, list) else []
    return [note for note in notes if note is not None]


def write_notes(extra: str, notes: Iterable[FaultNote], now: float) -> str:
    """``extra`` with these notes in place of the ones there, old ones pruned, all else kept."""
    young = [note for note in notes if note.waits or now - note.time < KEEP_FOR]
    chosen = sorted(young, key=lambda note: note.waits)[-KEEP_AT_MOST:]
    kept = [note for note in young if note in chosen]
    members = {key: item for key, item in _ours(extra).items() if key != _MEMBER}
    if not kept:
        return embed.put(extra, members) if members else extra
    return embed.put(extra, {"v": VERSION, **members, _MEMBER: [_encode(note) for note in kept]})


def add_note(
    notes: Sequence[FaultNote], new: FaultNote, window: float, *, in_service: bool
) -> list[FaultNote]:
    """The notes with a new one. The same code again is the same fault while its drain waits: its
    time stays, so that a fault which waits does not count as a new one at every look. It is so
    within ``window`` seconds as well, unless the node is ``in_service``: then somebody has ended
    the drain for the earlier one.
    """
    for old in notes:
        is_near = not in_service and abs(new.time - old.time) < window
        if old.code == new.code and (old.waits or is_near):
            return [_merge(old, new) if note is old else note for note in notes]
    return [*notes, new]


def drop_waiting(notes: Iterable[FaultNote]) -> list[FaultNote]:
    """The notes of a node that is drained: none waits for that any more."""
    return [replace(note, waits=False) for note in notes]


def _merge(old: FaultNote, new: FaultNote) -> FaultNote:
    return replace(
        old,
        attempts=tuple(sorted({*old.attempts, *new.attempts}))[-KEEP_ATTEMPTS:],
        who=tuple(sorted({*old.who, *new.who}))[-KEEP_ATTEMPTS:],
        waits=new.waits,
        observed=new.observed and (old.observed or old.waits),
        last=max(old.last, new.last),
    )


def _ours(extra: str) -> dict[str, Any]:
    value = embed.take(extra)
    return value if isinstance(value, dict) and value.get("v") == VERSION else {}


def _encode(note: FaultNote) -> dict[str, Any]:
    value = {
        "time": round(note.time, 3),
        "code": note.code,
        "because": tidy(note.because, _SENTENCE),
        "driver": note.driver,
        "attempts": [list(attempt) for attempt in note.attempts],
        "who": list(note.who),
        "waits": note.waits,
        "observed": note.observed,
        "last": round(note.last),
    }
    return {key: item for key, item in value.items() if item not in ("", [], False, 0.0)}


def _decode(node: str, item: object) -> FaultNote | None:
    if not isinstance(item, dict):
        return None
    try:
        time = embed.read_time(item["time"])
        return FaultNote(
            node=node,
            time=time,
            code=tidy(str(item["code"])),
            because=tidy(str(item.get("because", ""))),
            driver=tidy(str(item.get("driver", ""))),
            attempts=tuple((int(job), int(start)) for job, start in item.get("attempts", [])),
            who=tuple(str(one) for one in item.get("who", [])),
            waits=item.get("waits") is True,
            observed=item.get("observed") is True,
            last=embed.read_time(item["last"]) if "last" in item else 0.0,
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
