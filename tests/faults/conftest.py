"""What the scenarios share: how often one was played, and how many are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

HERE = Path(__file__).parent
SAMPLE = 150
T = TypeVar("T")
sys.path.insert(0, str(HERE))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder is a scenario of the rig, which runs for minutes."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.faults)


@pytest.fixture
def played(record_property: Callable[[str, object], None]) -> Callable[[int], None]:
    """To be told how often a test has played its scenario; once where it is not told."""
    return lambda times: record_property("times", times)


@pytest.fixture
def sample(request: pytest.FixtureRequest) -> Callable[[Sequence[T]], Sequence[T]]:
    """Some of many plays, from first to last; all of them with ``--thorough``."""
    thorough = request.config.getoption("--thorough")
    return lambda plays: plays if thorough else plays[:: 1 + len(plays) // SAMPLE]
