"""Lines of any log → Records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slurm_failover.model import Record
from slurm_failover.parse.kmsg import parse_kmsg

FORMATS = ("auto", "kmsg")


def parse_lines(lines: Iterable[bytes], format: str = "auto", now: float = 0.0) -> Iterator[Record]:
    """One record per line."""
    for line in lines:
        yield parse_kmsg(line, 0.0)
