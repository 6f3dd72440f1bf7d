"""Report what happened to whom the site names: its notification program, and its metrics."""

from __future__ import annotations

from collections.abc import Callable

from slurm_failover.happening import Happening
from slurm_failover.metrics import Metrics
from slurm_failover.notify import notify
from slurm_failover.settings.tables import Settings

Report = Callable[[Happening], None]


def reporter(settings: Settings, role: str, say: Callable[[str], None]) -> Report:
    """What to call with each happening on this host, as ``role``: "node" or "controller".

    Nobody waits for a report: a program is started and left alone, and a metric that can not be
    written is said and forgotten.
    """
    metrics = Metrics(settings, role, say)

    def report(what: Happening) -> None:
        metrics.count(what)
        try:
            notify(settings, what)
        except OSError as error:
            say(f"no notification of {what.kind}: {error}")

    return report


def report_to_nobody(_: Happening) -> None:
    """Where nobody is to be told."""
