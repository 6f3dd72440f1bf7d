"""Slurm's own expedited requeue (``sbatch --requeue=expedite``, 25.11 and newer) beside ours."""

from __future__ import annotations

import pytest
from cluster import CONTROLLER, Cluster
from story import LOST, Story

pytestmark = pytest.mark.slurm

EXPEDITE = "--requeue=expedite"


@pytest.fixture
def story(cluster: Cluster, request: pytest.FixtureRequest) -> Story:
    """The live cluster of a release that has it."""
    if request.config.getoption("--suite") == "trixie":
        pytest.skip("Slurm 24.11 has no expedited requeue")
    return Story(cluster)


def is_held(story: Story, job: int) -> bool:
    return "PENDING" in story.cluster.job_state(job) and bool(story.cluster.job(job)["hold"])


def test_our_epilogs_verdict_lets_slurm_move_an_expedited_job_that_is_not_flagged(
    story: Story,
) -> None:
    job = story.start(EXPEDITE, comment=None)
    first = story.nodes(job)
    story.cluster.inject(first[0], LOST)
    story.end(job, 1)
    assert "Xid 79" in story.wait_drained(first[0])
    assert story.wait_running(job, restarts=1) != first
    assert story.show(job)["state"] is None
    story.end(job, 0)
    story.wait_shown(job, "Completed")
    assert len(story.cluster.sacct(job, "State")) == 2


def test_an_expedited_job_that_slurm_holds_is_explained(story: Story) -> None:
    job = story.start(EXPEDITE, comment=None)
    story.end(job, 3)
    story.cluster.wait(lambda: is_held(story, job), 30, "Slurm's hold")
    assert story.show(job)["because"] == (
        "Slurm holds the job: its program failed, and no Epilog did (--requeue=expedite); "
        f"`scontrol release {job}` starts it again"
    )
    assert story.drained() == []
    assert "--requeue=expedite" in story.cluster.check(
        CONTROLLER, ["slurm-failover", "status", str(job)], "alice"
    )


def test_a_flagged_expedited_job_is_requeued_once_and_by_us(story: Story) -> None:
    job = story.start(EXPEDITE)
    first = story.nodes(job)
    story.cluster.inject(first[0], LOST)
    story.end(job, 1)
    assert story.wait_running(job, restarts=1) != first
    view = story.show(job)
    assert (view["state"], view["retries"], view["excluded_nodes"]) == ("resumed", 1, first)
    assert story.cluster.job(job)["restart_cnt"] == 1
    assert len(story.cluster.sacct(job, "State")) == 2


def test_the_limit_holds_for_a_flagged_expedited_job(story: Story) -> None:
    job = story.start(EXPEDITE, comment="failover=1")
    for restarts in (0, 1):
        story.cluster.inject(story.wait_running(job, restarts)[0], LOST)
        story.end(job, 1)
    view = story.wait_shown(job, "Pending - maxretriesexceeded")
    assert view["retries"] == 1
    assert is_held(story, job)
    assert story.cluster.job(job)["restart_cnt"] == 2


def test_our_hold_comes_before_slurms_requeue_however_late_the_hook_is(story: Story) -> None:
    hook = "/opt/slurm-failover/share/slurm-failover/epilog/epilog_slurmctld.sh"
    story.cluster.check(
        CONTROLLER,
        f"cp {hook} /tmp/hook; sed -i 's/^exec/sleep 4; exec/' {hook}; grep -q sleep {hook}",
    )
    try:
        job = story.start(EXPEDITE)
        first = story.nodes(job)
        story.cluster.inject(first[0], LOST)
        story.end(job, 1)
        story.cluster.wait(lambda: not story.cluster.job(job)["nodes"], 30, "the Epilog's end")
        assert story.cluster.job_state(job) == ["FAILED", "COMPLETING"]
        assert story.wait_running(job, restarts=1) != first
    finally:
        story.cluster.check(CONTROLLER, f"cp /tmp/hook {hook}")
    assert (story.show(job)["retries"], story.cluster.job(job)["restart_cnt"]) == (1, 1)


def test_a_flagged_expedited_job_that_failed_by_itself_is_denied_as_any_other(
    story: Story,
) -> None:
    job = story.start(EXPEDITE)
    story.end(job, 3)
    view = story.wait_shown(job, "Pending - internalerror")
    assert "exit code 3" in view["because"]
    assert "expedite" not in view["because"]
