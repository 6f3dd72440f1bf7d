"""The resident watcher: seconds instead of an interval between a record and what follows from it.

It reads the kernel's log as it grows and judges nothing itself. When a record could be a fault, and
at a slow cadence for all that never reaches the log, it runs the node's health check, in a process
of its own: what hangs or leaks there is not the watcher's. A storm of one kind of record is worth a
check at once and then one every now and then, so that noise costs little and hides nothing.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_failover import files
from slurm_failover.anchors import read_anchors
from slurm_failover.sources.follow import Follower

if TYPE_CHECKING:
    from slurm_failover.settings.tables import Settings

LOCK = "/run/slurm-failover/watch.lock"
"""Held while the watcher lives; the HealthCheckProgram looks whether it is free."""
LOCK_PATIENCE = 5.0
"""Seconds to wait for the lock: a HealthCheckProgram that looks holds it for a moment."""
CHECK_LIMIT = 55.0
"""Seconds that one check may take."""
KIND = 40
STORM_INTERVAL = 10.0
"""Seconds between two checks for records of a kind that a check has just seen."""

Say = Callable[[str], None]
Check = Callable[[], None]


@dataclass(slots=True)
class Schedule:
    """When the next check is due. Pure: the caller brings the clock.

    ``interval`` is the cadence of the slow sources in seconds. Records are of one kind if their
    texts begin alike: the code of an Xid and the device are within KIND bytes, a channel is not.
    """

    interval: float
    last: float = float("-inf")
    checked: dict[bytes, float] = field(default_factory=dict)
    waiting: set[bytes] = field(default_factory=set)

    def notice(self, record: bytes) -> None:
        """A record that could be a fault was written."""
        self.waiting.add(record.partition(b";")[2][:KIND])

    def due_in(self, now: float) -> float:
        """Seconds until a check is due; 0 or less says now."""
        slow = self.last + self.interval - now
        storms = [self.checked.get(kind, float("-inf")) + STORM_INTERVAL for kind in self.waiting]
        return min([slow, *(at - now for at in storms)])

    def begin(self, now: float) -> None:
        """A check begins now: it sees all that is waiting."""
        self.last = now
        self.checked = {k: at for k, at in self.checked.items() if now - at < STORM_INTERVAL}
        self.checked.update(dict.fromkeys(self.waiting, now))
        self.waiting.clear()


class Watcher:
    """Watches one node until it is told to stop. ``check`` is what it does about a record."""

    def __init__(self, log: str, anchors: tuple[bytes, ...], interval: float, check: Check) -> None:
        self._log = log
        self._anchors = anchors
        self._schedule = Schedule(interval)
        self._check = check
        self._stopped = False

    def stop(self) -> None:
        """Let ``run`` return after what it does now."""
        self._stopped = True

    def run(self, beat: Callable[[], None]) -> None:
        """Watch; ``beat`` is called at least every few seconds. Raises SourceUnreadable.

        The log is followed from before the first check, so that no record falls between the two.
        """
        with Follower(self._log) as log:
            while not self._stopped:
                for record in log.read():
                    if any(anchor in record for anchor in self._anchors):
                        self._schedule.notice(record)
                due = self._schedule.due_in(time.monotonic())
                if due <= 0:
                    self._schedule.begin(time.monotonic())
                    self._check()
                else:
                    log.wait(min(due, 5.0))
                beat()


def watch_node(settings: Settings, say: Say, hooks: str) -> None:
    """Be this node's watcher until SIGTERM; one at a time. ``hooks`` is the script of the hooks.

    Raises SourceUnreadable if the log can not be followed.
    """
    files.make_folder(LOCK.rpartition("/")[0])
    with files.locked(LOCK, LOCK_PATIENCE) as alone:
        if not alone:
            say("another watcher runs on this node")
            return
        overlay = Path(settings.sources.rules)
        anchors = read_anchors(overlay if overlay.is_dir() else None)
        check = partial(run_check, say, hooks)
        watcher = Watcher(settings.sources.kmsg, anchors, settings.watch.interval, check)
        signal.signal(signal.SIGTERM, lambda *_: watcher.stop())
        signal.signal(signal.SIGINT, lambda *_: watcher.stop())
        say(f"watching {settings.sources.kmsg}")
        notify("READY=1")
        watcher.run(partial(notify, "WATCHDOG=1"))
        notify("STOPPING=1")


def run_check(say: Say, hooks: str) -> None:
    """Run the health check in a process of its own, and kill it when its time is over."""
    argv = [sys.executable, "-I", "-S", hooks, "healthcheck"]
    quiet = subprocess.DEVNULL
    child = subprocess.Popen(argv, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    try:
        child.wait(CHECK_LIMIT)
    except subprocess.TimeoutExpired:
        say(f"a check of this node has not ended in {CHECK_LIMIT:.0f} s; no verdict")
        os.killpg(child.pid, 9)


def notify(message: str) -> None:
    """Tell systemd, where it started us with Type=notify (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        name = "\0" + address[1:] if address.startswith("@") else address
        channel.sendto(message.encode(), name)
