"""Running jobs that have a grace to save their work: a file for each, until its requeue is done.

It lies where a reboot empties it, since that ends the jobs as well. A process waits for each; it
holds the file's lock, so that whoever finds the lock free knows that the process is gone.
"""

from __future__ import annotations

import json
import os

from slurm_failover import files
from slurm_failover.frozen import dataclass

FOLDER = "/run/slurm-failover/stops"


@dataclass(frozen=True, slots=True)
class Stop:
    """One job to be requeued and held: its label, the start of its attempt in seconds since the
    epoch, and when its grace is over, in seconds of the clock that nobody sets and that begins with
    the boot, as these files do.
    """

    label: str
    start: float
    until: float

    @property
    def path(self) -> str:
        """The file of this stop."""
        return path_of(self.label, self.start)


def path_of(label: str, start: float) -> str:
    """The file of the stop of the attempt of a job that began at ``start``."""
    return f"{FOLDER}/{label}-{start:.0f}.json"


def is_noted(path: str) -> bool:
    """Whether an attempt has a stop already."""
    return os.path.exists(path)  # noqa: PTH110 - no pathlib on a hook's path


def write_stop(stop: Stop) -> None:
    """Note a stop."""
    files.make_folder(FOLDER)
    files.write_whole(stop.path, json.dumps([stop.label, stop.start, stop.until]))


def read_stop(path: str) -> Stop | None:
    """The stop in a file; None where it is gone or damaged."""
    try:
        label, start, until = json.loads(files.read_whole(path) or "")
        return Stop(str(label), float(start), float(until))
    except (OSError, ValueError, TypeError):
        return None


def remove_stop(path: str) -> None:
    """Forget a stop that is done."""
    files.remove(path)
    files.remove(lock_of(path))


def lock_of(path: str) -> str:
    """The lock that the process holds which waits for this stop."""
    return f"{path}.lock"


def left_stops() -> list[str]:
    """The files of all stops for which no process waits (any more)."""
    try:
        names = sorted(name for name in os.listdir(FOLDER) if name.endswith(".json"))  # noqa: PTH208
    except FileNotFoundError:
        return []
    return [path for name in names if _is_free(path := f"{FOLDER}/{name}")]


def _is_free(path: str) -> bool:
    with files.locked(lock_of(path), 0) as free:
        return free
