"""Observe mode on the live cluster: what would be done is said, and nothing is done."""

from __future__ import annotations

import pytest
from cluster import CONTROLLER, HOOK_LOG, HOSTS, NODES, Cluster, each
from story import LOST, Story

pytestmark = pytest.mark.slurm

SETTINGS = "/etc/slurm-failover/settings.toml"
DEEDS = ("drain", "is requeued and held", "is held as", "failover: ", "deny: ")


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


def states_nothing_as_done(story: Story) -> None:
    """Every line of observe mode that tells of a deed says that it is one of act mode."""
    mark = "(observes only): "
    lines = [line for host in HOSTS for line in log(story, host).splitlines() if mark in line]
    told = [line.split(mark, 1)[1] for line in lines]
    deeds = [line for line in told if any(word in line for word in DEEDS)]
    assert deeds
    assert [line for line in deeds if not line.startswith(("would ", "in act mode: "))] == []


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
    row = shown.stdout.splitlines()[-1]
    assert "would have been drained (observe mode): Xid 79" in row
    assert "(resumed)" not in row
    assert story.show(job)["because"].startswith(f"would be failed over: {node}: Xid 79")
    states_nothing_as_done(story)


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
    shown = story.cluster.check(CONTROLLER, ["slurm-failover", "status", str(job)], "alice")
    assert "No attempt of this job has ended by a failure" not in shown
    assert shown.splitlines()[-1].split(maxsplit=4)[4].startswith("would be failed over ")
    states_nothing_as_done(story)
    untouched(story, job)


def test_a_fault_of_observe_mode_is_told_beside_one_of_act_mode(story: Story) -> None:
    job = story.start("--nodelist=n1")
    story.cluster.inject("n1", LOST)
    would = f"would requeue and hold job {job}"
    story.cluster.wait(lambda: would in log(story, "n1"), 30, "what would be done")
    each(lambda host: story.cluster.check(host, f"sed -i s/observe/act/ {SETTINGS}"), HOSTS)
    shown = story.cluster.check(CONTROLLER, ["slurm-failover", "nodes"])
    assert "would have been drained (observe mode): Xid 79" in shown
    story.cluster.inject("n1", LOST)
    story.wait_drained("n1")
    told = story.cluster.check(CONTROLLER, ["slurm-failover", "history", "--node", "n1"])
    past = [line for line in told.splitlines() if "(observe mode)" in line]
    assert len(past) == 1
    assert " fault " in past[0]
    story.cluster.check(CONTROLLER, "scontrol update NodeName=n1 State=RESUME")
    shown = story.cluster.check(CONTROLLER, ["slurm-failover", "nodes"])
    assert "(resumed)" in shown


def test_what_failed_meanwhile_stays_failed_when_the_site_lets_us_act(story: Story) -> None:
    job = story.start()
    story.end(job)
    story.cluster.wait(lambda: f"job {job}: deny" in log(story, CONTROLLER), 30, "a verdict")
    story.cluster.check(CONTROLLER, ["sed", "-i", "s/observe/act/", SETTINGS])
    done = story.cluster.run(CONTROLLER, "slurm-failover reconcile", "slurm")
    assert (done.rc, done.stdout + done.stderr) == (
        0,
        "slurm-failover: 0 jobs had something left to do\n",
    )
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
