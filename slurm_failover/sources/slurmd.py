"""Ask the node's slurmd which device files stand behind its GPU GRES."""

from __future__ import annotations

from slurm_failover.gres import GresSlot, slots_from_slurmd
from slurm_failover.sources.bounded import run_bounded

TIMEOUT = 8.0
"""Seconds. A node that is short of everything needs several to start a program."""


def read_slots(slurmd: str, node: str) -> tuple[GresSlot, ...] | None:
    """The GPU GRES of ``node`` in the order of their indexes, or None where slurmd does not say.

    ``slurmd -G`` prints them and ends; it reads the configuration that the daemon reads.
    """
    try:
        answer = run_bounded([slurmd, "-G", "-N", node], TIMEOUT)
    except OSError:
        return None
    return slots_from_slurmd(answer.errors + answer.output) if answer.status == 0 else None
