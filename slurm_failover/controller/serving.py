"""One turn at the queue: all that the controller's hooks handed in, with questions in batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from slurm_failover import lifecycle
from slurm_failover.controller.arrivals import Arrival, Kind, Queue
from slurm_failover.controller.endings import hold_end, record_start
from slurm_failover.controller.notes import Notes
from slurm_failover.errors import FailoverError, HookEnded, SlurmUnavailable
from slurm_failover.model import JobFacts, Limits, NodeFacts
from slurm_failover.reporter import Report, report_to_nobody
from slurm_failover.slurm.client import GONE, Slurm

Say = Callable[[str], None]

TURN = 12.0
"""Seconds after which the rest is left to the next in line, so that a request of the longest kind
still ends before the hook's deadline (45 s, see serve.sh).
"""


class Server:
    """Serves arrivals. Each step can be repeated, so an entry goes only when it was served."""

    def __init__(
        self,
        slurm: Slurm,
        notes: Notes,
        limits: Limits,
        say: Say,
        report: Report = report_to_nobody,
    ) -> None:
        self._report = report
        self._slurm = slurm
        self._notes = notes
        self._limits = limits
        self._say = say

    def serve(self, queue: Queue) -> None:
        """Serve all that waits now. To be called by the holder of the queue's lock alone.

        Raises SlurmUnavailable; what was not served then stays in the queue.
        """
        deadline = time.monotonic() + TURN
        arrivals = queue.read()
        jobs = self._ask_jobs(arrivals)
        nodes = self._ask_nodes(arrivals, jobs)
        for arrival in arrivals:
            if time.monotonic() > deadline:
                return
            if arrival.job_id not in jobs and _is_fresh(queue, arrival):
                continue
            queue.begin(arrival)
            try:
                self._attend(arrival, jobs.get(arrival.job_id), nodes)
            except (SlurmUnavailable, HookEnded):
                queue.add(arrival)
                raise
            queue.remove(arrival)

    def _ask_jobs(self, arrivals: Iterable[Arrival]) -> dict[str, JobFacts]:
        """The jobs by their ids, and by their labels where an array task is named so."""
        ids = sorted({arrival.job_id for arrival in arrivals})
        found = self._slurm.jobs(ids) if ids else []
        # The components of a heterogeneous job all bear the label of their leader.
        by_label = {job.label: job for job in reversed(found)}
        return by_label | {str(job.job_id): job for job in found}

    def _ask_nodes(self, arrivals: Iterable[Arrival], jobs: dict[str, JobFacts]) -> list[NodeFacts]:
        """The nodes of the attempts that only these can explain: their jobs wait again."""
        ended = [arrival for arrival in arrivals if arrival.kind is Kind.END]
        waiting = [a for a in ended if a.job_id in jobs and jobs[a.job_id].has("PENDING")]
        names = lifecycle.merge_nodes(*(a.nodes or jobs[a.job_id].nodes for a in waiting))
        return self._slurm.nodes(names) if names else []

    def _attend(self, arrival: Arrival, job: JobFacts | None, nodes: Sequence[NodeFacts]) -> None:
        """Serve one; its trouble is not the others'."""
        if job is None:
            self._say(f"job {arrival.job_id}: Slurm does not know it")
            return
        try:
            if arrival.kind is Kind.START:
                record_start(
                    self._slurm, self._limits, job, arrival, say=self._say, report=self._report
                )
            else:
                hold_end(
                    self._slurm,
                    self._notes,
                    self._limits,
                    job,
                    arrival,
                    nodes=nodes,
                    say=self._say,
                )
        except SlurmUnavailable:
            raise
        except FailoverError as error:
            self._say(f"job {job.label}: {error}")


def _is_fresh(queue: Queue, arrival: Arrival) -> bool:
    """Whether an arrival came so lately that Slurm may know its job all the same."""
    return 0 <= time.time() - queue.handed_in(arrival) < GONE
