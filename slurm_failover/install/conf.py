"""slurm.conf as text: which setting stands where, so that a value is changed and nothing else.

The grammar is slurm.conf(5)'s, tried on slurmctld 24.11 and 26.05: one pair in a line, except after
NodeName and its like; ``#`` begins a comment unless a backslash stands before it; a backslash at
the end continues the line; names know no case; of a name that is set twice the later value counts.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PAIR = re.compile(r'\s*([A-Za-z0-9_.]+)\s*[-+*/]?=\s*("[^"]*"|\S+)')
_PHYSICAL = re.compile(r"[^\n]*\n|[^\n]+")
_INCLUDE = re.compile(r"(?i)\s*(include)\s+(\S+)")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a file: its name in small letters, its value, the value as it is written
    (``raw``, from ``start`` to ``end`` of the text) and what follows in the line.
    """

    name: str
    value: str
    raw: str
    start: int
    end: int
    rest: str = ""


def read_settings(text: str) -> list[Setting]:
    """All settings of a text in their order; ``Include FILE`` counts as one named ``include``."""
    settings = []
    for line in _logical_lines(text):
        joined = "".join(text[at] for at in line)
        found = _PAIR.match(joined) or _INCLUDE.match(joined)
        if found:
            start, end = line[found.start(2)], line[found.end(2) - 1] + 1
            value, rest = found[2].strip('"'), joined[found.end() :]
            settings.append(Setting(found[1].lower(), value, text[start:end], start, end, rest))
    return settings


def replace_value(text: str, setting: Setting, raw: str) -> str:
    """The text with another value for a setting, every other character as it was."""
    return text[: setting.start] + raw + text[setting.end :]


def add_item(raw: str, item: str) -> str:
    """A list's value as written, with one more item at its end."""
    return f'{raw[:-1]},{item}"' if raw.endswith('"') else f"{raw},{item}"


def drop_item(raw: str, item: str) -> str:
    """A list's value as written, without the item that ``add_item`` added."""
    name = re.escape(item)
    last = re.fullmatch(rf'(?s)(.*),{name}((?:[,"].*)?)', raw)
    return last[1] + last[2] if last else re.sub(rf'(?<![^"]){name},', "", raw, count=1)


def newline_of(text: str) -> str:
    """How the lines of a text end."""
    return "\r\n" if "\r\n" in text else "\n"


def _logical_lines(text: str) -> Iterator[list[int]]:
    """The places of the characters that Slurm reads as one line, without comment and backslash."""
    line: list[int] = []
    start = 0
    for physical in _PHYSICAL.findall(text):
        bare = physical.rstrip("\r\n")
        kept = _without_comment(bare)
        backslashes = len(kept) - len(kept.rstrip("\\"))
        goes_on = backslashes % 2 == 1
        line += range(start, start + len(kept) - goes_on)
        start += len(physical)
        if not goes_on:
            yield line
            line = []
    if line:
        yield line


def _without_comment(line: str) -> str:
    for found in re.finditer("#", line):
        before = line[: found.start()]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            return before
    return line
