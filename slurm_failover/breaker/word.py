"""What an admin said of the breaker, in the Comment of a node, where no node writes by itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slurm_failover import embed
from slurm_failover.model import NodeFacts
from slurm_failover.record import tidy

VERSION = 1
OPEN, CLOSED = "open", "closed"


@dataclass(frozen=True, slots=True)
class Word:
    """*open* or *closed*, said at ``time`` by an admin; *open* counts ``until`` a time, 0 for none.

    Times are seconds since the epoch.
    """

    state: str
    time: float
    by: str = ""
    because: str = ""
    until: float = 0.0


def read_word(nodes: Iterable[NodeFacts]) -> tuple[Word, str] | None:
    """The latest word, and the node that carries it; None where no admin has said any."""
    words = [(word, node.name) for node in nodes if (word := _decode(node.comment)) is not None]
    return max(words, key=lambda found: found[0].time, default=None)


def write_word(comment: str, word: Word) -> str:
    """A node's Comment with a word in it, all else kept byte for byte."""
    value = {
        "state": word.state,
        "time": round(word.time, 3),
        "by": tidy(word.by),
        "because": tidy(word.because),
        "until": round(word.until, 3),
    }
    return embed.put(comment, {"v": VERSION, "breaker": value})


def _decode(comment: str) -> Word | None:
    value = embed.take(comment)
    said = value.get("breaker") if isinstance(value, dict) and value.get("v") == VERSION else None
    if not isinstance(said, dict) or said.get("state") not in (OPEN, CLOSED):
        return None
    try:
        time, until = embed.read_time(said["time"]), embed.read_time(said.get("until", 0))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    by, because = tidy(str(said.get("by", ""))), tidy(str(said.get("because", "")))
    return Word(said["state"], time, by, because, until)
