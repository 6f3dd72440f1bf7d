"""On real daemons: trouble at every call that our processes make to Slurm, one after the other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cluster import CONTROLLER, Cluster
from rig import Rig

KINDS = ("killed_before", "killed_after", "lost_after", "hangs")


@pytest.fixture
def rig(cluster: Cluster) -> Rig:
    """The cluster, with wires on every Slurm command of ours."""
    rig = Rig(cluster)
    rig.lay_wires()
    return rig


def play(rig: Rig, where: str = "", at: int = 0, kind: str = "") -> int:
    """A GPU breaks under a job, the job fails of it, is moved, and ends well. How many calls were
    made by the controller, or by the node that broke, as ``where`` says.
    """
    job = rig.start()
    node = rig.nodes(job)[0]
    host = CONTROLLER if where == "controller" else node
    rig.forget_steps()
    if kind:
        rig.trouble(host, at, kind)
    rig.end_broken(job)
    rig.bring_back(job)
    calls = len(rig.steps(host))
    rig.wait_drained(node)
    rig.check_moved(job)
    rig.heal()
    return calls


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["controller", "node"])
def test_trouble_at_any_call(
    rig: Rig, where: str, kind: str, played: Callable[[int], None]
) -> None:
    calls = min(play(rig, where), 14)
    for at in range(1, calls + 1):
        play(rig, where, at, kind)
    played(calls)
