"""Slurm in observe mode: every question is asked, and changes are told instead of made."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields, replace

from slurm_failover.model import JobFacts, NodeFacts
from slurm_failover.slurm.client import JobChange, NodeChange, Slurm


class Observer:
    """Passes questions on to ``slurm`` and gives changes to ``tell`` as one line each."""

    def __init__(self, slurm: Slurm, tell: Callable[[str], None]) -> None:
        self._slurm = slurm
        self._tell = tell

    def job(self, job_id: str) -> JobFacts:
        """See the protocol."""
        return self._slurm.job(job_id)

    def jobs(self, job_ids: Collection[str] = ()) -> list[JobFacts]:
        """See the protocol."""
        return self._slurm.jobs(job_ids)

    def jobs_on(self, node: str) -> list[JobFacts]:
        """See the protocol."""
        return self._slurm.jobs_on(node)

    def is_expedited(self, label: str) -> bool:
        """See the protocol."""
        return self._slurm.is_expedited(label)

    def batch_script(self, job_id: str) -> str:
        """See the protocol."""
        return self._slurm.batch_script(job_id)

    def nodes(self, names: str = "") -> list[NodeFacts]:
        """See the protocol."""
        return self._slurm.nodes(names)

    def setting(self, name: str) -> str:
        """See the protocol."""
        return self._slurm.setting(name)

    def requeue_and_hold(self, label: str) -> None:
        """See the protocol."""
        self._tell(f"would requeue and hold job {label}")

    def requeue(self, label: str) -> None:
        """See the protocol."""
        self._tell(f"would requeue job {label}")

    def stop(self, label: str, start: float) -> None:
        """See the protocol."""
        self._tell(f"would requeue and hold job {label}")

    def hold(self, label: str) -> None:
        """See the protocol."""
        self._tell(f"would hold job {label}")

    def release(self, label: str) -> None:
        """See the protocol."""
        self._tell(f"would release job {label}")

    def cancel(self, label: str) -> None:
        """See the protocol."""
        self._tell(f"would cancel job {label}")

    def signal(self, label: str, name: str, *, batch_only: bool) -> None:
        """See the protocol."""
        whom = "batch script" if batch_only else "steps"
        self._tell(f"would send {name} to the {whom} of job {label}")

    def update_job(self, label: str, change: JobChange) -> None:
        """See the protocol."""
        self._tell(f"would update job {label}: {_describe(change)}")

    def update_node(self, node: str, change: NodeChange) -> None:
        """See the protocol. What the node has found is left in its Extra all the same: it acts on
        nothing, and tells ``status`` and ``nodes`` what would have been done.
        """
        if change.extra is not None:
            self._slurm.update_node(node, NodeChange(extra=change.extra))
        rest = replace(change, extra=None)
        if rest != NodeChange():
            self._tell(f"would update node {node}: {_describe(rest)}")


def _describe(change: JobChange | NodeChange) -> str:
    named = ((f.name, getattr(change, f.name)) for f in fields(change))
    return ", ".join(f"{name}={value!r}" for name, value in named if value not in (None, False))
