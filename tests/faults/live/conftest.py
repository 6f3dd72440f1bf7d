"""The live cluster of tests/slurm, lent to the rig, with what a test needs to break its disks."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import silent_disk

SLURM = Path(__file__).parents[2] / "slurm"
sys.path.insert(0, str(SLURM))
_spec = importlib.util.spec_from_file_location("slurm_conftest", SLURM / "conftest.py")
assert _spec is not None
assert _spec.loader is not None
_theirs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_theirs)

from cluster import Cluster  # noqa: E402
from rig import READ_ONLY, STATE, Rig  # noqa: E402

image = _theirs.image
cluster = _theirs.cluster

MOUNTS = {STATE: "size=512k,mode=755", READ_ONLY: "ro"}
FEW, MORE = 1, 3


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder needs the cluster."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slurm)


@pytest.fixture(scope="session")
def _running_cluster(image: str) -> Iterator[Cluster]:
    cluster = Cluster(image, mounts=MOUNTS, may_mount=Path(silent_disk.DEVICE).exists())
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def rig(cluster: Cluster) -> Rig:
    """The cluster as the tests talk to it; however many nodes break, no circuit breaker opens."""
    return Rig(cluster)


@pytest.fixture
def choose(request: pytest.FixtureRequest) -> Callable[[int], list[int]]:
    """Some of the steps from 1 to a count, others for every test; more with ``--thorough``. The
    rig in memory goes through all of them.
    """
    thorough = request.config.getoption("--thorough")
    chance = random.Random(f"{request.node.name} {thorough}")
    many = MORE if thorough else FEW
    return lambda count: sorted(chance.sample(range(1, count + 1), min(many, count)))
