"""What a flagged job sees of its attempts: a line in its log, and variables in its environment.

Only the batch host writes: one request to Slurm for an attempt after the first, and a few for one
that failed, until its verdict is known. The variables go through a file that only root writes:
TaskProlog, which runs as the job's user, hands it on (task_prolog.sh).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from ClusterShell.NodeSet import NodeSet

from slurm_failover import files, joblog
from slurm_failover.detach import start_detached
from slurm_failover.errors import FailoverError, SlurmUnavailable
from slurm_failover.model import JobFacts
from slurm_failover.node.append import Person, append_as
from slurm_failover.node.launch import report_image
from slurm_failover.optin import read_opt_in
from slurm_failover.policy import Action
from slurm_failover.record import Record, Step, read_record, tidy
from slurm_failover.settings import Settings
from slurm_failover.slurm.connect import connect

Environment = Mapping[str, str]
Say = Callable[[str], None]

FOLDER = "/run/slurm-failover"
"""Where the variables of this node's jobs lie, a file for each; task_prolog.sh knows it too."""
_HURRY = 5
"""Seconds that Slurm has for an answer while a job waits for its start."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
_LET_GO = 120.0
"""Seconds after the controller's own patience in which a verdict is still awaited."""


def announce(environment: Environment, settings: Settings, say: Say) -> None:
    """Prolog of a flagged job: mark a new attempt in the log, and lay out the job's variables.

    Nothing that fails here keeps the job from starting.
    """
    node = _node(environment)
    if not _is_first(environment, node) or not _is_flagged(environment):
        return
    variables = {"ATTEMPT": "1", "REASON": "", "EXCLUDED_NODES": ""}
    try:
        if environment.get("SLURM_JOB_RESTART_COUNT", "0") != "0":
            variables = _announce_next(environment, settings, say) or variables
        _lay_out(environment["SLURM_JOB_ID"], variables)
    except (FailoverError, OSError) as error:
        say(f"job {environment['SLURM_JOB_ID']}: its attempt is not announced: {error}")


def close(environment: Environment, settings: Settings, say: Say) -> None:
    """Epilog of a flagged job: tidy up after it, and if it did not end well, leave word on its
    image, and have its log told of the decision. Nothing that fails here is against the node.
    """
    try:
        files.remove(f"{FOLDER}/{environment['SLURM_JOB_ID']}")
        if environment.get("SLURM_JOB_EXIT_CODE", "0") == "0" or not _is_flagged(environment):
            return
        node = _node(environment)
        if _is_first(environment, node):
            start_detached("tell_verdict")
        report_image(environment, settings, node, say)
    except (FailoverError, OSError) as error:
        say(f"job {environment['SLURM_JOB_ID']}: its end is not followed up: {error}")


def tell_verdict(environment: Environment, settings: Settings, say: Say) -> None:
    """Wait for the decision on an attempt that ended here, and say in the job's log if it is that
    no other follows. A process of its own, since the decision waits for this node's Epilog.
    """
    slurm, job_id = connect(settings, say), environment["SLURM_JOB_ID"]
    start = float(environment["SLURM_JOB_START_TIME"])
    deadline = time.monotonic() + settings.failover.wait_for_nodes + _LET_GO
    pause = _FIRST_PAUSE
    while time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
        try:
            jobs = slurm.jobs([job_id])
        except SlurmUnavailable:
            continue
        job = next((job for job in jobs if str(job.job_id) == job_id), None)
        if job is None or job.is_led:
            return
        record = read_record(job.admin_comment)
        if record is not None and record.attempt.start == start and record.attempt.outcome:
            _tell(environment, job, record, say)
        elif job.has("PENDING", "COMPLETING"):
            continue
        return


def _announce_next(environment: Environment, settings: Settings, say: Say) -> dict[str, str] | None:
    hurried = replace(settings.slurm, timeout=_HURRY, patience=_HURRY)
    job = connect(replace(settings, slurm=hurried), say).job(environment["SLURM_JOB_ID"])
    record = read_record(job.admin_comment)
    if record is None or job.is_led:
        return None
    number = joblog.current_attempt(record, float(environment["SLURM_JOB_START_TIME"]))
    nodes = environment["SLURM_JOB_NODELIST"]
    line = joblog.separator(job.label, number, _clock(), nodes, record)
    _append(environment, job, line, say)
    before = [old.because for old in record.history if old.number == number - 1]
    reason = before[-1] if before else ""
    return {"ATTEMPT": str(number), "REASON": tidy(reason), "EXCLUDED_NODES": record.excluded}


def _lay_out(job_id: str, variables: dict[str, str]) -> None:
    """Write the variables as TaskProlog's output: ``export NAME=value``, a line for each."""
    os.makedirs(FOLDER, mode=0o755, exist_ok=True)  # noqa: PTH103 - no pathlib on a hook's path
    os.chmod(FOLDER, 0o755)  # noqa: PTH101, S103 - whatever the umask: jobs' users read in there
    text = "".join(f"export SLURM_FAILOVER_{key}={value}\n" for key, value in variables.items())
    path = f"{FOLDER}/{job_id}"
    files.write_whole(path, text)
    os.chmod(path, 0o644)  # noqa: PTH101 - the job's user reads it


def _tell(environment: Environment, job: JobFacts, record: Record, say: Say) -> None:
    if record.attempt.outcome not in (Action.DENY, Action.EXCEED):
        return
    remains = "cancelled" if record.step is Step.TO_CANCEL else "held"
    _append(environment, job, joblog.denial(job.label, record, _clock(), remains), say)


def _append(environment: Environment, job: JobFacts, line: str, say: Say) -> None:
    path = joblog.resolve(job.stdout, _node(environment))
    person = Person(int(environment["SLURM_JOB_UID"]), int(environment["SLURM_JOB_GID"]))
    problem = append_as(person, path, line)
    if problem:
        say(f"job {job.label}: not in its log: {line} ({problem})")


def _node(environment: Environment) -> str:
    return environment.get("SLURMD_NODENAME") or os.uname().nodename.split(".")[0]


def _is_flagged(environment: Environment) -> bool:
    comment, option = environment.get("SLURM_JOB_COMMENT", ""), environment.get("SPANK_FAILOVER")
    wish = read_opt_in(comment, option)
    return wish is not None and not wish.problem


def _is_first(environment: Environment, node: str) -> bool:
    """Whether this is the job's batch host."""
    nodes = NodeSet(environment.get("SLURM_JOB_NODELIST", ""))
    return bool(nodes) and nodes[0] == node


def _clock() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
