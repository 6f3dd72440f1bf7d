"""The table at the end of a run of the rig: scenario, times run, promises broken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

RIG = "faults"


def print_table(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table, where a scenario was run."""
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


def _reports(reporter: pytest.TerminalReporter) -> Iterator[tuple[pytest.TestReport, int]]:
    for category, is_broken in (("passed", 0), ("failed", 1), ("error", 1)):
        for report in reporter.stats.get(category, []):
            if RIG in Path(report.nodeid.split("::")[0]).parts:
                yield report, is_broken


def _scenario(nodeid: str) -> str:
    """A test's name as a sentence. The number of a part, last, is no scenario of its own."""
    name, _, parameters = nodeid.rpartition("::")[2].partition("[")
    words = name.removeprefix("test_").replace("_", " ")
    which = re.sub(r"-\d+$", "", parameters.rstrip("]"))
    return f"{words}: {which}" if which else words
