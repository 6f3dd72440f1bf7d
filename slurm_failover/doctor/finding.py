"""What one look at a part of the installation showed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is: a warning costs something, an error keeps failover from working."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. ``remedy`` says what to do, and is empty where nothing is wrong."""

    check: str
    level: Level
    found: str
    remedy: str = ""


def ok(check: str, found: str) -> Finding:
    """A part that is fit."""
    return Finding(check, Level.OK, found)


def warning(check: str, found: str, remedy: str) -> Finding:
    """A part that costs something as it is."""
    return Finding(check, Level.WARNING, found, remedy)


def error(check: str, found: str, remedy: str) -> Finding:
    """A part without which failover does not work."""
    return Finding(check, Level.ERROR, found, remedy)


def exit_status(findings: Iterable[Finding]) -> int:
    """0 if all is well, 1 with warnings, 2 with errors, as monitoring systems read it."""
    order = (Level.OK, Level.WARNING, Level.ERROR)
    return max((order.index(finding.level) for finding in findings), default=0)
