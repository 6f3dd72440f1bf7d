"""``slurm-failover classify``: what the lines of a log mean, and whose fault it was."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import click

from slurm_failover.anchors import read_anchors
from slurm_failover.catalogue import load_rules
from slurm_failover.classify import concerns, read_events, weigh
from slurm_failover.classify.match import pci_id
from slurm_failover.cli import make_visible
from slurm_failover.errors import SourceUnreadable
from slurm_failover.model import Event, JobCause, Judgement, Record
from slurm_failover.parse import FORMATS, known_format, parse_kmsg, parse_numbered, sniff
from slurm_failover.settings.tables import Settings
from slurm_failover.sources import kmsg
from slurm_failover.sources.logs import Log, open_log, rotations, suspicious_lines

UNREADABLE = 3
KMSG = os.makedev(1, 11)
"""The device of /dev/kmsg (Documentation/admin-guide/devices.txt)."""


def format_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """The format's own name: ``dmesg -T`` and the like are ``dmesg``."""
    found = known_format(value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not one of {', '.join(FORMATS)}", ctx, param)
    return found


def moment(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Seconds since the epoch, from ISO 8601 or ``@SECONDS``."""
    if value is None:
        return None
    try:
        if value.startswith("@"):
            return float(value[1:])
        return datetime.fromisoformat(value).timestamp()
    except ValueError:
        remedy = "give 2026-01-31T12:00:00 or @SECONDS"
        raise click.BadParameter(f"{value!r} is no time; {remedy}", ctx, param) from None


def addresses(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """PCI addresses, checked: one that is none would hide every event and look like health."""
    for value in values:
        if pci_id(value) is None:
            raise click.BadParameter(f"{value!r} is no PCI address; give 0000:3b:00", ctx, param)
    return values


@click.command("classify")
@click.argument("files", nargs=-1, required=True, metavar="FILE…|-")
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines, one object per event.")
@click.option(
    "--format",
    "form",
    default="auto",
    callback=format_name,
    metavar="FORMAT",
    help=f"The logs' format: {', '.join(FORMATS)}. Default: auto.",
)
@click.option("--since", callback=moment, metavar="TIME", help="Leave out what is older.")
@click.option("--until", callback=moment, metavar="TIME", help="Leave out what is newer.")
@click.option(
    "--gpu",
    "gpus",
    multiple=True,
    callback=addresses,
    metavar="PCI",
    help="Only this GPU; may be repeated.",
)
@click.option(
    "--boot-time",
    callback=moment,
    metavar="TIME",
    help="When the node booted, for stamps since the boot.",
)
@click.option("--rotated", is_flag=True, help="Read the rotated predecessors of each FILE as well.")
@click.option("--verdict", is_flag=True, help="Say at the end whose fault it was.")
@click.option("--trust-text", is_flag=True, help="Let lines count that a user could have written.")
@click.pass_obj
def command(
    settings: Settings | None,
    *,
    files: tuple[str, ...],
    as_json: bool,
    form: str,
    since: float | None,
    until: float | None,
    gpus: tuple[str, ...],
    boot_time: float | None,
    rotated: bool,
    verdict: bool,
    trust_text: bool,
) -> None:
    """Say what the lines of log FILEs mean.

    Every form of kernel log is recognised: /dev/kmsg, journalctl -o json, dmesg, syslog, pstore,
    consoles; slurmd.log, the output of a job, ipmitool sel list; plain or gzipped. Exit status 3
    says that a FILE could not be read: then nothing is known of it.
    """
    overlay = _overlay(settings)
    reader = Reader(form, since, until, boot_time, read_anchors(overlay, programs=True))
    paths = reader.with_rotated(files) if rotated else list(files)
    found = read_events(reader.records(paths), load_rules(overlay))
    ours = frozenset(gpus) or None
    shown = [event for event in found if concerns(event, ours)]
    for event in shown:
        click.echo(_json_line(event) if as_json else _line(event))
    if verdict:
        judgement = reader.temper(weigh(found, gpus=ours, trust_text=trust_text))
        click.echo(_json_verdict(judgement) if as_json else _verdict_line(judgement))
    reader.report()
    if not (shown or verdict or as_json):
        click.echo("No line speaks of a fault.", err=True)


class Reader:
    """Reads logs one after the other, and remembers what could not be read."""

    def __init__(
        self,
        form: str,
        since: float | None,
        until: float | None,
        boot_time: float | None,
        anchors: tuple[bytes, ...],
    ) -> None:
        self._form, self._since, self._until = form, since, until
        self._boot_time, self._anchors = boot_time, anchors
        self._timeless = 0
        self._misfits: list[str] = []
        self._failures: list[SourceUnreadable] = []

    def with_rotated(self, files: tuple[str, ...]) -> list[str]:
        """The logs with their rotated predecessors; without those whose folder can not be read."""
        found: list[str] = []
        for path in files:
            try:
                beside = [] if path == "-" else [str(entry) for entry in rotations(Path(path))]
            except SourceUnreadable as error:
                self._failures.append(error)
            else:
                found += beside or [path]
        return found

    def records(self, paths: list[str]) -> Iterator[Record]:
        """The records of all logs that can speak of a fault, inside the wanted span."""
        for path in paths:
            try:
                yield from self._device(path) if is_kmsg(path) else self._file(open_log(path))
            except SourceUnreadable as error:
                self._failures.append(error)

    def _device(self, path: str) -> Iterator[Record]:
        """The records that /dev/kmsg holds now; reading on would wait for the next one."""
        for raw in kmsg.glance(path, self._anchors).suspicious:
            record = replace(parse_kmsg(raw, kmsg.boot_time()), source=path)
            if self._wanted(record):
                yield record

    def _file(self, log: Log) -> Iterator[Record]:
        form = sniff(log.head) if self._form == "auto" else self._form
        lines = _Counted(suspicious_lines(log, self._anchors))
        records = parse_numbered(
            lines, form, now=time.time(), boot_time=self._boot_time, source=log.name
        )
        misfit = True
        with progress(log):
            for record in records:
                misfit = False
                if self._wanted(record):
                    yield record
        if misfit and lines.count:
            self._misfits.append(log.name)

    def _wanted(self, record: Record) -> bool:
        if self._since is None and self._until is None:
            return True
        if record.time is None:
            self._timeless += 1
            return False
        after = self._since is None or record.time >= self._since
        return after and (self._until is None or record.time <= self._until)

    def temper(self, judgement: Judgement) -> Judgement:
        """The judgement, or unknown with the reason where it rests on a log that was not read."""
        if not self._failures or judgement.cause is not JobCause.UNKNOWN:
            return judgement
        return replace(judgement, because=str(self._failures[0]))

    def report(self) -> None:
        """Tell what was left out; ends the program with status 3 if a log could not be read."""
        if self._timeless:
            click.echo(f"{self._timeless} lines without a time were left out", err=True)
        for name in self._misfits:
            click.echo(
                f"{make_visible(name)}: no line is in the format {self._form}; name another",
                err=True,
            )
        for failure in self._failures:
            click.echo(f"Error: {make_visible(str(failure))}", err=True)
        if self._failures:
            sys.exit(UNREADABLE)


class _Counted:
    """Lines as they come, and how many came."""

    def __init__(self, lines: Iterator[tuple[int, bytes]]) -> None:
        self._lines, self.count = lines, 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for line in self._lines:
            self.count += 1
            yield line


@contextmanager
def progress(log: Log) -> Iterator[None]:
    """A bar on a terminal while a large file is read."""
    if log.size < 1 << 26 or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    with click.progressbar(length=log.size, label=log.name, file=sys.stderr) as bar:

        def advance() -> None:
            while not done.wait(0.2):
                bar.update(max(0, log.position() - bar.pos))

        watcher = threading.Thread(target=advance, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
            bar.update(max(0, log.size - bar.pos))


def is_kmsg(path: str) -> bool:
    """Whether the path is the kernel's log: no other device has records and an end."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:  # the reader's to tell
        return False
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == KMSG


def _overlay(settings: Settings | None) -> Path | None:
    return Path(settings.sources.rules) if settings is not None else None


def _json_line(event: Event) -> str:
    return json.dumps(
        {
            "file": event.source,
            "line": event.line,
            "lines": event.lines,
            "time": event.time,
            "kind": event.kind,
            "code": event.code,
            "pci": event.pci,
            "class": event.klass,
            "scope": event.scope,
            "rule": event.rule,
            "trusted": event.trusted,
            "because": event.because,
        },
        ensure_ascii=False,
    )


def _line(event: Event) -> str:
    times = f" ({event.lines} lines)" if event.lines > 1 else ""
    said = f"{event.line}: {event.klass}: {event.because}{times} [{event.rule}]"
    return f"{make_visible(event.source)}:{said}"


def _json_verdict(judgement: Judgement) -> str:
    return json.dumps(
        {"verdict": judgement.cause, "node": judgement.node, "because": judgement.because},
        ensure_ascii=False,
    )


def _verdict_line(judgement: Judgement) -> str:
    return f"verdict: {judgement.cause}, node: {judgement.node}: {judgement.because}"
