"""Which jobs are never failed over, however they are flagged. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from slurm_failover.model import JobFacts, Limits
from slurm_failover.optin import OptIn

ANYWHERE = Limits()
"""No place is refused."""


REFUSALS: tuple[Callable[[JobFacts, Limits], str], ...] = (
    lambda job, limits: "" if job.batch else "only batch jobs (sbatch) can be failed over",
    lambda job, limits: "" if job.requeue else "the job was submitted with --no-requeue",
    lambda job, limits: (
        "jobs of a federation can not be failed over: each cluster sees its own part only"
        if job.federation
        else ""
    ),
    lambda job, limits: _needs_on_demand(
        "partition", (job.partition, job.other_partitions), limits.spot_partitions
    ),
    lambda job, limits: _needs_on_demand(
        "QOS", (job.qos, job.other_qos), limits.spot_qos, fold=str.lower
    ),
)
"""What makes a flagged job one that is not failed over: each gives the sentence, or nothing."""


def refuse_job(job: JobFacts, limits: Limits = ANYWHERE) -> str:
    """Why this kind of job is not failed over; empty if it is."""
    return next((words for refuse in REFUSALS if (words := refuse(job, limits))), "")


def refuse_wish(wish: OptIn, job: JobFacts, limits: Limits = ANYWHERE) -> str:
    """Why a job that asked is not failed over, and the way out where the words of the wish are at
    fault; empty if it is.
    """
    if wish.problem:
        return (
            f"{wish.problem}; to ask for it: scontrol update JobId={job.label} Comment=failover=2"
        )
    return refuse_job(job, limits)


def _needs_on_demand(
    kind: str, places: Iterable[str], globs: Iterable[str], fold: Callable[[str], str] = str
) -> str:
    """Of several partitions Slurm may choose any: none may be spot. It takes ``--qos=SPOT`` for the
    QOS ``spot``, and shows it so until the job runs (seen on 24.11.5).
    """
    for name in ",".join(filter(None, places)).split(","):
        if any(fnmatchcase(fold(name), fold(glob)) for glob in globs):
            return f'job failover needs on-demand resources: {kind} "{name}" is spot or preemptible'
    return ""
