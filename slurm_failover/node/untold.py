"""Tell Slurm, later, of an end of which the Epilog could not tell all: slurmctld did not answer.

The controller waits for such a word, as long as it waits for an Epilog: so a process of its own
tries again and again. Where that one died too, a health check takes the end up.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping

from slurm_failover.detach import start_detached
from slurm_failover.errors import FailoverError
from slurm_failover.node import ends
from slurm_failover.node.checks import NodeChecks
from slurm_failover.settings.tables import Settings

FIRST_PAUSE, LONGEST_PAUSE = 2.0, 20.0
"""Seconds between two tries: they double, with some jitter."""

Say = Callable[[str], None]


def tell_later(left: str, say: Say) -> None:
    """Start a process that goes on with the end in the file ``left``. Never raises, since an Epilog
    calls it with its verdict still to give: a node that can start no process can ask no slurmctld.
    """
    try:
        start_detached("tell_end", ends.read_end(left))
    except (OSError, ValueError) as error:
        say(f"{left}: a health check is to tell of this end: {error!r}")


def tell_end(environment: Mapping[str, str], settings: Settings, say: Say) -> None:
    """Try until Slurm knows of the end, for as long as the controller waits for it."""
    folder = f"{settings.state.directory}/node"
    deadline = time.monotonic() + settings.failover.wait_for_nodes
    pause = FIRST_PAUSE
    while time.monotonic() < deadline and ends.is_left(folder, environment):
        time.sleep(pause * random.uniform(0.7, 1.3))  # noqa: S311 - jitter, not a secret
        pause = min(pause * 2, LONGEST_PAUSE)
        try:
            NodeChecks(environment, settings, say).check_job_end()
        except FailoverError as error:
            say(f"the end of a job is still to be told: {error}")


def take_up_ends(left: Iterable[str], node: str, settings: Settings, say: Say) -> None:
    """Look again at the ends in these files, and take away those of which there is no more to tell
    or that can not be read. Raises HookEnded.
    """
    for path in left:
        try:
            told = {"SLURMD_NODENAME": node, **ends.read_end(path)}
            say(f"{path}: Slurm was not told all about this end")
            NodeChecks(told, settings, say).check_job_end()
        except (FailoverError, OSError, ValueError, KeyError) as error:
            say(f"{path}: {error!r}")
        if ends.is_settled(path):
            ends.drop_end(path)
