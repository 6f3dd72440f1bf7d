"""The circuit breaker on the controller: may a job be moved now, and did the breaker change?"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable

from slurm_failover import files
from slurm_failover.breaker import Breaker, Trip, read_breaker
from slurm_failover.breaker.state import LOST
from slurm_failover.happening import Happening, Kind
from slurm_failover.model import JobFacts
from slurm_failover.reporter import Report
from slurm_failover.settings.protection import BreakerSettings
from slurm_failover.slurm.client import Slurm

GOOD_FOR = 1.0
"""Seconds for which one look serves all jobs that are decided."""

Say = Callable[[str], None]


class Guard:
    """Looks at the breaker, and tells each of its changes once. ``memory`` is a file of ours; where
    it can not be written, each process tells. ``mark`` is told at every look whether it is open.
    """

    def __init__(
        self,
        slurm: Slurm,
        site: BreakerSettings,
        *,
        memory: str,
        say: Say,
        report: Report,
        mark: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._slurm = slurm
        self._site = site
        self._memory = memory
        self._say = say
        self._report = report
        self._mark = mark
        self._seen: tuple[float, Breaker] | None = None
        self._told: dict[str, str] | None = None

    def against(self, job: JobFacts) -> str:
        """Why a job may not be moved now, as a clause; empty if it may. Raises SlurmError."""
        trip = self.look().against(job.components or (job.job_id,))
        return f"the circuit breaker is open ({trip.because})" if trip else ""

    def look(self) -> Breaker:
        """The breaker as it is now, give or take a second. Raises SlurmError."""
        now = time.time()
        if self._seen is None or not 0 <= now - self._seen[0] < GOOD_FOR:
            breaker = read_breaker(self._slurm.nodes(), self._site, now)
            self._seen = now, breaker
            self._follow(breaker)
            self._mark(breaker.is_open)
        return self._seen[1]

    def _follow(self, breaker: Breaker) -> None:
        """Say and report where the breaker is not as it was at the last look of anyone here."""
        before = self._recall()
        now = {f"{trip.job}": trip.because for trip in breaker.trips}
        if before.keys() == now.keys():
            return
        for trip in breaker.trips:
            if str(trip.job) not in before:
                whom = f"for job {trip.job}" if trip.job else "for the cluster"
                self._say(f"the circuit breaker is OPEN {whom}: {trip.because}")
                if not _is_told(breaker, trip):
                    told = Happening(Kind.BREAKER_OPEN, trip.because, job=str(trip.job or ""))
                    self._report(told)
        if before and not now:
            because = "an administrator closed it" if _is_closed(breaker) else "its time is over"
            self._say(f"the circuit breaker is closed: {because}")
            self._report(Happening(Kind.BREAKER_CLOSED, because))
        self._told = now
        with contextlib.suppress(OSError):
            files.write_whole(self._memory, json.dumps(now))
            self._told = None

    def _recall(self) -> dict[str, str]:
        if self._told is not None:
            return self._told
        try:
            value = json.loads(files.read_whole(self._memory) or "{}")
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}


def _is_told(breaker: Breaker, trip: Trip) -> bool:
    """Whether the node whose fault was one too many has told already; a lost one can not."""
    notes = [n for n in breaker.notes if (n.node, n.time) == (trip.opener, trip.since)]
    return any(note.code != LOST for note in notes)


def _is_closed(breaker: Breaker) -> bool:
    return breaker.word is not None and breaker.word.state == "closed"
