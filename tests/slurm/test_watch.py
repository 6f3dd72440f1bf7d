"""The resident watcher on the live cluster: a fault is acted on at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import NODES, Cluster, each
from story import LOST, Story

pytestmark = pytest.mark.slurm

HOOKS = "/opt/slurm-failover/lib/python3*/site-packages/slurm_failover/hooks.py"
START = f"exec setsid /opt/slurm-failover/bin/python3 -I -S {HOOKS} watch >/dev/null 2>&1 &"
LOCK = "/run/slurm-failover/watch.lock"
IS_WATCHED = f"[ -e {LOCK} ] && ! flock -n {LOCK} true"
STOP = "pkill -f '[h]ooks.py watch'"


@pytest.fixture
def watched(cluster: Cluster) -> Iterator[Story]:
    """The cluster with a watcher on every node."""
    each(lambda node: cluster.check(node, START), NODES)
    for node in NODES:
        cluster.wait(lambda n=node: cluster.run(n, IS_WATCHED).rc == 0, 30, f"watcher on {node}")
    yield Story(cluster)
    each(lambda node: cluster.run(node, STOP), NODES)


def test_a_hung_job_is_moved_by_the_watcher_alone(watched: Story) -> None:
    job = watched.start(nodes=2)
    first = watched.nodes(job)
    watched.cluster.inject(first[1], LOST)
    second = watched.wait_running(job, restarts=1)
    assert first[1] not in second
    assert (watched.show(job)["state"], watched.show(job)["retries"]) == ("resumed", 1)
    log = watched.cluster.read(first[1], "/var/log/slurm/slurm-failover.log")
    assert "watch: watching" in log


def test_the_health_check_leaves_the_work_to_a_live_watcher(watched: Story) -> None:
    hook = "/opt/slurm-failover/share/slurm-failover/prolog/healthcheck.sh"
    traced = watched.cluster.run("n1", f"sh -x {hook}")
    assert "python3" not in traced.stderr

    watched.cluster.check("n1", STOP)
    watched.cluster.wait(
        lambda: watched.cluster.run("n1", IS_WATCHED).rc != 0, 30, "the end of the watcher"
    )
    assert "python3" in watched.cluster.run("n1", f"sh -x {hook}").stderr


def test_what_was_written_while_no_watcher_ran_is_seen_at_its_start(watched: Story) -> None:
    watched.cluster.check("n2", STOP)
    watched.cluster.inject("n2", LOST)
    watched.cluster.check("n2", START)
    assert watched.wait_drained("n2").startswith("slurm-failover: Xid 79")
