"""Observe mode on the live cluster: what would be done is said, and nothing is done."""

from __future__ import annotations

import pytest
from cluster import CONTROLLER, HOOK_LOG, HOSTS, NODES, Cluster, each
from story import LOST, Story

pytestmark = pytest.mark.slurm

SETTINGS = "/etc/slurm-failover/settings.toml"


@pytest.fixture
def story(cluster: Cluster) -> Story:
    setting = r"printf '\n[failover]\nmode = \"observe\"\n' >>" + SETTINGS
    each(lambda host: cluster.check(host, setting), HOSTS)
    return Story(cluster)


def log(story: Story, host: str) -> str:
    return story.cluster.read(host, HOOK_LOG)


def untouched(story: Story, job: int) -> None:
    found = story.cluster.job(job)
    assert (found["comment"], found["admin_comment"]) == ("failover", "")
    assert found["restart_cnt"] == 0
    assert "=== slurm-failover" not in story.cluster.output(job)
    assert story.drained() == []
    assert [story.cluster.node(node)["comment"] for node in NODES] == [""] * len(NODES)


def test_a_hung_job_runs_on_and_its_node_stays(story: Story) -> None:
    job = story.start()
    [node] = story.nodes(job)
    story.cluster.inject(node, LOST)
    story.cluster.wait(
        lambda: f"would requeue and hold job {job}" in log(story, node), 30, "what would be done"
    )
    assert "(observes only): would update node" in log(story, node)
    assert "RUNNING" in story.cluster.job_state(job)
    untouched(story, job)
    shown = story.cluster.run(CONTROLLER, "slurm-failover nodes", "alice")
    assert shown.stdout.startswith("OBSERVE MODE: nothing is drained, held or moved.\n")
    assert "Xid 79" in shown.stdout


def test_a_failed_job_stays_failed_and_status_says_what_would_have_become_of_it(
    story: Story,
) -> None:
    job = story.start()
    [node] = story.nodes(job)
    story.cluster.inject(node, LOST)
    story.end(job)
    story.cluster.wait(lambda: story.cluster.job_state(job) == ["FAILED"], 30, "the job's end")
    story.cluster.wait(
        lambda: f"job {job}: failover: {node}: Xid 79" in log(story, CONTROLLER), 30, "a verdict"
    )
    assert f"would release job {job}" in log(story, CONTROLLER)
    assert story.show(job)["because"].startswith(f"would be failed over: {node}: Xid 79")
    assert story.cluster.job_state(job) == ["FAILED"]
    untouched(story, job)


def test_the_programs_own_failure_would_be_held(story: Story) -> None:
    job = story.start()
    story.end(job)
    story.cluster.wait(lambda: story.cluster.job_state(job) == ["FAILED"], 30, "the job's end")
    story.cluster.wait(lambda: f"job {job}: deny" in log(story, CONTROLLER), 30, "a verdict")
    assert story.show(job)["because"].startswith("would be held as internalerror: ")
    untouched(story, job)


def test_a_prolog_sends_no_job_away(story: Story) -> None:
    story.cluster.inject("n1", LOST)
    job = story.start("--nodelist=n1")
    assert story.nodes(job) == ["n1"]
    untouched(story, job)
