"""The stories that are played with trouble at every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fake_slurmctld import ADMIN_HOLD, USER_HOLD
from play import Cluster, Run, Script
from steps import Steps

FAULT = Run(end=1, broken=1)
HANG = Run(end="hangs", broken=1)
WELL = Run(end=0)


@dataclass(frozen=True)
class Ending:
    """How a job's story must end: Slurm's state, ours, and how many retries were counted."""

    slurm: str
    state: str
    retries: int
    held: bool = False


def endings(cluster: Cluster) -> tuple[Ending, ...]:
    """How the jobs of a story have ended."""
    shown = [(cluster.slurm.peek(label), cluster.record(label)) for label in cluster.jobs]
    return tuple(
        Ending(
            job.state,
            record.state.value if record else "armed",
            record.retries if record else 0,
            held=bool(job.hold),
        )
        for job, record in shown
    )


@dataclass(frozen=True)
class Story:
    """Jobs, who meddles, and the ending of each job if at most one thing goes wrong; none where
    that depends on who comes first, and only the promises hold.
    """

    jobs: tuple[Script, ...]
    endings: tuple[Ending, ...] = ()
    limit: int = 3
    meddle: Callable[[Cluster, str], None] = lambda cluster, moment: None
    prepare: Callable[[Cluster], None] = field(default=lambda cluster: None)
    twice: bool = False

    def play(self, folder: Path, steps: Steps) -> Cluster:
        """Play the story to its end."""
        cluster = Cluster(folder, steps, self.limit, meddle=self.meddle, twice=self.twice)
        self.prepare(cluster)
        for script in self.jobs:
            cluster.submit(script)
        cluster.live()
        return cluster


def once(moment: str, act: Callable[[Cluster, str], None]) -> Callable[[Cluster, str], None]:
    """Someone who does something to the first job, the first time that this moment comes."""

    def meddle(cluster: Cluster, now: str) -> None:
        label = next(iter(cluster.jobs))
        if now == moment and moment not in cluster.meddled:
            cluster.meddled.add(moment)
            act(cluster, label)

    return meddle


def cancel(cluster: Cluster, label: str) -> None:
    """scancel."""
    cluster.cancel(label)


def hold_by(hold: str) -> Callable[[Cluster, str], None]:
    """``scontrol hold`` by the owner or an administrator."""
    return lambda cluster, label: cluster.hold(label, hold)


def release(cluster: Cluster, label: str) -> None:
    """``scontrol release`` by the owner, of whatever hold."""
    if cluster.slurm.peek(label).state == "PENDING":
        cluster.slurm.release(label)
        cluster.held.pop(label, None)


def requeue(cluster: Cluster, label: str) -> None:
    """``scontrol requeue`` by the owner."""
    cluster.slurm.requeue(label)


def drain(cluster: Cluster, label: str) -> None:
    """Another tool drains a node of the job, with a reason that the site does not trust."""
    cluster.drain_as_admin((cluster.slurm.peek(label).nodes or ["n1"])[0])


def drain_first(cluster: Cluster) -> None:
    """A node was out of service before all this."""
    cluster.drain_as_admin("n1", "rack 7 is moved")


ACTS = {
    "cancels": cancel,
    "holds": hold_by(USER_HOLD),
    "holds as administrator": hold_by(ADMIN_HOLD),
    "releases": release,
    "requeues": requeue,
    "drains": drain,
}
MOMENTS = ("run", "end", "held", "completed", "decide", "start")
COMPLETED = Ending("COMPLETED", "resumed", 1)

STORIES = {
    "a fault ends the job": Story((Script((FAULT, WELL)),), (COMPLETED,)),
    "a fault, and the job hangs": Story((Script((HANG, WELL)),), (COMPLETED,)),
    "a node is lost": Story((Script((Run("lost"), WELL)),), (COMPLETED,)),
    "two nodes break at once": Story((Script((Run(1, broken=2), WELL)),), (COMPLETED,)),
    "the next node breaks too": Story(
        (Script((FAULT, HANG, WELL), size=1),), (Ending("COMPLETED", "resumed", 2),)
    ),
    "the program is at fault": Story(
        (Script((Run(1),)),), (Ending("PENDING", "internalerror", 0, held=True),)
    ),
    "one fault too many": Story(
        (Script((FAULT, FAULT), size=1),),
        (Ending("PENDING", "maxretriesexceeded", 1, held=True),),
        limit=1,
    ),
    "two jobs of one node's time": Story(
        (Script((FAULT, WELL), size=3), Script((HANG, WELL), size=3)), (COMPLETED, COMPLETED)
    ),
    "every hook runs twice": Story(
        (Script((FAULT, HANG, WELL)),), (Ending("COMPLETED", "resumed", 2),), twice=True
    ),
    "flagged by the option alone": Story(
        (Script((FAULT, WELL), comment="", option="2"),), (COMPLETED,)
    ),
    "a time limit with a fault nearby": Story(
        (Script((Run("TIMEOUT", broken=1),)),), (Ending("TIMEOUT", "armed", 0),)
    ),
    "beside a node that others drained": Story(
        (Script((FAULT, WELL)),), (COMPLETED,), prepare=drain_first
    ),
    "a fault on a node that others drained meanwhile": Story(
        (Script((FAULT, WELL)),), (COMPLETED,), meddle=once("run", drain)
    ),
    "the owner holds the job while it runs": Story(
        (Script((FAULT, WELL)),),
        (Ending("PENDING", "armed", 0, held=True),),
        meddle=once("run", hold_by(USER_HOLD)),
    ),
    "an administrator holds the job while it hangs": Story(
        (Script((HANG, WELL)),),
        (Ending("PENDING", "armed", 0, held=True),),
        meddle=once("run", hold_by(ADMIN_HOLD)),
    ),
    "the owner cancels the job while it hangs": Story(
        (Script((HANG,)),), meddle=once("run", cancel)
    ),
}
"""Stories whose ending is the same whatever goes wrong at one step."""

MEDDLED = {
    f"someone {name} at moment {moment!r}, job {words}": Story(
        (Script((run, run, WELL)),), meddle=once(moment, act)
    )
    for name, act in ACTS.items()
    for moment in MOMENTS
    for words, run in (("fails", FAULT), ("hangs", HANG))
}
"""Someone comes between any two of our steps."""
