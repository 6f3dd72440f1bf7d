"""Why a node is looked at, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurm_failover.evidence import SAME_ATTEMPT
from slurm_failover.node.attempts import told_at_start

if TYPE_CHECKING:
    from slurm_failover.holding import JobGpus
    from slurm_failover.model import JobFacts, Window
    from slurm_failover.node.ledger import Ledger
    from slurm_failover.node.look import Look


@dataclass(frozen=True, slots=True)
class Ended:
    """A flagged job whose Epilog this is. ``start`` and ``end`` are in seconds since the epoch; an
    ``end`` of 0 is now.
    """

    gpus: JobGpus
    start: float
    failed: bool
    end: float = 0.0

    def window(self, now: float, grace: float) -> Window:
        """The time in which what happens can be this job's; ``now`` and ``grace`` in seconds."""
        from slurm_failover.model import Window

        return Window(self.start, self.end or now, grace)

    def is_of(self, job: JobFacts) -> bool:
        """Whether this attempt of a job is what ends: a later one may run here by now. Of one that
        is requeued, only the note of its start tells which it is.
        """
        if job.job_id != self.gpus.job_id:
            return False
        is_unknown = job.has("PENDING") and not told_at_start(str(job.job_id))
        return is_unknown or abs(job.start - self.start) <= SAME_ATTEMPT

    def has_news(self, log: Look, ledger: Ledger) -> bool:
        """Whether the node may have something to say of this job's time, judged before or not."""
        return bool(ledger.events) or not log.since(self.start).is_clean


@dataclass(frozen=True, slots=True)
class Occasion:
    """Why the node is looked at: its health check, the Prolog of job ``starting``, or the Epilog of
    a job, which is ``ended`` if it is flagged. ``counts`` has slurmd asked how many GPUs there
    should be.
    """

    starting: int | None = None
    ended: Ended | None = None
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a look. ``ledger`` is to be written, unless it is None: then the next look has
    to judge and act again. ``verdict`` is a new fault that takes the node out of service, and
    ``standing`` says what stands against the node now, new or not; empty if nothing does.
    """

    ledger: Ledger | None
    verdict: bool = False
    standing: str = ""
