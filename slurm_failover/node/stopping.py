"""Requeue and hold a running job, and have its log told what becomes of it.

Slurm gives the Epilogs of such a job the exit status 0 (create_kill_job_msg in its job_mgr.c, and
a requeue sets none), so that they can not tell it from one that ended well: whoever stops a job
looks for the verdict.
"""

from __future__ import annotations

from collections.abc import Callable

from slurm_failover.detach import start_detached
from slurm_failover.slurm.client import Slurm

MOVES = "FAILOVER_JOB_MOVES"
"""The variable that says that the job is most likely moved: then there is nothing to tell."""
STOPPED = "FAILOVER_STOPPED_JOB"
"""The variable with the label of a job that a node stopped. What the environment says of a job
besides, but for the start, is of another one then: any hook may have found the fault.
"""


def stop_now(slurm: Slurm, label: str, start: float, say: Callable[[str], None]) -> None:
    """Requeue and hold the attempt of a job that began at ``start``, if it still runs. Raises
    SlurmError; where no process can be started there is only no line in the job's log.
    """
    slurm.stop(label, start)
    told = {MOVES: "1", STOPPED: label, "SLURM_JOB_START_TIME": f"{start:.0f}"}
    try:
        start_detached("tell_verdict", told)
    except OSError as error:
        say(f"job {label}: its log is not told of the verdict: {error}")
