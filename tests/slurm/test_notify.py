"""Notifications and metrics on the live cluster: who is told what, from a drain to the restart."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from cluster import CONTROLLER, HOOK_LOG, HOSTS, NODES, Cluster, each
from story import LOST, Story

pytestmark = pytest.mark.slurm

SETTINGS = "/etc/slurm-failover/settings.toml"
EVENTS = "/shared/events"
METRICS = "/tmp/metrics"
SITE = f"""
[notify]
command = ["/usr/bin/tee", "-a", "{EVENTS}"]
[metrics]
directory = "{METRICS}"
"""


@pytest.fixture
def story(cluster: Cluster) -> Story:
    folder = f"rm -rf {METRICS}; mkdir -m 777 {METRICS}"
    each(lambda host: cluster.check(host, f"{folder}; cat >>{SETTINGS} <<'E'\n{SITE}E"), HOSTS)
    cluster.check(CONTROLLER, f": >{EVENTS}; chmod 666 {EVENTS}")
    return Story(cluster)


def wait_event(story: Story, kind: str) -> dict[str, Any]:
    def find() -> dict[str, Any] | None:
        events = map(json.loads, story.cluster.read(CONTROLLER, EVENTS).splitlines())
        return next((event for event in events if event["event"] == kind), None)

    return story.cluster.wait(find, 20, f"an event {kind}")


def value(story: Story, host: str, series: str) -> float:
    role = "node" if host in NODES else "controller"
    text = story.cluster.read(host, f"{METRICS}/slurm_failover_{role}.prom")
    found = re.search(rf"^slurm_failover_{re.escape(series)} (\S+)$", text, re.MULTILINE)
    return float(found.group(1)) if found else -1.0


def test_a_failover_is_told_from_the_drain_to_the_restart(story: Story) -> None:
    job = story.start()
    [node] = story.nodes(job)
    story.cluster.inject(node, LOST)
    story.end(job)
    story.wait_running(job, restarts=1)

    drain = wait_event(story, "drain")
    assert (drain["host"], drain["node"], drain["code"], drain["mode"]) == (
        node,
        node,
        "xid-79",
        "act",
    )
    moved = wait_event(story, "failover")
    assert (moved["job"], moved["user"], moved["nodes"]) == (str(job), "alice", [node])
    assert moved["because"].startswith(f"{node}: Xid 79")
    resumed = wait_event(story, "resumed")
    assert 0 <= resumed["seconds"] < 60

    assert value(story, node, 'faults_total{code="xid-79"}') == 1
    assert value(story, node, "drains_total") == 1
    assert value(story, CONTROLLER, "failovers_total") == 1
    assert value(story, CONTROLLER, "restart_latency_seconds_count") == 1


def test_a_denial_and_a_used_up_limit_are_told(story: Story) -> None:
    job = story.start()
    story.end(job)
    denied = wait_event(story, "denied")
    assert (denied["job"], denied["state"]) == (str(job), "internalerror")
    last = story.start(comment="failover=1")
    for restart in range(2):
        story.wait_running(last, restarts=restart)
        story.cluster.inject(story.nodes(last)[0], LOST)
        story.end(last)
    exceeded = wait_event(story, "exceeded")
    assert (exceeded["job"], exceeded["retries"]) == (str(last), 1)
    assert value(story, CONTROLLER, 'denials_total{state="internalerror"}') == 1
    assert value(story, CONTROLLER, "exceeded_total") == 1


def test_a_program_that_hangs_holds_nothing_up(story: Story) -> None:
    hang = (
        r"""sed -i 's#^command = .*#command = ["/bin/sleep", "300"]\ntimeout = 30#' """ + SETTINGS
    )
    each(lambda host: story.cluster.check(host, hang), HOSTS)
    job = story.start()
    [node] = story.nodes(job)
    story.cluster.inject(node, LOST)
    story.end(job)
    story.wait_running(job, restarts=1, seconds=30)
    sleeps = story.cluster.run(node, ["pgrep", "-fc", "[s]leep 300"])
    assert sleeps.stdout.strip() == "1"
    story.cluster.wait(
        lambda: story.cluster.run(node, ["pgrep", "-f", "[s]leep 300"]).rc == 1, 120, "its end"
    )


def test_a_program_that_a_user_could_change_is_not_run_and_doctor_names_it(story: Story) -> None:
    cluster, program = story.cluster, "/var/tmp/tell"
    change = f"install -o alice /usr/bin/tee {program}; sed -i s#/usr/bin/tee#{program}# {SETTINGS}"
    each(lambda host: cluster.check(host, change), HOSTS)
    job = story.start()
    [node] = story.nodes(job)
    cluster.inject(node, LOST)
    story.end(job)
    story.wait_running(job, restarts=1, seconds=120)
    for host in (node, CONTROLLER):
        said = f"{program} is not run, [notify] command names it: {program}: belongs to user"
        cluster.wait(lambda h=host, s=said: s in cluster.read(h, HOOK_LOG), 60, f"word on {host}")
        done = cluster.run(host, ["slurm-failover", "doctor", "--json"])
        found = {line["check"]: line for line in json.loads(done.stdout)}["notifications"]
        assert (done.rc, found["level"]) == (2, "error")
        assert found["remedy"] == f"chown root {program}, or set [notify] command"
    assert cluster.read(CONTROLLER, EVENTS) == ""

    each(lambda host: cluster.check(host, found["remedy"].partition(",")[0]), HOSTS)
    story.end(job)
    wait_event(story, "denied")
