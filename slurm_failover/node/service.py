"""The watcher as a service: one at a time on a node, with everything that it watches by."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_failover import files
from slurm_failover.anchors import read_anchors
from slurm_failover.node import caught
from slurm_failover.node.ask import Desk
from slurm_failover.node.checks import NodeChecks
from slurm_failover.node.children import Children
from slurm_failover.node.intake import Intake
from slurm_failover.node.schedule import Schedule
from slurm_failover.node.systemd import notify
from slurm_failover.node.watch import Ears, Watcher
from slurm_failover.sources import kmsg
from slurm_failover.sources.follow import follow
from slurm_failover.sources.nvml.listener import Listener
from slurm_failover.sources.presence import nvml_may_answer

if TYPE_CHECKING:
    from slurm_failover.settings.tables import Settings

LOCK_PATIENCE = 5.0
"""Seconds to wait for the watcher before, which may be ending."""

Say = Callable[[str], None]


def watch_node(settings: Settings, say: Say, hooks: str) -> None:
    """Be this node's watcher until SIGTERM; one at a time. ``hooks`` is the script of the hooks.

    Raises SourceUnreadable if the log can not be followed.
    """
    folder = caught.FOLDER
    files.make_folder(folder)
    with files.locked(f"{folder}/lock", LOCK_PATIENCE) as alone:
        if not alone:
            say("another watcher runs on this node")
            return
        files.write_whole(f"{folder}/pid", f"{os.getpid()}\n")
        ears = make_ears(settings, say, folder)
        try:
            _watch(make_watcher(settings, say, hooks, ears, folder), say)
        finally:
            ears.close()


def make_ears(settings: Settings, say: Say, folder: str) -> Ears:
    """All that the settings call for. Raises SourceUnreadable."""
    sources = settings.sources
    hears = sources.nvml and settings.watch.nvml_events
    listener = Listener(say, partial(nvml_may_answer, sources.proc)) if hears else None
    return Ears(follow(sources.kmsg, sources.journalctl), Desk(folder), listener)


def make_watcher(settings: Settings, say: Say, hooks: str, ears: Ears, folder: str) -> Watcher:
    """A watcher that goes on where the one before it stopped, by what that left in ``folder`` and
    in the ledger.
    """
    read_ledger = NodeChecks(os.environ, settings, say).read_ledger
    overlay = Path(settings.sources.rules)
    anchors = read_anchors(overlay if overlay.is_dir() else None)
    boot, ledger = kmsg.boot_id(settings.sources.proc), read_ledger()
    intake = Intake(folder, anchors, boot, ledger.cursor if ledger.boot == boot else -1)
    schedule = Schedule(settings.watch.interval)
    held = caught.read_caught(folder, boot)
    for kind in intake.take(held.records) if held else ():
        schedule.notice(kind)
    checks = Children(hooks, say)
    return Watcher(intake, ears, schedule, checks=checks, read_ledger=read_ledger, say=say)


def _watch(watcher: Watcher, say: Say) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: watcher.stop())
    signal.signal(signal.SIGCHLD, lambda *_: None)  # the end of a check ends a wait
    signal.set_wakeup_fd(watcher.wake_handle, warn_on_full_buffer=False)
    say("watching")
    notify("READY=1")
    watcher.run(partial(notify, "WATCHDOG=1"))
    notify("STOPPING=1")
