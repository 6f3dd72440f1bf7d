"""On real daemons: trouble at calls that our processes make to Slurm."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cluster import CONTROLLER
from rig import Rig

KINDS = ("killed_before", "killed_after", "lost_after", "hangs")
CALLS = {"controller": 10, "node": 3}
"""How many calls are always made: with the controller's waiting for a job's end there are more."""


def play(rig: Rig, where: str, at: int, kind: str) -> bool:
    """A GPU breaks under a job, the job fails of it, is moved, and ends well. Whether the
    controller, or the node that broke, made that many calls and so met its trouble.
    """
    job = rig.start()
    node = rig.nodes(job)[0]
    rig.forget_steps()
    rig.trouble(CONTROLLER if where == "controller" else node, at, kind)
    rig.end_broken(job)
    rig.bring_back(job)
    rig.wait_drained(node)
    has_fired = rig.has_fired()
    rig.check_moved(job)
    rig.heal()
    return has_fired


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["controller", "node"])
def test_trouble_at_any_call(
    rig: Rig,
    where: str,
    kind: str,
    played: Callable[[int], None],
    choose: Callable[[int], list[int]],
) -> None:
    rig.lay_wires()
    met = [play(rig, where, at, kind) for at in choose(CALLS[where])]
    assert any(met)
    played(sum(met))
