"""What the watcher has caught of the kernel's log, in a file that the hooks read beside the log.

The kernel's buffer is small: in a flood a fault is overwritten within a second, and a hook that
came after would find nothing. The file lies in /run and so belongs to this boot. The watcher alone
writes it. A healthy hook reads it too, so this module imports next to nothing.
"""

from __future__ import annotations

import os

from slurm_failover import files
from slurm_failover.frozen import dataclass
from slurm_failover.sources import kmsg

FOLDER = "/run/slurm-failover/watch"
"""The watcher's folder, which only root may enter; ask_watcher.sh knows it too."""
WATCHER = "watcher"
"""The name under which the ledger notes whether the watcher answers."""
MUTE = "the watcher: it was started and does not answer, so the hooks do its work"
EVENTS = "events"
"""The file of NVML's events: see gpu_events.py."""
_NAME = "caught"


@dataclass(frozen=True, slots=True)
class Caught:
    """Suspicious records of boot ``boot``, and the number of the last record that was read."""

    boot: str
    position: int
    records: tuple[bytes, ...]


def write_caught(folder: str, caught: Caught) -> None:
    """Replace the file. What is no ASCII is escaped as the kernel does it."""
    text = b"".join(caught.records).decode("ascii", "backslashreplace")
    files.write_whole(f"{folder}/{_NAME}", f"{caught.boot} {caught.position}\n{text}")


def read_caught(folder: str, boot: str) -> Caught | None:
    """What was caught in boot ``boot``; None where there is no such file or it is damaged."""
    try:
        text = files.read_whole(f"{folder}/{_NAME}")
    except (OSError, ValueError):
        return None
    head, newline, rest = (text or "").partition("\n")
    fields = head.split(" ")
    if not newline or len(fields) != 2 or fields[0] != boot:
        return None
    if not fields[1].removeprefix("-").isdecimal():
        return None
    records = kmsg.split(rest.encode("utf-8", "replace"))
    return Caught(boot, int(fields[1]), tuple(r for r in records if kmsg.sequence(r) >= 0))


def is_watched(folder: str) -> bool:
    """Whether a watcher was started here in this boot and was not stopped in order."""
    return os.path.exists(f"{folder}/ask")  # noqa: PTH110 - no pathlib on a hook's path


def hears_events(folder: str) -> bool:
    """Whether NVML told this node's watcher of an Xid in this boot."""
    return os.path.exists(f"{folder}/{EVENTS}")  # noqa: PTH110 - no pathlib on a hook's path
