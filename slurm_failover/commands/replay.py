"""``slurm-failover replay``: a saved story, judged again and held against its golden verdict.

A case is a folder with ``case.toml``, the logs that it names, and ``verdict.json``::

    title = "A GPU falls off the bus"
    source = "where the story was told"
    [job]                      # optional: without it every event counts
    start = 1700000000.0
    end = 1700000600.0
    gpus = ["0000:3b:00"]      # optional: without it all GPUs are the job's
    [[log]]
    file = "kernel.log"
    format = "dmesg"
    boot_time = 1699990000.0   # optional
"""

from __future__ import annotations

import difflib
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from slurm_failover.catalogue import Catalogue, load_rules
from slurm_failover.classify import read_events, weigh
from slurm_failover.errors import SourceUnreadable
from slurm_failover.files import read_named
from slurm_failover.model import Event, Judgement, Record, Window
from slurm_failover.parse import known_format, parse_lines

_KEYS = {"title", "source", "now", "note", "trust_text", "job", "log"}


@dataclass(frozen=True, slots=True)
class Case:
    """A story: what it is called, its events, and how they are judged."""

    title: str
    events: tuple[Event, ...]
    judgement: Judgement


@click.command("replay")
@click.argument("folders", nargs=-1, required=True, metavar="CASE-DIR…")
@click.option("--update", is_flag=True, help="Write verdict.json anew instead of comparing.")
def command(folders: tuple[str, ...], update: bool) -> None:
    """Judge saved cases again; status 1 says a verdict changed.

    A folder without case.toml stands for all cases inside it.
    """
    catalogue = load_rules()
    changed = 0
    for folder in _cases(folders):
        told = render(read_case(folder, catalogue))
        golden = folder / "verdict.json"
        if update:
            _write(golden, told)
            continue
        known = _read(golden).decode("utf-8", "replace") if golden.exists() else ""
        changed += known != told
        click.echo(f"{folder.name}: {'changed' if known != told else 'as before'}")
        click.echo("".join(_difference(known, told)), nl=False)
    if changed:
        raise click.ClickException(f"{changed} verdicts changed; --update writes them anew")


def read_case(folder: Path, catalogue: Catalogue) -> Case:
    """Read and judge a case. Raises SourceUnreadable, which names what is missing or wrong."""
    path = folder / "case.toml"
    raw = _read(path)
    try:
        table = tomllib.loads(raw.decode())
        unknown = table.keys() - _KEYS
        if unknown:
            raise SourceUnreadable(f"{path}: unknown key {sorted(unknown)[0]!r}")
        events = _events(folder, table, catalogue)
        return Case(table["title"], tuple(events), _judged(events, table))
    except KeyError as error:
        raise SourceUnreadable(f"{path}: {error} is missing") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise SourceUnreadable(f"{path} is not as a case is written: {error}") from error


def render(case: Case) -> str:
    """The golden text of a case: the verdict first, then the events that led to it."""
    root = case.judgement.root
    return (
        json.dumps(
            {
                "title": case.title,
                "verdict": case.judgement.cause,
                "node": case.judgement.node,
                "because": case.judgement.because,
                "blamed": root.pci if root else None,
                "events": [_event(event) for event in case.events],
            },
            indent=1,
            ensure_ascii=False,
        )
        + "\n"
    )


def _cases(folders: tuple[str, ...]) -> list[Path]:
    found: list[Path] = []
    for name in folders:
        folder = Path(name)
        if not folder.is_dir():
            what = "is no folder" if folder.exists() else "is not there"
            raise SourceUnreadable(f"{name} {what}: name the folder of a case.toml, or one of such")
        inside = sorted(entry.parent for entry in folder.glob("*/case.toml"))
        own = [folder] if (folder / "case.toml").exists() else []
        if not own and not inside:
            raise SourceUnreadable(f"{name}: no case.toml is in it, nor in a folder in it")
        found += own or inside
    return found


def _read(path: Path) -> bytes:
    """A file of a case. Raises SourceUnreadable."""
    try:
        return read_named(str(path))
    except OSError as error:
        raise SourceUnreadable(f"{path} can not be read: {error.strerror}") from error


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SourceUnreadable(f"{path} can not be written: {error.strerror}") from error


def _events(folder: Path, table: dict[str, Any], catalogue: Catalogue) -> list[Event]:
    records: list[Record] = []
    for log in table["log"]:
        form = known_format(log["format"])
        if form is None:
            raise ValueError(f"{log['format']!r} is no known format")
        records += parse_lines(
            _read(folder / log["file"]).split(b"\n"),
            form,
            now=table.get("now", 1.8e9),
            boot_time=log.get("boot_time"),
            source=log["file"],
        )
    return read_events(records, catalogue)


def _judged(events: list[Event], table: dict[str, Any]) -> Judgement:
    job = table.get("job", {})
    window = Window(job["start"], job["end"], job.get("grace", 30.0)) if "start" in job else None
    gpus = frozenset(job["gpus"]) if "gpus" in job else None
    return weigh(events, window, gpus, trust_text=table.get("trust_text", False))


def _event(event: Event) -> str:
    times = f" ×{event.lines}" if event.lines > 1 else ""
    return f"{event.source}:{event.line} {event.klass}: {event.because}{times}"


def _difference(known: str, told: str) -> list[str]:
    before, after = known.splitlines(keepends=True), told.splitlines(keepends=True)
    return list(difflib.unified_diff(before, after, "golden", "now", n=1))
