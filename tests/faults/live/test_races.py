"""On real daemons: someone acts, or something goes, between any two steps of the controller's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cluster import CONTROLLER
from rig import Rig

Choose = Callable[[int], list[int]]
Played = Callable[[int], None]

CHANGES = 5
"""The changes of one failover: hold, record, exclude and record, release, raise."""
WITH_COMMENT = (2, 3, 5)
"""The changes that write the Comment as well. Slurm can not be told to set a field only where it is
as it was read: what somebody sets in between, milliseconds that this test makes long, is lost.
"""
RELEASE = 4
"""The change that a hold is lost in: Slurm has no release that is refused to its own user where
someone else holds the job by then (seen on 24.11.5, also for ``scontrol --uid=OWNER release``).
docs/architecture.md says so.
"""
COMMANDS = {
    "scancel": ("alice", "scancel {job}"),
    "hold": ("alice", "scontrol hold {job}"),
    "hold by root": ("root", "scontrol hold {job}"),
    "release": ("alice", "scontrol release {job}"),
    "requeue by root": ("root", "scontrol requeue {job}"),
    "new comment": ("alice", "scontrol update JobId={job} Comment='mine failover'"),
}


def stop_at(rig: Rig, at: int) -> int:
    """A job that a GPU has broken, while our process stands before its change number ``at``."""
    job = rig.start()
    rig.forget_steps()
    rig.trouble(CONTROLLER, at, "gate")
    rig.end_broken(job)
    rig.wait_fired()
    return job


@pytest.mark.parametrize("name", COMMANDS)
def test_someone_acts_between_two_steps(
    rig: Rig, name: str, played: Played, choose: Choose
) -> None:
    rig.lay_wires(timeout=30, patience=60)
    steps = choose(CHANGES)
    for at in steps:
        job = stop_at(rig, at)
        user, command = COMMANDS[name]
        done = rig.cluster.run(CONTROLLER, command.format(job=job), user)
        rig.open_gate()
        rig.settle()
        rig.check_promises()
        check_respected(rig, job, name, at, accepted=done.rc == 0)
        rig.cluster.check(CONTROLLER, ["scancel", str(job)])
        rig.heal()
    played(len(steps))


def check_respected(rig: Rig, job: int, name: str, at: int, *, accepted: bool) -> None:
    """What someone did stands, where Slurm took it."""
    state = rig.cluster.job_state(job)
    if accepted and name == "scancel" and "CANCELLED" not in state:
        # Slurm takes no scancel of a job that has failed and still completes.
        assert at == 1, state
    if accepted and name == "hold by root" and at == RELEASE:
        rig.bring_back(job)
    elif accepted and name == "hold by root" and at != 1:
        assert rig.cluster.job(job)["state_reason"] == "JobHeldAdmin"
    if accepted and name == "new comment" and at not in WITH_COMMENT:
        assert rig.comment(job).startswith("mine failover")


DEATHS: dict[str, Callable[[Rig], None]] = {
    "slurmctld killed": lambda rig: rig.cluster.kill_daemon(CONTROLLER, "slurmctld"),
    "slurmctld frozen": lambda rig: rig.cluster.freeze_daemon(CONTROLLER, "slurmctld"),
    "all our processes killed": lambda rig: rig.kill_ours(CONTROLLER),
    "machine rebooted": Rig.reboot_controller,
}


@pytest.mark.parametrize("how", DEATHS)
def test_the_controller_dies_between_two_steps(
    rig: Rig, how: str, played: Played, choose: Choose
) -> None:
    rig.lay_wires(timeout=30, patience=60)
    steps = choose(CHANGES)
    for at in steps:
        job = stop_at(rig, at)
        rig.wait_saved()
        DEATHS[how](rig)
        rig.open_gate()
        if how.startswith("slurmctld"):
            rig.cluster.wait(rig.is_away, 20, "slurmctld's absence")
            rig.cluster.thaw_daemon(CONTROLLER, "slurmctld") if how.endswith("frozen") else (
                rig.cluster.start_daemon(CONTROLLER, "slurmctld")
            )
        rig.bring_back(job)
        rig.check_moved(job)
        rig.heal()
    played(len(steps))
