"""What stands before a message: stamps, levels, hosts, tags. Layer by layer, outermost first.

Where a line says itself who wrote it (a facility, a tag), that counts; text behind the tag of a
program is never looked at as the kernel's, whatever it looks like.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from slurm_failover.parse import stamps
from slurm_failover.parse.stamps import NO_STAMP, Stamp

KERNEL = "kernel"
_FACILITIES = (
    "kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|res\\d{1,2}|local\\d"
)
_DECODED = re.compile(rf"(?P<facility>{_FACILITIES}) {{0,6}}:(?P<level>[a-z]{{3,6}}) {{0,6}}: ")
_TALOS = re.compile(
    rf"[\w.:-]{{1,64}}: (?P<facility>{_FACILITIES}): +[a-z]{{3,9}}: \[(?P<iso>[^\]]{{10,40}})\]: ?"
)
_LEVEL = re.compile(r"<(?P<level>\d{1,3})>(?=\[)")
_PRIORITY = re.compile(r"<\d{1,3}>(?:1 )?(?=\d{4}-|[A-Z][a-z]{2} )")
_CALLER = re.compile(r"\[ {0,9}[TC]\d{1,9}\] ?")
_WEEKDAY = re.compile(r"[^\W\d_]{1,5}\.? (?=\d{4}-\d\d-\d\d )")
_TAG = re.compile(
    r"(?:(?P<host>[\w.:/-]{0,254}[\w/-]) +)?(?P<tag>[\w./@()-]{1,64})(?:\[\d{1,10}\])?: ?"
)
_KERNEL_TAG = re.compile(r"(?:[\w.-]{1,255} +)?kernel: ")
_RFC5424 = re.compile(
    r"(?P<host>\S{1,255}) (?P<tag>[\w./-]{1,48}) (?:-|\d{1,10}) \S{1,32} "
    r"(?:-|\[[^\]]{0,400}\]) (?:\ufeff)?"
)
_REPEATED = re.compile(r"message repeated (?P<times>\d{1,9}) times: \[ ?(?P<text>.*?)\]?$", re.S)
_STEP = re.compile(r"\[\d{1,12}\.\w{1,12}\] ")
_MANAGER = re.compile(r"\[[A-Z]{3,9}\] \[tid \d{1,10}\] ")
_GLUED = re.compile(r"NVOC: .{0,400}?\S(?=NVRM: )")


@dataclass(frozen=True, slots=True)
class Line:
    """A message with what its prefixes said of it.

    ``ring`` says that it comes from the kernel's own buffer or from a BMC, as opposed to a file
    into which every program of a node can write.
    """

    text: str
    stamp: Stamp = NO_STAMP
    origin: str = ""
    ring: bool = False
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class Clock:
    """What stamps are read against: the present, the boot where it is known.

    ``levels`` says that ``<3>[12.3]`` may open every line, as in pstore and with ``dmesg -r``.
    Elsewhere such a prefix stays before an Xid: that is what text looks like that somebody wrote
    into /dev/kmsg.
    """

    now: float
    boot_time: float | None = None
    levels: bool = False


def strip(text: str, clock: Clock) -> Line:
    """The message of a line and what its prefixes say."""
    for layer in (_bracketed, *_LAYERS) if text.startswith("[") else _LAYERS:
        line = layer(text, clock)
        if line is not None:
            return _unfolded(line)
    return _unfolded(Line(text))


def _levelled(text: str, clock: Clock) -> Line | None:
    head = _LEVEL.match(text)
    if head is None or ("NVRM: Xid" in text and not clock.levels):
        return None
    return _ring(text[head.end() :], _origin_of(int(head["level"]) >> 3 == 0), clock)


def _decoded(text: str, clock: Clock) -> Line | None:
    head = _DECODED.match(text)
    if head is None:
        return None
    return _ring(text[head.end() :], _origin_of(head["facility"] == "kern"), clock)


def _talos(text: str, clock: Clock) -> Line | None:
    head = _TALOS.match(text)
    stamp = stamps.ISO.match(head["iso"]) if head else None
    if head is None or stamp is None:
        return None
    origin = _origin_of(head["facility"] == "kern")
    return Line(text[head.end() :], stamps.iso(stamp), origin, ring=True)


def _origin_of(kernel: bool) -> str:
    return KERNEL if kernel else "user"


def _ring(text: str, origin: str, clock: Clock) -> Line:
    """A message of the kernel's buffer behind the stamp that ``dmesg`` gave it, if any."""
    stamp, rest = _ring_stamp(text, clock)
    rest = _after(_CALLER, rest.lstrip(" "))
    tagged = _KERNEL_TAG.match(rest)
    if tagged is not None:
        return Line(rest[tagged.end() :], stamp, origin, ring=False)
    return Line(rest, stamp, origin, ring=True)


def _ring_stamp(text: str, clock: Clock) -> tuple[Stamp, str]:
    if head := stamps.MONOTONIC.match(text):
        return _since_boot(head, clock), text[head.end() :]
    if head := stamps.CTIME.match(text):
        return stamps.with_year(head), text[head.end() :]
    if head := stamps.HUMAN.match(text):
        return stamps.without_year(head, clock.now), text[head.end() :]
    if head := stamps.DELTA.match(text):
        return NO_STAMP, text[head.end() :]
    if head := stamps.ISO.match(text):
        return stamps.iso(head), text[head.end() :]
    return NO_STAMP, text


def _since_boot(head: re.Match[str], clock: Clock) -> Stamp:
    if clock.boot_time is None:
        return NO_STAMP
    return Stamp(clock.boot_time + float(head["uptime"]), certain=True)


def _after(pattern: re.Pattern[str], text: str) -> str:
    head = pattern.match(text)
    return text[head.end() :] if head else text


def _bracketed(text: str, clock: Clock) -> Line | None:
    if head := stamps.MONOTONIC.match(text):
        return _ring(text, KERNEL if "." in head["uptime"] else "", clock)
    if any(form.match(text) for form in (stamps.CTIME, stamps.HUMAN, stamps.DELTA)):
        return _ring(text, KERNEL, clock)
    if head := stamps.ISO_BRACKETED.match(text):
        return _console_or_daemon(text[head.end() :], stamps.iso(head), head)
    if head := stamps.NAMED.match(text):
        return Line(_after(_MANAGER, text[head.end() :]), stamps.with_year(head), "fabricmanager")
    return None


def _console_or_daemon(rest: str, stamp: Stamp, head: re.Match[str]) -> Line:
    """Behind ``[date clock]``: a console's capture, a daemon, or a program of the job.

    The daemons of Slurm print milliseconds and no zone; other daemons may copy the kernel's lines.
    """
    if "T" in head[0] and (head["zone"] or len(head["fraction"] or "") != 3):
        return Line(rest.lstrip(" "), stamp)
    if "T" in head[0]:
        return Line(_after(_STEP, rest.lstrip(" ")), stamp, "slurmd")
    rest = rest.lstrip(" ")
    if inner := stamps.MONOTONIC.match(rest):
        return Line(_after(_CALLER, rest[inner.end() :]), stamp, KERNEL, ring=True)
    return Line(rest, stamp, "job")


def _sel(text: str, clock: Clock) -> Line | None:
    head = stamps.SEL.match(text)
    return None if head is None else Line(text, stamps.sel(head), "bmc", ring=True)


def _wall(text: str, clock: Clock) -> Line | None:
    """A line of a text log: stamp, host, tag, message."""
    bare = _after(_WEEKDAY, _after(_PRIORITY, text))
    if head := stamps.ISO.match(bare):
        stamp = stamps.iso(head)
        if head["point"] == ",":
            return Line(_after(_CALLER, bare[head.end() :].lstrip()), stamp, KERNEL, ring=True)
    elif head := stamps.SYSLOG.match(bare):
        stamp = stamps.without_year(head, clock.now)
    elif head := stamps.UNIX.match(bare):
        stamp = Stamp(float(head["epoch"]), certain=True)
    else:
        return None
    return _tagged(re.sub(r"^ ?[A-Z]{3,4} (?=\S+ )", "", bare[head.end() :]).lstrip(), stamp)


def _tagged(rest: str, stamp: Stamp) -> Line:
    head = _RFC5424.match(rest) or _TAG.match(rest)
    if head is None:
        return Line(rest, stamp, "job")
    text = rest[head.end() :]
    if head["tag"] != KERNEL:
        return Line(text, stamp, head["tag"])
    return Line(_after(_CALLER, _after(stamps.MONOTONIC, text)), stamp, KERNEL)


def _lone_tag(text: str, clock: Clock) -> Line | None:
    head = _KERNEL_TAG.match(text)
    if head is None:
        return None
    inner = _after(stamps.MONOTONIC, text[head.end() :])
    return Line(_after(_CALLER, inner), NO_STAMP, KERNEL)


def _unfolded(line: Line) -> Line:
    """The message inside "message repeated N times: [ ]", or behind one that lost its line end."""
    if folded := _REPEATED.match(line.text):
        text = _after(stamps.MONOTONIC, folded["text"])
        return replace(line, text=text, repeats=int(folded["times"]))
    if glued := _GLUED.match(line.text):
        return replace(line, text=line.text[glued.end() :])
    return line


_LAYERS: tuple[Callable[[str, Clock], Line | None], ...] = (
    _levelled,
    _decoded,
    _talos,
    _sel,
    _wall,
    _lone_tag,
)
