"""Lines of any log → Records.

A format says two things: which prefixes to expect, and how far a line can be believed. ``auto`` is
for a file in an admin's hands: it reads every form, and believes what looks like the kernel's own
buffer. A caller who acts on what it reads names the format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slurm_failover.model import Record
from slurm_failover.parse.journal import parse_journal_line
from slurm_failover.parse.kmsg import is_kmsg, parse_kmsg
from slurm_failover.parse.prefixes import KERNEL, Clock, Line, strip
from slurm_failover.parse.text import decode


@dataclass(frozen=True, slots=True)
class Format:
    """How to read one kind of log.

    ``bare`` is the origin of a line without prefixes; ``ring`` says that what the kernel's buffer
    or a BMC holds can be believed; ``strict`` that a line in no known form is not the kernel's.
    """

    ring: bool = False
    bare: str = ""
    bare_trusted: bool = False
    strip: bool = True
    levels: bool = False
    strict: bool = False


_RING = Format(ring=True, bare=KERNEL, bare_trusted=True)
_TEXT = Format()
_PROGRAM = Format(bare="job", strip=False)
FORMATS: dict[str, Format] = {
    "auto": Format(ring=True, bare_trusted=True),
    "raw": Format(ring=True, bare_trusted=True),
    "kmsg": Format(strict=True),
    "journald": Format(strict=True),
    "dmesg": _RING,
    "console": _RING,
    "talos": _RING,
    "pstore": Format(ring=True, bare=KERNEL, bare_trusted=True, levels=True),
    "ipmi-sel": Format(ring=True, bare="bmc", bare_trusted=True),
    "syslog": _TEXT,
    "iso8601": _TEXT,
    "journal": _TEXT,
    "slurmd": Format(bare="slurmd"),
    "fabricmanager": Format(bare="fabricmanager"),
    "stderr": _PROGRAM,
    "nvidia-smi": _PROGRAM,
}
_JOB = re.compile(
    rb"^(?:srun: |slurmstepd[\w-]*: |Traceback |\[rank\d+\]|.{0,80}(?:ProcessGroupNCCL|NCCL WARN))",
    re.M,
)
_STAMPED = re.compile(
    rb"^(?:\[ *\d+\.\d+\]|\[[A-Z][a-z]{2} |kern *:|<\d>\[|\d+,\d+,\d+,|\{)|kernel: ", re.M
)
_LEVELS = re.compile(rb"\A(?:(?:Panic|Oops)#\d+ Part\d+\n|<\d+>\[.*\n<\d+>\[)")


def known_format(name: str) -> str | None:
    """The format that a name stands for: ``dmesg -T`` is ``dmesg``. None where there is none."""
    first = name.strip().lower().split(" ")[0]
    return first if first in FORMATS else None


def sniff(head: bytes) -> str:
    """The format of a file, from its first bytes: pstore, the output of a job, or ``auto``."""
    if _LEVELS.match(head):
        return "pstore"
    if _JOB.search(head) and not _STAMPED.search(head):
        return "stderr"
    return "auto"


def parse_lines(
    lines: Iterable[bytes],
    format: str = "auto",
    *,
    now: float,
    boot_time: float | None = None,
    source: str = "",
) -> Iterator[Record]:
    """One record per line that holds a message, numbered from 1.

    ``now`` settles the year of stamps that have none; ``boot_time`` turns seconds since the boot
    into times. Raises KeyError on a format that is not in FORMATS.
    """
    return parse_numbered(enumerate(lines, 1), format, now=now, boot_time=boot_time, source=source)


def parse_numbered(
    numbered: Iterable[tuple[int, bytes]],
    format: str = "auto",
    *,
    now: float,
    boot_time: float | None = None,
    source: str = "",
) -> Iterator[Record]:
    """As parse_lines, for lines that were picked out of a file and carry their numbers."""
    form = FORMATS[format]
    clock = Clock(now, boot_time, form.levels)
    for number, raw in numbered:
        record = _parse(raw, form, clock, boot_time)
        if record is not None and record.text:
            yield _placed(record, number, source)


def _placed(record: Record, number: int, source: str) -> Record:
    return Record(
        text=record.text,
        line=number,
        time=record.time,
        time_certain=record.time_certain,
        sequence=record.sequence,
        trusted=record.trusted,
        source=source or record.source,
        origin=record.origin,
        repeats=record.repeats,
    )


def _parse(raw: bytes, form: Format, clock: Clock, boot_time: float | None) -> Record | None:
    if is_kmsg(raw):
        record = parse_kmsg(raw, boot_time or 0.0)
        return record if boot_time is not None else _untimed(record)
    if raw[:1] == b"{" and (entry := parse_journal_line(raw)) is not None:
        return entry
    if form.strict:
        return None
    text = decode(raw)
    if not form.strip:
        return Record(text=text, origin=form.bare)
    line = strip(text, clock)
    return _record(line, form, bare=line.text == text and not line.origin)


def _untimed(record: Record) -> Record:
    return Record(
        text=record.text,
        sequence=record.sequence,
        trusted=record.trusted,
        source=record.source,
        origin=record.origin,
    )


def _record(line: Line, form: Format, *, bare: bool) -> Record:
    trusted = form.bare_trusted if bare else form.ring and line.ring
    return Record(
        text=line.text,
        time=line.stamp.time,
        time_certain=line.stamp.certain,
        trusted=trusted and line.origin != "user",
        origin=line.origin or form.bare,
        repeats=line.repeats,
    )
