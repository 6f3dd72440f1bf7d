"""What Slurm's accounting keeps: runs of jobs, and times in which nodes were out of service."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job. ``end`` is 0 while it runs, ``gpus`` are all that it held on all nodes, and
    ``admin_comment`` is what AdminComment was at its end, or is now. ``job_id`` is its own, also of
    an array's task or a component.
    """

    label: str
    user: str = ""
    name: str = ""
    nodes: str = ""
    start: float = 0.0
    end: float = 0.0
    gpus: int = 0
    admin_comment: str = ""
    job_id: int = 0


@dataclass(frozen=True, slots=True)
class Outage:
    """One time in which a node was drained or down, and why; ``end`` is 0 while it lasts."""

    node: str
    start: float
    end: float = 0.0
    states: str = ""
    reason: str = ""
