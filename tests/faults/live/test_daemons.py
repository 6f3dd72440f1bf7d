"""On real daemons: whatever a cluster is made of dies, freezes or is slow, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import CONTROLLER, Cluster
from rig import Rig

CONF = "/etc/slurm/slurm.conf"
LOG = "/var/log/slurm/slurmctld.log"
SLOW = 15
LIMIT = "SlurmctldParameters=rl_enable,rl_bucket_size=3,rl_refill_rate=1"


@pytest.mark.parametrize("name", ["slurmdbd", "mariadbd"])
def test_accounting_is_down(rig: Rig, name: str) -> None:
    job = rig.start()
    rig.daemons(CONTROLLER, [name], "kill")
    rig.end_broken(job)
    rig.bring_back(job)
    rig.check_moved(job)
    rig.daemons(CONTROLLER, [name], "start")


def test_slurmctld_is_away_when_a_node_finds_the_fault(rig: Rig) -> None:
    rig.lay_wires(timeout=2, patience=4)
    job = rig.start()
    (node,) = rig.nodes(job)
    rig.wait_saved()
    rig.cluster.kill_daemon(CONTROLLER, "slurmctld")
    rig.break_gpu(node)
    rig.end(job, 1)
    # Slurm's health checks stay away with slurmctld; a watcher does not.
    rig.cluster.wait(lambda: has_judged(rig, node), 60, "a look that can not tell Slurm")
    rig.cluster.start_daemon(CONTROLLER, "slurmctld")
    rig.bring_back(job, seconds=150)
    rig.wait_drained(node)
    rig.check_moved(job)


def has_judged(rig: Rig, node: str) -> bool:
    """Look, unless another health check is still at work; whether one has found the fault."""
    rig.look(node)
    return "Slurm can not be told" in rig.said(node)


@pytest.mark.parametrize("timeout", [10, 30], ids=["given up and asked again", "waited for"])
@pytest.mark.parametrize("call", ["requeuehold", "release"])
def test_slurmctld_answers_after_fifteen_seconds(rig: Rig, call: str, timeout: int) -> None:
    """It does at once what it is asked for, and its answer is slow."""
    rig.lay_wires(timeout=timeout, patience=60)
    job = rig.start()
    rig.forget_steps()
    rig.trouble(CONTROLLER, call, "slow")
    rig.end_broken(job)
    rig.bring_back(job, seconds=120)
    assert rig.has_fired()
    steps = rig.steps(CONTROLLER)
    # Once it has been raised and runs, a reconcile releases it to take the priority back.
    raised = next(n for n, step in enumerate(steps) if "Priority=" in step)
    asked = [step for step in steps[:raised] if step.startswith(f"scontrol {call} ")]
    assert len(asked) == (1 if timeout > SLOW else 2)
    rig.check_moved(job)


@pytest.fixture
def rationed(cluster: Cluster) -> Iterator[Rig]:
    """slurmctld gives every user few answers a second."""
    change = f"sed -i 's/^SlurmctldParameters=.*/{LIMIT}/' {CONF} && scontrol reconfigure"
    with cluster.own_configuration():
        cluster.check(CONTROLLER, change)
        yield Rig(cluster)


def test_slurmctld_rations_its_answers(rationed: Rig) -> None:
    job = rationed.start(nodes=2)
    rationed.end_broken(job)
    rationed.bring_back(job, seconds=120)
    rationed.check_moved(job)
    assert "RPC rate limit exceeded" in rationed.cluster.read(CONTROLLER, LOG)


def test_the_controller_loses_its_munge(rig: Rig) -> None:
    job = rig.start()
    (node,) = rig.nodes(job)
    rig.daemons(CONTROLLER, ["munged"], "kill")
    rig.break_gpu(node)
    rig.end(job, 1)
    rig.cluster.wait(rig.is_away, 20, "slurmctld's silence")
    rig.daemons(CONTROLLER, ["munged"], "start")
    rig.bring_back(job, seconds=120)
    rig.check_moved(job)


def test_a_node_loses_its_munge(rig: Rig) -> None:
    job = rig.start()
    (node,) = rig.nodes(job)
    rig.daemons(node, ["munged"], "kill")
    rig.break_gpu(node)
    rig.end(job, 1)
    rig.cluster.wait(
        lambda: "DOWN" in rig.cluster.node(node)["state"] or rig.is_drained(node), 60, "its end"
    )
    rig.bring_back(job)
    rig.daemons(node, ["munged"], "start")
    rig.check_moved(job)


def test_slurmd_dies_while_the_job_hangs_of_a_fault(rig: Rig) -> None:
    job = rig.start(nodes=2)
    node = rig.nodes(job)[1]
    rig.break_gpu(node)
    rig.cluster.kill_daemon(node, "slurmd")
    rig.bring_back(job)
    rig.check_moved(job)
