"""How a failed-over job gets ahead of the jobs that wait, as the site wants it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from slurm_failover import files
from slurm_failover.errors import SlurmError, SlurmUnavailable
from slurm_failover.model import JobFacts
from slurm_failover.record import Record
from slurm_failover.slurm.client import TOP_PRIORITY, JobChange, Slurm

PATIENCE = 2.0
"""Seconds that a job's priority waits for a hook to end its turn."""


@dataclass(frozen=True, slots=True)
class Placement:
    """``method`` is ``top``, ``nice``, ``qos`` or ``none``, as in the settings."""

    method: str = "top"
    nice: int = 100000
    qos: str = ""

    def place(self, change: JobChange, record: Record) -> JobChange:
        """``change`` with what brings the job of ``record`` to its start.

        A job that is tried again waits for its pause, in no better place than before. Any other
        gets the raised priority: Slurm lets a requeued job wait for 121 s; StartTime=now lifts that
        once the job has left COMPLETING (seen on 24.11.5 and 26.05.5).
        """
        if record.pause:
            return replace(change, start_in=record.pause)
        return replace(
            change,
            start_now=True,
            priority=TOP_PRIORITY if self.method == "top" else None,
            nice=-self.nice if self.method == "nice" else None,
            qos=self.qos if self.method == "qos" else None,
        )


def lower_started(
    slurm: Slurm,
    found: Iterable[tuple[JobFacts, Record]],
    turn: str,
    say: Callable[[str], None],
) -> None:
    """Take the top priority from jobs that run: it was for that one start. Slurm keeps it over a
    requeue, and so whoever requeued such a job would be first in line again, as often as they like.

    ``turn`` is the lock that hooks hold while they hold jobs; where one does not let go of it, the
    next call does what this one leaves. Raises SlurmUnavailable; what Slurm refuses for one job is
    said.
    """
    for job, record in found:
        if not (record.retries and _runs_on_top(job, job.start)):
            continue
        try:
            # To release a job that has ended since would lift a hold that nobody has judged, and
            # one that somebody has held since, a hold of theirs: that sets the priority to 0.
            with files.locked(turn, PATIENCE) as alone:
                if alone and _runs_on_top(slurm.job(job.label), job.start):
                    slurm.release(job.label)
        except SlurmUnavailable:
            raise
        except SlurmError as error:
            say(f"job {job.label} keeps its raised priority: {error}")


def _runs_on_top(job: JobFacts, start: float) -> bool:
    return job.runs_since(start) and job.priority == TOP_PRIORITY
