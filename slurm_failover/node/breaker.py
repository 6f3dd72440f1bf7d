"""Ask the circuit breaker before a drain: note the fault, look at all notes, wait for one's turn.

The note comes first, so that of many nodes that ask at once the one too many knows. Where the site
counts no faults, only an admin's word can stand against a drain: then one look serves for all, and
the note goes with the drain. What may not be done now is not forgotten: the node's look is made
again until it may.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from zlib import crc32

from slurm_failover.breaker import (
    FaultNote,
    Trip,
    add_note,
    due,
    read_breaker,
    read_notes,
    write_notes,
)
from slurm_failover.model import Scope
from slurm_failover.node.ledger import last_of
from slurm_failover.node.respond import is_in_service
from slurm_failover.slurm.client import NodeChange

if TYPE_CHECKING:
    from slurm_failover.model import JobFacts, Judgement, NodeFacts
    from slurm_failover.settings.protection import BreakerSettings
    from slurm_failover.slurm.client import Slurm

LONGEST_TURN = 10.0
"""Seconds that a hook waits for its turn; where it takes longer the next look drains."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``facts`` are the node's as Slurm has them, and ``extra`` is its Extra with the note in it,
    which may be still to be written. ``waits`` says why it may not be drained now, as a clause;
    empty if it may. ``is_new`` says that the fault was not noted before, and ``opened`` is the trip
    that this very note caused.
    """

    facts: NodeFacts
    extra: str
    waits: str = ""
    is_new: bool = False
    opened: Trip | None = None


class Gate:
    """Asks for one node, with the site's settings."""

    def __init__(
        self,
        slurm: Slurm,
        node: str,
        site: BreakerSettings,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._slurm = slurm
        self._node = node
        self._site = site
        self._pause = pause

    def ask(
        self,
        facts: NodeFacts,
        new: FaultNote,
        extra: str | None = None,
        seen: Sequence[NodeFacts] = (),
    ) -> Answer:
        """May this node drain, and stop jobs, for a fault? Raises SlurmError.

        ``extra`` is what the node's Extra shall say beside the note, if not what it says already:
        that is known whatever the answer, even where none comes. ``seen`` are all nodes, if they
        were asked for just now, and serve where no faults are counted.
        """
        # A note of ours from the future was written before the clock was set back.
        before = [
            replace(note, time=min(note.time, new.time))
            for note in read_notes(self._node, facts.extra)
        ]
        asking = replace(new, waits=True)
        notes = add_note(before, asking, self._site.window, in_service=is_in_service(facts))
        own = next(note for note in notes if note.code == new.code and note.waits)
        # That it was seen once more is news with the drain alone: else each look would write it.
        known = next((note for note in before if replace(note, last=own.last) == own), None)
        text = facts.extra if extra is None else extra
        waiting = [known if known and note is own else note for note in notes]
        noted = write_notes(text, waiting, new.time)
        answer = self._put_the_question(facts, noted, own, known is None, seen)
        return answer if answer.waits else replace(answer, extra=write_notes(text, notes, new.time))

    def _put_the_question(
        self,
        facts: NodeFacts,
        noted: str,
        own: FaultNote,
        is_new: bool,
        seen: Sequence[NodeFacts],
    ) -> Answer:
        if not counts_faults(self._site):
            answer = self._look(facts, noted, own, is_new, seen or self._slurm.nodes())
            return self._leave_note(answer) if answer.waits else answer
        answer = self._leave_note(Answer(facts, noted))
        return self._take_turn(answer.facts, noted, own, is_new)

    def _leave_note(self, answer: Answer) -> Answer:
        if answer.extra != answer.facts.extra:
            self._slurm.update_node(self._node, NodeChange(extra=answer.extra))
        return replace(answer, facts=replace(answer.facts, extra=answer.extra))

    def _take_turn(self, facts: NodeFacts, noted: str, own: FaultNote, is_new: bool) -> Answer:
        answer = self._look(facts, noted, own, is_new, self._slurm.nodes())
        left = self._turn - time.time()
        if answer.waits or left <= 0:
            return answer
        if left > LONGEST_TURN:
            return replace(answer, waits=f"other drains go first, {self._site.pace} s apart")
        self._pause(left)
        return self._look(facts, noted, own, is_new, self._slurm.nodes())

    def _look(
        self,
        facts: NodeFacts,
        noted: str,
        own: FaultNote,
        is_new: bool,
        seen: Iterable[NodeFacts],
    ) -> Answer:
        """What stands against the drain, by all nodes' notes; and when its turn is."""
        nodes = {node.name: node for node in seen}
        fresh = nodes.get(self._node, facts)
        nodes[self._node] = replace(fresh, extra=noted)
        breaker = read_breaker(list(nodes.values()), self._site, time.time())
        self._turn = due(breaker.notes, own, self._site.pace, self._site.at_once)
        answer = Answer(replace(fresh, extra=facts.extra), noted, "", is_new)
        trip = breaker.against([job for job, _ in own.attempts])
        if trip is None:
            return answer
        caused = is_new and trip.opener == self._node and trip.since == own.time
        return replace(answer, waits=_words(trip), opened=trip if caused else None)


def counts_faults(site: BreakerSettings) -> bool:
    """Whether it matters to a drain how many other nodes are faulty."""
    return site.enabled or site.pace > 0


def note_fault(node: str, fault: Judgement, hit: Iterable[JobFacts], sysfs: str) -> FaultNote:
    """The note of a fault that hit these jobs."""
    jobs = list(hit)
    of_gpu = fault.root is not None and fault.root.scope in (Scope.GPU, Scope.FABRIC)
    return FaultNote(
        node=node,
        time=round(time.time(), 3),
        code=fault.root.rule if fault.root else "unknown",
        because=fault.because,
        driver=read_driver(sysfs) if of_gpu else "",
        attempts=tuple(sorted((job.job_id, round(job.start)) for job in jobs)),
        who=tuple(sorted({_token(job.user) for job in jobs if job.user})),
        last=round(max((last_of(event) for event in fault.events), default=0.0)),
    )


def read_driver(sysfs: str) -> str:
    """The version of NVIDIA's kernel driver, from sysfs; empty where there is none."""
    try:
        with open(f"{sysfs}/module/nvidia/version", encoding="ascii") as file:  # noqa: PTH123
            return file.read(64).strip()
    except (OSError, ValueError):
        return ""


def _token(user: str) -> str:
    """Tells two users apart without naming them: everyone may read a node's Extra."""
    return f"{crc32(user.encode()):08x}"


def _words(trip: Trip) -> str:
    return f"the circuit breaker is open: {trip.because}"
