"""A drain that is put off: what the ledger remembers of it, and how the wait for it ends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slurm_failover.breaker import drop_waiting, read_notes, write_notes
from slurm_failover.node.ledger import Ledger
from slurm_failover.node.remember import is_overtaken, what_is_hidden
from slurm_failover.node.repair import repair_of
from slurm_failover.slurm.client import NodeChange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm_failover.model import NodeFacts
    from slurm_failover.node.blame import Blame
    from slurm_failover.node.readings import Reading
    from slurm_failover.slurm.client import Slurm


def put_off(old: Ledger, ledger: Ledger, blame: Blame) -> Ledger:
    """The ledger of a node whose drain waits, by the one from before this look and the one after. A
    reboot ends that, but not for what the log told of once and no reboot mends; and so does a state
    that is gone.
    """
    told = [event for event in blame.fresh if event.sequence is not None]
    is_mended = not told or repair_of(blame.of_node(), told) != ""
    return replace(
        _before(old, ledger, blame),
        waits=ledger.boot if is_mended else "",
        told_by=tuple(sorted({*ledger.told_by, *(event.source for event in blame.fresh)})),
    )


def is_gone(old: Ledger, ledger: Ledger, readings: Sequence[Reading], off: frozenset[str]) -> bool:
    """Whether a look that shows no fault, by the ledgers from before and after it, ends the wait
    for a drain: the node was rebooted since, or all has been looked at that told of the fault. What
    the site has switched ``off`` since tells of none any more.
    """
    if what_is_hidden(ledger) or any(reading.unseen for reading in readings):
        return False
    seen = {reading.source for reading in readings if not is_overtaken(old, reading)}
    told_by = frozenset(ledger.told_by)
    return is_rebooted(ledger) or (bool(told_by) and told_by <= seen | off)


def is_rebooted(ledger: Ledger) -> bool:
    """Whether the node was rebooted after a drain was put off that a reboot makes up for."""
    return ledger.waits not in ("", ledger.boot)


def forget(slurm: Slurm, facts: NodeFacts, now: float) -> None:
    """Take the faults that wait for a drain out of what Slurm knows of the node, so that nobody
    takes it for a faulty one any more. Raises SlurmError.
    """
    notes = drop_waiting(read_notes(facts.name, facts.extra))
    extra = write_notes(facts.extra, notes, now)
    if extra != facts.extra:
        slurm.update_node(facts.name, NodeChange(extra=extra))


def _before(old: Ledger, ledger: Ledger, blame: Blame) -> Ledger:
    """The ledger as if what is new had not been judged: the next look judges it again. A state
    would be shown anyway while the node is in service, but neither a counter that grew nor a line
    of the BMC's log: so the look at their source is forgotten, but for its time and
    for what was known by then.
    """
    for source in {event.source for event in blame.fresh if event.sequence is None}:
        before, now = old.note(source), ledger.note(source)
        told = before.told or now.time
        note = replace(before, unseen=now.unseen, told=told, seen=now.memory)
        ledger = ledger.noted(source, note)
    fresh = [event.sequence for event in blame.fresh if event.sequence is not None]
    return replace(ledger, cursor=min([*(number - 1 for number in fresh), ledger.cursor]))
