"""Our value inside a text that others write too, with every foreign byte kept.

AdminComment of a job and Extra of a node are shared: other tools keep JSON or plain text there. In
a JSON object our value becomes its last member, spliced in as text so that the rest is not
re-serialised; beside any other text it becomes a suffix.
"""

from __future__ import annotations

import json
from typing import Any

MARK = "slurm-failover"
LAST_TIME = 253_000_000_000.0
"""Seconds since the epoch; in the year 9987, which every clock and calendar can still show."""
_SUFFIX = MARK + ":"
_DECODER = json.JSONDecoder()
_BLANK = " \t\r\n"


def take(text: str) -> object | None:
    """Our value in ``text``, or None where there is none or it can not be read."""
    found = _find(text)
    return None if found is None else found[2]


def read_time(value: Any) -> float:
    """A time in a value of ours. Raises ValueError, TypeError or OverflowError where it is none
    that can be shown: what one node has written must not keep others from being told of.
    """
    time = float(value)
    if not 0 <= time <= LAST_TIME:
        raise ValueError(f"not a time: {value!r}")
    return time


def strip(text: str) -> str:
    """``text`` without our value: what the others wrote."""
    found = _find(text)
    if found is None:
        return text
    start, end, _ = found
    rest = text[:start] + text[end:]
    return "" if rest.strip(_BLANK) == "{}" and text.lstrip(_BLANK)[:1] == "{" else rest


def put(text: str, value: object) -> str:
    """``text`` with our value set to ``value``, in place of an earlier one."""
    foreign = strip(text)
    ours = json.dumps(value, separators=(",", ":"), ensure_ascii=True)
    if not foreign:
        return f'{{"{MARK}":{ours}}}'
    members = _members(foreign)
    if members is None:
        return f"{foreign} {_SUFFIX}{ours}"
    brace = foreign.rindex("}")
    comma = "," if members else ""
    return f'{foreign[:brace]}{comma}"{MARK}":{ours}{foreign[brace:]}'


def _find(text: str) -> tuple[int, int, object] | None:
    """Where our value stands, with its separator, and the value itself."""
    members = _members(text)
    if members is not None:
        return _find_member(text, members)
    start = text.rfind(_SUFFIX + "{")
    if start < 0:
        return None
    try:
        value, end = _DECODER.raw_decode(text, start + len(_SUFFIX))
    except (ValueError, RecursionError):
        return None
    return (start - 1 if text[:start].endswith(" ") else start), end, value


def _find_member(
    text: str, members: list[tuple[str, int, int, object]]
) -> tuple[int, int, object] | None:
    for index, (key, start, end, value) in enumerate(members):
        if key == MARK and index > 0:
            return text.rindex(",", 0, start), end, value
        if key == MARK:
            return start, end if len(members) == 1 else text.index(",", end) + 1, value
    return None


def _members(text: str) -> list[tuple[str, int, int, object]] | None:
    """The members of a JSON object with their places in the text; None if it is not one."""
    try:
        return _scan(text)
    except (ValueError, IndexError, RecursionError):
        return None


def _scan(text: str) -> list[tuple[str, int, int, object]]:
    at = _skip(text, 0)
    if text[at] != "{":
        raise ValueError
    members: list[tuple[str, int, int, object]] = []
    at = _skip(text, at + 1)
    while text[at] != "}":
        if members:
            at = _expect(text, at, ",")
        start = at
        if text[at] != '"':
            raise ValueError
        key, at = _DECODER.raw_decode(text, at)
        at = _expect(text, _skip(text, at), ":")
        value, end = _DECODER.raw_decode(text, at)
        members.append((key, start, end, value))
        at = _skip(text, end)
    if _skip(text, at + 1) != len(text):
        raise ValueError
    return members


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def _expect(text: str, at: int, character: str) -> int:
    if text[at] != character:
        raise ValueError
    return _skip(text, at + 1)
