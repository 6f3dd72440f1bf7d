"""On real daemons: whatever a cluster is made of dies, freezes or is slow, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import CONTROLLER, Cluster
from rig import Rig

CONF = "/etc/slurm/slurm.conf"
LIMIT = "SlurmctldParameters=rl_enable,rl_bucket_size=3,rl_refill_rate=1"


@pytest.fixture
def rig(cluster: Cluster) -> Rig:
    """The cluster as the tests below talk to it."""
    return Rig(cluster)


@pytest.mark.parametrize("names", [["slurmdbd"], ["slurmdbd", "mariadbd"]], ids=" and ".join)
def test_accounting_is_down(rig: Rig, names: list[str]) -> None:
    job = rig.start()
    rig.daemons(CONTROLLER, names, "kill")
    rig.end_broken(job)
    rig.bring_back(job)
    rig.check_moved(job)
    rig.daemons(CONTROLLER, list(reversed(names)), "start")


def test_slurmctld_is_away_while_the_job_fails(rig: Rig) -> None:
    job = rig.start()
    rig.cluster.kill_daemon(CONTROLLER, "slurmctld")
    node = rig.nodes_at_rest[job][0]
    rig.break_gpu(node)
    rig.end(job, 1)
    rig.cluster.wait(lambda: rig.has_judged(node), 90, "a look at the log by the node")
    rig.cluster.start_daemon(CONTROLLER, "slurmctld")
    rig.bring_back(job, seconds=150)
    rig.check_moved(job)


def test_slurmctld_answers_after_fifteen_seconds(rig: Rig) -> None:
    rig.lay_wires(timeout=10, patience=60)
    job = rig.start()
    rig.forget_steps()
    rig.trouble(CONTROLLER, 2, "slow")
    rig.end_broken(job)
    rig.bring_back(job, seconds=120)
    rig.check_moved(job)


@pytest.fixture
def rationed(cluster: Cluster) -> Iterator[Rig]:
    """slurmctld gives every user few answers a second."""
    cluster.check(CONTROLLER, f"echo '{LIMIT}' >>{CONF} && scontrol reconfigure")
    yield Rig(cluster)
    cluster.check(CONTROLLER, f"sed -i '/^SlurmctldParameters=rl_enable/d' {CONF}")
    cluster.check(CONTROLLER, "scontrol reconfigure")


def test_slurmctld_rations_its_answers(rationed: Rig) -> None:
    job = rationed.start(nodes=2)
    rationed.end_broken(job)
    rationed.bring_back(job, seconds=120)
    rationed.check_moved(job)


def test_a_frozen_slurmctld_goes_on(rig: Rig) -> None:
    job = rig.start()
    rig.end_broken(job)
    rig.cluster.freeze_daemon(CONTROLLER, "slurmctld")
    rig.cluster.wait(rig.is_away, 20, "a frozen slurmctld")
    rig.cluster.thaw_daemon(CONTROLLER, "slurmctld")
    rig.bring_back(job)
    rig.check_moved(job)


def test_a_node_loses_its_munge(rig: Rig) -> None:
    job = rig.start()
    node = rig.nodes(job)[0]
    rig.daemons(node, ["munged"], "kill")
    rig.break_gpu(node)
    rig.end(job, 1)
    rig.cluster.wait(
        lambda: "DOWN" in rig.cluster.node(node)["state"] or rig.is_drained(node), 60, "its end"
    )
    rig.bring_back(job)
    rig.daemons(node, ["munged"], "start")
    rig.check_moved(job)


def test_slurmd_dies_while_the_job_fails_of_a_fault(rig: Rig) -> None:
    job = rig.start(nodes=2)
    node = rig.nodes(job)[1]
    rig.break_gpu(node)
    rig.cluster.kill_daemon(node, "slurmd")
    rig.bring_back(job)
    rig.check_moved(job)
