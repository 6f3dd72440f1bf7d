"""What users see of a node: its state, and what it has found. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slurm_failover.breaker import FaultNote, read_notes
from slurm_failover.breaker.state import LOST
from slurm_failover.evidence import (
    REASON_PREFIX,
    REBOOT_NEEDED,
    is_drained_by_us,
    read_evidence,
)
from slurm_failover.model import NodeFacts
from slurm_failover.record import tidy


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node as ``nodes`` shows it: its state, and what its own looks have found.

    ``needs`` is what our drain asks for, "reboot" or "repair"; empty where we have not drained it.
    ``is_back`` says that it was taken out of service for its latest fault, and is in service again.
    """

    name: str
    slurm_state: str
    reason: str
    ours: bool
    findings: tuple[dict[str, Any], ...]
    faults: tuple[dict[str, Any], ...] = ()
    is_back: bool = False
    needs: str = ""

    def as_json(self) -> dict[str, Any]:
        """The view as a JSON object."""
        return {
            "node": self.name,
            "slurm_state": self.slurm_state,
            "reason": self.reason or None,
            "drained_by_us": self.ours,
            "evidence": list(self.findings),
            "faults": list(self.faults),
            "needs": self.needs or None,
        }


def view_node(node: NodeFacts) -> NodeView:
    """What to show of a node."""
    findings = tuple(
        {"job_id": one.job_id, "cause": one.cause.value, "because": one.because, "time": one.time}
        for one in read_evidence(node.name, node.extra)
    )
    ours = node.reason.startswith(REASON_PREFIX)
    state = "+".join(sorted(node.states))
    faults = tuple(
        {
            "code": note.code,
            "because": note.because,
            "time": note.time,
            "waits": note.waits,
            "observed": note.observed,
            "jobs": sorted({job for job, _ in note.attempts}),
        }
        for note in read_notes(node.name, node.extra)
    )
    is_past = bool(faults) and _is_in_service(node) and not any(fault["waits"] for fault in faults)
    is_back = is_past and not faults[-1]["observed"]
    reason, needs = tidy(node.reason, 255), _what_it_needs(node)
    return NodeView(node.name, state, reason, ours, findings, faults, is_back, needs)


def has_findings(view: NodeView) -> bool:
    """Whether we know anything against a node."""
    return view.ours or bool(view.findings) or bool(view.faults)


def drain_for(note: FaultNote, node: NodeFacts) -> str:
    """In a word, what became of the drain that a fault of a node calls for."""
    if note.code == LOST:
        return "lost"
    if note.observed:
        return "observed"
    if note.waits:
        return "waits"
    return "over" if _is_in_service(node) else "drained"


def _what_it_needs(node: NodeFacts) -> str:
    if not is_drained_by_us(node):
        return ""
    return "reboot" if REBOOT_NEEDED in node.reason else "repair"


def _is_in_service(node: NodeFacts) -> bool:
    return not node.has("DRAIN", "DOWN", "FAIL")
