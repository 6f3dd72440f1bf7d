"""Two controllers: the one that acts decides, and a decider from before a takeover steps back."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from cluster import CONTROLLER, HOOK_LOG, SHARED
from farm import HOME, SPARE, Farm

pytestmark = pytest.mark.slurm

FAILS = f"#!/bin/bash\nflock -s {SHARED}/gate true\nexit 1\n"


@pytest.fixture
def farm(image: str) -> Iterator[Farm]:
    """Two nodes, and two controllers that share their state."""
    farm = Farm(image, size=2, bad=1, with_spare=True)
    try:
        farm.start()
        yield farm
    finally:
        farm.stop()


def deciders(farm: Farm, host: str) -> int:
    """How many deciders live on a controller."""
    return int(farm.run(host, "pgrep -fc '[h]ooks.py decide'").stdout)


def test_after_a_takeover_the_other_controller_decides_and_the_old_decider_steps_back(
    farm: Farm,
) -> None:
    told = {
        host: farm.run(host, ["slurm-failover", "reconcile"], "slurm").stderr
        for host in (CONTROLLER, SPARE)
    }
    assert "another controller acts for Slurm now" in told[SPARE]
    assert "0 jobs had something left to do" in told[CONTROLLER]

    # The node's Epilog does not end before it is let go, so the decision waits.
    stall = f"sed -i '2i while [ -e {SHARED}/stall ]; do sleep 0.2; done' {HOME}/epilog.sh"
    farm.check("w1", stall)
    farm.check(CONTROLLER, f"touch {SHARED}/stall")
    job = farm.sbatch(FAILS, "--comment=failover", "--export=NIL")
    farm.wait(lambda: deciders(farm, CONTROLLER) == 1, 60, "a decider on the first controller")

    farm.check(SPARE, ["scontrol", "takeover"], timeout=100)
    farm.wait(lambda: deciders(farm, CONTROLLER) == 0, 30, "the end of the old decider")
    assert "decide: another controller acts for Slurm now" in farm.read(CONTROLLER, HOOK_LOG)
    farm.wait(lambda: deciders(farm, SPARE) == 1, 60, "a decider on the second controller")

    farm.check(CONTROLLER, f"rm {SHARED}/stall")
    shown = farm.wait(lambda: find_denied(farm, job), 60, "the decision")
    assert (shown["restart_cnt"], shown["hold"]) == (1, True)
    record = json.loads(shown["admin_comment"])["slurm-failover"]
    assert (record["retries"], len(record["history"])) == (0, 1)
    assert "decide: job" not in farm.read(CONTROLLER, HOOK_LOG)
    assert f"decide: job {job}: deny" in farm.read(SPARE, HOOK_LOG)


def find_denied(farm: Farm, job: int) -> dict[str, object]:
    """The job once it is denied, asked where Slurm answers now."""
    told = farm.check(SPARE, ["scontrol", "show", "job", str(job), "--json=v0.0.42"])
    (shown,) = json.loads(told)["jobs"]
    return dict(shown) if "internalerror" in shown["comment"] else {}
