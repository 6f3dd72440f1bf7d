"""Lengths of time in words for the report."""

from __future__ import annotations


def say_seconds(seconds: float) -> str:
    """A length of time as people say it: ``0.4 s``, ``45 s``, ``3 min``, ``2.5 h``, ``3.1 d``."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size and not (unit == "min" and seconds % 60 and seconds < 300):
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def say_hours(seconds: float) -> str:
    """GPU time in hours, with as many digits as mean something."""
    hours = seconds / 3600.0
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}"
