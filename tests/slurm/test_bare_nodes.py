"""A node without any GPU: no GRES in slurm.conf, no driver and no library of NVIDIA's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import AT_WORK, CONTROLLER, HEALTH_CHECK, HOSTS, Cluster, each
from story import Story
from test_gpu import hook_log, start_on

pytestmark = pytest.mark.slurm

BARE = "n4"
UNSEEN = "can not see the GPUs: neither NVIDIA's driver nor its library is here"
MEMORY = "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0"
LEDGER = "/var/lib/slurm-failover/node/ledger.json"


def describe(cluster: Cluster, change: str) -> None:
    """Change what every host's configuration says of the nodes, and let Slurm read it."""
    each(lambda host: cluster.check(host, change), HOSTS)
    cluster.check(CONTROLLER, ["scontrol", "reconfigure"])


def has_gres(cluster: Cluster, gres: str) -> bool:
    """Whether the node is idle, and slurmctld and its own slurmd count these GPUs there."""
    node = cluster.node(BARE)
    listed = cluster.check(BARE, "slurmd -G 2>&1 | grep -c 'Gres Name=gpu' || true").strip()
    return (node["state"], node["gres"], listed) == (["IDLE"], gres, "3" if gres else "0")


@pytest.fixture
def story(cluster: Cluster) -> Iterator[Story]:
    """The live cluster with a node that has no GPU, and has never had one in its ledger."""
    conf = "/etc/slurm/slurm.conf /etc/slurm/gres.conf"
    with cluster.own_configuration():
        cluster.check(BARE, f"chmod -x {HEALTH_CHECK} && cluster-gpus absent")
        describe(
            cluster,
            f"sed -i 's/^NodeName={BARE} /#&/; s/^NodeName=n.1-4. \\(.*\\) Gres=.*/"
            f"NodeName=n[1-3] \\1 Gres=gpu:3\\nNodeName={BARE} \\1/' {conf}",
        )
        try:
            cluster.wait(lambda: has_gres(cluster, ""), 60, "a node without GPUs")
            cluster.check(BARE, f"flock {AT_WORK} true 2>/dev/null; rm -f {LEDGER}")
        finally:
            cluster.check(BARE, f"chmod +x {HEALTH_CHECK}")
        yield Story(cluster)
    update = ["scontrol", "update", f"NodeName={BARE}", "State=RESUME"]
    cluster.wait(
        lambda: has_gres(cluster, "gpu:3") or (cluster.run(CONTROLLER, update) and False),
        60,
        "a node with its GPUs again",
    )


def test_a_node_without_gpus_runs_jobs_and_says_once_what_it_can_not_see(story: Story) -> None:
    cluster = story.cluster
    before = len(hook_log(cluster, BARE))
    for _ in range(3):
        job = story.start(f"--nodelist={BARE}", "--gres=none")
        cluster.check_health(BARE)
        story.end(job, 0)
        story.wait_shown(job, "Completed")
        cluster.wait(lambda: cluster.node(BARE)["state"] == ["IDLE"], 30, "the Epilog's end")

    said = [line for line in hook_log(cluster, BARE)[before:] if "can not see" in line]
    assert len(said) == 1
    assert said[0].endswith(UNSEEN)
    assert story.drained() == []
    assert cluster.node(BARE)["reason"] == ""


def test_a_node_without_gpus_that_breaks_is_drained_its_job_moved_and_resume_takes_it_back(
    story: Story,
) -> None:
    cluster = story.cluster
    before = len(hook_log(cluster, BARE))
    (job,) = start_on(story, BARE, "--gres=none")
    cluster.inject(BARE, MEMORY)

    reason = story.wait_drained(BARE)
    assert reason.startswith("slurm-failover: ")
    assert "uncorrected memory error" in reason
    assert BARE not in story.wait_running(job, restarts=1)
    view = story.show(job)
    assert (view["state"], view["retries"], view["excluded_nodes"]) == ("resumed", 1, [BARE])
    cluster.check(BARE, ["slurm-failover", "resume", "--force", BARE])
    assert story.drained() == []
    said = [line for line in hook_log(cluster, BARE)[before:] if "can not see" in line]
    assert [line for line in said if not line.endswith(UNSEEN)] == []
    assert len(said) == 1
