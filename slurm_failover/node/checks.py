"""What the node's hooks do: Prolog, HealthCheckProgram and Epilog, from environment to verdict.

A verdict is True: a new fault takes this node out of service. Whatever could not be looked at is
said in the log, once, and is no verdict. What a healthy node does not need is imported where it is
used.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from slurm_failover.node import stops
from slurm_failover.node.due import Sources, gpu_news, watcher_news
from slurm_failover.node.ledger import Ledger
from slurm_failover.node.look import Look, look_at_log
from slurm_failover.node.memory import Memory
from slurm_failover.sources import kmsg
from slurm_failover.sources.presence import nvml_may_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurm_failover.model import NodeFacts
    from slurm_failover.node.occasion import Ended, Outcome
    from slurm_failover.node.readings import Reading
    from slurm_failover.settings.tables import Settings
    from slurm_failover.slurm.client import Slurm

_ENDED = {
    "CANCELLED": "was cancelled",
    "PREEMPTED": "was preempted",
    "TIMEOUT": "ran out of time",
    "DEADLINE": "missed its deadline",
    **dict.fromkeys(("BOOT_FAIL", "COMPLETED", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"), "ended"),
}
"""How a job can have ended that Slurm would requeue all the same, in words."""
RECHECKS = 5
"""How often a node is looked at for its return where hooks look at it at the same time."""


class NodeChecks:
    """The checks of one node, in the environment that Slurm gave to the hook."""

    def __init__(
        self, environment: Mapping[str, str], settings: Settings, say: Callable[[str], None]
    ) -> None:
        self._environment = environment
        self._settings = settings
        self._say = say
        self._folder = f"{settings.state.directory}/node"
        self._memory = Memory(self._folder, say)
        self._sources = Sources(settings, self._folder)
        self.read_ledger = self._memory.read
        self.node = environment.get("SLURMD_NODENAME") or os.uname().nodename.split(".")[0]

    def check_job_end(self) -> bool:
        """Epilog: the last look over a job's window."""
        ledger = self.read_ledger()
        log = look_at_log(self._settings.sources)
        readings = [*gpu_news(ledger), *self._sources.gpus(ledger)]
        cursor = ledger.cursor if ledger.boot == log.boot else -1
        ended = None
        if log.records or ledger.events or readings:
            self._environment = self._recall_start()
            ended = self._read_ended()
        told = ended is not None and ended.has_news(log, ledger)
        if log.after(cursor).is_clean and not readings and not told:
            return False
        return self._judge_end(log, readings, ended)

    def check_health(self) -> bool:
        """HealthCheckProgram: is there anything new, in any source?"""
        self._take_up_stops()
        self._take_up_ends()
        ledger = self.read_ledger()
        log = self._look_on(ledger)
        news = [*gpu_news(ledger), *watcher_news(ledger)]
        readings = [*news, *self._sources.all(ledger)]
        if self._is_quiet(ledger, log, readings) and not ledger.open:
            return False
        from slurm_failover.node.remember import is_count_due

        counts = nvml_may_answer(self._settings.sources.proc) and is_count_due(ledger, time.time())
        outcome = self._attend(log, readings, counts=counts)
        if not outcome.verdict:
            self._return_if_repaired(outcome)
        if self._settings.suspicion.after:
            from slurm_failover.node.suspicion import look_for_hangs

            gpus = [gpu for reading in readings for gpu in reading.utilization]
            look_for_hangs(self._settings, self.node, self.read_ledger(), gpus, self._say)
        return outcome.verdict

    def check_faults(self) -> bool:
        """For the watcher: what do the log and NVML's events say? A sick GPU can hang NVML and the
        BMC is slow, so neither is waited for, unless the GPUs' names are not known yet.
        """
        ledger = self.read_ledger()
        log = self._look_on(ledger)
        is_named = ledger.devices and ledger.boot == log.boot
        gpus = () if is_named else self._sources.gpus(ledger)
        readings = [*gpu_news(ledger), *gpus]
        if self._is_quiet(ledger, log, readings):
            return False
        return self._attend(log, readings).verdict

    def check_job_start(self) -> bool:
        """Prolog: is this node fit to start a job? True only if Slurm will not hold the job."""
        starting = int(self._environment["SLURM_JOB_ID"])
        ledger = self.read_ledger()
        log = self._look_on(ledger)
        readings = list(self._sources.gpus(ledger))
        verdict = not self._is_quiet(ledger, log, readings) and (
            self._attend(log, readings, starting=starting).verdict
        )
        acts = self._settings.failover.mode == "act"
        if not (verdict or (acts and ledger.open and self._is_closed())):
            return False
        if "nohold_on_prolog_fail" in self._connect().setting("SchedulerParameters"):
            return not self._is_over(starting)
        self._say(
            "the job starts on a drained node: without nohold_on_prolog_fail in "
            "SchedulerParameters Slurm would hold it"
        )
        return False

    def _is_over(self, job_id: int) -> bool:
        """Whether a job that starts was cancelled meanwhile, or has ended: Slurm requeues it if its
        Prolog fails, and it would start again after all (seen on 24.11.5). Where Slurm does not say
        it was not.
        """
        from slurm_failover.errors import HookEnded, SlurmError

        try:
            states = self._connect().job(str(job_id)).states
        except (SlurmError, HookEnded):
            return False
        ended = next((words for state, words in _ENDED.items() if state in states), "")
        if ended:
            self._say(f"job {job_id} {ended} before it started: it is not sent back")
        return bool(ended)

    def recheck(self) -> str:
        """Look with every source, now, and again where a hook's look came in between. What stands
        against the node's return to service, as a sentence; empty if nothing does. Raises
        SlurmError.
        """
        from slurm_failover.node.attend import OVERTAKEN
        from slurm_failover.node.remember import what_is_hidden

        for _ in range(RECHECKS):
            ledger = self.read_ledger()
            readings = list(self._sources.all(ledger, now=True))
            outcome = self._attend(self._look_on(ledger), readings, counts=True)
            if outcome.standing != OVERTAKEN:
                break
        if outcome.ledger is None:
            return outcome.standing or "another look at this node has not ended in time"
        return outcome.standing or what_is_hidden(outcome.ledger)

    def missing_reboot(self, facts: NodeFacts) -> str:
        """What asked for a reboot that this node has not had, as a sentence; empty if nothing did.

        Where the ledger was lost, as it is with every reboot of a node without a disk, the Reason
        in ``facts`` tells that one is needed, and the notes in its Extra since when.
        """
        from slurm_failover.breaker import read_notes
        from slurm_failover.evidence import REBOOT_NEEDED
        from slurm_failover.node.repair import missing_reboot

        faults = self.read_ledger().open
        if faults or REBOOT_NEEDED not in facts.reason:
            return missing_reboot(faults, kmsg.boot_id(self._settings.sources.proc))
        noted = [note.time for note in read_notes(facts.name, facts.extra)]
        if noted and max(noted) < kmsg.boot_time():
            return ""
        return "its reason asks for a reboot, and nothing is known here of one since"

    def lift_drain(self) -> str:
        """Return this node to service if it is out of it by our own drain, as we wrote it; else a
        sentence why not. Raises SlurmError.
        """
        from slurm_failover.node.respond import lift_drain

        refusal = lift_drain(self._connect(), self.node, self.read_ledger().reason)
        self._memory.change(Ledger.left_alone if refusal else Ledger.returned)
        return refusal

    def _judge_end(self, log: Look, readings: list[Reading], ended: Ended | None) -> bool:
        """Judge the end of a job; of a flagged one Slurm hears now, or at a later look."""
        from slurm_failover.node import ends

        left = ""
        try:
            if ended is not None:
                left = ends.leave_end(self._folder, self._environment)
        except OSError as error:
            self._say(f"should this look be cut short, no later one makes up for it: {error}")
        told = False
        try:
            outcome = self._attend(log, readings, ended=ended)
            told = outcome.ledger is not None
        finally:
            if left and told:
                ends.drop_end(left)
            elif left and ends.ENDED not in self._environment:
                from slurm_failover.node.untold import tell_later

                tell_later(left, self._say)
        return outcome.verdict

    def _take_up_ends(self) -> None:
        """Look again at ends of which an Epilog could not tell all."""
        from slurm_failover.node import ends

        left = ends.left_ends(self._folder)
        if left:
            from slurm_failover.node.untold import take_up_ends

            take_up_ends(left, self.node, self._settings, self._say)

    def _take_up_stops(self) -> None:
        """Go on with the requeue of jobs whose grace nobody waits out (any more)."""
        left = stops.left_stops()
        if left:
            from slurm_failover.node.checkpoint import take_up_stops

            take_up_stops(left, self._say)

    def _return_if_repaired(self, outcome: Outcome) -> None:
        """Lift our own drain where the site wants that and all its faults are repaired."""
        ledger = outcome.ledger
        if not self._settings.nodes.resume_after_repair or ledger is None or not ledger.open:
            return
        from slurm_failover.node.remember import what_is_hidden
        from slurm_failover.node.repair import is_repaired

        repaired = all(is_repaired(fault, ledger.boot) for fault in ledger.open)
        if outcome.standing or not repaired or what_is_hidden(ledger):
            return
        if self._find_out_of_service() is None:
            return
        if self._settings.failover.mode == "observe":
            self._say("would be resumed: repaired, and checks clean")
            return
        refusal = self.lift_drain()
        self._say(f"not resumed: {refusal}" if refusal else "resumed: repaired, and checks clean")

    def _is_closed(self) -> bool:
        """Whether this node, which we have drained, is still out of service."""
        facts = self._find_out_of_service()
        if facts is not None:
            self._say(f"no job starts here: {facts.reason}")
        return facts is not None

    def _find_out_of_service(self) -> NodeFacts | None:
        """This node, which we have drained, as Slurm sees it; None if it is back in service."""
        from slurm_failover.node.respond import is_in_service

        facts = self._connect().nodes(self.node)[0]
        if not is_in_service(facts):
            return facts
        self._memory.change(Ledger.returned)
        return None

    @staticmethod
    def _is_quiet(ledger: Ledger, log: Look, readings: list[Reading]) -> bool:
        """Whether there is nothing to judge and nothing to remember."""
        return ledger.boot == log.boot and log.is_clean and not readings

    def _attend(
        self,
        log: Look,
        readings: list[Reading],
        *,
        starting: int | None = None,
        ended: Ended | None = None,
        counts: bool = False,
    ) -> Outcome:
        from slurm_failover.node.attend import Attendant
        from slurm_failover.node.occasion import Occasion, Outcome

        with self._memory.held(at_end=ended is not None) as held:
            if not held:
                self._say("another look at this node has not ended in time; no verdict")
                return Outcome(None)
            attendant = Attendant(self._settings, self.node, self._connect, self._say)
            occasion = Occasion(starting, ended, counts)
            outcome = attendant.attend(self.read_ledger(), log, readings, occasion)
            if outcome.ledger is not None:
                self._memory.write(outcome.ledger)
        return outcome

    def _look_on(self, ledger: Ledger) -> Look:
        """A look at the kernel's log behind what was judged in this boot."""
        same_boot = ledger.boot == kmsg.boot_id(self._settings.sources.proc)
        return look_at_log(self._settings.sources, ledger.cursor if same_boot else -1)

    def _recall_start(self) -> Mapping[str, str]:
        """What Slurm tells of the job that ends, and has told its Prolog of its GPUs."""
        from slurm_failover.node.attempts import told_at_start

        noted = told_at_start(self._environment.get("SLURM_JOB_ID", ""))
        start = "SLURM_JOB_START_TIME"
        is_of_it = noted.get(start) == self._environment.get(start)
        return {**noted, **self._environment} if is_of_it else self._environment

    def _read_ended(self) -> Ended | None:
        """The job that ends, if it is flagged."""
        from slurm_failover.holding import from_hook_environment
        from slurm_failover.node.ends import ENDED
        from slurm_failover.node.occasion import Ended
        from slurm_failover.optin import read_opt_in

        told = self._environment
        wish = read_opt_in(told.get("SLURM_JOB_COMMENT", ""), told.get("SPANK_FAILOVER"))
        start = float(told.get("SLURM_JOB_START_TIME", 0))
        if wish is None or not start:
            return None
        failed = told.get("SLURM_JOB_EXIT_CODE", "0") != "0"
        end = float(told.get(ENDED, 0))
        return Ended(from_hook_environment(told), start, failed, end)

    def _connect(self) -> Slurm:
        from slurm_failover.slurm.connect import connect

        return connect(self._settings, self._say)
