"""The suspicious records that a watcher keeps in memory: bounded whatever the kernel says.

Of one kind of message the newest few are kept, and of each anchor a number of kinds. Where there
are too many kinds, one of the most common shape goes: a user who makes the kernel print thousands
of lines with numbers and names of his choice pushes out his own.
"""

from __future__ import annotations

from collections import Counter, deque

from slurm_failover.sources import kmsg

KIND = 64
"""Bytes of a text that can make its kind, up to the first comma: before that stand the device and
the code of an Xid, behind it the process and what else differs between repeats."""
PER_KIND = 32
KINDS = 256
_DIGITS = b"0123456789abcdef"


def kind_of(record: bytes) -> bytes:
    """What a record has in common with its repeats."""
    return record.partition(b";")[2][:KIND].partition(b",")[0]


class Catch:
    """Records by anchor and kind."""

    def __init__(self) -> None:
        self._kinds: dict[bytes, dict[bytes, deque[bytes]]] = {}

    def add(self, anchor: bytes, record: bytes) -> None:
        """Keep a record, and let another go where there is no room."""
        kinds = self._kinds.setdefault(anchor, {})
        kind = kind_of(record)
        if kind not in kinds and len(kinds) >= KINDS:
            del kinds[_most_common(kinds)]
        kinds.setdefault(kind, deque(maxlen=PER_KIND)).append(record)

    def records(self) -> tuple[bytes, ...]:
        """All that is kept, in the order of the log."""
        every = [raw for kinds in self._kinds.values() for kind in kinds.values() for raw in kind]
        return tuple(sorted(every, key=kmsg.sequence))


def _most_common(kinds: dict[bytes, deque[bytes]]) -> bytes:
    """The oldest kind of the shape that most kinds share."""
    shapes = {kind: kind.translate(None, _DIGITS) for kind in kinds}
    worst = Counter(shapes.values()).most_common(1)[0][0]
    return next(kind for kind, shape in shapes.items() if shape == worst)
