"""A drain that is put off: what the ledger remembers of it, and how the wait for it ends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slurm_failover.breaker import drop_waiting, read_notes, write_notes
from slurm_failover.node.gpu_events import SOURCE
from slurm_failover.node.ledger import Ledger, SourceNote
from slurm_failover.node.repair import repair_of
from slurm_failover.slurm.client import NodeChange

if TYPE_CHECKING:
    from slurm_failover.model import NodeFacts
    from slurm_failover.node.blame import Blame
    from slurm_failover.slurm.client import Slurm


def put_off(ledger: Ledger, blame: Blame) -> Ledger:
    """The ledger of a node whose drain waits. A reboot ends that, but not for what the log told of
    once and no reboot mends; a state that is gone is no longer shown.
    """
    told = [event for event in blame.fresh if event.sequence is not None]
    is_mended = not told or repair_of(blame.of_node(), told) != ""
    return replace(_before(ledger, blame), waits=ledger.boot if is_mended else "")


def forget(slurm: Slurm, facts: NodeFacts, now: float) -> None:
    """Take the faults that wait for a drain out of what Slurm knows of the node, so that nobody
    takes it for a faulty one any more. Raises SlurmError.
    """
    notes = drop_waiting(read_notes(facts.name, facts.extra))
    extra = write_notes(facts.extra, notes, now)
    if extra != facts.extra:
        slurm.update_node(facts.name, NodeChange(extra=extra))


def _before(ledger: Ledger, blame: Blame) -> Ledger:
    """The ledger as if the new records had not been judged: the next look judges them again. What
    shows a state is judged anew at every look, while the node is in service; so are NVML's events
    where the last look at them is forgotten.
    """
    if any(event.source == SOURCE for event in blame.fresh):
        ledger = ledger.noted(SOURCE, SourceNote())
    fresh = [event.sequence for event in blame.fresh if event.sequence is not None]
    return replace(ledger, cursor=min([*(number - 1 for number in fresh), ledger.cursor]))
