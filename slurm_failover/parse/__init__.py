"""Bytes of any log → Records. Pure: files and clocks are the callers'."""

from slurm_failover.parse.kmsg import parse_kmsg
from slurm_failover.parse.lines import FORMATS, parse_lines

__all__ = ["FORMATS", "parse_kmsg", "parse_lines"]
