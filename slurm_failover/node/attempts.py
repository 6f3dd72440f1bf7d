"""A flagged job's attempt begins or ends on this node: its variables, and what its log is told.

The variables go through a file that only root writes; TaskProlog, which runs as the job's user,
hands them on (task_prolog.sh). Beside it lies what slurmd told of the job's GPUs. A first attempt,
and one that ended well, cost no more than these files. What fails here never keeps a job from
starting, and is nothing against the node.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from slurm_failover import files
from slurm_failover.errors import FailoverError, HookEnded
from slurm_failover.optin import has_wish

if TYPE_CHECKING:
    from slurm_failover.model import JobFacts
    from slurm_failover.settings.tables import Settings

Environment = Mapping[str, str]
Say = Callable[[str], None]

FOLDER = "/run/slurm-failover"
"""Where the variables of this node's jobs lie, a file for each; task_prolog.sh knows it too."""
_START = "SLURM_JOB_START_TIME"
_KEPT = ("SLURM_JOB_ID", _START, "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES")
FIRST = {"ATTEMPT": "1", "REASON": "", "EXCLUDED_NODES": ""}


def open_attempt(environment: Environment, settings: Settings, say: Say) -> None:
    """Prolog: lay out the job's variables, and mark an attempt after the first in its log."""
    job_id = environment["SLURM_JOB_ID"]
    if not _is_flagged(environment):
        return
    try:
        _note_start(environment)
        if settings.failover.mode == "observe":
            return
        files.remove(f"{FOLDER}/{job_id}.launcher")
        if environment.get("SLURM_JOB_RESTART_COUNT", "0") == "0":
            lay_out(job_id, FIRST)
            return
        from slurm_failover.node.telling import announce

        lay_out(job_id, announce(environment, settings, say))
    except (FailoverError, HookEnded, OSError) as error:
        say(f"job {job_id}: its attempt is not announced: {error}")


def close_attempt(
    environment: Environment, settings: Settings, say: Say, *, moves: bool = False
) -> None:
    """Epilog: tidy up, and follow up an attempt that did not end well. ``moves`` says that its node
    is to blame, so that it most likely is moved.
    """
    job_id = environment["SLURM_JOB_ID"]
    try:
        files.remove(f"{FOLDER}/{job_id}")
        files.remove(_start_of(job_id))
        if environment.get("SLURM_JOB_EXIT_CODE", "0") != "0" and _is_flagged(environment):
            from slurm_failover.node.telling import follow_up

            follow_up(environment, settings, say, moves=moves)
    except (FailoverError, HookEnded, OSError) as error:
        say(f"job {job_id}: its end is not followed up: {error}")
    finally:
        files.remove(f"{FOLDER}/{job_id}.launcher")


def _is_flagged(environment: Environment) -> bool:
    return has_wish(environment.get("SLURM_JOB_COMMENT", ""), environment.get("SPANK_FAILOVER"))


def lay_out(job_id: str, variables: Mapping[str, str]) -> None:
    """Write the variables as TaskProlog's output: ``export NAME=value``, a line for each. Without
    any the file is empty, since the tasks on this node have them from the batch host; that it is
    there says that the job is flagged (plugins/spank).
    """
    _make_folder()
    text = "".join(f"export SLURM_FAILOVER_{key}={value}\n" for key, value in variables.items())
    path = f"{FOLDER}/{job_id}"
    files.write_whole(path, text)
    os.chmod(path, 0o644)  # noqa: PTH101 - the job's user reads it


def told_at_start(job_id: str) -> dict[str, str]:
    """What slurmd told the Prolog of a flagged job that is here: when it started, and which GPUs it
    holds. Empty where that is not known.

    Slurm does not say it again to everyone: a job that completes has no GPUs any more, and where
    slurmctld was started anew, its Epilog may hear of none (seen on 26.05.5).
    """
    try:
        lines = (files.read_whole(_start_of(job_id)) or "").splitlines()
        told = dict(line.split("=", 1) for line in lines)
    except (OSError, ValueError):
        return {}
    is_whole = told.get("SLURM_JOB_ID") == job_id and told.get(_START, "").isdecimal()
    return told if is_whole else {}


def as_started(job: JobFacts) -> JobFacts:
    """A job that ends here with the start of that attempt. Of one that is requeued by now slurmctld
    tells the present moment (seen on 24.11.5 and 26.05.5).
    """
    if not (job.has("PENDING") and job.has("COMPLETING")):
        return job
    from dataclasses import replace

    start = told_at_start(str(job.job_id)).get(_START)
    return replace(job, start=float(start)) if start else job


def _note_start(environment: Environment) -> None:
    told = {key: environment[key] for key in _KEPT if key in environment}
    _make_folder()
    text = "".join(f"{key}={value}\n" for key, value in told.items())
    files.write_whole(_start_of(environment["SLURM_JOB_ID"]), text)


def _start_of(job_id: str) -> str:
    return f"{FOLDER}/{job_id}.start"


def _make_folder() -> None:
    os.makedirs(FOLDER, mode=0o755, exist_ok=True)  # noqa: PTH103 - no pathlib on a hook's path
    os.chmod(FOLDER, 0o755)  # noqa: PTH101, S103 - whatever the umask: jobs' users read in there
