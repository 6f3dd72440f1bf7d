"""The time stamps of logs → seconds since the epoch, and whether they are certain.

A stamp is certain when it names its year and its zone. ``dmesg -T`` prints a wall clock computed
from a monotonic one, which is off after a suspend or a clock step, so it never is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

DAY = 86400.0
_MONTH = r"(?P<mon>\d{1,2}[月월]|[^\W\d_]{3,5}\.?)"
MONTHS = {m: i for i, m in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}  # noqa: SIM905

_ISO = (
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T ](?P<clock>\d\d:\d\d:\d\d)"
    r"(?P<point>[.,])?(?P<fraction>(?<=[.,])\d{1,9})? ?(?P<zone>Z|UTC|[+-]\d\d:?\d\d)?"
)
ISO = re.compile(_ISO)
ISO_BRACKETED = re.compile(rf"\[{_ISO}\]")
MONOTONIC = re.compile(
    r"\[ {0,12}(?P<uptime>\d{1,12}(?:\.\d{1,9})?)(?: +<[ +]{0,9}[\d.]{1,18}>)?\] ?"
)
DELTA = re.compile(r"\[ {0,9}(?:[+-]|< {0,9})\d{1,9}\.\d{1,9}>?\] ?")
CTIME = re.compile(
    rf"\[[^\W\d_]{{1,5}}\.? +{_MONTH} +(?P<day>\d{{1,2}}) +(?P<clock>\d\d:\d\d:\d\d)"
    r"(?:[.,]\d{1,9})? +(?P<year>\d{4})(?: +<[ +]{0,9}[\d.]{1,18}>)?\] ?"
)
HUMAN = re.compile(r"\[(?P<mon>[A-Z][a-z]{2}) ?(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d)\] ?")
NAMED = re.compile(
    r"\[(?P<mon>[A-Z][a-z]{2}) (?P<day>\d\d) (?P<year>\d{4}) (?P<clock>[\d:]{8})\] ?"
)
SYSLOG = re.compile(rf"{_MONTH} +(?P<day>\d{{1,2}}) +(?P<clock>\d\d:\d\d:\d\d)(?:\.\d{{1,9}})? +")
UNIX = re.compile(r"(?P<epoch>\d{9,11}\.\d{1,9}) +")
SEL = re.compile(
    r"\s{0,8}[0-9a-f]{1,6}\s*[|,]\s*(?:(?P<a>\d\d)/(?P<b>\d\d)/(?P<year>\d{4}|\d\d)"
    r"|(?P<mon>[A-Z][a-z]{2})-(?P<day>\d\d)-(?P<named_year>\d{4}))"
    r"\s*[|,]\s*(?P<clock>\d\d:\d\d:\d\d)(?: (?P<half>[AP]M))?(?: (?P<zone>[A-Z]{3,5}))?\s*[|,]"
)


@dataclass(frozen=True, slots=True)
class Stamp:
    """A point in time; ``time`` None says that the stamp holds none that can be used."""

    time: float | None
    certain: bool = False


NO_STAMP = Stamp(None)


def iso(found: re.Match[str]) -> Stamp:
    """A stamp as ``2025-01-21T04:41:44,283302+00:00``, with or without fraction and zone."""
    zone = found["zone"]
    moment = _moment(int(found["year"]), int(found["month"]), found["day"], found["clock"], zone)
    if moment is None:
        return NO_STAMP
    return Stamp(moment + float(f"0.{found['fraction'] or 0}"), certain=zone is not None)


def with_year(found: re.Match[str]) -> Stamp:
    """A stamp with the name of its month and with its year, in local time."""
    moment = _moment(int(found["year"]), _month(found["mon"]), found["day"], found["clock"], None)
    return Stamp(moment)


def without_year(found: re.Match[str], now: float) -> Stamp:
    """A syslog stamp, in local time, in the last year in which it does not lie in the future.

    A month in another language than English gives no time: which one it is can not be known.
    """
    month = _month(found["mon"])
    this_year = datetime.fromtimestamp(now).astimezone().year
    for year in (this_year + 1, this_year, this_year - 1):
        moment = _moment(year, month, found["day"], found["clock"], None)
        if moment is not None and moment <= now + DAY:
            return Stamp(moment)
    return NO_STAMP


def sel(found: re.Match[str]) -> Stamp:
    """The date and clock of a line of a BMC's event log; ``ipmitool`` prints month before day."""
    if found["mon"]:
        year, month, day = found["named_year"], _month(found["mon"]), found["day"]
    else:
        year, month, day = found["year"], int(found["a"]), found["b"]
    clock = found["clock"]
    if found["half"]:
        hour = int(clock[:2]) % 12 + (12 if found["half"] == "PM" else 0)
        clock = f"{hour:02d}{clock[2:]}"
    zone = "Z" if found["zone"] == "UTC" else None
    full = int(year) + 2000 if len(year) == 2 else int(year)
    return Stamp(_moment(full, month, day, clock, zone), certain=zone is not None)


def _month(name: str) -> int:
    """The number of a month; Chinese, Japanese and Korean print it. 0 where it is not known."""
    if name[0].isdigit():
        return int(name[:-1])
    return MONTHS.get(name.lower().rstrip("."), 0)


def _moment(year: int, month: int, day: str, clock: str, zone: str | None) -> float | None:
    parts = [int(part) for part in clock.split(":")] + [0]
    try:
        moment = datetime(year, month, int(day), parts[0], parts[1], parts[2], tzinfo=_zone(zone))
        return moment.timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _zone(text: str | None) -> timezone | None:
    if text is None:
        return None
    if text in ("Z", "UTC"):
        return timezone.utc  # noqa: UP017
    sign = -1 if text[0] == "-" else 1
    hours, minutes = int(text[1:3]), int(text[-2:])
    return timezone(sign * timedelta(hours=hours, minutes=minutes))
