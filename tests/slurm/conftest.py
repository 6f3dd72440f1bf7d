"""The live cluster: one for the whole run, made clean again before every test."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster

HERE = Path(__file__).parent
BUILDER = HERE.parent.parent / "docker" / "image.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder needs the cluster."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slurm)


@pytest.fixture(scope="session")
def image(request: pytest.FixtureRequest) -> str:
    """The test cluster's image for the working tree as it is."""
    command = [sys.executable, BUILDER, "--suite", request.config.getoption("--suite")]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return built.stdout.strip()


@pytest.fixture(scope="session")
def _running_cluster(request: pytest.FixtureRequest, image: str) -> Iterator[Cluster]:
    cluster = Cluster(image, forgets_pyslurm=request.config.getoption("--client") == "scontrol")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def cluster(_running_cluster: Cluster) -> Cluster:
    """The cluster, with no job and four idle nodes."""
    _running_cluster.reset()
    return _running_cluster
