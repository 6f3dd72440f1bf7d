"""The ways in which a failed-over job gets ahead, as the site sets them."""

from __future__ import annotations

from typing import Any

import pytest
from cluster import CONTROLLER, NODES, Cluster
from story import GATED, LOST, Story

pytestmark = pytest.mark.slurm

SETTINGS = "/etc/slurm-failover/settings.toml"


@pytest.fixture
def story(cluster: Cluster) -> Story:
    """The live cluster as the tests below talk to it."""
    return Story(cluster)


def fail_over_behind_others(story: Story, *lines: str) -> tuple[int, list[int], dict[str, Any]]:
    """Fail a job over on a full cluster where others wait; the job, the others, and the job as
    Slurm shows it once it is decided. The cluster is free then.
    """
    settings = "\\n".join(("", "[priority]", *lines, ""))
    story.cluster.check(CONTROLLER, f"printf '{settings}' >>{SETTINGS}")
    job = story.start(nodes=1)
    node = story.nodes(job)[0]
    blocker = story.occupy([name for name in NODES if name != node])
    flags = ("--nodes=3", "--exclusive")
    others = [story.cluster.sbatch(GATED, *flags, user="bob") for _ in range(3)]
    story.cluster.inject(node, LOST)
    story.end(job, 1)
    story.cluster.wait(lambda: story.show(job)["retries"] == 1, 30, "the decision")
    shown = story.cluster.wait(
        lambda: j if not (j := story.cluster.job(job))["hold"] else None, 30, "the release"
    )
    story.end(blocker, 0)
    return job, others, shown


def test_nice_raises_the_job_and_keeps_ageing(story: Story) -> None:
    job, others, _ = fail_over_behind_others(story, 'method = "nice"', "nice = 5000")
    story.wait_running(job, restarts=1)
    assert story.cluster.job(job)["nice"] == -5000
    assert all(story.cluster.job_state(other) == ["PENDING"] for other in others)


def test_qos_moves_the_job_to_the_qos_of_the_site(story: Story) -> None:
    job, others, _ = fail_over_behind_others(story, 'method = "qos"', 'qos = "failover"')
    story.wait_running(job, restarts=1)
    assert story.cluster.job(job)["qos"] == "failover"
    assert all(story.cluster.job_state(other) == ["PENDING"] for other in others)


def test_none_leaves_the_priority_as_it_was_and_lifts_the_delay(story: Story) -> None:
    job, others, shown = fail_over_behind_others(story, 'method = "none"')
    assert shown["priority"]["number"] <= max(
        story.cluster.job(other)["priority"]["number"] for other in others
    )
    eligible = story.cluster.wait(
        lambda: story.cluster.job(job)["eligible_time"]["number"], 30, "an eligible job"
    )
    assert eligible - story.show(job)["history"][0]["end"] < 60
