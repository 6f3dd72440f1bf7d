"""Lines of the log that tell of something done: in observe mode nothing is."""

from __future__ import annotations

from collections.abc import Callable


class Deed(str):
    """A line that tells of something that we did."""

    __slots__ = ()


def in_mode(mode: str, say: Callable[[str], None]) -> Callable[[str], None]:
    """``say`` for a mode: in observe mode what is told as done is told as what act mode does."""
    if mode != "observe":
        return say

    def told(message: str) -> None:
        say(f"in act mode: {message}" if isinstance(message, Deed) else message)

    return told
