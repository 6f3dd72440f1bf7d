"""``slurm-failover report``: one page for a browser on what faults and failovers there were."""

from __future__ import annotations

import errno
import os
import tempfile
import time
from pathlib import Path

import click

from slurm_failover import report
from slurm_failover.commands.banner import clock
from slurm_failover.commands.history import COLUMNS, row_of
from slurm_failover.commands.past import Past, look_back, span_options
from slurm_failover.errors import FailoverError
from slurm_failover.files import what_instead
from slurm_failover.report.page import Matter, Scope
from slurm_failover.settings.tables import Settings
from slurm_failover.slurm.accounting import Span

_THERE = "is there already; --force replaces it"
STYLE = Path(report.__file__).with_name("style.css")


class NotWritten(FailoverError):
    """The page could not be written; the text names the file and the remedy."""


@click.command("report")
@click.option("--html", "path", required=True, metavar="FILE", help="Where to write the page.")
@span_options("now-30days")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@click.pass_obj
def command(settings: Settings, *, path: str, span: Span, force: bool) -> None:
    """Write a page with plots of faults, failovers and their cost.

    The page needs nothing else: no script, no network, no other file. It holds what you may see of
    Slurm's accounting, names of users and jobs included.
    """
    _refuse(path, force=force)
    text = make_report(look_back(settings, span), span, time.time())
    write_page(path, text, force=force)
    click.echo(f"{path}: {len(text.encode()) // 1024 + 1} KiB")


def make_report(past: Past, span: Span, now: float) -> str:
    """The page on what happened in a span."""
    entries = past.entries
    matter = Matter(
        scope=Scope(span.since, span.until, clock(now)),
        summary=report.sum_up(entries, past.runs, now),
        charts=report.draw_up(entries),
        rows=[(entry, row_of(entry)) for entry in entries],
        columns=COLUMNS,
    )
    return report.make_page(matter, STYLE.read_text())


def write_page(path: str, text: str, *, force: bool) -> None:
    """Write a file whole or not at all, and never over another one unless ``force``. It is made
    under a name that nobody can know before, and follows no link. What is no file, as /dev/null is
    none, is never replaced. Raises NotWritten.
    """
    _refuse(path, force=force)
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=".slurm-failover-", dir=target.parent)
    except OSError as error:
        raise NotWritten(f"{path}: {error.strerror}") from error
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(handle, 0o666 & ~_umask())
            os.fsync(handle)
        if force:
            temporary.replace(target)
        else:
            target.hardlink_to(temporary)
    except FileExistsError as error:
        raise NotWritten(f"{path} {_THERE}") from error
    except OSError as error:
        raise NotWritten(f"{path}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _refuse(path: str, *, force: bool) -> None:
    """Raises NotWritten where something stands that must stay, or where nothing can be written."""
    target = Path(path)
    if not os.access(target.parent, os.W_OK | os.X_OK):
        error = errno.EACCES if target.parent.is_dir() else errno.ENOENT
        words = f"{path}: {os.strerror(error)}"
        raise NotWritten(f"{words}; name a FILE in a folder that is there and is yours to write to")
    try:
        mode = target.lstat().st_mode
    except OSError:
        return
    if what := what_instead(mode):
        inside = f", as {target / 'report.html'}" if target.is_dir() else ""
        words = f"{path} is no file but {what}, and stays as it is"
        raise NotWritten(f"{words}; name another FILE{inside}")
    if not force:
        raise NotWritten(f"{path} {_THERE}")


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
