"""On real daemons: someone acts, or slurmctld goes, between any two steps of ours."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cluster import CONTROLLER, Cluster
from rig import Rig

COMMANDS = {
    "scancel": ("alice", "scancel {job}"),
    "hold": ("alice", "scontrol hold {job}"),
    "hold by root": ("root", "scontrol hold {job}"),
    "release": ("alice", "scontrol release {job}"),
    "requeue by root": ("root", "scontrol requeue {job}"),
    "new comment": ("alice", "scontrol update JobId={job} Comment='mine failover'"),
}


@pytest.fixture
def rig(cluster: Cluster) -> Rig:
    """The cluster, with wires on every Slurm command of ours."""
    rig = Rig(cluster)
    rig.lay_wires(timeout=30, patience=60)
    return rig


def gates(rig: Rig) -> range:
    """The numbers of the controller's changes, as an undisturbed story has them."""
    job = rig.start()
    rig.forget_steps()
    rig.end_broken(job)
    rig.bring_back(job)
    changes = rig.changes(CONTROLLER)
    assert 3 < changes < 12, rig.steps(CONTROLLER)
    rig.check_moved(job)
    rig.heal()
    return range(1, changes + 1)


def stop_at(rig: Rig, at: int) -> int:
    """A job that a GPU has broken, while our process stands before its change number ``at``."""
    job = rig.start()
    rig.forget_steps()
    rig.trouble(CONTROLLER, at, "gate")
    rig.end_broken(job)
    rig.wait_fired()
    return job


@pytest.mark.parametrize("name", COMMANDS)
def test_someone_acts_between_two_steps(rig: Rig, name: str, played: Callable[[int], None]) -> None:
    user, command = COMMANDS[name]
    steps = gates(rig)
    for at in steps:
        job = stop_at(rig, at)
        done = rig.cluster.run(CONTROLLER, command.format(job=job), user)
        rig.open_gate()
        rig.settle()
        rig.check_promises()
        state = rig.cluster.job_state(job)
        if done.rc == 0 and name == "scancel" and "CANCELLED" not in state:
            # Slurm takes no scancel of a job that has failed and still completes.
            assert at == steps[0], state
        if done.rc == 0 and name == "hold by root" and at != steps[0]:
            assert rig.cluster.job(job)["state_reason"] == "JobHeldAdmin"
        if name == "new comment" and done.rc == 0:
            assert rig.comment(job).startswith("mine failover")
        rig.cluster.check(CONTROLLER, ["scancel", str(job)])
        rig.heal()
    played(len(steps))


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_slurmctld_goes_between_two_steps(
    rig: Rig, how: str, played: Callable[[int], None]
) -> None:
    steps = gates(rig)
    for at in steps:
        job = stop_at(rig, at)
        rig.cluster.kill_daemon(CONTROLLER, "slurmctld") if how == "killed" else (
            rig.cluster.freeze_daemon(CONTROLLER, "slurmctld")
        )
        rig.open_gate()
        rig.cluster.wait(rig.is_away, 20, "slurmctld's absence")
        if how == "killed":
            rig.cluster.start_daemon(CONTROLLER, "slurmctld")
        else:
            rig.cluster.thaw_daemon(CONTROLLER, "slurmctld")
        rig.bring_back(job)
        rig.check_moved(job)
        rig.heal()
    played(len(steps))
