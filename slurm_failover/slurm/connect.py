"""The Slurm that the settings ask for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from slurm_failover.settings.tables import Settings
from slurm_failover.slurm.client import Slurm
from slurm_failover.slurm.observe import Observer
from slurm_failover.slurm.scontrol import Scontrol

if TYPE_CHECKING:
    from slurm_failover.slurm.pyslurm_client import Worker

Say = Callable[[str], None]


def connect(settings: Settings, say: Say) -> Slurm:
    """A client for a few questions, as hooks have them, through Slurm's commands; in observe mode
    one that tells changes instead of making them.
    """
    slurm = settings.slurm
    return _observed(Scontrol(slurm.bin, slurm.timeout, slurm.patience), settings, say)


def connect_for_many(settings: Settings, say: Say) -> Slurm:
    """As ``connect``, for many jobs or nodes or for many questions: through pyslurm, where the
    settings allow it and it can be used.
    """
    client = settings.slurm.client
    if client == "scontrol" or (client == "auto" and not _has_pyslurm()):
        return connect(settings, say)
    from slurm_failover.slurm.pyslurm_client import Pyslurm

    slurm = settings.slurm
    tell = say if client == "pyslurm" else _keep_silent
    worker = _worker(slurm.timeout)
    return _observed(Pyslurm(worker, tell, slurm.bin, slurm.timeout, slurm.patience), settings, say)


@cache
def _worker(timeout: float) -> Worker:
    """The one worker of this process."""
    from slurm_failover.slurm.pyslurm_client import Worker

    return Worker(timeout)


def _observed(client: Slurm, settings: Settings, say: Say) -> Slurm:
    return Observer(client, say) if settings.failover.mode == "observe" else client


def _has_pyslurm() -> bool:
    from importlib.util import find_spec

    return find_spec("pyslurm") is not None


def _keep_silent(_: str) -> None:
    pass
