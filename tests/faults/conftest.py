"""The table at the end of a run: scenario, times run, promises broken."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table."""
    rows: dict[str, list[int]] = {}
    for report, is_broken in _reports(terminalreporter):
        row = rows.setdefault(_scenario(report.nodeid), [0, 0])
        row[0] += int(dict(report.user_properties).get("times", 1))
        row[1] += is_broken
    if rows:
        terminalreporter.section("faults: scenario, times run, promises broken")
        for name, (times, broken) in sorted(rows.items()):
            terminalreporter.write_line(f"{times:6} {broken:4}  {name}")
        times, broken = (sum(column) for column in zip(*rows.values(), strict=True))
        terminalreporter.write_line(f"{times:6} {broken:4}  in all")
        for report in terminalreporter.stats.get("rerun", []):
            terminalreporter.write_line(f"tried again: {_scenario(report.nodeid)}")


def _reports(reporter: pytest.TerminalReporter) -> Iterator[tuple[pytest.TestReport, int]]:
    for category, is_broken in (("passed", 0), ("failed", 1), ("error", 1)):
        for report in reporter.stats.get(category, []):
            if HERE.name in Path(report.nodeid.split("::")[0]).parts:
                yield report, is_broken


def _scenario(nodeid: str) -> str:
    """A test's name as a sentence. The number of a part, last, is no scenario of its own."""
    name, _, parameters = nodeid.rpartition("::")[2].partition("[")
    words = name.removeprefix("test_").replace("_", " ")
    which = re.sub(r"-\d+$", "", parameters.rstrip("]"))
    return f"{words}: {which}" if which else words
