"""Over the fake slurmctld: disks that stay full, or are mounted for reading alone."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from play import Cluster, Run, Script
from promises import check
from steps import Steps
from stories import FAULT, HANG, WELL, Ending, Story, endings

COMPLETED = (Ending("COMPLETED", "resumed", 1),)
DISKS = pytest.mark.parametrize(
    "disk", [errno.ENOSPC, errno.EROFS], ids=["full disk", "read-only disk"]
)


def tell(cluster: Cluster) -> str:
    """What to read where a promise was broken."""
    return "\n".join([*cluster.steps.done, *cluster.said()])


@DISKS
@pytest.mark.parametrize("run", [FAULT, HANG], ids=["the job fails", "the job hangs"])
def test_nodes_that_can_never_write_move_the_job_all_the_same(
    disk: int, run: Run, tmp_path: Path
) -> None:
    def break_disks(cluster: Cluster) -> None:
        for machine in cluster.nodes.values():
            machine.disk = disk

    story = Story((Script((run, WELL)),), prepare=break_disks)
    cluster = story.play(tmp_path, Steps())
    assert endings(cluster) == COMPLETED, tell(cluster)
    assert check(cluster) == [], tell(cluster)
    (broken,) = cluster.needy
    assert cluster.slurm.peek_node(broken).reason.startswith("slurm-failover: Xid 79")


@DISKS
def test_a_controller_that_can_not_write_for_a_while_decides_later(
    disk: int, tmp_path: Path
) -> None:
    def meddle(cluster: Cluster, moment: str) -> None:
        if moment in ("run", "completed"):
            cluster.controller.disk = disk if moment == "run" else 0

    cluster = Story((Script((FAULT, WELL)),), meddle=meddle).play(tmp_path, Steps())
    assert endings(cluster) == COMPLETED, tell(cluster)
    assert check(cluster) == [], tell(cluster)
