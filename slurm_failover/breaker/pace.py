"""A pace between drains: when a node's turn comes, so that faults can be counted before."""

from __future__ import annotations

from collections.abc import Iterable

from slurm_failover.breaker.notes import FaultNote


def due(notes: Iterable[FaultNote], own: FaultNote, pace: float, at_once: int) -> float:
    """When the drain for ``own`` is due, in seconds since the epoch: by its place among the notes.

    A leaky bucket: ``at_once`` drains need no pace, each other one comes ``pace`` seconds after the
    one before it, and each ``pace`` seconds without a fault give one of the first kind back.
    """
    before = sorted({(n.time, n.node, n.code) for n in notes} | {(own.time, own.node, own.code)})
    level, last = 0.0, float("-inf")
    for time, node, code in before:
        level = max(0.0, level - (time - last) / pace) if pace and level else 0.0
        last = time
        if (time, node, code) == (own.time, own.node, own.code):
            break
        level += 1
    return own.time + max(0.0, level - at_once + 1) * pace
