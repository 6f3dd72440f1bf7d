"""The circuit breaker on the live cluster: what it stops, who closes it, and what happens then."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cluster import CONTROLLER, HOOK_LOG, HOSTS, Cluster, Finished, each
from story import LOST, Story

pytestmark = pytest.mark.slurm

SETTINGS = "/etc/slurm-failover/settings.toml"
EVENTS = "/shared/events"
SITE = f"""
[breaker]
nodes = 1
percent = 1
same_percent = 100
pace = 0
[notify]
command = ["/usr/bin/tee", "-a", "{EVENTS}"]
"""
"""Here the second faulty node is one too many."""


class Stopped(Story):
    """A story in which the breaker may be open, so that ``status`` ends with 3."""

    def show(self, job: int | str, user: str = "alice") -> dict[str, Any]:
        done = self.cluster.run(CONTROLLER, f"slurm-failover status --json {job}", user)
        assert done.rc in (0, 3), done.stderr
        return dict(json.loads(done.stdout)[0])


@pytest.fixture
def story(cluster: Cluster) -> Story:
    each(lambda host: cluster.check(host, f"cat >>{SETTINGS} <<'E'\n{SITE}E"), HOSTS)
    cluster.check(CONTROLLER, f": >{EVENTS}; chmod 666 {EVENTS}")
    return Stopped(cluster)


def events(story: Story, kind: str) -> list[dict[str, Any]]:
    lines = story.cluster.read(CONTROLLER, EVENTS).splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def command(story: Story, words: str, user: str = "slurm") -> Finished:
    return story.cluster.run(CONTROLLER, f"slurm-failover {words}", user)


def cause(story: Story, job: int) -> str:
    """The sentence that ``status`` shows."""
    return str(story.show(job)["because"])


def wait_stopped(story: Story, job: int) -> None:
    story.cluster.wait(
        lambda: "the circuit breaker is open" in cause(story, job), 30, "a decision that waits"
    )


def fail_on_its_node(story: Story, job: int) -> str:
    """A fault on the job's node, by which the job ends; the node."""
    [node] = story.nodes(job)
    story.cluster.inject(node, LOST)
    story.end(job)
    return node


def test_one_faulty_node_too_many_stops_drains_and_failovers(story: Story) -> None:
    job = story.start()
    first = fail_on_its_node(story, job)
    story.wait_running(job, restarts=1)
    second = fail_on_its_node(story, job)
    wait_stopped(story, job)

    assert story.drained() == [first]
    shown = command(story, "status", "alice")
    assert shown.rc == 3
    assert shown.stdout.splitlines()[0].startswith("CIRCUIT BREAKER OPEN since ")
    assert "faults on 2 of 4 nodes within 1800 s, more than 1; nothing is drained" in shown.stdout
    assert story.comment(job).startswith("failover [slurm-failover: failoverinprogress")
    assert "decided when it closes" in cause(story, job)
    assert "SPECIAL_EXIT" in story.cluster.job_state(job) or story.cluster.job(job)["hold"]
    nodes = command(story, "nodes", "alice")
    assert nodes.rc == 3
    assert "not drained yet: Xid 79" in nodes.stdout
    log = story.cluster.read(CONTROLLER, HOOK_LOG)
    assert "the circuit breaker is OPEN for the cluster" in log
    opened = story.cluster.wait(lambda: events(story, "breaker-open"), 10, "a notification")
    assert [event["node"] for event in opened] == [second]

    closed = command(story, "breaker close")
    assert closed.rc == 0
    assert f"{second}: to be drained at its next look: Xid 79" in closed.stdout
    [third] = story.wait_running(job, restarts=2)
    assert third not in (first, second)
    story.wait_drained(second)
    view = story.show(job)
    assert (view["state"], view["retries"]) == ("resumed", 2)
    assert command(story, "status", "alice").rc == 0
    assert story.cluster.wait(lambda: events(story, "breaker-closed"), 10, "a notification")


def test_a_hung_job_runs_on_until_an_admin_closes_it(story: Story) -> None:
    job = story.start()
    [node] = story.nodes(job)
    assert command(story, "breaker open the cooling fails").rc == 0
    story.cluster.inject(node, LOST)
    story.cluster.wait(
        lambda: "not drained yet" in command(story, "nodes").stdout, 30, "a look that may not drain"
    )
    assert story.drained() == []
    assert "RUNNING" in story.cluster.job_state(job)
    assert "slurm opened it: the cooling fails" in command(story, "breaker status").stdout
    assert command(story, "breaker close").rc == 0
    story.wait_drained(node)
    assert story.wait_running(job, restarts=1) != [node]


def test_a_job_starts_on_a_node_that_may_not_be_drained(story: Story) -> None:
    assert command(story, "breaker open").rc == 0
    story.cluster.inject("n1", LOST)
    job = story.start("--nodelist=n1")
    assert story.nodes(job) == ["n1"]
    assert story.drained() == []


def test_one_that_was_opened_for_a_time_closes_by_itself(story: Story) -> None:
    job = story.start()
    assert command(story, "breaker open --for 25 maintenance").rc == 0
    fail_on_its_node(story, job)
    wait_stopped(story, job)
    story.cluster.wait(lambda: command(story, "breaker status").rc == 0, 60, "the end of its time")
    assert command(story, "reconcile").rc == 0
    story.wait_running(job, restarts=1)
    log = story.cluster.read(CONTROLLER, HOOK_LOG)
    assert "breaker" in log


def test_a_user_can_neither_open_nor_close_it(story: Story) -> None:
    for words in ("breaker open", "breaker close"):
        refused = command(story, words, "alice")
        assert refused.rc == 1
        assert "root or SlurmUser" in refused.stderr
    assert command(story, "breaker status", "alice").stdout.startswith(
        "The circuit breaker is clos"
    )


def test_the_comments_of_others_on_the_node_that_carries_the_word_stay(story: Story) -> None:
    update = ["scontrol", "update", "NodeName=n1", 'Comment={"rack":7}']
    story.cluster.check(CONTROLLER, update)
    command(story, "breaker open x")
    command(story, "breaker close")
    assert story.cluster.node("n1")["comment"].startswith('{"rack":7,"slurm-failover":')
