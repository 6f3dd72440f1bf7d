"""On a live cluster: a node that can not tell slurmctld of its fault in time costs no failover."""

from __future__ import annotations

from cluster import CONTROLLER, HOOK_LOG, Cluster
from story import LOST, Story

MUTE = """
set -e
mkdir -p /tmp/mute; rm -f /tmp/mute/answers
for name in scontrol squeue; do
    printf '#!/bin/sh\\n[ ! -e /tmp/mute/answers ] || exec /usr/bin/%s "$@"\\n%s\\n' $name \\
        'echo "Socket timed out on send/recv operation" >&2; exit 1' >/tmp/mute/$name
    chmod 755 /tmp/mute/$name
done
printf '[slurm]\\nbin = "/tmp/mute"\\npatience = 2\\n' >>/etc/slurm-failover/settings.toml
"""
"""A node whose requests get no answer, while slurmd's do: as where slurmctld is too busy for it."""


def test_the_decision_waits_for_a_node_that_slurmctld_had_no_time_for(cluster: Cluster) -> None:
    story = Story(cluster)
    job = story.start()
    (node,) = story.nodes(job)
    cluster.check(node, MUTE)
    cluster.inject(node, LOST)
    story.end(job)
    assert story.wait_drained(node, 60).startswith("Epilog error")
    cluster.wait(lambda: "COMPLETING" not in cluster.job_state(job), 60, "the end of all Epilogs")
    assert story.show(job)["display"] == "Pending - failoverinprogress"
    cluster.check(node, ["touch", "/tmp/mute/answers"])
    assert node not in story.wait_running(job, restarts=1, seconds=60)
    assert story.show(job)["retries"] == 1
    assert f"job {job}: deny" not in cluster.read(CONTROLLER, HOOK_LOG)
    assert story.reason(node).startswith("Epilog error")
