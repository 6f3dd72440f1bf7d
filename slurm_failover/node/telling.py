"""What a flagged job's log is told: why there is another attempt, or why there is none.

The batch host writes, or the node that stopped the job: one request to Slurm for an attempt after
the first, and a few for one that failed or was stopped, until its verdict is known.
"""

from __future__ import annotations

import os
import pwd
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from ClusterShell.NodeSet import NodeSet

from slurm_failover import joblog
from slurm_failover.detach import start_detached
from slurm_failover.errors import SlurmUnavailable
from slurm_failover.model import JobFacts
from slurm_failover.node.append import Person, append_as, tail_as
from slurm_failover.node.launch import report_image
from slurm_failover.node.launcher import is_batch_host
from slurm_failover.node.stopping import MOVES, STOPPED
from slurm_failover.policy import Action
from slurm_failover.record import Record, Step, read_record, tidy
from slurm_failover.settings.tables import Settings
from slurm_failover.slurm.connect import connect

Environment = Mapping[str, str]
Say = Callable[[str], None]
Log = tuple[Person, str]
"""With whose rights a log is written to, and its path."""

_HURRY = 5
"""Seconds that Slurm has for an answer while a job waits for its start."""
_FIRST_PAUSE, _LATE_PAUSE, _LONGEST_PAUSE = 2.0, 12.0, 60.0
"""Nobody hurries to read the line, and every look is a request: where many jobs end at once, and
their verdicts take a while, each of them looks a few times only.
"""
_LET_GO = 120.0
"""Seconds after the controller's own patience in which a verdict is still awaited."""


def announce(environment: Environment, settings: Settings, say: Say) -> dict[str, str]:
    """Mark an attempt after the first in the job's log; what the job sees of it as variables, none
    where this is not its batch host. Raises SlurmError.
    """
    if not is_batch_host(environment, _node(environment)):
        return {}
    hurried = replace(settings.slurm, timeout=_HURRY, patience=_HURRY)
    job = connect(replace(settings, slurm=hurried), say).job(environment["SLURM_JOB_ID"])
    record = read_record(job.admin_comment)
    if record is None or job.is_led:
        return {}
    number = joblog.current_attempt(record, float(environment["SLURM_JOB_START_TIME"]))
    nodes = environment["SLURM_JOB_NODELIST"]
    line = joblog.separator(job.label, number, _clock(), nodes, record)
    _append(_own_log(environment, job), job, line, say)
    reason = next((old.because for old in record.history if old.number == number - 1), "")
    return {"ATTEMPT": str(number), "REASON": tidy(reason), "EXCLUDED_NODES": record.excluded}


def follow_up(environment: Environment, settings: Settings, say: Say, *, moves: bool) -> None:
    """Leave word on the image of a job that did not end well, and tell its log of the decision.
    Raises SlurmError.
    """
    node = _node(environment)
    if is_batch_host(environment, node) and settings.failover.mode == "act":
        start_detached("tell_verdict", {MOVES: "1"} if moves else None)
    report_image(environment, settings, node, say)


def tell_verdict(environment: Environment, settings: Settings, say: Say) -> None:
    """Wait for the decision on an attempt that ended here or that this node stopped, and say in the
    job's log if it is that no other follows. A process of its own, since the decision waits for
    this node's Epilog.
    """
    if settings.failover.mode != "act":
        return
    slurm = connect(settings, say)
    job_id = environment.get(STOPPED) or environment["SLURM_JOB_ID"]
    start = float(environment["SLURM_JOB_START_TIME"])
    deadline = time.monotonic() + settings.failover.wait_for_nodes + _LET_GO
    pause = _LATE_PAUSE if environment.get(MOVES) else _FIRST_PAUSE
    while time.monotonic() < deadline:
        time.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, not a secret
        pause = min(pause * 3, _LONGEST_PAUSE)
        try:
            jobs = slurm.jobs([job_id])
        except SlurmUnavailable:
            continue
        job = next((job for job in jobs if _is_meant(job, job_id)), None)
        if job is None or job.is_led:
            return
        record = read_record(job.admin_comment)
        if record is not None and record.attempt.start == start and record.attempt.outcome:
            _tell(environment, job, record, say)
        elif job.has("PENDING", "COMPLETING"):
            continue
        return


def _is_meant(job: JobFacts, job_id: str) -> bool:
    """Components of a heterogeneous job all bear their leader's label."""
    return str(job.job_id) == job_id or (job.label == job_id and not job.is_led)


def _tell(environment: Environment, job: JobFacts, record: Record, say: Say) -> None:
    if record.attempt.outcome not in (Action.DENY, Action.EXCEED):
        return
    stopped = STOPPED in environment
    log = _log_of_stopped(job, record) if stopped else _own_log(environment, job)
    if log is None:
        say(f"job {job.label}: {job.user} is no user here, and the job's log is not told")
    elif not joblog.is_closed(tail_as(*log), job.label, record.attempt.number):
        remains = "cancelled" if record.step is Step.TO_CANCEL else "held"
        _append(log, job, joblog.denial(job.label, record, _clock(), remains), say)


def _own_log(environment: Environment, job: JobFacts) -> Log:
    """The log of the job whose hook this is, on its batch host."""
    person = Person(int(environment["SLURM_JOB_UID"]), int(environment["SLURM_JOB_GID"]))
    return person, joblog.resolve(job.stdout, _node(environment))


def _log_of_stopped(job: JobFacts, record: Record) -> Log | None:
    """The log of a job that any of its nodes stopped; None where its owner is unknown here."""
    try:
        owner = pwd.getpwnam(job.user)
    except KeyError:
        return None
    host = str(NodeSet(record.attempt.nodes)[0])
    return Person(owner.pw_uid, owner.pw_gid), joblog.resolve(job.stdout, host)


def _append(log: Log, job: JobFacts, line: str, say: Say) -> None:
    problem = append_as(*log, line)
    if problem:
        say(f"job {job.label}: not in its log: {line} ({problem})")


def _node(environment: Environment) -> str:
    return environment.get("SLURMD_NODENAME") or os.uname().nodename.split(".")[0]


def _clock() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
