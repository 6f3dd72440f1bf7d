"""What becomes of a job that is not moved: cancelled where the site wants it, or tried again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from failover_world import DEATHS, FINDINGS, House, Trouble
from fake_slurmctld import DEFAULT_PRIORITY, FakeSlurm

from slurm_failover.evidence import write_evidence
from slurm_failover.model import Evidence, JobCause, Limits
from slurm_failover.record import Record, State, Step, read_record

LIMITS = Limits(1, cancel_denied=True, cancel_exceeded=True, image_retries=2, image_first_wait=60)


class Story:
    """A flagged job on one node, from one end to the next."""

    def __init__(self, folder: Path, limits: Limits = LIMITS) -> None:
        self.slurm = FakeSlurm()
        self.house = House(self.slurm, str(folder), limits)
        self.label = self.slurm.submit("failover")

    def run(self, cause: JobCause | None = None, *, passing: bool = False) -> None:
        """One attempt, which fails; its node says ``cause``. All Epilogs end."""
        assert self.label in self.slurm.schedule()
        self.house.start_hook(self.label)
        job = self.slurm.peek(self.label)
        self.slurm.finish(self.label, code=1)
        self.house.end_hook(self.label, job.start, job.nodes[0])
        if cause is not None:
            told = Evidence(job.nodes[0], job.job_id, job.start, cause, "so", passing=passing)
            node = self.slurm.peek_node(job.nodes[0])
            node.extra = write_evidence(node.extra, node.name, [told], job.start)
        self.slurm.end_epilog(self.label, job.nodes[0])
        self.slurm.end_hook(self.label)

    @property
    def record(self) -> Record:
        record = read_record(self.slurm.peek(self.label).admin_comment)
        assert record is not None
        return record


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


@pytest.mark.parametrize("kind", DEATHS)
@pytest.mark.parametrize("at", range(1, 6))
def test_a_denied_job_is_cancelled_whatever_step_was_the_last(
    story: Story, kind: str, at: int
) -> None:
    story.run(JobCause.INTERNAL)
    story.house.decide(Trouble(kind, at), rounds=1)
    story.house.decide()
    story.house.reconcile()
    assert story.slurm.job(story.label).has("CANCELLED")
    assert (story.record.state, story.record.step) == (State.INTERNALERROR, Step.TO_CANCEL)
    assert story.house.notes.read() == []


def test_a_cancel_that_is_due_is_found_by_the_record_alone(story: Story) -> None:
    story.run(JobCause.INTERNAL)
    story.house.decide(Trouble("killed_after", 3), rounds=1)
    for note in story.house.notes.read():
        story.house.notes.remove(note)
    story.house.reconcile()
    assert story.slurm.job(story.label).has("CANCELLED")


def test_a_job_that_its_owner_released_in_time_is_not_cancelled(story: Story) -> None:
    story.run(JobCause.INTERNAL)
    # The decision is written, and the answer is lost.
    story.house.decide(Trouble("killed_after", 3), rounds=1)
    assert story.record.step is Step.TO_CANCEL
    story.slurm.release(story.label)
    story.house.reconcile()
    assert story.slurm.job(story.label).has("PENDING")


def test_an_exceeded_limit_cancels_too(tmp_path: Path) -> None:
    story = Story(tmp_path, replace(LIMITS, max_retries=1, cancel_denied=False))
    for _ in range(2):
        story.run(JobCause.HARDWARE)
        story.house.decide()
    assert story.slurm.job(story.label).has("CANCELLED")
    assert story.record.state is State.MAXRETRIESEXCEEDED


def test_a_busy_registry_is_asked_again_after_a_pause_and_costs_nothing(story: Story) -> None:
    story.run(JobCause.IMAGE_PULL, passing=True)
    story.house.decide()
    job = story.slurm.peek(story.label)
    assert (job.hold, job.priority, job.excluded) == ("", DEFAULT_PRIORITY, "")
    assert job.begin == story.slurm.clock + 60
    assert (story.record.state, story.record.retries) == (State.IMAGEPULLBACKOFF, 0)


@pytest.mark.parametrize("kind", DEATHS)
@pytest.mark.parametrize("at", range(1, 6))
def test_a_pause_is_kept_whatever_step_was_the_last(story: Story, kind: str, at: int) -> None:
    story.run(JobCause.IMAGE_PULL, passing=True)
    story.house.decide(Trouble(kind, at), rounds=1)
    story.house.decide()
    story.house.reconcile()
    job = story.slurm.peek(story.label)
    assert (job.hold, job.begin) == ("", story.slurm.clock + 60)
    assert (story.record.step, story.record.backoffs) == (Step.PLACED, 1)


def test_the_tries_in_a_row_end(tmp_path: Path) -> None:
    story = Story(tmp_path, replace(LIMITS, cancel_exceeded=False))
    begins = []
    for _ in range(3):
        story.slurm.clock += 1000
        story.run(JobCause.IMAGE_PULL, passing=True)
        story.house.decide()
        begins.append(story.slurm.peek(story.label).begin - story.slurm.clock)
    assert begins[:2] == [60, 120]
    assert story.slurm.peek(story.label).hold
    assert story.record.because == "tried 3 times; last: n1: so"
    assert [past.outcome for past in story.record.history] == ["try again", "try again", "exceed"]


def test_a_run_that_got_its_image_starts_the_count_anew(story: Story) -> None:
    story.run(JobCause.IMAGE_PULL, passing=True)
    story.house.decide()
    story.slurm.clock += 1000
    story.run(JobCause.HARDWARE)
    story.house.decide()
    assert (story.record.backoffs, story.record.pause, story.record.retries) == (0, 0, 1)


def test_a_hardware_fault_beside_a_busy_registry_moves_the_job(story: Story) -> None:
    story.run(JobCause.IMAGE_PULL, passing=True)
    node = story.slurm.peek_node("n1")
    found = FINDINGS["hardware"]
    told = Evidence("n1", 100, story.record.attempt.start, found.cause, found.because)
    node.extra = write_evidence(node.extra, "n1", [told], story.slurm.clock)
    story.house.decide()
    assert (story.record.state, story.record.retries) == (State.FAILOVERINPROGRESS, 1)
