"""What happened to flagged jobs and to nodes, told from what Slurm keeps. Pure.

Each run of a job has its own row in Slurm's accounting, with the AdminComment that it had then
(``sacct -D``): the record there says what came of the runs before. Drains are Slurm's node events.
What became of a job that still waits is known to slurmctld alone, and so is what nodes noted of
faults that drained nothing.
"""

from slurm_failover.history.entries import KINDS, Entry, named_nodes, on_nodes, tell
from slurm_failover.history.losses import STOCK_DELAY, kept_going, lost, saved
from slurm_failover.history.runs import Outage, Run

__all__ = [
    "KINDS",
    "STOCK_DELAY",
    "Entry",
    "Outage",
    "Run",
    "kept_going",
    "lost",
    "named_nodes",
    "on_nodes",
    "saved",
    "tell",
]
