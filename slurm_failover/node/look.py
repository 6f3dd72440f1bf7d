"""A look at this node's kernel log: how far it reaches, and what stands in it.

A look at a healthy node reads the log, finds none of the rules' anchors, and imports nothing more.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from slurm_failover.anchors import read_anchors
from slurm_failover.errors import SourceUnreadable
from slurm_failover.sources import kmsg

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
    glance = kmsg.glance(sources.kmsg, read_anchors(_overlay(sources)), after)
    boot = kmsg.boot_id(sources.proc)
    if not boot:
        raise SourceUnreadable("the kernel's boot id can not be read, so no record can be dated")
    return Look(tuple(glance.suspicious), glance.last, boot, kmsg.boot_time())


def read_rules(sources: SourceSettings) -> Catalogue:
    """The rules in force on this node. Raises RuleError for a site's broken rule file."""
    from slurm_failover.catalogue import load_rules

    return load_rules(_overlay(sources))


def read_faults(look: Look, rules: Catalogue) -> list[Event]:
    """The events in a look's records."""
    from slurm_failover.classify import read_events
    from slurm_failover.parse import parse_kmsg

    records = (replace(parse_kmsg(raw, look.boot_time), source="kmsg") for raw in look.records)
    return read_events(records, rules)


def _overlay(sources: SourceSettings) -> Path | None:
    """The folder of the site's own rules, if there is one; only then is pathlib worth its time."""
    if not os.path.isdir(sources.rules):  # noqa: PTH112
        return None
    from pathlib import Path

    return Path(sources.rules)
