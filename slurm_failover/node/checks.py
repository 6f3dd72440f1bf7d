"""What the node's hooks do: Prolog, HealthCheckProgram and Epilog, from environment to verdict.

A verdict is True: a new fault takes this node out of service. Whatever could not be looked at is
said in the log and is no verdict. What a healthy node does not need is imported where it is used.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from slurm_failover import files
from slurm_failover.node.ledger import JudgedFault, Ledger, read_ledger, write_ledger
from slurm_failover.node.look import Look, judge_job, judge_node, look_at_log
from slurm_failover.sources import kmsg

if TYPE_CHECKING:
    from slurm_failover.model import Judgement
    from slurm_failover.node.respond import EndingJob
    from slurm_failover.settings import Settings
    from slurm_failover.slurm.client import Slurm

LOCK_PATIENCE = 15.0
"""Seconds that one hook waits for another on the same node."""


class NodeChecks:
    """The checks of one node, in the environment that Slurm gave to the hook."""

    def __init__(
        self, environment: Mapping[str, str], settings: Settings, say: Callable[[str], None]
    ) -> None:
        self._environment = environment
        self._settings = settings
        self._say = say
        self._folder = f"{settings.state.directory}/node"

    def check_job_end(self) -> bool:
        """Epilog: the last look over a job's window."""
        look = look_at_log(self._settings.sources)
        return not look.is_clean and self._attend(look, ends=True)

    def check_health(self, starting: int | None = None) -> bool:
        """HealthCheckProgram: is there anything new?"""
        ledger = self._read_ledger()
        same_boot = ledger.boot == kmsg.boot_id()
        look = look_at_log(self._settings.sources, ledger.cursor if same_boot else -1)
        nothing_new = same_boot and look.last == ledger.cursor
        return not nothing_new and self._attend(look, starting=starting)

    def check_job_start(self) -> bool:
        """Prolog: is this node fit to start a job? True only if Slurm will not hold the job."""
        if not self.check_health(starting=int(self._environment["SLURM_JOB_ID"])):
            return False
        if "nohold_on_prolog_fail" in self._connect().setting("SchedulerParameters"):
            return True
        self._say(
            "the job starts on a drained node: without nohold_on_prolog_fail in "
            "SchedulerParameters Slurm would hold it"
        )
        return False

    def _attend(self, look: Look, *, ends: bool = False, starting: int | None = None) -> bool:
        """Judge what is new, act, and remember how far the log has been judged.

        The ledger is written last: if this process dies before, the next look judges and acts
        again, which changes nothing that was done.
        """
        files.make_folder(self._folder)
        with files.locked(f"{self._folder}/lock", LOCK_PATIENCE) as held:
            if not held:
                self._say("another look at this node has not ended in time; no verdict")
                return False
            old = self._read_ledger()
            ledger = old.at_boot(look.boot)
            judged = None
            if not look.is_clean:
                since = old.since(time.time(), self._settings.sources.first_look)
                new = judge_node(look, ledger.cursor, since, self._settings.sources)
                judged = self._respond(new, self._read_ending(look) if ends else None, starting)
            text = write_ledger(ledger.judged(look.last, judged))
            files.write_whole(f"{self._folder}/ledger.json", text)
        return judged is not None and self._settings.failover.mode == "act"

    def _respond(
        self, new: Judgement, ending: EndingJob | None, starting: int | None
    ) -> JudgedFault | None:
        from slurm_failover.model import NodeAction
        from slurm_failover.node.respond import Responder

        fault = None if new.node is NodeAction.NONE else new
        if fault is None and ending is None:
            return None
        name = self._environment.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0]
        jobs = Responder(self._connect(), name, self._say).respond(fault, ending, starting)
        if fault is None:
            return None
        return JudgedFault(time.time(), fault.root.rule if fault.root else "", fault.because, jobs)

    def _read_ending(self, look: Look) -> EndingJob | None:
        """What the log says of the job that ends, if the controller has a use for it."""
        from slurm_failover.model import JobCause, Window
        from slurm_failover.node.respond import EndingJob
        from slurm_failover.optin import read_opt_in

        told = self._environment
        wish = read_opt_in(told.get("SLURM_JOB_COMMENT", ""), told.get("SPANK_FAILOVER"))
        start = float(told.get("SLURM_JOB_START_TIME", 0))
        if wish is None or not start:
            return None
        window = Window(start, time.time(), self._settings.failover.grace)
        judgement = judge_job(look, window, self._settings.sources)
        failed = told.get("SLURM_JOB_EXIT_CODE", "0") != "0"
        explains = failed and judgement.cause is not JobCause.UNKNOWN
        if not explains and judgement.cause is not JobCause.HARDWARE:
            return None
        return EndingJob(int(told["SLURM_JOB_ID"]), start, judgement)

    def _connect(self) -> Slurm:
        from slurm_failover.slurm.connect import connect

        return connect(self._settings, self._say)

    def _read_ledger(self) -> Ledger:
        path = f"{self._folder}/ledger.json"
        try:
            text = files.read_whole(path)
            return Ledger() if text is None else read_ledger(text)
        except (OSError, ValueError) as error:
            self._say(f"{path} can not be read, so this is a first look: {error}")
            return Ledger()
