"""The Slurm that the settings ask for."""

from __future__ import annotations

from collections.abc import Callable

from slurm_failover.settings.tables import Settings
from slurm_failover.slurm.client import Slurm
from slurm_failover.slurm.observe import Observer
from slurm_failover.slurm.scontrol import Scontrol


def connect(settings: Settings, say: Callable[[str], None]) -> Slurm:
    """A client for the settings; in observe mode one that tells changes instead of making them."""
    slurm = settings.slurm
    client = Scontrol(slurm.bin, slurm.timeout, slurm.patience)
    return Observer(client, say) if settings.failover.mode == "observe" else client
