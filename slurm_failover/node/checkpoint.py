"""Stop a running job that a fault has hit: at once, or after a signal and a grace to save its work.

The grace is longer than a hook may take, so a process of its own waits for it. Should that process
die, the job runs on until it ends, is found by the node's next fault, or Slurm loses the node.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from slurm_failover.checkpoint import read_checkpoint
from slurm_failover.detach import start_detached
from slurm_failover.errors import SlurmError
from slurm_failover.model import JobFacts
from slurm_failover.settings.tables import CheckpointSettings, Settings
from slurm_failover.slurm.client import Slurm
from slurm_failover.slurm.connect import connect

Say = Callable[[str], None]

_JOB, _START, _GRACE = "FAILOVER_STOP_JOB", "FAILOVER_STOP_START", "FAILOVER_STOP_GRACE"
_PAUSE = 1.0


def stop_job(slurm: Slurm, job: JobFacts, site: CheckpointSettings, say: Say) -> None:
    """Requeue and hold a running job, after the grace that it asks for. Raises SlurmError."""
    wish = read_checkpoint(job.comment, site)
    if wish is None:
        slurm.stop(job.label, job.start)
        say(f"job {job.label} is requeued and held")
        return
    slurm.signal(job.label, wish.signal, batch_only=wish.batch_only)
    say(f"job {job.label} has {wish.grace} s after signal {wish.signal} to save its work")
    told = {_JOB: job.label, _START: str(job.start), _GRACE: str(wish.grace)}
    start_detached("stop_job", told)


def stop_after_grace(environment: Mapping[str, str], settings: Settings, say: Say) -> None:
    """Requeue and hold the job if it still runs when its grace is over."""
    slurm, label, start = connect(settings, say), environment[_JOB], float(environment[_START])
    deadline = time.monotonic() + float(environment[_GRACE])
    while _runs_on(slurm, label, start):
        if time.monotonic() >= deadline:
            slurm.stop(label, start)
            say(f"job {label} is requeued and held")
            return
        time.sleep(min(_PAUSE, max(deadline - time.monotonic(), 0.0)))
    say(f"job {label} ended within its grace")


def _runs_on(slurm: Slurm, label: str, start: float) -> bool:
    """Whether the same attempt still runs; also where Slurm does not say."""
    try:
        return slurm.job(label).runs_since(start)
    except SlurmError:
        return True
