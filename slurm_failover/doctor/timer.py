"""Whether something runs reconcile on this controller from time to time."""

from __future__ import annotations

import time
from collections.abc import Iterator

from slurm_failover.controller.notes import Notes
from slurm_failover.doctor.finding import Finding, ok, warning
from slurm_failover.doctor.host import Host

_CHECK = "reconcile"
LATE = 600
"""Seconds since reconcile was last through. Its timer runs it each minute, a site's cron perhaps
not as often.
"""


def check_timer(host: Host) -> Iterator[Finding]:
    """When reconcile was last through, whoever runs it."""
    try:
        last = Notes(host.settings.state.directory).reconciled()
    except PermissionError:
        yield warning(_CHECK, "only SlurmUser and root can see when it ran", "run this as root")
        return
    ago = time.time() - last
    if ago <= LATE:
        yield ok(_CHECK, f"was through {ago:.0f} s ago")
        return
    found = f"was last through {ago / 60:.0f} min ago" if last else "has not run here yet"
    yield warning(
        _CHECK,
        f"{found}: what is interrupted stays unfinished",
        "enable slurm-failover-reconcile.timer (README, Two services); without systemd let cron "
        "run slurm-failover reconcile each minute as SlurmUser",
    )
