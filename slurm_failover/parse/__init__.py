"""Bytes of any log → Records. Pure: files and clocks are the callers'."""

from slurm_failover.parse.journal import parse_journal
from slurm_failover.parse.kmsg import parse_kmsg
from slurm_failover.parse.lines import FORMATS, known_format, parse_lines, parse_numbered, sniff

__all__ = [
    "FORMATS",
    "known_format",
    "parse_journal",
    "parse_kmsg",
    "parse_lines",
    "parse_numbered",
    "sniff",
]
