"""Whether a node's watcher lives and gets its work done, where one was started."""

from __future__ import annotations

import os
from collections.abc import Iterator

from slurm_failover import files
from slurm_failover.doctor.config import value
from slurm_failover.doctor.finding import Finding, error, ok, warning
from slurm_failover.doctor.host import Host
from slurm_failover.node import caught
from slurm_failover.node.ask import BLIND, ask_watcher

_CHECK = "watcher"
_UNIT = "slurm-failover-watch"


def check_watcher(host: Host) -> Iterator[Finding]:
    """The watcher, as hooks meet it."""
    if os.geteuid() != 0:
        yield warning(_CHECK, "only root can ask it", "run this as root to be sure")
        return
    word = ask_watcher(caught.FOLDER)
    if word == BLIND:
        found = "it lives, and its checks judge nothing"
        yield error(_CHECK, found, f"see {host.settings.state.log}; until then hooks do its work")
    elif word:
        yield ok(_CHECK, f"answers: {word}")
    elif _is_held(f"{caught.FOLDER}/lock"):
        remedy = f"systemctl restart {_UNIT}; until then hooks do its work"
        yield error(_CHECK, "it runs and does not answer", remedy)
    else:
        interval = value(host.config, "HealthCheckInterval").partition(" ")[0]
        yield ok(_CHECK, f"none runs: the health check does its work, every {interval or 0} s")


def _is_held(lock: str) -> bool:
    if not os.path.exists(lock):  # noqa: PTH110 - files are named by text here
        return False
    with files.locked(lock, 0) as free:
        return not free
