"""The real code, set over the fake slurmctld and driven hook by hook, with deaths in between.

Everything that would be a process of its own can be killed at any request that it makes to Slurm:
before Slurm has seen the request, or after it was carried out and before the answer came.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

from fake_slurmctld import FakeSlurm

from slurm_failover.controller import decider as decider_module
from slurm_failover.controller import endings as endings_module
from slurm_failover.controller import missed as missed_module
from slurm_failover.controller import serving as serving_module
from slurm_failover.controller.arrivals import Arrival, Kind, Queue
from slurm_failover.controller.decider import Decider
from slurm_failover.controller.notes import Notes
from slurm_failover.controller.placement import Placement
from slurm_failover.controller.serving import Server
from slurm_failover.controller.work import take_up
from slurm_failover.errors import FailoverError, HookEnded, SlurmUnavailable
from slurm_failover.model import Event, FaultClass, JobCause, Judgement, Limits, NodeAction, Scope
from slurm_failover.node import respond as respond_module
from slurm_failover.node.blame import Share
from slurm_failover.node.respond import EndingJob, Responder

WAIT_FOR_NODES = 300

DEATHS = [f"{kind}_{when}" for kind in ("killed", "ended", "lost") for when in ("before", "after")]


class Killed(BaseException):
    """The process is gone: no handler of the code under test may see this."""


@dataclass
class Trouble:
    """What happens at one request: ``kind`` at the request of number ``at``.

    One of DEATHS, or ``none``: ``killed`` ends the process, ``ended`` tells it to end, ``lost`` is
    an answer that never came; before or after Slurm carried the request out.
    """

    kind: str = "none"
    at: int = 0


class Troubled:
    """A FakeSlurm on the other side of a wire."""

    def __init__(self, slurm: FakeSlurm, trouble: Trouble, house: House) -> None:
        self._slurm = slurm
        self._trouble = trouble
        self._house = house
        self._count = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def ask(*words: Any) -> Any:
            self._count += 1
            kind = self._trouble.kind if self._count == self._trouble.at else "none"
            if kind.endswith("_before"):
                self._fail(kind)
            # Of a job that runs it gives a raised priority back, and moves nothing.
            if name == "release" and (job := self._slurm.peek(words[0])).state == "PENDING":
                self._house.released[words[0]].add(job.start)
            self._house.story.append(f"   {name} {words}")
            answer = getattr(self._slurm, name)(*words)
            if kind.endswith("_after"):
                self._fail(kind)
            return answer

        return ask

    @staticmethod
    def _fail(kind: str) -> None:
        deaths = {"killed": Killed(), "ended": HookEnded("time over")}
        raise deaths.get(kind.partition("_")[0], SlurmUnavailable("Socket timed out"))


class Clock:
    """Stands for the module ``time``; it shows the fake's clock."""

    def __init__(self, slurm: FakeSlurm) -> None:
        self._slurm = slurm

    def time(self) -> float:
        return float(self._slurm.clock)

    def monotonic(self) -> float:
        return float(self._slurm.clock)


def judgement(cause: JobCause, node: NodeAction = NodeAction.NONE) -> Judgement:
    """What a node's look may come to."""
    klass = FaultClass.HARDWARE if cause is JobCause.HARDWARE else FaultClass.INTERNAL
    because = f"a fault of kind {cause.value}"
    root = Event(kind="xid", klass=klass, scope=Scope.NODE, rule="xid-79", because=because)
    return Judgement(cause, node, because, root)


FINDINGS = {
    "hardware": judgement(JobCause.HARDWARE, NodeAction.DRAIN),
    "internal": judgement(JobCause.INTERNAL),
    "internal, reboot": judgement(JobCause.INTERNAL, NodeAction.REBOOT),
    "unknown": judgement(JobCause.UNKNOWN),
}


class House:
    """Controller and nodes, each process of theirs started by a method."""

    def __init__(self, slurm: FakeSlurm, folder: str, limits: Limits) -> None:
        self.slurm = slurm
        self.notes = Notes(folder)
        self.notes.open()
        self.limits = limits
        self.story: list[str] = []
        self.released: dict[str, set[int]] = defaultdict(set)

    @contextlib.contextmanager
    def process(self, trouble: Trouble | None = None) -> Iterator[Troubled]:
        """A process of ours, with its wire to Slurm and Slurm's clock; it may be killed."""
        clock = Clock(self.slurm)
        with contextlib.ExitStack() as stack:
            for module in (
                decider_module,
                endings_module,
                missed_module,
                respond_module,
                serving_module,
            ):
                stack.enter_context(mock.patch.object(module, "time", clock))
            stack.enter_context(contextlib.suppress(Killed, HookEnded, FailoverError))
            yield Troubled(self.slurm, trouble or Trouble(), self)

    def start_hook(self, label: str, trouble: Trouble | None = None) -> None:
        """PrologSlurmctld of a job that starts."""
        self._serve(Arrival(Kind.START, label), trouble)

    def end_hook(
        self, label: str, start: float, nodes: str, trouble: Trouble | None = None
    ) -> None:
        """EpilogSlurmctld of an attempt that ended on ``nodes``."""
        self._serve(Arrival(Kind.END, label, start, nodes), trouble)

    def _serve(self, arrival: Arrival, trouble: Trouble | None) -> None:
        """A hook that is alone: it hands in its arrival, and nobody looks again where it dies."""
        queue = Queue(self.notes.queue)
        with self.process(trouble) as slurm:
            queue.add(arrival)
            Server(slurm, self.notes, self.limits, self.story.append).serve(queue)
        queue.remove(arrival)

    def node_epilog(
        self, label: str, start: float, node: str, found: Judgement, trouble: Trouble | None = None
    ) -> None:
        """Epilog of a node that ``found`` something in the job's window."""
        with self.process(trouble) as slurm:
            ending = EndingJob(self.slurm.peek(label).job_id, start, found)
            self._respond(slurm, node, found, ending)

    def health_check(self, node: str, found: Judgement, trouble: Trouble | None = None) -> None:
        """HealthCheckProgram of a node that ``found`` something which hit all its jobs."""
        with self.process(trouble) as slurm:
            self._respond(slurm, node, found, None)

    def _respond(
        self, slurm: Troubled, node: str, found: Judgement, ending: EndingJob | None
    ) -> None:
        fault = found if found.node is not NodeAction.NONE else None
        facts = slurm.nodes(node)[0]
        jobs = slurm.jobs_on(node) if fault else []
        ends = ending.job_id if ending else None
        running = [(job, Share(found)) for job in jobs if job.job_id != ends]
        Responder(slurm, node, self.story.append).respond(facts, fault, running, ending)

    def decide(self, trouble: Trouble | None = None, rounds: int = 3) -> None:
        """The decider, which ends after so many rounds as if it was killed between two."""
        left = iter(range(rounds - 1))

        def pause(_: float) -> None:
            if next(left, None) is None:
                raise Killed

        with self.process(trouble) as slurm:
            self.make_decider(slurm).run(pause)

    def reconcile(self) -> None:
        """``slurm-failover reconcile`` by the real function, with enough time for every job."""
        with self.process() as slurm:
            take_up(slurm, self.notes, self.limits, self.story.append)
            server = Server(slurm, self.notes, self.limits, self.story.append)
            server.serve(Queue(self.notes.queue))
        self.decide(rounds=8)

    def make_decider(self, slurm: Troubled, **more: Callable[..., Any]) -> Decider:
        """A decider over this wire, with ``more`` of its collaborators."""
        return Decider(
            slurm,
            self.notes,
            limits=self.limits,
            placement=Placement(),
            wait_for_nodes=WAIT_FOR_NODES,
            say=self.story.append,
            **more,
        )
