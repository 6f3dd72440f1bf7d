"""Many flagged jobs on one node: what it says of one does not push out what it says of another."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from failover_world import House
from test_checks import Node

from slurm_failover import evidence
from slurm_failover.breaker import Word, write_word
from slurm_failover.breaker.word import OPEN
from slurm_failover.controller.breaker import Guard
from slurm_failover.model import Limits
from slurm_failover.record import Record, State, read_record
from slurm_failover.reporter import report_to_nobody
from slurm_failover.settings.protection import BreakerSettings
from slurm_failover.slurm.client import NodeChange

JOBS = 24
ALL_HIT = "{1}[Hardware Error]: event severity: recoverable"
"""A fault that hits every job of the node."""


class Crowd:
    """Flagged jobs on n1, all of which have started."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.node = Node(folder, monkeypatch)
        self.slurm = self.node.slurm
        self.house = House(self.slurm, str(folder / "house"), Limits())
        (folder / "state" / "controller").mkdir(parents=True)
        self.start = int(time.time()) - 60
        self.labels = [self.begin(self.start) for _ in range(JOBS)]

    def begin(self, start: int) -> str:
        label = self.slurm.submit("failover")
        job = self.slurm.peek(label)
        job.state, job.nodes, job.start = "RUNNING", ["n1"], start
        self.house.start_hook(label)
        return label

    def fail(self, label: str) -> None:
        """The job's program fails, and its Epilog looks."""
        start = str(self.slurm.peek(label).start)
        self.node.environment |= {"SLURM_JOB_ID": label, "SLURM_JOB_START_TIME": start}
        self.node.environment |= {"SLURM_JOB_COMMENT": "failover", "SLURM_JOB_EXIT_CODE": "256"}
        self.slurm.finish(label, code=1)
        self.node.checks().check_job_end()
        self.end(label)

    def end(self, label: str) -> None:
        """All hooks of the job's end are done."""
        self.house.end_hook(label, float(self.slurm.peek(label).start), "n1")
        self.slurm.end_epilog(label, "n1")
        self.slurm.end_hook(label)

    def decide_guarded(self) -> None:
        memory = f"{self.node.settings.state.directory}/controller/breaker.json"
        said, nobody = self.node.said.append, report_to_nobody
        guard = Guard(self.slurm, BreakerSettings(), memory=memory, say=said, report=nobody)
        left = iter(range(7))

        def pause(_: float) -> None:
            if next(left, None) is None:
                raise SystemExit

        with self.house.process() as slurm:
            self.house.make_decider(slurm, guard=guard.against).run(pause)

    def records(self) -> list[Record]:
        jobs = {job.label: job for job in self.slurm.jobs()}
        found = [read_record(jobs[label].admin_comment) for label in self.labels]
        return [record for record in found if record is not None]

    def held(self) -> list[str]:
        return [job.label for job in self.slurm.jobs() if job.held]


@pytest.fixture
def crowd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Crowd:
    return Crowd(tmp_path, monkeypatch)


def test_every_job_that_its_node_has_stopped_is_moved(crowd: Crowd) -> None:
    crowd.node.record(ALL_HIT)
    assert crowd.node.checks().check_health()
    for label in crowd.labels:
        crowd.end(label)
    crowd.house.reconcile()
    assert crowd.held() == []


def test_every_job_that_failed_by_one_fault_is_moved(crowd: Crowd) -> None:
    crowd.node.record(ALL_HIT)
    for label in crowd.labels:
        crowd.fail(label)
    crowd.house.decide(rounds=8)
    assert crowd.held() == []


def test_no_word_is_lost_of_jobs_that_fail_while_the_breaker_is_open(crowd: Crowd) -> None:
    crowd.slurm.update_node("n2", NodeChange(comment=write_word("", Word(OPEN, time.time() - 1))))
    crowd.node.record(ALL_HIT)
    for label in crowd.labels:
        crowd.fail(label)
    crowd.decide_guarded()
    assert {record.state for record in crowd.records()} == {State.FAILOVERINPROGRESS}
    crowd.slurm.update_node("n2", NodeChange(comment=""))
    crowd.house.reconcile()
    assert crowd.held() == []


def fill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a node's Extra have room for some words alone."""
    monkeypatch.setattr(evidence, "LONGEST_EXTRA", 1500)


def test_a_job_whose_word_had_no_room_is_held_and_says_so(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(monkeypatch)
    crowd.node.record(ALL_HIT)
    for label in crowd.labels:
        crowd.fail(label)
    crowd.house.decide(rounds=8)
    lost = [record for record in crowd.records() if record.state is State.INTERNALERROR]
    assert 0 < len(lost) < JOBS
    assert {record.because for record in lost} == {
        "the program ended with exit code 1, and no hardware fault is known that hit this "
        "job; n1: its Extra in Slurm had no room for all its words, and one on this job may be lost"
    }
    assert len(crowd.held()) == len(lost)
    assert any("no room for all words on its jobs" in words for words in crowd.node.said)


def test_a_job_that_was_stopped_and_whose_word_had_no_room_is_held_and_says_so(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(monkeypatch)
    crowd.node.record(ALL_HIT)
    assert crowd.node.checks().check_health()
    for label in crowd.labels:
        crowd.end(label)
    crowd.house.reconcile()
    lost = [record for record in crowd.records() if record.state is State.INTERNALERROR]
    assert len(lost) == len(crowd.held()) > 0
    assert all("one on this job may be lost" in record.because for record in lost)
    assert {record.cause for record in lost} == {"the job was stopped by its node"}
