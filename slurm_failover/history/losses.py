"""What faults cost, and what failovers spared, in seconds of GPUs.

Lost is an upper bound: all that the run had worked since its start, and the wait until the next
start, times its GPUs. Slurm does not know which checkpoint a job went on from, so the work since
the start is the most that had to be done again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from slurm_failover.happening import Kind
from slurm_failover.history.entries import Entry
from slurm_failover.history.runs import Run

STOCK_DELAY = 121.0
"""Seconds for which Slurm itself delays a requeued job: the life of a credential, 120 s by default,
plus one (seen on 24.11.5)."""


def lost(entry: Entry) -> float:
    """GPU seconds that a hardware fault cost at most; 0 for what no hardware fault ended."""
    if entry.kind not in (Kind.FAILOVER, Kind.EXCEEDED):
        return 0.0
    return entry.gpus * (entry.ran + (entry.waited or 0.0))


def saved(entry: Entry) -> float:
    """GPU seconds by which the job was back before Slurm's own requeue could have started it."""
    if entry.kind is not Kind.FAILOVER or entry.waited is None:
        return 0.0
    return entry.gpus * max(0.0, STOCK_DELAY - entry.waited)


def kept_going(runs: Iterable[Run], entries: Iterable[Entry], now: float) -> float:
    """GPU seconds of the runs after a failover that were not lost in their turn: work that would
    not have been done had the job stayed failed.
    """
    moved: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.kind in (Kind.FAILOVER, Kind.EXCEEDED):
            moved[entry.job].append(entry)
    return sum(_kept(run, moved[run.label], now) for run in runs if run.label in moved)


def _kept(run: Run, ended: list[Entry], now: float) -> float:
    followed = any(e.kind is Kind.FAILOVER and run.start >= e.time for e in ended)
    was_lost = any(e.time - e.ran == run.start for e in ended)
    return 0.0 if was_lost or not followed else run.gpus * max(0.0, (run.end or now) - run.start)
