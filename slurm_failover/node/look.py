"""A look at this node's kernel log: what is new, what it means, and what it says of a job.

A look at a healthy node reads the log, finds none of the rules' anchors, and imports nothing more.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_failover.anchors import read_anchors
from slurm_failover.errors import SourceUnreadable
from slurm_failover.sources import kmsg

if TYPE_CHECKING:
    from slurm_failover.model import Event, Judgement, Window
    from slurm_failover.settings import SourceSettings


@dataclass(frozen=True, slots=True)
class Look:
    """The suspicious records of the whole log, and how far the log reaches."""

    records: tuple[bytes, ...]
    last: int
    boot: str
    boot_time: float

    @property
    def is_clean(self) -> bool:
        """Whether nothing in the log could be a fault."""
        return not self.records


def look_at_log(sources: SourceSettings, after: int = -1) -> Look:
    """Read the log from sequence number ``after`` on. Raises SourceUnreadable."""
    overlay = Path(sources.rules) if os.path.isdir(sources.rules) else None  # noqa: PTH112
    glance = kmsg.glance(sources.kmsg, read_anchors(overlay), after)
    boot = kmsg.boot_id()
    if not boot:
        raise SourceUnreadable("the kernel's boot id can not be read, so no record can be dated")
    return Look(tuple(glance.suspicious), glance.last, boot, kmsg.boot_time())


def read_faults(look: Look, sources: SourceSettings) -> list[Event]:
    """The events in a look's records. Raises RuleError for a site's broken rule file."""
    from slurm_failover.catalogue import load_rules
    from slurm_failover.classify import read_events
    from slurm_failover.parse import parse_kmsg

    folder = Path(sources.rules)
    records = (replace(parse_kmsg(raw, look.boot_time), source="kmsg") for raw in look.records)
    return read_events(records, load_rules(folder if folder.is_dir() else None))


def judge_node(look: Look, cursor: int, since: float, sources: SourceSettings) -> Judgement:
    """The judgement on what is new: after sequence number ``cursor``, and not before ``since``."""
    from slurm_failover.classify import judge

    fresh = [raw for raw in look.records if kmsg.sequence(raw) > cursor]
    events = read_faults(replace(look, records=tuple(fresh)), sources)
    return judge([event for event in events if (event.last_time or event.time or 0.0) >= since])


def judge_job(look: Look, window: Window, sources: SourceSettings) -> Judgement:
    """The judgement on what the log says of a job: whose fault its end was."""
    from slurm_failover.classify import judge

    return judge(read_faults(look, sources), window)
