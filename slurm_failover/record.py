"""The record: what Slurm remembers for us of one job, and the words that show it.

The trusted record is in AdminComment, which only Slurm's super users may write. Comment mirrors it
in words after the owner's own text, for ``squeue -o %k``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from slurm_failover import embed
from slurm_failover.errors import RecordError
from slurm_failover.optin import has_wish, strip_mirror

VERSION = 1
COMMENT_LIMIT = 1024
"""Bytes; Slurm refuses a whole update with a longer Comment (MAX_COMMENT_LEN in slurm.h)."""
SENTENCE_LIMIT = 200
HISTORY_LIMIT = 12


class State(StrEnum):
    """Where a flagged job stands; the words that users read."""

    ARMED = "armed"
    FAILOVERINPROGRESS = "failoverinprogress"
    RESUMED = "resumed"
    MAXRETRIESEXCEEDED = "maxretriesexceeded"
    IMAGEPULLBACKOFF = "imagepullbackoff"
    INTERNALERROR = "internalerror"


class Step(StrEnum):
    """How far the handling of the latest end has come; each step can be repeated by anyone."""

    NONE = ""
    HELD = "held"
    DECIDED = "decided"
    PLACED = "placed"
    TO_CANCEL = "to cancel"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of the job. ``start`` (seconds since the epoch) names it, here and on the nodes."""

    number: int = 1
    nodes: str = ""
    start: float = 0.0
    end: float = 0.0
    outcome: str = ""
    because: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """The trusted record of one job.

    ``by_option`` says that the job was submitted with ``--failover``. ``restarts`` is Slurm's count
    of the job's restarts, as it is to be while the job is held and when it was decided on; 0 where
    that is not known.
    ``lost`` is the node that Slurm lost under this attempt; ``backoffs`` counts the tries in a row
    that found no container image, and ``pause`` is how many seconds the next one waits.
    """

    state: State = State.ARMED
    step: Step = Step.NONE
    retries: int = 0
    max_retries: int = 0
    by_option: bool = False
    restarts: int = 0
    backoffs: int = 0
    pause: int = 0
    excluded: str = ""
    lost: str = ""
    cause: str = ""
    because: str = ""
    attempt: Attempt = field(default_factory=Attempt)
    history: tuple[Attempt, ...] = ()

    def close_attempt(self, outcome: str, because: str) -> Record:
        """The record with its current attempt ended and added to the history, once."""
        if self.history and self.history[-1].start == self.attempt.start:
            return self
        ended = replace(self.attempt, outcome=outcome, because=because)
        return replace(self, attempt=ended, history=(*self.history, ended)[-HISTORY_LIMIT:])


def is_wished(comment: str, record: Record | None) -> bool:
    """Whether a job's owner wants failover by now. The option stands for good, and only the record
    tells of it; the comment is its owner's to change, also while the job runs.
    """
    return has_wish(comment) or (record is not None and record.by_option)


def read_record(admin_comment: str) -> Record | None:
    """The record in an AdminComment; None where there is none.

    Raises RecordError if it is there but not ours to understand: a newer version, or damaged.
    """
    value = embed.take(admin_comment)
    return None if value is None else decode_record(value)


def decode_record(value: object) -> Record:
    """The record in a JSON value. Raises RecordError."""
    if not isinstance(value, dict) or value.get("v") != VERSION:
        raise RecordError(
            f"the record in AdminComment is not of version {VERSION}; "
            "was it written by a newer slurm-failover? It is left as it is"
        )
    try:
        return _decode(value)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise RecordError(f"the record in AdminComment is damaged: {error!r}") from error


def write_record(admin_comment: str, record: Record) -> str:
    """``admin_comment`` with ``record`` in it, all foreign text kept byte for byte."""
    return embed.put(admin_comment, encode_record(record))


def write_mirror(comment: str, record: Record) -> str:
    """``comment`` with the record's state in words behind the owner's text.

    The owner's text is kept byte for byte; where both do not fit it is ours that is shortened, and
    left out in the end.
    """
    counted = f"{record.state.value}, retries {record.retries}/{record.max_retries}"
    return _mirror(comment, record.state.value, counted, record.because)


def write_refusal(comment: str, why: str) -> str:
    """``comment`` with a sentence behind the owner's text on why failover is off for this job."""
    return _mirror(comment, "off", "off", why)


def tidy(sentence: str, limit: int = SENTENCE_LIMIT) -> str:
    """A sentence fit for a mirror, which brackets end: on one line, without any, and bounded."""
    return one_line(sentence.replace("[", "(").replace("]", ")"), limit)


def one_line(sentence: str, limit: int) -> str:
    """A sentence without control characters, bounded."""
    plain = "".join(c if c.isprintable() else " " for c in sentence).strip()
    return plain if len(plain) <= limit else plain[: limit - 1].rstrip() + "…"


def _mirror(comment: str, short: str, counted: str, sentence: str) -> str:
    """The owner's text and as much of ours as Slurm's limit leaves room for."""
    owner = strip_mirror(comment)
    room = COMMENT_LIMIT - len(owner.encode("utf-8", "surrogateescape")) - 1
    spare = room - len(f"[slurm-failover: {counted}: ]".encode())
    cut = tidy(sentence).encode()[: max(spare, 0)].decode("utf-8", "ignore")
    for words in (f"{counted}: {cut}" if cut else counted, counted, short):
        mirror = f"[slurm-failover: {words}]"
        if len(mirror.encode()) <= room:
            return f"{owner} {mirror}" if owner else mirror
    return owner


def encode_record(record: Record) -> dict[str, Any]:
    """The record as a JSON value."""
    value: dict[str, Any] = {
        "v": VERSION,
        "state": record.state.value,
        "step": record.step.value,
        "retries": record.retries,
        "max": record.max_retries,
        "option": record.by_option or "",
        "restarts": record.restarts or "",
        "backoffs": record.backoffs or "",
        "pause": record.pause or "",
        "excluded": record.excluded,
        "lost": record.lost,
        "cause": tidy(record.cause),
        "because": tidy(record.because),
        "attempt": _encode_attempt(record.attempt),
        "history": [_encode_attempt(attempt) for attempt in record.history],
    }
    return {key: item for key, item in value.items() if item not in ("", [])}


def _encode_attempt(attempt: Attempt) -> list[Any]:
    return [
        attempt.number,
        attempt.nodes,
        round(attempt.start),
        round(attempt.end),
        attempt.outcome,
        tidy(attempt.because),
    ]


def _decode(value: dict[str, Any]) -> Record:
    return Record(
        state=State(value["state"]),
        step=Step(value.get("step", "")),
        retries=_count(value["retries"]),
        max_retries=_count(value["max"]),
        by_option=value.get("option") is True,
        restarts=_count(value.get("restarts", 0)),
        backoffs=_count(value.get("backoffs", 0)),
        pause=_count(value.get("pause", 0)),
        excluded=str(value.get("excluded", "")),
        lost=str(value.get("lost", "")),
        cause=str(value.get("cause", "")),
        because=str(value.get("because", "")),
        attempt=_decode_attempt(value["attempt"]),
        history=tuple(_decode_attempt(item) for item in value.get("history", [])),
    )


def _decode_attempt(item: list[Any]) -> Attempt:
    number, nodes, start, end, outcome, because = item
    return Attempt(
        number=_count(number),
        nodes=str(nodes),
        start=embed.read_time(start),
        end=embed.read_time(end),
        outcome=str(outcome),
        because=str(because),
    )


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"not a count: {value!r}")
    return value
