"""What Slurm must be told so that it calls us: settings of slurm.conf, and the files they name.

Pure. The same table writes the configuration (install) and judges it (doctor).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

HOME = "/opt/slurm-failover"
"""Where the package is installed unless a site chooses another place."""

SPANK_PLUGIN = "/usr/lib/slurm-failover/slurm_failover.so"
"""Where the plugin with `sbatch --failover` is installed."""

SHARE = "share/slurm-failover"


class Role(StrEnum):
    """What a host is to Slurm; one host may be several."""

    CONTROLLER = "controller"
    NODE = "node"
    LOGIN = "login"


@dataclass(frozen=True, slots=True)
class Hook:
    """A program that Slurm calls: the setting that names it, and our file below ``SHARE``.

    ``alone`` says that slurm.conf takes only one such program (tried on 24.11 and 26.05: of two
    lines the later counts, and every daemon logs an error; the others may stand any number of
    times). Such a program of the site's is called by a small script of ours beside slurm.conf.
    """

    setting: str
    file: str
    alone: bool = False

    @property
    def name(self) -> str:
        """The file's bare name, such as ``prolog.sh``."""
        return self.file.rpartition("/")[2]


HOOKS = (
    Hook("Prolog", "prolog/prolog.sh"),
    Hook("Epilog", "epilog/epilog.sh"),
    Hook("TaskProlog", "prolog/task_prolog.sh", alone=True),
    Hook("HealthCheckProgram", "prolog/healthcheck.sh", alone=True),
    Hook("PrologSlurmctld", "prolog/prolog_slurmctld.sh"),
    Hook("EpilogSlurmctld", "epilog/epilog_slurmctld.sh"),
)

_ONCE = {
    "HealthCheckInterval": "30",
    "BatchStartTimeout": "60",
    "JobFileAppend": "1",
}
_ONCE_26_05 = {"HealthCheckInterval": "60", "HealthCheckTimeout": "55"}


def settings_of(release: tuple[int, int]) -> dict[str, str]:
    """Settings that a site without one of its own gets, on a release of Slurm such as (24, 11).

    One that it has stays, and doctor judges it. From 26.05 a health check has a limit of its own,
    which should lie below the interval: else every daemon logs an error as it starts, Slurm shows
    0, and ends a check after 60 s, as 24.11 does (tried on 26.05.5).
    """
    return {**_ONCE, **(_ONCE_26_05 if release >= (26, 5) else {})}


HOOK_LIMIT = 50
"""Seconds after which each of our hooks has ended, whatever hangs (see the hooks themselves)."""


def hook_path(home: str, hook: Hook) -> str:
    """Where a hook lies in an installation."""
    return f"{home}/{SHARE}/{hook.file}"


def lua_path(home: str, name: str) -> str:
    """Where a Lua file lies in an installation."""
    return f"{home}/{SHARE}/lua/{name}"


def chain_path(folder: str, hook: Hook) -> str:
    """The script that calls the site's program and our hook, beside slurm.conf in ``folder``."""
    return f"{folder}/slurm-failover-{hook.name}"
