"""Which of many records might speak of a fault: fast enough for a flood of them.

A record holds none of the anchors if, without its digits, it holds none of the anchors without
theirs. Messages that differ in numbers alone are so of one shape, and a shape is searched once.
"""

from __future__ import annotations

from collections.abc import Iterable

_DIGITS = b"0123456789abcdef"
_MOST_SHAPES = 4096
_LONGEST_SHAPE = 1024


class Sieve:
    """Holds back the records that none of the anchors stands in."""

    def __init__(self, anchors: tuple[bytes, ...]) -> None:
        self._anchors = anchors
        self._blunt = tuple({anchor.translate(None, _DIGITS) for anchor in anchors})
        self._harmless: set[bytes] = set()

    def sift(self, records: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
        """The suspicious records, each behind the anchor that stands in it."""
        found: list[tuple[bytes, bytes]] = []
        for raw in records:
            shape = raw.translate(None, _DIGITS)
            if shape in self._harmless:
                continue
            anchor = next((anchor for anchor in self._anchors if anchor in raw), None)
            if anchor is not None:
                found.append((anchor, raw))
            elif not any(blunt in shape for blunt in self._blunt):
                self._remember(shape)
        return found

    def _remember(self, shape: bytes) -> None:
        if len(shape) > _LONGEST_SHAPE:
            return
        if len(self._harmless) >= _MOST_SHAPES:
            self._harmless.clear()
        self._harmless.add(shape)
