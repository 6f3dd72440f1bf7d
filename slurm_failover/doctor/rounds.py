"""All checks, in the order of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slurm_failover.doctor.cluster import (
    check_clock,
    check_config,
    check_lua,
    check_option,
    check_release,
    check_rivals,
)
from slurm_failover.doctor.finding import Finding, error
from slurm_failover.doctor.hooks import check_hooks, check_log, check_state
from slurm_failover.doctor.host import Host
from slurm_failover.doctor.notification import check_notifications
from slurm_failover.doctor.sources import check_gpus, check_rules, check_sources, check_zone
from slurm_failover.doctor.timer import check_timer
from slurm_failover.doctor.watcher import check_watcher
from slurm_failover.errors import FailoverError
from slurm_failover.wiring import Role

_ALL = frozenset(Role)
_HOOKED = frozenset({Role.CONTROLLER, Role.NODE})
_CONTROLLER = frozenset({Role.CONTROLLER})
_NODE = frozenset({Role.NODE})

Check = Callable[[Host], Iterator[Finding]]

CHECKS: tuple[tuple[str, frozenset[Role], Check], ...] = (
    ("settings and rules", _ALL, check_rules),
    ("Slurm's release", _ALL, check_release),
    ("hooks", _HOOKED, check_hooks),
    ("state folder", _HOOKED, check_state),
    ("log", _HOOKED, check_log),
    ("reconcile", _CONTROLLER, check_timer),
    ("notifications", _HOOKED, check_notifications),
    ("slurm.conf", _CONTROLLER, check_config),
    ("Lua scripts", _ALL, check_lua),
    ("sbatch --failover", _ALL, check_option),
    ("logs", _NODE, check_sources),
    ("NVML", _NODE, check_gpus),
    ("watcher", _NODE, check_watcher),
    ("time zone", _NODE, check_zone),
    ("clock", _ALL, check_clock),
    ("other tools", _CONTROLLER, check_rivals),
)
"""What is looked at, on hosts of which roles. Each name is shown while its check takes long."""


def examine(host: Host, begin: Callable[[str], None]) -> Iterator[Finding]:
    """The findings of all checks for this host's roles. ``begin`` is told what comes next.

    A check that can not be made is an error of its own, and the others go on.
    """
    for name, roles, check in CHECKS:
        if not roles & host.roles:
            continue
        begin(name)
        try:
            yield from check(host)
        except (FailoverError, OSError) as problem:
            yield error(name, f"could not be looked at: {problem}", "see the words of the error")
