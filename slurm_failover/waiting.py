"""Why a job waits: too few nodes are left for it, or Slurm holds it of its own accord. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ClusterShell.NodeSet import NodeSet

from slurm_failover.model import JobFacts, NodeFacts

_UNFIT = ("DRAIN", "DOWN", "FAIL", "MAINT", "NOT_RESPONDING")


def explain_expedited(job: JobFacts) -> str:
    """What to say of a job with ``--requeue=expedite`` that Slurm holds."""
    return (
        "Slurm holds the job: its program failed, and no Epilog did (--requeue=expedite); "
        f"`scontrol release {job.label}` starts it again"
    )


def explain_wait(job: JobFacts, nodes: Iterable[NodeFacts]) -> str:
    """A sentence where fewer nodes are fit for a pending job than it needs; empty if enough are.

    Nodes that are busy are fit: the job only waits for them.
    """
    places = job.partition.split(",")
    mine = [node for node in nodes if not node.partitions or set(places) & set(node.partitions)]
    excluded = NodeSet(job.excluded)
    unfit = NodeSet.fromlist([node.name for node in mine if node.has(*_UNFIT)])
    left = NodeSet.fromlist([node.name for node in mine]) - excluded - unfit
    if len(left) >= max(job.node_count, 1):
        return ""
    out = [f"excluded {excluded}"] if excluded else []
    out += [f"out of service {unfit - excluded}"] if unfit - excluded else []
    return (
        f"no healthy nodes: the job needs {max(job.node_count, 1)} in {job.partition}, "
        f"{len(left)} left ({'; '.join(out) or 'the partition has no more'})"
    )
