"""Nodes that are back in service leave the lists of the jobs that wait, and no other list."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_slurmctld import FakeSlurm

from slurm_failover.breaker.notes import FaultNote, write_notes
from slurm_failover.controller.returns import readmit_nodes
from slurm_failover.record import Record, State, Step, write_record
from slurm_failover.slurm.client import NodeChange

MOVED = Record(State.FAILOVERINPROGRESS, Step.PLACED, retries=1, max_retries=3, excluded="n[1-2]")


class Queue:
    """One waiting job that is kept from n1 and n2 by us, and from n4 by its owner."""

    def __init__(self, record: Record = MOVED) -> None:
        self.slurm = FakeSlurm()
        self.said: list[str] = []
        self.label = self.slurm.submit("failover", size=4)
        self.job = self.slurm.peek(self.label)
        self.job.admin_comment = write_record("", record)
        self.job.excluded = "n[1-2,4]"

    def readmit(self) -> int:
        return readmit_nodes(self.slurm, self.said.append)


def test_a_node_in_service_is_taken_off_and_one_that_is_drained_stays() -> None:
    queue = Queue()
    queue.slurm.drain("n2", "slurm-failover: Xid 79")
    assert queue.readmit() == 1
    assert queue.job.excluded == "n[2,4]"
    assert queue.said == [f"job {queue.label} may run on n1 again"]
    assert queue.readmit() == 0


def test_a_node_whose_drain_waits_for_the_breaker_is_not_back() -> None:
    queue = Queue()
    note = FaultNote("n1", 1.0, "xid-79", waits=True)
    queue.slurm.update_node("n1", NodeChange(extra=write_notes("", [note], 2.0)))
    assert queue.readmit() == 1
    assert queue.job.excluded == "n[1,4]"


def test_what_the_owner_excludes_stays_excluded() -> None:
    queue = Queue()
    assert queue.readmit() == 1
    assert queue.job.excluded == "n4"


@pytest.mark.parametrize("step", [Step.HELD, Step.DECIDED])
def test_a_job_whose_decision_is_under_way_is_left_alone(step: Step) -> None:
    queue = Queue(Record(State.FAILOVERINPROGRESS, step, excluded="n1"))
    assert queue.readmit() == 0
    assert queue.job.excluded == "n[1-2,4]"


def test_a_job_whose_record_is_damaged_keeps_no_other_from_its_nodes() -> None:
    queue = Queue()
    damaged = queue.slurm.submit("failover")
    record = replace(MOVED, excluded="n[1-")
    queue.slurm.peek(damaged).admin_comment = write_record("", record)
    assert queue.readmit() == 1
    assert queue.job.excluded == "n4"


def test_a_running_job_and_one_without_a_record_are_left_alone() -> None:
    queue = Queue()
    queue.job.state = "RUNNING"
    other = queue.slurm.submit("failover")
    queue.slurm.peek(other).excluded = "n3"
    assert queue.readmit() == 0
    assert queue.slurm.calls == ["jobs"]
