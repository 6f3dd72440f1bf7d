"""Read and replace files of Slurm's configuration; root follows no link that a user can set."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from slurm_failover.errors import InstallError
from slurm_failover.files import read_named
from slurm_failover.trust import Owners, judge_step, steps


@dataclass(frozen=True, slots=True)
class Change:
    """A file before and after; None where there is no file."""

    path: str
    before: str | None
    after: str | None
    mode: int = 0o644


def read_text(path: str) -> str | None:
    """A file's text with every byte kept, or None where there is no file. Raises InstallError."""
    try:
        return read_named(path).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InstallError(f"{path}: can not be read: {error.strerror}") from error


def resolve(path: str, owners: Owners) -> str:
    """Where a path leads. Raises InstallError if anyone but the owners could lead it elsewhere."""
    at = "/"
    try:
        for at in steps(path):
            if weak := judge_step(at, owners):
                raise InstallError(
                    f"{weak.path}: {weak.found}; `{weak.remedy}`, since root writes only where "
                    "root and SlurmUser alone can lead it"
                )
    except OSError as error:
        raise InstallError(f"{path}: {error.strerror}") from error
    return at


def prepare(change: Change, owners: Owners) -> str:
    """The file that a change writes to. Raises InstallError if it is not as the plan saw it, leads
    where a user could lead it, or can not be written.
    """
    target = resolve(change.path, owners)
    if read_text(change.path) != change.before:
        raise InstallError(f"{change.path}: was changed in between; run this again")
    folder = str(Path(target).parent)
    if not os.access(folder, os.W_OK):
        reason = "run as root" if os.geteuid() else f"{folder} is read-only or not there"
        raise InstallError(f"{change.path}: can not be written: {reason}; nothing was changed")
    return target


def apply_change(change: Change, target: str, backup: str) -> None:
    """Make a prepared change, with a copy of the file as it was below the folder ``backup``.

    Raises InstallError if the file can not be written; it is then as it was.
    """
    try:
        if change.before is not None:
            _save(change, backup)
        if change.after is None:
            Path(target).unlink()
        else:
            _replace(target, change)
    except OSError as error:
        raise InstallError(f"{change.path}: can not be written: {error.strerror}") from error


def _save(change: Change, backup: str) -> None:
    copy = Path(backup + change.path)
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write_new(str(copy), change.before or "", 0o600)


def _replace(target: str, change: Change) -> None:
    temporary = f"{target}.slurm-failover.{os.getpid()}"
    old = os.stat(target) if change.before is not None else None  # noqa: PTH116
    mode = stat.S_IMODE(old.st_mode) if old else change.mode
    try:
        _write_new(temporary, change.after or "", mode, old)
        os.replace(temporary, target)  # noqa: PTH105
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def _write_new(path: str, text: str, mode: int, like: os.stat_result | None = None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(path, flags, 0o600)
    with os.fdopen(handle, "wb") as file:
        if like is not None:
            os.fchown(handle, like.st_uid, like.st_gid)
        os.fchmod(handle, mode)
        file.write(text.encode("utf-8", "surrogateescape"))
        file.flush()
        os.fsync(handle)
