"""On a real slurmctld with many slurmd: all sixteen nodes of one job break in one second."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from cluster import CONTROLLER, SHARED
from farm import Farm
from story import LOST

SIZE = 16
WAITS = f"""#!/bin/bash
[ "${{SLURM_RESTART_COUNT:-0}}" = 0 ] || exec sleep infinity
until [ -e {SHARED}/go ]; do sleep 0.1; done
exit 1
"""


@pytest.fixture
def farm(image: str) -> Iterator[Farm]:
    """Twice as many nodes as the job has."""
    farm = Farm(image, 2 * SIZE, bad=SIZE)
    try:
        farm.start()
        yield farm
    finally:
        farm.stop()


def find_moved(farm: Farm, job: int) -> dict[str, Any]:
    """The job once it runs again."""
    shown = farm.job(job)
    return shown if shown["restart_cnt"] and shown["job_state"] == ["RUNNING"] else {}


def test_sixteen_nodes_of_one_job_break_in_one_second(farm: Farm) -> None:
    options = (f"--nodes={SIZE}", "--exclusive", "--comment=failover", "--export=NIL")
    job = farm.sbatch(WAITS, *options, "--output=/dev/null")
    farm.wait(lambda: farm.job_state(job) == ["RUNNING"], 60, "a running job")
    first = set(names(farm, job))
    farm.inject_all(sorted(first), LOST)
    farm.check(CONTROLLER, f"touch {SHARED}/go")
    moved = farm.wait(lambda: find_moved(farm, job), 120, "the second attempt")
    assert not first & set(names(farm, job))
    record = json.loads(moved["admin_comment"])["slurm-failover"]
    assert (moved["restart_cnt"], record["retries"], len(record["history"])) == (1, 1, 1)
    for node in sorted(farm.nodes):
        reason = farm.node(node)["reason"]
        assert reason.startswith("slurm-failover: Xid 79") == (node in first), (node, reason)


def names(farm: Farm, job: int) -> list[str]:
    """The names of the nodes that a job runs on."""
    return farm.check(CONTROLLER, f"scontrol show hostnames $(squeue -h -j {job} -o %N)").split()
