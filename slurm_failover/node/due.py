"""Which sources a look at this node reads: each where it is due, or where it has news.

On every hook's healthy path: what reads a source is imported where it is read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress

from slurm_failover import files
from slurm_failover.node import caught
from slurm_failover.node.ask import ask_watcher
from slurm_failover.sources import kmsg
from slurm_failover.sources.presence import NO_DRIVER, nvml_may_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurm_failover.node.ledger import Ledger
    from slurm_failover.node.readings import Reading
    from slurm_failover.settings.tables import Settings


class Sources:
    """This node's sources beside the kernel's log. ``folder`` is ours, below the state's."""

    def __init__(self, settings: Settings, folder: str) -> None:
        self._settings = settings
        self._folder = folder

    def all(self, ledger: Ledger, *, now: bool = False) -> Iterator[Reading]:
        """Looks at everything: at each source as often as that is good, or ``now``."""
        yield from self.gpus(ledger)
        yield from self.machine(ledger, now=now)

    def gpus(self, ledger: Ledger) -> Iterator[Reading]:
        """A look through NVML; none where there is no driver and that was said before."""
        if not self._settings.sources.nvml:
            yield from self._names(ledger)
        elif nvml_may_answer(self._settings.sources.proc):
            from slurm_failover.node.readings import read_gpus

            yield read_gpus(self._settings, self._lock("nvml"))
        elif ledger.note("nvml").unseen != NO_DRIVER:
            from slurm_failover.node.readings import no_gpus

            yield no_gpus()

    def _names(self, ledger: Ledger) -> Iterator[Reading]:
        """The GPUs' names, which tell whose a fault is, from the driver's own list: once in a boot,
        and again where it lists another.
        """
        proc = self._settings.sources.proc
        try:
            listed = os.listdir(f"{proc}/driver/nvidia/gpus")  # noqa: PTH208 - no pathlib here
        except OSError:
            return
        known = ledger.note("driver").memory if ledger.boot == kmsg.boot_id(proc) else ""
        if all(f'"{name}"' in known for name in listed):
            return
        from slurm_failover.node.readings import read_names

        yield read_names(self._settings, self._lock("nvml"), listed)

    def machine(self, ledger: Ledger, *, now: bool = False) -> Iterator[Reading]:
        """Looks at the machine around the GPUs: sysfs at every health check, the BMC seldom."""
        from slurm_failover.node.readings import BMC, read_machine_around, read_management

        sources = self._settings.sources
        if sources.sysfs:
            yield read_machine_around(self._settings, self._lock("sysfs"))
        since = abs(time.time() - ledger.note(BMC).time)
        if sources.ipmitool and (now or since >= sources.bmc_interval):
            yield read_management(self._settings, self._lock("bmc"))

    def _lock(self, source: str) -> str:
        """A file that whoever reads a source holds, so that what hangs there is one process."""
        with suppress(OSError):  # then there is no place for a lock, and the reader takes none
            files.make_folder(self._folder)
        return f"{self._folder}/{source}.lock"


def gpu_news(ledger: Ledger) -> Iterator[Reading]:
    """NVML's events that a watcher has heard since they were last judged."""
    if not caught.hears_events(caught.FOLDER):
        return
    from slurm_failover.node import gpu_events

    xids = gpu_events.read_xids(caught.FOLDER, ledger.note(gpu_events.SOURCE).time)
    if xids:
        from slurm_failover.node.readings import read_gpu_events

        yield read_gpu_events(xids)


def watcher_news(ledger: Ledger) -> Iterator[Reading]:
    """Whether the watcher that was started in this boot answers, if that is news."""
    mute = caught.is_watched(caught.FOLDER) and not ask_watcher(caught.FOLDER)
    unseen = caught.MUTE if mute else ""
    if unseen != ledger.note(caught.WATCHER).unseen:
        from slurm_failover.node.readings import read_watcher

        yield read_watcher(unseen)
