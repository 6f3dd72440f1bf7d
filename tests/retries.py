"""What made a test need another try, at the end of a run: such a test may find a fault as well."""

from __future__ import annotations

import pytest


def print_retries(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each failure that another try came after: whole, and then in a line that tools find."""
    reports = terminalreporter.stats.get("rerun", [])
    if not reports:
        return
    terminalreporter.section("tried again")
    for report in reports:
        terminalreporter.write_sep("_", report.nodeid)
        terminalreporter.write_line(report.longreprtext)
    for report in reports:
        crash = getattr(report.longrepr, "reprcrash", None)
        words = crash.message.partition("\n")[0] if crash else report.longreprtext[-200:]
        terminalreporter.write_line(f"AGAIN {report.nodeid} ({report.when}) - {words}")
