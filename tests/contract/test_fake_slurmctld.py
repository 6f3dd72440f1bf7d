"""The fake keeps the contract, so that what is proved over it holds on a real Slurm."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fake_slurmctld import FakeSlurm

from slurm_failover.model import JobFacts

pytest.register_assert_rewrite("contract.suite")

from contract.suite import SlurmContract, World  # noqa: E402


class FakeWorld:
    """The fake as a world."""

    def __init__(self) -> None:
        self.slurm = FakeSlurm()
        self.slurm.parameters["SchedulerParameters"] = "nohold_on_prolog_fail"

    def now(self) -> float:
        return self.slurm.clock

    def pass_time(self, seconds: int) -> None:
        self.slurm.clock += seconds

    def submit(
        self, comment: str = "", *, requeue: bool = True, array: bool = False, held: bool = False
    ) -> str:
        label = self.slurm.submit(comment, requeue=requeue, array=90 if array else None)
        if held:
            self.slurm.hold(label)
        return label

    def run(self, comment: str = "", *, requeue: bool = True, array: bool = False) -> str:
        label = self.submit(comment, requeue=requeue, array=array)
        assert label in self.slurm.schedule()
        return label

    def fail(self, label: str) -> None:
        self.slurm.finish(label, code=3)

    def stall(self, label: str) -> None:
        pass  # Nothing ends here before it is told to.

    def finish_epilogs(self, label: str) -> None:
        for node in sorted(self.slurm.peek(label).busy):
            self.slurm.end_epilog(label, node)
        self.slurm.end_hook(label)

    def cancel(self, label: str) -> None:
        self.slurm.cancel(label)

    def hold_as_admin(self, label: str) -> None:
        self.slurm.hold_as_admin(label)

    def lose(self, label: str) -> str:
        node = self.slurm.peek(label).nodes[0]
        self.slurm.lose_node(node)
        self.finish_epilogs(label)
        return node

    def wait_for(self, label: str, condition: Callable[[JobFacts], bool]) -> JobFacts:
        self.finish_epilogs(label)
        self.slurm.schedule()
        job = self.slurm.job(label)
        assert condition(job)
        return job


class TestFakeSlurmctld(SlurmContract):
    """All of it."""

    @pytest.fixture
    def world(self) -> World:
        """A fresh fake."""
        return FakeWorld()
