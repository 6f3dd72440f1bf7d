"""What the registers of an NVLink5 Xid (144 to 150) say.

The driver prints ``UNIT Fatal|Nonfatal XCn in Link NN (intrInfo errorStatus …)``. Bits 25 to 20 of
intrInfo are the sub-code. Its low bits name the unit, in one layout before driver R575 and in
another since; so the printed unit counts, and the bits only where the unit is not printed.
Source: NVIDIA Xid catalogue, sheet "Xids 144-150 Decode".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from slurm_failover.model import FaultClass

_BODY = re.compile(
    r"(?P<unit>[A-Z][A-Z0-9_]{2,30})?\s*\b(?P<severity>Fatal|Non-?fatal)\s+"
    r"XC\d\s+i\d\s+Link\s+(?P<link>-?\d+)"
    r"(?:\s*\((?P<info>0x[0-9a-f]{8})(?:\s+(?P<status>0x[0-9a-f]{8}))?)?",
    re.IGNORECASE,
)
_WORST_FIRST = (FaultClass.HARDWARE, FaultClass.AMBIGUOUS, FaultClass.INFORMATIONAL)


@dataclass(frozen=True, slots=True)
class DecodeRow:
    """One row of the vendor's decode table. ``status`` None fits every error status."""

    xid: int
    units: tuple[str, ...]
    layouts: tuple[str, str]
    klass: FaultClass
    resolution: str
    subcode: int | None = None
    status: int | None = None


@dataclass(frozen=True, slots=True)
class LinkReport:
    """The words of one NVLink5 line. What was cut off is None."""

    unit: str | None
    fatal: bool
    link: int
    info: int | None
    status: int | None


def read_report(payload: str) -> LinkReport | None:
    """The report in the text after an Xid's code, or None where there is none."""
    match = _BODY.search(payload)
    if match is None:
        return None
    return LinkReport(
        unit=match["unit"],
        fatal=match["severity"].lower() == "fatal",
        link=int(match["link"]),
        info=int(match["info"], 16) if match["info"] else None,
        status=int(match["status"], 16) if match["status"] else None,
    )


def decode(xid: int, report: LinkReport, rows: Iterable[DecodeRow]) -> DecodeRow | None:
    """The worst row of the table that fits the report, or None where none does."""
    fitting = [row for row in rows if row.xid == xid and _fits(row, report)]
    return min(fitting, key=lambda row: _WORST_FIRST.index(row.klass), default=None)


def _fits(row: DecodeRow, report: LinkReport) -> bool:
    if report.info is None or not _same_unit(row, report.unit, report.info):
        return False
    if row.subcode is not None and row.subcode != (report.info >> 20) & 0x3F:
        return False
    if row.status is None:
        return True
    if report.status is None:
        return False
    return row.status == report.status or bool(row.status & report.status)


def _same_unit(row: DecodeRow, unit: str | None, info: int) -> bool:
    if unit is not None:
        return unit.upper() in row.units
    bits = f"{info:032b}"
    return any(
        all(want in ("-", have) for want, have in zip(layout, bits, strict=True))
        for layout in row.layouts
    )
