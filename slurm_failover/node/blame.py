"""What this node's findings say of the node, and of each job on it. Pure.

A fault of one job's GPU is not another job's: every job is judged by the events that hit it. Where
nobody can tell whether an event hit a job, the answer is a doubt, and a doubt stops no job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from slurm_failover.attribution import Device, jobs_hit
from slurm_failover.classify import is_inside, judge
from slurm_failover.gres import GresSlot
from slurm_failover.holding import JobGpus
from slurm_failover.model import (
    Event,
    FaultClass,
    JobCause,
    Judgement,
    NodeAction,
    Role,
    Scope,
    Window,
)


@dataclass(frozen=True, slots=True)
class Share:
    """A job's share in the findings: the judgement on what hit it, and a sentence on what may have
    hit it and would be the hardware's fault; empty if there is no such doubt.
    """

    judgement: Judgement
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Blame:
    """Events that are new, and ``earlier`` ones that were judged before and explain the new.

    ``devices`` are the node's GPUs, ``slots`` its GPU GRES and ``gpus`` their number as in
    ``attribution.jobs_hit``, and ``jobs`` what is known of the jobs on it.
    """

    fresh: tuple[Event, ...]
    earlier: tuple[Event, ...] = ()
    devices: tuple[Device, ...] = ()
    slots: tuple[GresSlot, ...] | None = None
    gpus: int | None = None
    jobs: tuple[JobGpus, ...] = ()

    def of_node(self) -> Judgement:
        """Whether the node needs anything for what is new."""
        return judge(self.fresh, earlier=self.earlier)

    def of_running(self, job: JobGpus, window: Window) -> Share:
        """A running job's share in what is new."""
        return self._share(job, self._met_by(window), self.earlier, window)

    def of_ending(self, job: JobGpus, window: Window) -> Share:
        """An ending job's share in all that is known, judged before or not."""
        return self._share(job, (*self.earlier, *self._met_by(window)), (), window)

    def may_explain(self, window: Window, *, failed: bool) -> bool:
        """Whether anything that is known can tell of an ending job, whatever it held. Of one that
        has not ``failed`` only a fault of the hardware does.
        """
        known = (*self.earlier, *self._met_by(window))
        met = (event for event in known if is_inside(event, window))
        return any(failed or _may_be_hardware(event) for event in met)

    def _met_by(self, window: Window) -> list[Event]:
        """What is new, as a job met it. A fault that only a reboot mends was there until somebody
        saw it: where no Prolog had its say, the job was started on what was broken already. What
        was judged before may have been mended since.
        """
        return [
            replace(event, last_time=max(event.last_time or event.time, window.start))
            if _stays(event) and event.time is not None
            else event
            for event in self.fresh
        ]

    def _share(
        self, job: JobGpus, events: Iterable[Event], earlier: Iterable[Event], window: Window
    ) -> Share:
        hits, doubtful = self._sort(events, job)
        context, _ = self._sort(earlier, job)
        own = judge(hits, window, earlier=context)
        if own.cause is not JobCause.UNKNOWN or not doubtful:
            return Share(own)
        worst = judge([*hits, *doubtful], window, earlier=context)
        if worst.cause is not JobCause.HARDWARE or worst.root is None:
            return Share(own)
        return Share(own, f"{worst.root.because}; whether that hit this job can not be told")

    def _sort(self, events: Iterable[Event], job: JobGpus) -> tuple[list[Event], list[Event]]:
        """The events that hit a job, and those of which nobody can tell."""
        jobs = [job, *(other for other in self.jobs if other.job_id != job.job_id)]
        hits: list[Event] = []
        doubtful: list[Event] = []
        for event in events:
            if event.scope is Scope.JOB and event.pci is None:
                hits.append(event)
                continue
            # What costs the node a reboot takes all instances of the GPU with it.
            whole = event.node_action is NodeAction.REBOOT
            instance = None if whole else event.gpu_instance
            answer = jobs_hit(event, jobs, self.devices, self.slots, instance, gpus=self.gpus)
            if job.job_id in answer.hit:
                hits.append(event)
            elif job.job_id in answer.unsure:
                doubtful.append(event)
        return hits, doubtful


def _may_be_hardware(event: Event) -> bool:
    """Whether an event can be judged as the hardware's, by itself or beside others."""
    maybe = (FaultClass.HARDWARE, FaultClass.AMBIGUOUS)
    return event.klass in maybe or event.implied is FaultClass.HARDWARE


def _stays(event: Event) -> bool:
    """Whether a fault of the hardware is there until a reboot. An echo may be taken back."""
    return (
        event.klass is FaultClass.HARDWARE
        and event.role is Role.ROOT
        and event.node_action is NodeAction.REBOOT
    )
