"""Lines of any log → Records.

A format says two things: which prefixes to expect, and how far a line can be believed. ``auto`` is
for a file in an admin's hands: it reads every form, and believes what looks like the kernel's own
buffer. A caller who acts on what it reads names the format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from slurm_failover.model import Record
from slurm_failover.parse.journal import parse_journal_line
from slurm_failover.parse.kmsg import is_kmsg, parse_kmsg
from slurm_failover.parse.prefixes import KERNEL, Clock, Line, strip
from slurm_failover.parse.text import decode


@dataclass(frozen=True, slots=True)
class Format:
    """How to read one kind of log.

    ``bare`` is the origin of a line without prefixes; ``ring`` says that what the kernel's buffer
    or a BMC holds can be believed; ``transports`` that lines may be records of /dev/kmsg or of the
    journal, which prove their origin; ``strict`` that nothing else counts.
    """

    ring: bool = False
    bare: str = ""
    bare_trusted: bool = False
    strip: bool = True
    levels: bool = False
    transports: bool = False
    strict: bool = False


_RING = Format(ring=True, bare=KERNEL, bare_trusted=True, levels=True)
_TEXT = Format()
_PROGRAM = Format(bare="job", strip=False)
FORMATS: dict[str, Format] = {
    "auto": Format(ring=True, bare_trusted=True, transports=True),
    "raw": Format(ring=True, bare_trusted=True, transports=True),
    "kmsg": Format(transports=True, strict=True),
    "journald": Format(transports=True, strict=True),
    "dmesg": _RING,
    "console": _RING,
    "talos": _RING,
    "pstore": _RING,
    "ipmi-sel": Format(ring=True, bare="bmc", bare_trusted=True),
    "syslog": _TEXT,
    "iso8601": _TEXT,
    "journal": _TEXT,
    "slurmd": Format(bare="slurmd"),
    "fabricmanager": _TEXT,
    "stderr": _PROGRAM,
    "nvidia-smi": _PROGRAM,
}
_INDENT = "    "  # dmesg indents the further lines of one message by the width of its stamp
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
        record = _parse(raw, form, clock, number, source)
        if record is not None and record.text:
            yield record


def _parse(raw: bytes, form: Format, clock: Clock, number: int, source: str) -> Record | None:
    if form.transports and (record := _transported(raw, clock)) is not None:
        return replace(record, line=number, source=source or record.source)
    if form.strict:
        return None
    text = decode(raw)
    if form.strip and text.startswith(_INDENT):
        text = text.lstrip()
    line = strip(text, clock) if form.strip else Line(text)
    bare = line.text == text and not line.origin
    trusted = form.bare_trusted if bare else form.ring and line.ring
    return Record(
        text=line.text,
        line=number,
        time=line.stamp.time,
        time_certain=line.stamp.certain,
        trusted=trusted and line.origin != "user",
        source=source,
        origin=line.origin or form.bare,
        repeats=line.repeats,
    )


def _transported(raw: bytes, clock: Clock) -> Record | None:
    """The record of a line that carries its own proof of origin, if it is such a line."""
    if raw[:1] == b"{":
        return parse_journal_line(raw)
    if not is_kmsg(raw):
        return None
    record = parse_kmsg(raw, clock.boot_time or 0.0)
    known = clock.boot_time is not None
    return record if known else replace(record, time=None, time_certain=False)
