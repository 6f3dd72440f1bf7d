"""The live cluster of tests/slurm, lent to the rig."""

import importlib.util
import sys
from pathlib import Path

import pytest

SLURM = Path(__file__).parents[2] / "slurm"
sys.path.insert(0, str(SLURM))
_spec = importlib.util.spec_from_file_location("slurm_conftest", SLURM / "conftest.py")
assert _spec is not None
assert _spec.loader is not None
_theirs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_theirs)

image = _theirs.image
_running_cluster = _theirs._running_cluster
cluster = _theirs.cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder needs the cluster."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slurm)
