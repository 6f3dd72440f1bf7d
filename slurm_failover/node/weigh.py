"""What of a look is new, and what all that is known says against the node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from slurm_failover.breaker import read_notes
from slurm_failover.errors import HookEnded, SlurmError
from slurm_failover.model import NodeAction
from slurm_failover.node.blame import Blame
from slurm_failover.node.gpu_events import not_in_log
from slurm_failover.node.ledger import Ledger, is_same, last_of, read_events_kept
from slurm_failover.node.look import look_at_log, read_faults
from slurm_failover.node.respond import is_in_service

if TYPE_CHECKING:
    from slurm_failover.catalogue import Catalogue
    from slurm_failover.model import Event, NodeFacts
    from slurm_failover.settings.tables import Settings


class Weigher:
    """Weighs the findings of one look, at ``now`` in seconds since the epoch. ``facts`` asks Slurm
    for the node's, where something hangs on them.
    """

    def __init__(
        self,
        settings: Settings,
        now: float,
        rules: Callable[[], Catalogue],
        facts: Callable[[], NodeFacts],
    ) -> None:
        self._settings = settings
        self._now = now
        self._rules = rules
        self._facts = facts

    def weigh(
        self, ledger: Ledger, last: int, shown: list[Event], old: Ledger
    ) -> tuple[Blame, str, list[Event]]:
        """The findings up to record ``last``, new and earlier, what they say against the node now,
        and what no log tells of them. ``old`` is the ledger before this look.
        """
        log = look_at_log(self._settings.sources).until(last)
        records, known = self._part(read_faults(log.after(ledger.cursor), self._rules()), old)
        before = (*read_faults(log.until(ledger.cursor), self._rules()), *known)
        shown = not_in_log(shown, (*before, *records))
        kept = read_events_kept(ledger)
        again = [event for event in shown if any(is_same(one, event) for one in kept)]
        # What a drain is put off for is judged anew until it is made: a counter tells of it once.
        again = [event for event in again if not old.note(event.source).told]
        new = [event for event in shown if event not in again]
        everything = Blame((*records, *shown), (*before, *kept)).of_node()
        standing = "" if everything.node is NodeAction.NONE else everything.because
        if again and standing and self._came_back(others=bool(records or new)):
            new, again = shown, []
        return Blame((*records, *new), (*before, *kept, *again)), standing, shown

    def _part(self, records: Sequence[Event], old: Ledger) -> tuple[list[Event], list[Event]]:
        """What is new of the ``records``, and what was there before the node's very first look, or
        was judged before its ledger was taken away.
        """
        since = old.since(self._now, self._settings.sources.first_look)
        recent = tuple(event for event in records if last_of(event) >= since)
        if not old.boot and Blame(recent).of_node().node is not NodeAction.NONE:
            # Both the note and the record tell their time to the second.
            since = max(since, self._judged_until() + 1)
        new = [event for event in records if last_of(event) >= since]
        return new, [event for event in records if last_of(event) < since]

    def _judged_until(self) -> float:
        """Until when this node's log was judged before the ledger that is not there any more, in
        seconds since the epoch: an admin has returned the node to service since, as Slurm keeps of
        what it was drained for. 0 where Slurm keeps nothing, or does not answer. What lies ahead
        was written before the clock was set, and tells nothing.
        """
        try:
            facts = self._facts()
            notes = read_notes(facts.name, facts.extra) if is_in_service(facts) else ()
        except (SlurmError, HookEnded):
            return 0.0
        judged = (time for note in notes if not note.waits for time in (note.time, note.last))
        return max((time for time in judged if time <= self._now + 1), default=0.0)

    def _came_back(self, *, others: bool) -> bool:
        """Whether the node is in service again, in spite of what still holds. Where Slurm does not
        say, ``others`` that are new are judged all the same, and this at the next look.
        """
        try:
            return self._settings.failover.mode == "act" and is_in_service(self._facts())
        except (SlurmError, HookEnded):
            if not others:
                raise
            return False
