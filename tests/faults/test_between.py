"""Over the fake slurmctld: someone acts right before any one step of ours, between what we have
read and what we ask for; and slurmctld comes back without what it had not saved.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from fake_slurmctld import FakeSlurm
from play import Cluster, Run, Script
from promises import check
from steps import Steps
from stories import ACTS, FAULT, HANG, WELL, Story, endings

from slurm_failover.errors import SlurmError
from slurm_failover.slurm.client import JobChange

Act = Callable[[Cluster, str], None]
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
WORDS = " of my own"
LOST = Run("lost")


def comment(cluster: Cluster, label: str) -> None:
    """``scontrol update Comment=`` by the owner."""
    job = cluster.slurm.peek(label)
    with suppress(SlurmError):
        cluster.slurm.update_job(label, JobChange(comment=job.comment + WORDS))


def write_as_admin(cluster: Cluster, label: str) -> None:
    """``scontrol update ExcNodeList= AdminComment=`` by an administrator."""
    job = cluster.slurm.peek(label)
    with suppress(SlurmError):
        cluster.slurm.update_job(label, JobChange(admin_comment=f"{job.admin_comment} kept"))
        cluster.slurm.update_job(label, JobChange(excluded="n6"))


EVERY_ACT: dict[str, Act] = {
    **ACTS,
    "writes a comment": comment,
    "writes as administrator": write_as_admin,
}


TOO_LATE = {"drains": "drain='", "holds": "release ("}
"""Who acts right before such a request of ours is overtaken by it: Slurm has no drain and no
release that is refused where the node or job is no longer as it was seen. docs/architecture.md
says so.
"""


@dataclass
class Between(Steps):
    """Steps, right before one of which someone does something to the first job."""

    at: int = 0
    act: Act = lambda cluster, label: None
    cluster: list[Cluster] = field(default_factory=list)

    def take(self, what: str, act: Callable[[], Any], fail: Callable[[str], None]) -> Any:
        if len(self.done) + 1 == self.at:
            self.done.append("someone acts")
            self.act(self.cluster[0], next(iter(self.cluster[0].jobs)))
        return super().take(what, act, fail)


def play(story: Story, steps: Between | Forgetful) -> Cluster:
    """Play a story to its end."""
    with TemporaryDirectory(dir=MEMORY) as folder:
        return replace(story, prepare=steps.cluster.append).play(Path(folder), steps)


@pytest.mark.parametrize("run", [FAULT, HANG], ids=["the job fails", "the job hangs"])
@pytest.mark.parametrize("name", EVERY_ACT)
def test_whoever_acts_between_a_question_and_a_request_breaks_no_promise(
    name: str, run: Any, played: Callable[[int], None]
) -> None:
    story = Story((Script((run, WELL)),))
    plain = Between()
    play(story, plain)
    for at in range(1, len(plain.done) + 1):
        steps = Between(at=at, act=EVERY_ACT[name])
        cluster = play(story, steps)
        told = "\n".join([*steps.done, *cluster.said()])
        assert "someone acts" in steps.done
        next_one = steps.done[steps.done.index("someone acts") + 1]
        if any(name.startswith(acts) and asked in next_one for acts, asked in TOO_LATE.items()):
            continue
        assert check(cluster) == [], f"{name} before {at}\n{told}"
    played(len(plain.done))


@dataclass
class Forgetful(Steps):
    """Steps, before one of which slurmctld is killed and comes back with what it had saved: nothing
    of what we asked for since the world last moved, or all but its last request.
    """

    at: int = 0
    keeps: bool = False
    saved: list[Any] = field(default_factory=list)
    left: Any = None
    lost: str = ""
    cluster: list[Cluster] = field(default_factory=list)

    def take(self, what: str, act: Callable[[], Any], fail: Callable[[str], None]) -> Any:
        slurm = self.cluster[0].slurm
        if self.state(slurm) != self.left:
            self.saved.clear()
        if len(self.done) + 1 == self.at and self.saved:
            self.restore(slurm, self.saved[-1 if self.keeps else 0])
            self.done.append("slurmctld forgets")
        before = self.state(slurm)
        try:
            return super().take(what, act, fail)
        finally:
            self.left = self.state(slurm)
            if what.startswith(("update_node", "stop")):
                self.saved.clear()  # what a node asks for also happens on the node
            elif self.left != before:
                self.saved.append(before)

    @staticmethod
    def state(slurm: FakeSlurm) -> Any:
        """All that slurmctld writes to its disk."""
        return copy.deepcopy([slurm._jobs, slurm._nodes])

    @staticmethod
    def restore(slurm: FakeSlurm, state: Any) -> None:
        """What slurmctld reads when it starts."""
        for now, then in zip((slurm._jobs, slurm._nodes), copy.deepcopy(state), strict=True):
            for name, one in then.items():
                vars(now[name]).update(vars(one))


@pytest.mark.parametrize("keeps", [True, False], ids=["the last request", "every request"])
@pytest.mark.parametrize(
    "run", [FAULT, HANG, LOST], ids=["the job fails", "the job hangs", "a node is lost"]
)
def test_a_slurmctld_that_forgets_what_we_asked_for_breaks_no_promise(
    run: Any, keeps: bool, played: Callable[[int], None]
) -> None:
    story = Story((Script((run, WELL)),))
    plain = Forgetful()
    play(story, plain)
    forgot = 0
    for at in range(1, len(plain.done) + 1):
        steps = Forgetful(at=at, keeps=keeps)
        cluster = play(story, steps)
        told = "\n".join([*steps.done, *cluster.said()])
        assert check(cluster) == [], f"at {at}\n{told}"
        if "slurmctld forgets" in steps.done:
            forgot += 1
            forgotten = steps.done[steps.done.index("slurmctld forgets") - 1]
            # After a lost node Slurm requeues by itself: without our hold the job just runs again.
            retries = 0 if forgotten.startswith("hold (") else 1
            assert [(j.slurm, j.retries) for j in endings(cluster)] == [("COMPLETED", retries)]
    assert forgot
    played(forgot)
