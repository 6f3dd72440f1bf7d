"""Why a job waits: too few nodes are left for it, a node that was unfit sent it back, or Slurm
holds it of its own accord. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from ClusterShell.NodeSet import NodeSet

from slurm_failover.breaker import read_notes
from slurm_failover.evidence import REASON_PREFIX, is_drained_by_us
from slurm_failover.lifecycle import names_in
from slurm_failover.model import JobFacts, NodeFacts
from slurm_failover.record import tidy
from slurm_failover.wiring import HOOK_LIMIT

_CLOCKS_APART = 5.0
"""Seconds by which a node's clock may differ from slurmctld's, and by which a drain may come before
the start of a job that slurmctld was placing in that moment.
"""
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


def explain_named(job: JobFacts, nodes: Iterable[NodeFacts]) -> str:
    """A sentence where a job asks by name for nodes that are out of service by a verdict of ours:
    it can start nowhere else. Empty if none is.
    """
    if not job.required:
        return ""
    names = set(names_in(job.required))
    drained = [node for node in nodes if node.name in names and is_drained_by_us(node)]
    if not drained:
        return ""
    named = NodeSet.fromlist([node.name for node in drained])
    are = "is" if len(drained) == 1 else "are"
    return (
        f"no healthy nodes: the job asks for {named} (--nodelist), which {are} drained: "
        f"{what_drained(drained[0])}"
    )


def explain_return(hostlist: str, start: float, nodes: Iterable[NodeFacts]) -> str:
    """Which node of an attempt was found unfit as it began, so that its Prolog sent the job back;
    empty if none was. The node may be in service again: what it noted stays for a day.
    """
    names = set(names_in(hostlist))
    unfit = ((node.name, _what_was_unfit(node, start)) for node in nodes if node.name in names)
    return next((f"{name} was unfit: {what}" for name, what in unfit if what), "")


def what_drained(node: NodeFacts) -> str:
    """What our drain of a node says, without who says it."""
    return tidy(node.reason.removeprefix(REASON_PREFIX))


def _what_was_unfit(node: NodeFacts, start: float) -> str:
    """What took a node out of service while the Prolog of a job that starts then had its time."""
    if is_drained_by_us(node) and _is_at_start(node.reason_time, start):
        return what_drained(node)
    notes = [note for note in read_notes(node.name, node.extra) if _is_at_start(note.time, start)]
    acted = [note.because or note.code for note in notes if not (note.waits or note.observed)]
    return acted[-1] if acted else ""


def _is_at_start(time: float, start: float) -> bool:
    return -_CLOCKS_APART <= time - start <= HOOK_LIMIT + _CLOCKS_APART
