"""What a node tells of a fault: that it drained, or that it may not drain yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slurm_failover.happening import Happening, Kind
from slurm_failover.metrics import Metrics
from slurm_failover.node.respond import is_in_service
from slurm_failover.reporter import reporter

if TYPE_CHECKING:
    from slurm_failover.breaker import FaultNote
    from slurm_failover.model import NodeFacts
    from slurm_failover.node.breaker import Answer
    from slurm_failover.node.ledger import JudgedFault
    from slurm_failover.settings.tables import Settings

Say = Callable[[str], None]
ROLE = "node"


def account_fault(settings: Settings, facts: NodeFacts, fault: JudgedFault, say: Say) -> None:
    """Tell of a fault that was acted on. ``facts`` are the node's from before."""
    kind = Kind.DRAIN if is_in_service(facts) else Kind.FAULT
    told = Happening(kind, fault.because, node=facts.name, code=fault.rule, jobs=fault.jobs)
    reporter(settings, ROLE, say)(told)


def account_wait(settings: Settings, note: FaultNote, answer: Answer, say: Say) -> None:
    """Tell, once, of a fault whose drain waits, and of a breaker that it opened."""
    if not answer.is_new:
        return
    report = reporter(settings, ROLE, say)
    jobs = tuple(job for job, _ in note.attempts)
    because = f"{answer.waits}: {note.because}"
    report(Happening(Kind.DRAIN_PUT_OFF, because, node=note.node, code=note.code, jobs=jobs))
    if answer.opened is not None:
        job = str(answer.opened.job or "")
        report(Happening(Kind.BREAKER_OPEN, answer.opened.because, node=note.node, job=job))


def account_end_of_wait(settings: Settings, say: Say) -> None:
    """Count no drain as waiting: the fault is gone."""
    Metrics(settings, ROLE, say).set_to("drains_waiting", 0)
