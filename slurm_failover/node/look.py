"""A look at this node's kernel log: how far it reaches, and what stands in it.

A look at a healthy node reads the log, finds none of the rules' anchors, and imports nothing more.
Where a watcher lives, it is asked first, and the look reaches as far as its reading: what a flood
has overwritten since is in what it caught.
"""

from __future__ import annotations

import os
import stat

from slurm_failover.anchors import read_anchors
from slurm_failover.errors import SourceUnreadable
from slurm_failover.frozen import dataclass, replace
from slurm_failover.node import caught
from slurm_failover.node.ask import ask_watcher
from slurm_failover.sources import kmsg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from slurm_failover.catalogue import Catalogue
    from slurm_failover.model import Event
    from slurm_failover.settings.tables import SourceSettings


@dataclass(frozen=True, slots=True)
class Look:
    """The suspicious records that were looked at, and how far the log reaches."""

    records: tuple[bytes, ...]
    last: int
    boot: str
    boot_time: float

    @property
    def is_clean(self) -> bool:
        """Whether nothing in the log could be a fault."""
        return not self.records

    def after(self, cursor: int) -> Look:
        """The part of the look behind sequence number ``cursor``."""
        fresh = tuple(raw for raw in self.records if kmsg.sequence(raw) > cursor)
        return replace(self, records=fresh)

    def since(self, time: float) -> Look:
        """The part of the look from ``time`` on, in seconds since the epoch, give or take one."""
        boot = self.boot_time
        young = tuple(raw for raw in self.records if boot + kmsg.seconds(raw) >= time - 1.0)
        return replace(self, records=young)

    def until(self, cursor: int) -> Look:
        """The part of the look up to sequence number ``cursor``."""
        old = tuple(raw for raw in self.records if kmsg.sequence(raw) <= cursor)
        return replace(self, records=old)


def look_at_log(sources: SourceSettings, after: int = -1) -> Look:
    """Read the log from sequence number ``after`` on. Raises SourceUnreadable."""
    boot = kmsg.boot_id(sources.proc)
    if not boot:
        raise SourceUnreadable("the kernel's boot id can not be read, so no record can be dated")
    lives = bool(ask_watcher(caught.FOLDER))
    held = caught.read_caught(caught.FOLDER, boot)
    glance = _glance_beside(sources, after, held, lives) if held else _glance(sources, after)
    last = max(glance.last, held.position if held else -1)
    return Look(_joined(glance, held, after), last, boot, kmsg.boot_time())


def _glance(sources: SourceSettings, after: int) -> kmsg.Glance:
    """What the log holds; the journal's where there is no log that can be read."""
    anchors = read_anchors(_overlay(sources))
    if not sources.kmsg:
        return _glance_at_journal(sources, anchors, after)
    try:
        return kmsg.glance(sources.kmsg, anchors, after)
    except SourceUnreadable as error:
        if not sources.journalctl:
            raise
        try:
            return _glance_at_journal(sources, anchors, after)
        except SourceUnreadable as other:
            raise SourceUnreadable(f"{error}; {other}") from other


def _glance_at_journal(
    sources: SourceSettings, anchors: tuple[bytes, ...], after: int
) -> kmsg.Glance:
    from slurm_failover.sources.journal import read_journal

    return kmsg.pick(read_journal(sources.journalctl), anchors, after)


def _glance_beside(
    sources: SourceSettings, after: int, held: caught.Caught, lives: bool
) -> kmsg.Glance:
    """What the log holds beside what a watcher has caught, and if that one ``lives``, up to where
    it stands. A pipe's records are the watcher's alone, and the journal is slow.
    """
    nothing = kmsg.Glance([], held.position)
    if _is_pipe(sources.kmsg):
        return nothing
    if not lives:
        return _glance(sources, after)
    if not os.access(sources.kmsg, os.R_OK):
        return nothing
    found = _glance(sources, after).suspicious
    known = [raw for raw in found if kmsg.sequence(raw) <= held.position]
    return replace(nothing, suspicious=known)


def _is_pipe(path: str) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)  # noqa: PTH116 - no pathlib on a hook's path
    except OSError:
        return False


def _joined(glance: kmsg.Glance, held: caught.Caught | None, after: int) -> tuple[bytes, ...]:
    """The records of the log and those that the watcher has caught, each once, in order."""
    records = {kmsg.sequence(raw): raw for raw in (held.records if held else ())}
    records |= {kmsg.sequence(raw): raw for raw in glance.suspicious}
    return tuple(records[number] for number in sorted(records) if number > after)


def read_rules(sources: SourceSettings) -> Catalogue:
    """The rules in force on this node. Raises RuleError for a site's broken rule file."""
    from slurm_failover.catalogue import load_rules

    return load_rules(_overlay(sources))


def read_faults(look: Look, rules: Catalogue) -> list[Event]:
    """The events in a look's records."""
    from dataclasses import replace as replace_in

    from slurm_failover.classify import read_events
    from slurm_failover.parse import parse_kmsg

    records = (replace_in(parse_kmsg(raw, look.boot_time), source="kmsg") for raw in look.records)
    return read_events(records, rules)


def _overlay(sources: SourceSettings) -> Path | None:
    """The folder of the site's own rules, if there is one; only then is pathlib worth its time."""
    if not os.path.isdir(sources.rules):  # noqa: PTH112
        return None
    from pathlib import Path

    return Path(sources.rules)
