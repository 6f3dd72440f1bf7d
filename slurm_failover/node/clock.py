"""Two clocks: the one on the wall, which may be set, and the one since boot, which nobody sets.

What is remembered with the time on the wall means another time once that clock was set.
"""

from __future__ import annotations

from collections.abc import Sequence

TOLERANCE = 30.0
"""Seconds: a look takes a while, and is noted at its end. By less, a set clock does no harm."""


def set_by(then: Sequence[float], now: Sequence[float]) -> float:
    """By how many seconds the clock on the wall was set forward between two moments; below 0 where
    it was set back, and 0 where it was not set.

    A moment is a time on the wall and one since boot, in seconds. Where one is unknown, nothing is
    known of the clock. Across a reboot it says nothing of the clock, and is above 0.
    """
    if len(then) != 2 or not all(then):
        return 0.0
    (wall, up), (wall_now, up_now) = then, now
    by = (wall_now - wall) - (up_now - up)
    return by if abs(by) > TOLERANCE else 0.0


def clock_was_set(then: Sequence[float], now: Sequence[float]) -> bool:
    """Whether the clock on the wall was set between two moments, or the machine was rebooted."""
    return set_by(then, now) != 0.0
