"""What we need of Slurm, as a protocol that every adapter keeps."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from slurm_failover.model import JobFacts, NodeFacts

TOP_PRIORITY = 4294967293
"""The highest priority that an operator can give: INFINITE - 2 (NO_VAL and INFINITE in slurm.h)."""

GONE = 5.0
"""Seconds for which Slurm has to show no trace of a job before it is given up: a slurmctld that is
about to end answers without any (seen on 26.05.5).
"""


@dataclass(frozen=True, slots=True)
class JobChange:
    """The fields of a job to be set in one request; None leaves a field as it is.

    Slurm applies them in an order of its own up to the first error, so a change can be half made
    and must be fit to be made again. ``start_now`` lifts the delay of a start, and
    ``start_in`` sets one of so many seconds.
    """

    comment: str | None = None
    admin_comment: str | None = None
    excluded: str | None = None
    priority: int | None = None
    nice: int | None = None
    qos: str | None = None
    start_now: bool = False
    start_in: int = 0


@dataclass(frozen=True, slots=True)
class NodeChange:
    """The fields of a node to be set in one request. ``drain`` is the reason of a new drain, and
    ``resume`` lifts the one there is.
    """

    drain: str | None = None
    extra: str | None = None
    comment: str | None = None
    resume: bool = False


class Slurm(Protocol):
    """Slurm, as far as we use it.

    Every method raises SlurmUnavailable if Slurm does not answer in time, and SlurmError with
    Slurm's own words if it refuses. A query that failed never means "none".
    """

    def job(self, job_id: str) -> JobFacts:
        """One job by its own id, or by ``ARRAY_TASK``. Raises NoSuchJob."""
        ...

    def jobs(self, job_ids: Collection[str] = ()) -> list[JobFacts]:
        """The given jobs, or all that Slurm remembers, in one request. Unknown ids are left out.

        As with squeue, an array's id stands for all its tasks, and that of a heterogeneous job's
        leader for all its components. Which GPUs they hold may be left out as well.
        """
        ...

    def jobs_on(self, node: str) -> list[JobFacts]:
        """The jobs that run or end on a node now."""
        ...

    def is_expedited(self, label: str) -> bool:
        """Whether Slurm itself requeues the job when it fails (``--requeue=expedite``, 25.11 and
        newer): at once where an Epilog failed too, and held where none did. Raises NoSuchJob.
        """
        ...

    def batch_script(self, job_id: str) -> str:
        """The script of a batch job as it was submitted, by the job's own id."""
        ...

    def nodes(self, names: str = "") -> list[NodeFacts]:
        """The nodes of a hostlist, or all, in one request."""
        ...

    def requeue_and_hold(self, label: str) -> None:
        """Requeue a running or ending job, held: for the jobs that depend on it, it has not ended.
        Done already is success.
        """
        ...

    def requeue(self, label: str) -> None:
        """Requeue an ending job that somebody holds, under that hold. Done already is success."""
        ...

    def stop(self, label: str, start: float) -> None:
        """Requeue and hold the attempt of a job that began at ``start``, if it still runs: one that
        was cancelled or ended meanwhile, and a later attempt, are left as they are. Where somebody
        holds the job already it is that hold which stays.
        """
        ...

    def hold(self, label: str) -> None:
        """Hold a pending job so that its owner may release it."""
        ...

    def release(self, label: str) -> None:
        """Release a held job. This drops a raised priority."""
        ...

    def cancel(self, label: str) -> None:
        """Cancel a pending job. Done already is success."""
        ...

    def signal(self, label: str, name: str, *, batch_only: bool) -> None:
        """Send a signal to the steps of a running job, or to its batch script alone."""
        ...

    def update_job(self, label: str, change: JobChange) -> None:
        """Set fields of a job. A finished or completing job refuses."""
        ...

    def update_node(self, node: str, change: NodeChange) -> None:
        """Set fields of a node. A new reason overwrites the old: read it first."""
        ...

    def setting(self, name: str) -> str:
        """One key of the live configuration, such as SchedulerParameters; empty if unset."""
        ...
