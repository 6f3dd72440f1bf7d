"""A slurmctld in memory, with the manners of the real one, for tests without containers.

It keeps the protocol of ``slurm_failover.slurm.client`` for our code, and lets a test play the rest
of the world: users, administrators, the scheduler, and the hooks' comings and goings. What it does
is held against a live slurmctld by the suite in ``contract/``.

The code under test sees one clock, ``FakeSlurm.clock``; a job's start names an attempt, so the
clock moves on whenever jobs start.
"""

from __future__ import annotations

from collections.abc import Collection

from ClusterShell.NodeSet import NodeSet
from fake_state import DEFAULT_PRIORITY, FakeJob, FakeNode

from slurm_failover.errors import NoSuchJob, SlurmError
from slurm_failover.model import JobFacts, NodeFacts
from slurm_failover.record import COMMENT_LIMIT
from slurm_failover.slurm.client import JobChange, NodeChange

START_DELAY = 121
"""Seconds that a requeued job waits: the life of a credential and one more."""
USER_HOLD = "JobHeldUser"
ADMIN_HOLD = "JobHeldAdmin"
_UNFIT = ("DRAIN", "DOWN", "FAIL")


QOS = ("normal", "failover")


class FakeSlurm:
    """The protocol, and beside it the world: ``submit`` to ``lose_node``."""

    def __init__(self, nodes: str = "n[1-4]", now: int = 1_700_000_000) -> None:
        self.clock = now
        self.parameters: dict[str, str] = {}
        self.expedited: set[str] = set()
        self.calls: list[str] = []
        self._jobs: dict[str, FakeJob] = {}
        self._nodes = {str(name): FakeNode(str(name)) for name in NodeSet(nodes)}

    # --- what our code may ask and do -------------------------------------------------------------

    def job(self, job_id: str) -> JobFacts:
        """See the protocol."""
        self.calls.append("job")
        return self._find(job_id).facts(self.clock)

    def jobs(self, job_ids: Collection[str] = ()) -> list[JobFacts]:
        """See the protocol."""
        self.calls.append("jobs")
        found = [job.facts(self.clock) for job in self._jobs.values()]
        chosen = [job for job in found if {job.label, job.label.split("_")[0]} & set(job_ids)]
        return chosen if job_ids else found

    def jobs_on(self, node: str) -> list[JobFacts]:
        """See the protocol."""
        self.calls.append("jobs_on")
        return [job.facts(self.clock) for job in self._jobs.values() if node in self._occupied(job)]

    def is_expedited(self, label: str) -> bool:
        """See the protocol."""
        self.calls.append("is_expedited")
        return self._find(label).label in self.expedited

    def batch_script(self, job_id: str) -> str:
        """See the protocol."""
        self.calls.append("batch_script")
        for job in self._jobs.values():
            if str(job.job_id) == job_id:
                return job.script
        raise NoSuchJob(f"no job {job_id}")

    def nodes(self, names: str = "") -> list[NodeFacts]:
        """See the protocol."""
        self.calls.append("nodes")
        chosen = [str(name) for name in NodeSet(names)] if names else list(self._nodes)
        return [self._nodes[name].facts() for name in chosen if name in self._nodes]

    def requeue_and_hold(self, label: str) -> None:
        """See the protocol. Like Slurm it also revives what has ended, cancelled jobs included."""
        self.calls.append("requeue_and_hold")
        job = self._find(label)
        if not job.batch:
            raise SlurmError("Only batch jobs are accepted or processed")
        if not job.requeue:
            raise SlurmError("Requested operation is presently disabled")
        if job.state == "PENDING":
            return
        if job.state == "RUNNING":
            self._end(job, "PENDING")
        job.state, job.requeued_held, job.hold = "PENDING", True, USER_HOLD
        job.exit_code = job.exit_signal = 0
        job.restarts += 1
        self._settle(job)

    def stop(self, label: str, start: float) -> None:
        """See the protocol."""
        self.calls.append("stop")
        job = self._find(label)
        if job.state != "RUNNING" or job.start != start:
            return
        if job.hold:
            self.requeue(label)
        else:
            self.requeue_and_hold(label)
        self.calls.pop()

    def hold(self, label: str) -> None:
        """See the protocol."""
        self.calls.append("hold")
        job = self._find(label)
        self._refuse_finished(job)
        job.hold, job.requeued_held = USER_HOLD, False

    def release(self, label: str) -> None:
        """See the protocol. A job that is not held loses a raised priority as well."""
        self.calls.append("release")
        job = self._find(label)
        self._refuse_finished(job)
        job.hold, job.requeued_held = "", False
        job.priority = DEFAULT_PRIORITY - job.nice

    def cancel(self, label: str) -> None:
        """See the protocol; scancel by anyone. A job that completes after a requeue ends too."""
        self.calls.append("cancel")
        job = self._find(label)
        if job.state == "RUNNING":
            self._end(job, "CANCELLED")
        elif job.state == "PENDING":
            job.state, job.requeued_held, job.hold = "CANCELLED", False, ""

    def signal(self, label: str, name: str, *, batch_only: bool) -> None:
        """See the protocol."""
        self.calls.append("signal")
        job = self._find(label)
        if job.state != "RUNNING":
            raise SlurmError("Job/step already completing or completed")
        job.signals.append((name, batch_only))

    def update_job(self, label: str, change: JobChange) -> None:
        """See the protocol. Fields are set in Slurm's order, up to the first error."""
        self.calls.append("update_job")
        job = self._find(label)
        self._refuse_whole(job, change)
        if change.excluded is not None:
            self._refuse_running(job)
            job.excluded = change.excluded
        if change.admin_comment is not None:
            job.admin_comment = change.admin_comment
        if change.comment is not None:
            job.comment = change.comment
        if change.nice is not None:
            job.nice = change.nice
            job.priority = DEFAULT_PRIORITY - change.nice
        if change.priority is not None:
            if job.hold:
                raise SlurmError("Job is in held state, pending scheduler release")
            job.priority = change.priority
        if change.qos is not None:
            job.qos = change.qos
        if change.start_now or change.start_in:
            self._refuse_running(job)
            job.begin = self.clock + change.start_in

    def update_node(self, node: str, change: NodeChange) -> None:
        """See the protocol."""
        self.calls.append("update_node")
        if node not in self._nodes:
            raise SlurmError("Invalid node name specified")
        if change.resume:
            self.resume(node)
        elif change.drain is not None:
            self.drain(node, change.drain)
        if change.extra is not None:
            self._nodes[node].extra = change.extra
        if change.comment is not None:
            self._nodes[node].comment = change.comment

    def setting(self, name: str) -> str:
        """See the protocol."""
        self.calls.append("setting")
        return self.parameters.get(name, "")

    # --- the world --------------------------------------------------------------------------------

    def submit(
        self,
        comment: str = "",
        *,
        size: int = 1,
        batch: bool = True,
        requeue: bool = True,
        array: int | None = None,
    ) -> str:
        """A new job; its label, which is ``ARRAY_TASK`` where it is one of ``array``'s tasks."""
        job_id = 100 + len(self._jobs)
        label = str(job_id) if array is None else f"{array}_{job_id - array}"
        self._jobs[label] = FakeJob(job_id, label, comment, size=size, batch=batch, requeue=requeue)
        return label

    def schedule(self) -> list[str]:
        """Start what can start, highest priority first; the labels of the started jobs."""
        self.clock += 10
        started = []
        for job in sorted(self._jobs.values(), key=lambda job: (-job.priority, job.job_id)):
            free = self._free_for(job)
            if self._is_eligible(job) and len(free) >= job.size:
                job.state, job.nodes, job.start, job.end = (
                    "RUNNING",
                    free[: job.size],
                    self.clock,
                    0,
                )
                started.append(job.label)
        return started

    def finish(self, label: str, code: int = 0, signal: int = 0, state: str = "") -> None:
        """The job's program ends; every node's Epilog and EpilogSlurmctld begin."""
        job = self._find(label)
        self._end(job, state or ("FAILED" if code or signal else "COMPLETED"))
        job.exit_code, job.exit_signal = code, signal

    def requeue(self, label: str) -> None:
        """See the protocol; also an administrator or the owner requeues a running job."""
        self.calls.append("requeue")
        job = self._find(label)
        if job.state == "PENDING":
            return
        if job.state == "RUNNING":
            self._end(job, "PENDING")
        job.state = "PENDING"
        job.restarts += 1
        self._settle(job)

    def hold_as_admin(self, label: str) -> None:
        """``scontrol hold`` by an operator."""
        job = self._find(label)
        job.hold, job.requeued_held = ADMIN_HOLD, False

    def end_epilog(self, label: str, node: str) -> None:
        """The Epilog of one node ends."""
        job = self._find(label)
        if node in job.busy:
            job.busy.remove(node)
            self._settle(job)

    def end_hook(self, label: str) -> None:
        """EpilogSlurmctld ends."""
        job = self._find(label)
        if job.hook:
            job.hook = False
            self._settle(job)

    def drain(self, node: str, reason: str) -> None:
        """Anyone's drain: a new reason overwrites the old one."""
        found = self._nodes[node]
        found.flags.add("DRAIN")
        found.reason, found.reason_time = reason, self.clock

    def resume(self, node: str) -> None:
        """An administrator returns a node: the reason goes, Extra stays."""
        found = self._nodes[node]
        found.flags.clear()
        found.reason = ""

    def lose_node(self, node: str) -> None:
        """The node stops answering: Slurm requeues its jobs by itself, and does not hold them."""
        found = self._nodes[node]
        found.flags.add("DOWN")
        if not found.reason:
            found.reason, found.reason_time = "Not responding", self.clock
        for job in self._jobs.values():
            if job.state == "RUNNING" and node in job.nodes:
                self._end(job, "PENDING" if job.requeue else "NODE_FAIL")
                job.failed_node, job.exit_signal, job.uncounted = node, 1, job.requeue
            if node in job.busy:
                job.busy.discard(node)
                self._settle(job)

    def peek(self, label: str) -> FakeJob:
        """The job itself, for a test that looks or that plays a tool which writes to it."""
        return self._find(label)

    def peek_node(self, name: str) -> FakeNode:
        """The node itself."""
        return self._nodes[name]

    # --- within -----------------------------------------------------------------------------------

    def _find(self, label: str) -> FakeJob:
        if label not in self._jobs:
            raise NoSuchJob("Invalid job id specified")
        return self._jobs[label]

    def _end(self, job: FakeJob, state: str) -> None:
        job.state, job.end = state, self.clock
        job.busy, job.hook = set(job.nodes), True

    def _settle(self, job: FakeJob) -> None:
        """What happens in the moment in which a requeued job has left COMPLETING."""
        if job.completing or job.state != "PENDING":
            return
        job.nodes, job.failed_node, job.begin = [], "", self.clock + START_DELAY
        job.restarts += job.uncounted
        job.uncounted = False

    def _refuse_whole(self, job: FakeJob, change: JobChange) -> None:
        """What Slurm refuses before it sets any field; the QOS where the site enforces them."""
        if change.comment is not None and len(change.comment.encode()) > COMMENT_LIMIT:
            raise SlurmError("String exceeds maximum length")
        if change.qos is not None and change.qos not in QOS:
            raise SlurmError("Invalid qos specification")
        self._refuse_finished(job)

    @staticmethod
    def _refuse_finished(job: FakeJob) -> None:
        if job.state not in ("PENDING", "RUNNING"):
            raise SlurmError("Job/step already completing or completed")

    @staticmethod
    def _refuse_running(job: FakeJob) -> None:
        if job.state == "RUNNING":
            raise SlurmError("Job is no longer pending execution")

    def _is_eligible(self, job: FakeJob) -> bool:
        waits = job.state == "PENDING" and not job.hold and not job.completing
        return waits and job.begin <= self.clock

    @staticmethod
    def _occupied(job: FakeJob) -> set[str]:
        return set(job.nodes) if job.state == "RUNNING" else job.busy

    def _free_for(self, job: FakeJob) -> list[str]:
        taken = {node for other in self._jobs.values() for node in self._occupied(other)}
        taken |= {str(name) for name in NodeSet(job.excluded)}
        return [
            name
            for name, node in self._nodes.items()
            if name not in taken and not node.flags.intersection(_UNFIT)
        ]
