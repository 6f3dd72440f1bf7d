"""Stop a running job that a fault has hit: at once, or after a signal and a grace to save its work.

The grace is longer than a hook may take, so a process of its own waits for it. Should that process
die, the node's next health check starts another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from slurm_failover import files
from slurm_failover.checkpoint import Checkpoint, read_checkpoint
from slurm_failover.deed import Deed
from slurm_failover.detach import start_detached
from slurm_failover.errors import NoSuchJob, SlurmError, SlurmUnavailable
from slurm_failover.model import JobFacts
from slurm_failover.node import stops
from slurm_failover.node.stopping import stop_now
from slurm_failover.node.stops import Stop
from slurm_failover.settings.tables import CheckpointSettings, Settings
from slurm_failover.slurm.client import GONE, Slurm
from slurm_failover.slurm.connect import connect

Say = Callable[[str], None]

_STOP = "FAILOVER_STOP"
_PAUSE = 1.0
_PATIENCE = 5.0
"""Seconds to wait for the lock: a health check that looks holds it for a moment."""


def stop_job(slurm: Slurm, job: JobFacts, site: CheckpointSettings, say: Say) -> None:
    """Requeue and hold a running job, after the grace that it asks for. Raises SlurmError."""
    wish = read_checkpoint(job.comment, site)
    if wish is None:
        stop_now(slurm, job.label, job.start, say)
        say(Deed(f"job {job.label} is requeued and held"))
        return
    path = stops.path_of(job.label, job.start)
    if not stops.is_noted(path):
        # Noted only after it: a signal that slurmctld did not take is sent at the next look.
        grace = _send(slurm, job, wish, say)
        try:
            stops.write_stop(Stop(job.label, job.start, time.monotonic() + grace))
        except OSError as error:
            # Not noted, it would be signalled at every look, and never stopped.
            say(f"job {job.label} has no grace: {error}")
            stop_now(slurm, job.label, job.start, say)
            return
    _wait_for(path)


def _send(slurm: Slurm, job: JobFacts, wish: Checkpoint, say: Say) -> int:
    """Signal a job; the seconds that it then has: none where Slurm refuses the signal. Raises
    SlurmUnavailable.
    """
    try:
        slurm.signal(job.label, wish.signal, batch_only=wish.batch_only)
    except SlurmUnavailable:
        raise
    except SlurmError as error:
        say(f"job {job.label} can not be sent signal {wish.signal}, and has no grace: {error}")
        return 0
    say(Deed(f"job {job.label} has {wish.grace} s after signal {wish.signal} to save its work"))
    return wish.grace


def take_up_stops(paths: Iterable[str], say: Say) -> None:
    """Wait again for stops whose process died, for what is left of their grace."""
    for path in paths:
        say(f"{path}: nobody waited for the end of this grace (any more)")
        _wait_for(path)


def stop_after_grace(environment: Mapping[str, str], settings: Settings, say: Say) -> None:
    """Requeue and hold the job if it still runs when its grace is over. Raises SlurmError."""
    path = environment[_STOP]
    with files.locked(stops.lock_of(path), _PATIENCE) as alone:
        stop = stops.read_stop(path) if alone else None
        if stop is not None:
            _await_end(connect(settings, say), stop, say)
        if alone:
            stops.remove_stop(path)


def _wait_for(path: str) -> None:
    start_detached("stop_job", {_STOP: path})


def _await_end(slurm: Slurm, stop: Stop, say: Say) -> None:
    while _runs_on(slurm, stop):
        left = stop.until - time.monotonic()
        if left <= 0:
            stop_now(slurm, stop.label, stop.start, say)
            say(Deed(f"job {stop.label} is requeued and held"))
            return
        time.sleep(min(_PAUSE, left))
    say(Deed(f"job {stop.label} ended within its grace"))


def _runs_on(slurm: Slurm, stop: Stop, *, is_gone: bool = False) -> bool:
    """Whether the same attempt still runs; also where Slurm does not say. That it knows no such job
    counts at the second time.
    """
    try:
        job = slurm.job(stop.label)
    except NoSuchJob:
        if is_gone:
            return False
        time.sleep(GONE)
        return _runs_on(slurm, stop, is_gone=True)
    except SlurmError:
        return True
    return job.runs_since(stop.start)
