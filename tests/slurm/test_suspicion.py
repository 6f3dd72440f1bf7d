"""A hang without a fault on the live cluster: reported, or moved where the site says so."""

from __future__ import annotations

import pytest
from cluster import CONTROLLER, HOOK_LOG, HOSTS, NODES, Cluster, each
from story import Story

pytestmark = pytest.mark.slurm

SETTINGS = "/etc/slurm-failover/settings.toml"
AFTER = 8


def site(cluster: Cluster, action: str) -> Story:
    text = f'\n[suspicion]\nafter = {AFTER}\naction = "{action}"\n'
    each(lambda host: cluster.check(host, f"cat >>{SETTINGS} <<'E'\n{text}E"), HOSTS)
    return Story(cluster)


def busy(cluster: Cluster, percent: int, *nodes: str) -> None:
    gpus = {f"gpu{number}__utilization": percent for number in range(3)}
    each(lambda node: cluster.gpus(node, **gpus), nodes or NODES)


def wait_suspected(story: Story, job: int) -> None:
    story.cluster.wait(
        lambda: (story.show(job)["because"] or "").startswith("suspected to hang"),
        90,
        "a suspicion",
    )


def test_a_job_with_idle_gpus_and_a_quiet_log_is_reported_and_runs_on(cluster: Cluster) -> None:
    story = site(cluster, "report")
    job = story.start(nodes=2)
    wait_suspected(story, job)
    host = story.nodes(job)[0]
    said = f"job {job} is suspected to hang"
    cluster.wait(lambda: said in cluster.read(host, HOOK_LOG), 60, "a word of its batch host's")
    assert "RUNNING" in cluster.job_state(job)
    assert story.drained() == []
    busy(cluster, 90, story.nodes(job)[1])
    cluster.wait(lambda: not story.show(job)["because"], 60, "an end of the suspicion")


def test_a_job_that_writes_is_not_suspected_beside_one_that_is(cluster: Cluster) -> None:
    story = site(cluster, "report")
    talks = cluster.sbatch("while echo on; do sleep 1; done", "--gres=gpu:1", "--comment=failover")
    cluster.wait(lambda: "RUNNING" in cluster.job_state(talks), 30, "a job that talks")
    hangs = story.start()
    wait_suspected(story, hangs)
    assert story.show(talks)["because"] is None


def test_a_job_that_works_is_not_suspected_beside_one_that_is(cluster: Cluster) -> None:
    story = site(cluster, "report")
    works, hangs = story.start("--exclusive"), story.start("--exclusive")
    busy(cluster, 90, *story.nodes(works))
    wait_suspected(story, hangs)
    assert story.show(works)["because"] is None


def test_where_the_site_says_so_it_is_moved_and_counted_and_no_node_is_blamed(
    cluster: Cluster,
) -> None:
    story = site(cluster, "requeue")
    job = story.start()
    story.wait_running(job, restarts=1, seconds=120)
    busy(cluster, 90)
    view = story.show(job)
    assert (view["state"], view["retries"], view["excluded_nodes"]) == ("resumed", 1, [])
    assert view["history"][0]["because"].split(": ", 1)[1].startswith("suspected to hang: its GPUs")
    assert story.drained() == []
    assert f"job {job}: failover" in cluster.read(CONTROLLER, HOOK_LOG)


def test_no_job_is_suspected_unless_the_site_wants_that(cluster: Cluster) -> None:
    job = Story(cluster).start()
    [node] = Story(cluster).nodes(job)
    looks = cluster.read(node, HOOK_LOG)
    cluster.check_health(node)
    assert cluster.run(node, ["ls", "/var/lib/slurm-failover/node/quiet.json"]).rc != 0
    assert "suspected" not in cluster.read(node, HOOK_LOG).removeprefix(looks)
