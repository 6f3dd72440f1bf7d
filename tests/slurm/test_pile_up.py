"""On a node where a look hangs, health checks do not pile up, and what comes after is found."""

from __future__ import annotations

import pytest
from cluster import CONTROLLER, Cluster
from story import LOST, Story
from test_gpu import hook_log, settle

CHECKS = r"^/opt/slurm-failover/bin/python3 .*/hooks\.py healthcheck"
HANG = 20


@pytest.fixture
def story(cluster: Cluster) -> Story:
    """The cluster as the test below talks to it."""
    return Story(cluster)


def test_health_checks_do_not_pile_up_behind_one_that_hangs(story: Story) -> None:
    """slurmd starts one every five seconds here, and each hangs for four times as long."""
    cluster = story.cluster
    settle(cluster, "n1", "sources", f"nvml_timeout = {HANG}")
    before, at_work = len(hook_log(cluster, "n1")), []

    def said(words: str) -> list[str]:
        return [line for line in hook_log(cluster, "n1")[before:] if words in line]

    def has_given_up() -> bool:
        at_work.append(int(cluster.run("n1", ["pgrep", "-fc", CHECKS]).stdout))
        return bool(said("can not see the GPUs"))

    cluster.gpus("n1", gpu1__hang__nvmlDeviceGetTemperature=1)
    cluster.wait(has_given_up, 3 * HANG, "a look that is given up")
    assert len(at_work) > HANG / 2
    assert sum(count > 1 for count in at_work) < len(at_work) / 2
    assert max(at_work) <= 2, "the one that hangs, and one that leaves"
    assert len(said("another health check is still at work")) in (1, 2)

    cluster.gpus("n1", gpu1__hang__nvmlDeviceGetTemperature=0)
    cluster.inject("n1", LOST)
    assert "Xid 79" in story.wait_drained("n1", 3 * HANG)
    assert cluster.check(CONTROLLER, ["sinfo", "-h", "-t", "drain", "-o", "%N"]).strip() == "n1"
