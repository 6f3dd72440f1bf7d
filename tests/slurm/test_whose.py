"""Whose GPU it was, where Slurm, the driver and NVML count differently: docker/config says how."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import CONTROLLER, Cluster
from story import Story

pytestmark = pytest.mark.slurm

GRES_0, GRES_1 = "gpu1", "gpu0"
"""What NVML calls the GPUs that Slurm gives out first and second on n1 to n3."""


@pytest.fixture
def story(cluster: Cluster) -> Iterator[Story]:
    """The live cluster with two nodes in service, n1 and n3, so that no job asks for its nodes."""
    cluster.check(CONTROLLER, "scontrol update NodeName=n2,n4 State=DRAIN Reason=test")
    yield Story(cluster)


def start_with_differing_gpus(story: Story) -> tuple[int, int]:
    """A job on GRES 0 of n3, and one on GRES 0 of n1 and GRES 1 of n3."""
    alone = story.start("--nodelist=n3", "--gres=gpu:1", comment=None)
    spread = story.start("--gres=gpu:1", nodes=2)
    detail = story.cluster.job(spread)["gres_detail"]
    assert detail == ["gpu:1(IDX:0)", "gpu:1(IDX:1)"]
    return alone, spread


def test_a_job_that_holds_another_gpu_on_each_node_is_moved_for_its_own(story: Story) -> None:
    _, spread = start_with_differing_gpus(story)
    story.cluster.gpus("n3", **{f"{GRES_1}__remap_failed": 1})
    assert story.wait_drained("n3").endswith(f"(job {spread})")
    story.cluster.check(CONTROLLER, "scontrol update NodeName=n2,n4 State=RESUME")
    assert "n3" not in story.wait_running(spread, restarts=1)
    assert story.show(spread)["retries"] == 1


def test_a_job_that_holds_another_gpu_on_each_node_stays_for_its_neighbours(story: Story) -> None:
    alone, spread = start_with_differing_gpus(story)
    before = story.cluster.read("n3", "/var/log/slurm/slurm-failover.log")
    story.cluster.gpus("n3", **{f"{GRES_0}__remap_failed": 1})
    assert story.wait_drained("n3").endswith(f"(job {alone})")
    said = story.cluster.read("n3", "/var/log/slurm/slurm-failover.log")[len(before) :]
    assert "can not be told" not in said
    assert "RUNNING" in story.cluster.job_state(spread)
    because = story.show(spread)["because"]
    assert because.startswith("runs on, since it is not known to hold what broke on n3, which is ")
    assert because.endswith(f"(job {alone})")
    story.end(spread, 0)
    story.wait_shown(spread, "Completed")
    assert story.show(spread)["retries"] == 0


def test_a_link_that_is_down_moves_the_job_of_its_gpu_alone(story: Story) -> None:
    cluster = story.cluster
    cluster.gpus("n1", gpu0__links=4, gpu1__links=4, gpu2__links=4)
    cluster.check(CONTROLLER, "scontrol update NodeName=n3 State=DRAIN Reason=test")
    spared, hit = (story.start("--gres=gpu:1") for _ in range(2))
    cluster.check(CONTROLLER, "scontrol update NodeName=n2,n3,n4 State=RESUME")
    cluster.gpus("n1", **{f"{GRES_1}__link2": 0})
    reason = story.wait_drained("n1")
    assert reason.startswith("slurm-failover: NVML: 1 of 4 NVLinks of GPU 0000:3b:00 are down")
    assert reason.endswith(f"(job {hit})")
    assert story.wait_running(hit, restarts=1) != ["n1"]
    assert "RUNNING" in cluster.job_state(spared)
    story.end(spared, 0)
    story.wait_shown(spared, "Completed")
