"""Judge what a look has shown, act on it, and say what is to be remembered: under the node's lock.

The caller writes the ledger last: if this process dies before, the next look judges and acts again,
which changes nothing that was done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from slurm_failover.node.ledger import JudgedFault, Ledger, keep_events
from slurm_failover.node.look import Look, read_rules
from slurm_failover.node.occasion import Ended, Occasion, Outcome
from slurm_failover.node.remember import (
    count_gpus,
    drop_switched_off,
    is_overtaken,
    read_devices,
    switched_off,
    take,
)

if TYPE_CHECKING:
    from slurm_failover.catalogue import Catalogue
    from slurm_failover.errors import HookEnded, SlurmError
    from slurm_failover.gres import GresSlot
    from slurm_failover.model import JobFacts, Judgement, NodeFacts
    from slurm_failover.node.blame import Blame, Share
    from slurm_failover.node.breaker import Answer
    from slurm_failover.node.gres import NodeGres
    from slurm_failover.node.readings import Reading
    from slurm_failover.node.respond import EndingJob
    from slurm_failover.settings.tables import Settings
    from slurm_failover.slurm.client import Slurm

OVERTAKEN = "another look came in between; look again"
"""What stands against a look that began before the one that is in the ledger: it may be old."""


class Attendant:
    """Judges and acts for one node, once."""

    def __init__(
        self,
        settings: Settings,
        node: str,
        connect: Callable[[], Slurm],
        say: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._node = node
        self._connect = connect
        self._say = say
        self._now = time.time()
        self._silence: SlurmError | HookEnded | None = None

    def attend(
        self, old: Ledger, log: Look, readings: Sequence[Reading], occasion: Occasion
    ) -> Outcome:
        """Bring the node to what its log and the ``readings`` call for. Raises SlurmError."""
        outcome = self._judge(old, log, readings, occasion)
        ledger = outcome.ledger
        if ledger is not None and (ledger.waits or ledger.told_by) and not outcome.standing:
            outcome = replace(outcome, ledger=self._end_wait(old, ledger, readings))
        if outcome.standing or not any(is_overtaken(old, reading) for reading in readings):
            return outcome
        return replace(outcome, standing=OVERTAKEN)

    def _judge(
        self, old: Ledger, log: Look, readings: Sequence[Reading], occasion: Occasion
    ) -> Outcome:
        ledger = drop_switched_off(old.at_boot(log.boot), self._settings.sources)
        if occasion.counts:
            ledger = count_gpus(ledger, self._now, self._read_slots)
        ledger, shown = take(ledger, readings, self.rules, self._read_slots, self._say)
        told = occasion.ended is not None and occasion.ended.has_news(log, ledger)
        if not shown and not told and log.after(ledger.cursor).is_clean:
            return Outcome(ledger.judged(log.last))
        from slurm_failover.node.weigh import Weigher

        weigher = Weigher(self._settings, self._now, self.rules, lambda: self._facts)
        blame, standing, shown = weigher.weigh(ledger, log.last, shown, old)
        ledger = keep_events(ledger, shown, self._now) if shown else ledger
        return self._act(old, ledger.judged(log.last), blame, standing, occasion)

    def rules(self) -> Catalogue:
        """The rules in force, read when the first is needed."""
        return self._catalogue

    @cached_property
    def _catalogue(self) -> Catalogue:
        return read_rules(self._settings.sources)

    @cached_property
    def _seen(self) -> list[NodeFacts]:
        """This node, or all where one look serves the circuit breaker as well: scontrol asks for
        all nodes whatever is to be shown (scontrol_load_nodes in its info_node.c).
        """
        from slurm_failover.errors import HookEnded, SlurmError
        from slurm_failover.node.breaker import counts_faults

        counts = counts_faults(self._settings.breaker)
        try:
            return self._connect().nodes(self._node if counts else "")
        except (SlurmError, HookEnded) as error:
            self._silence = error
            raise

    @cached_property
    def _facts(self) -> NodeFacts:
        return next(node for node in self._seen if node.name == self._node)

    @cached_property
    def _gres(self) -> NodeGres:
        from slurm_failover.node.gres import NodeGres

        return NodeGres(self._settings.slurm.slurmd, self._node)

    def _read_slots(self) -> tuple[GresSlot, ...] | None:
        return self._gres.slots

    def _act(
        self, old: Ledger, ledger: Ledger, blame: Blame, standing: str, occasion: Occasion
    ) -> Outcome:
        from slurm_failover.errors import HookEnded, SlurmError
        from slurm_failover.model import NodeAction
        from slurm_failover.node.account import account_fault

        judgement = blame.of_node() if blame.fresh else None
        fault = judgement if judgement and judgement.node is not NodeAction.NONE else None
        if fault is None and not self._may_explain(blame, occasion.ended):
            return Outcome(ledger, standing=standing)
        acts = self._settings.failover.mode == "act"
        try:
            if self._silence is not None:
                raise self._silence
            judged, waits = self._respond(ledger, blame, fault, occasion)
        except (SlurmError, HookEnded) as error:
            # A Prolog has to ask Slurm once more before it may fail, and has no time for that.
            is_late = isinstance(error, HookEnded) and occasion.starting is not None
            if fault is None or not acts or is_late:
                raise
            # Slurm itself drains the node for a hook that fails; the decider waits for our word.
            self._say(f"the verdict stands, and Slurm can not be told: {fault.because}; {error}")
            return Outcome(None, verdict=True, standing=standing)
        if waits:
            from slurm_failover.node.put_off import put_off

            return Outcome(put_off(old, ledger, blame), standing=standing)
        if judged is not None:
            ledger = self._opened(ledger).judged(ledger.cursor, judged)
            account_fault(self._settings, self._facts, judged, self._say)
        return Outcome(ledger, verdict=judged is not None and acts, standing=standing)

    def _may_explain(self, blame: Blame, ended: Ended | None) -> bool:
        """Whether there may be a word to say on the job that ends: else nobody is asked for one."""
        if ended is None:
            return False
        window = ended.window(self._now, self._settings.failover.grace)
        return blame.may_explain(window, failed=ended.failed)

    def _end_wait(self, old: Ledger, ledger: Ledger, readings: Sequence[Reading]) -> Ledger:
        """The ledger of a node that shows no fault: where that is gone, no drain of it waits."""
        from slurm_failover.node.account import account_end_of_wait
        from slurm_failover.node.put_off import forget, is_gone, is_rebooted

        if not is_gone(old, ledger, readings, switched_off(self._settings.sources)):
            return ledger
        forget(self._connect(), self._facts, self._now)
        what = "rebooted while its drain was put off, and no fault is seen since"
        gone = "what its drain was put off for is seen no more"
        self._say(f"{what if is_rebooted(ledger) else gone}: none is due")
        account_end_of_wait(self._settings, self._say)
        return ledger.waiting_no_more()

    def _opened(self, ledger: Ledger) -> Ledger:
        """The ledger before a new drain: faults of a drain that was lifted are closed."""
        from slurm_failover.node.respond import is_in_service

        return ledger.returned() if is_in_service(self._facts) else ledger

    def _respond(
        self, ledger: Ledger, blame: Blame, fault: Judgement | None, occasion: Occasion
    ) -> tuple[JudgedFault | None, bool]:
        """Act on a fault, and leave word on the job that ends. What was done, and whether something
        may not be done yet.
        """
        from slurm_failover.node.attempts import as_started
        from slurm_failover.node.repair import repair_of
        from slurm_failover.node.respond import Responder, all_hit
        from slurm_failover.settings.limits import read_limits

        ended = occasion.ended
        is_silent = ended is not None and not ended.gpus.is_told
        asks = fault is not None or is_silent or self._gres.asks_who_holds(self._facts.gpus)
        jobs = self._connect().jobs_on(self._node) if asks else []
        jobs = [as_started(job) for job in jobs if job.job_id != occasion.starting]
        counted = self._facts.gpus
        blame = replace(
            blame,
            devices=read_devices(ledger),
            slots=self._gres.known(counted),
            gpus=counted,
            jobs=tuple(self._gres.held(job, counted) for job in jobs),
        )
        mine = [job for job in jobs if ended is not None and ended.is_of(job)]
        if ended is not None:
            ended = replace(ended, gpus=self._gres.held_by(ended.gpus, mine, counted))
        ending = self._read_ending(blame, ended)
        if fault is None and ending is None:
            return None, False
        running = self._share_out(blame, jobs, mine) if fault else []
        limits, checkpoint = read_limits(self._settings), self._settings.checkpoint
        acts = self._settings.failover.mode == "act"
        responder = Responder(self._connect(), self._node, self._say, limits, checkpoint, acts=acts)
        if fault is None:
            responder.respond(self._facts, None, [], ending)
            return None, False
        word = responder.word_on(self._facts, ending)
        answer = self._ask(fault, all_hit(running, mine, ending), word)
        if answer.waits:
            return None, True
        response = responder.respond(answer.facts, fault, running, ending, answer.extra)
        rule, needs = fault.root.rule if fault.root else "", repair_of(fault, blame.fresh)
        judged = JudgedFault(
            self._now, rule, fault.because, response.hit, ledger.boot, needs, response.reason
        )
        return judged, False

    def _ask(self, fault: Judgement, hit: list[JobFacts], word: str) -> Answer:
        """Ask the circuit breaker. ``word`` is the node's Extra as it shall be; without it a job
        would be denied where no answer comes.
        """
        from slurm_failover.node.account import account_wait
        from slurm_failover.node.breaker import Gate, note_fault

        gate = Gate(self._connect(), self._node, self._settings.breaker)
        note = note_fault(self._node, fault, hit, self._settings.sources.sysfs)
        note = replace(note, observed=self._settings.failover.mode == "observe")
        answer = gate.ask(self._facts, note, word, self._seen)
        if answer.waits:
            self._say(f"no drain and no requeue yet, {answer.waits}: {fault.because}")
            account_wait(self._settings, note, answer, self._say)
        return answer

    def _share_out(
        self, blame: Blame, jobs: list[JobFacts], ending: list[JobFacts]
    ) -> list[tuple[JobFacts, Share]]:
        """Every job on the node with its share in what is new, the one that is ``ending`` apart.
        ``jobs`` are those of ``blame``, in its order.
        """
        from slurm_failover.model import Window

        grace = self._settings.failover.grace
        return [
            (job, blame.of_running(held, Window(job.start, self._now, grace)))
            for job, held in zip(jobs, blame.jobs, strict=True)
            if job not in ending
        ]

    def _read_ending(self, blame: Blame, ended: Ended | None) -> EndingJob | None:
        """What the findings say of the flagged job that ends, if the controller has a use for it.

        A hardware fault counts whatever the end; anything else explains a failure at most.
        """
        from slurm_failover.model import JobCause, Judgement, NodeAction
        from slurm_failover.node.respond import EndingJob

        if ended is None:
            return None
        window = ended.window(self._now, self._settings.failover.grace)
        share = blame.of_ending(ended.gpus, window)
        judgement = share.judgement
        if share.doubt:
            judgement = Judgement(JobCause.UNKNOWN, NodeAction.NONE, share.doubt)
        explains = judgement.cause is not JobCause.UNKNOWN or share.doubt
        if judgement.cause is JobCause.HARDWARE or (ended.failed and explains):
            return EndingJob(ended.gpus.job_id, ended.start, judgement)
        return None
