"""What the node's hooks do: Prolog, HealthCheckProgram and Epilog, from environment to status.

Each returns True if it found a new fault that takes this node out of service. Whatever could not be
looked at is said in the log and is no verdict.
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

Environment = Mapping[str, str]
Say = Callable[[str], None]

LOCK_PATIENCE = 15.0
"""Seconds that one hook waits for another on the same node."""


def check_job_end(environment: Environment, settings: Settings, say: Say) -> bool:
    """Epilog: the last look over a job's window."""
    look = look_at_log(settings.sources)
    if look.is_clean:
        return False
    return _attend(look, environment, settings, say, ends=True)


def check_health(environment: Environment, settings: Settings, say: Say) -> bool:
    """HealthCheckProgram: is there anything new?"""
    ledger = _read_ledger(settings, say)
    boot = kmsg.boot_id()
    look = look_at_log(settings.sources, ledger.cursor if ledger.boot == boot else -1)
    if ledger.boot == boot and look.last == ledger.cursor:
        return False
    return _attend(look, environment, settings, say, ends=False)


def check_job_start(environment: Environment, settings: Settings, say: Say) -> bool:
    """Prolog: is this node fit to start a job? True only if Slurm will not hold the job for it."""
    if not check_health(environment, settings, say):
        return False
    if "nohold_on_prolog_fail" in _connect(settings, say).setting("SchedulerParameters"):
        return True
    say(
        "the job starts on a drained node: without nohold_on_prolog_fail in SchedulerParameters "
        "Slurm would hold it"
    )
    return False


def _attend(
    look: Look, environment: Environment, settings: Settings, say: Say, *, ends: bool
) -> bool:
    """Judge what is new, act, and remember how far the log has been judged.

    The ledger is written last: if this process dies before, the next look judges and acts again,
    which changes nothing that was done.
    """
    files.make_folder(_folder(settings))
    with files.locked(f"{_folder(settings)}/lock", LOCK_PATIENCE) as held:
        if not held:
            say("another look at this node has not ended in time; no verdict")
            return False
        old = _read_ledger(settings, say)
        ledger = old.at_boot(look.boot)
        judged = None
        if not look.is_clean:
            since = old.since(time.time(), settings.sources.first_look)
            new = judge_node(look, ledger.cursor, since, settings.sources)
            ending = _read_ending(look, environment, settings) if ends else None
            judged = _respond(new, ending, environment, settings, say)
        text = write_ledger(ledger.judged(look.last, judged))
        files.write_whole(f"{_folder(settings)}/ledger.json", text)
    return judged is not None and settings.failover.mode == "act"


def _respond(
    new: Judgement,
    ending: EndingJob | None,
    environment: Environment,
    settings: Settings,
    say: Say,
) -> JudgedFault | None:
    from slurm_failover.model import NodeAction
    from slurm_failover.node.respond import Responder

    fault = None if new.node is NodeAction.NONE else new
    if fault is None and ending is None:
        return None
    node = environment.get("SLURMD_NODENAME") or socket.gethostname().split(".")[0]
    jobs = Responder(_connect(settings, say), node, say).respond(fault, ending)
    if fault is None:
        return None
    return JudgedFault(time.time(), fault.root.rule if fault.root else "", fault.because, jobs)


def _read_ending(look: Look, environment: Environment, settings: Settings) -> EndingJob | None:
    """What the log says of the job that ends, if it says anything that the controller needs."""
    from slurm_failover.model import JobCause, Window
    from slurm_failover.node.respond import EndingJob
    from slurm_failover.optin import read_opt_in

    wish = read_opt_in(environment.get("SLURM_JOB_COMMENT", ""), environment.get("SPANK_FAILOVER"))
    start = float(environment.get("SLURM_JOB_START_TIME", 0))
    if wish is None or not start:
        return None
    window = Window(start, time.time(), settings.failover.grace)
    judgement = judge_job(look, window, settings.sources)
    if judgement.cause is JobCause.UNKNOWN:
        return None
    failed = environment.get("SLURM_JOB_EXIT_CODE", "0") != "0"
    if judgement.cause is not JobCause.HARDWARE and not failed:
        return None
    return EndingJob(int(environment["SLURM_JOB_ID"]), start, judgement)


def _connect(settings: Settings, say: Say) -> Slurm:
    from slurm_failover.slurm.connect import connect

    return connect(settings, say)


def _folder(settings: Settings) -> str:
    return f"{settings.state.directory}/node"


def _read_ledger(settings: Settings, say: Say) -> Ledger:
    path = f"{_folder(settings)}/ledger.json"
    try:
        text = files.read_whole(path)
        return Ledger() if text is None else read_ledger(text)
    except (OSError, ValueError) as error:
        say(f"{path} can not be read, so this is a first look: {error}")
        return Ledger()
