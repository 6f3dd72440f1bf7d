"""Read and replace files of Slurm's configuration; root follows no link that a user can set."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from slurm_failover.errors import InstallError

_LINKS = 40


@dataclass(frozen=True, slots=True)
class Change:
    """A file before and after; None where there is no file."""

    path: str
    before: str | None
    after: str | None
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Owners:
    """Who may own what we write to: these users, and for what a group may write, these groups."""

    users: Collection[int]
    groups: Collection[int] = (0,)


def read_text(path: str) -> str | None:
    """A file's text with every byte kept, or None where there is no file. Raises InstallError."""
    try:
        return Path(path).read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InstallError(f"{path}: can not be read: {error.strerror}") from error


def resolve(path: str, owners: Owners) -> str:
    """Where a path leads. Raises InstallError if anyone but the owners could lead it elsewhere."""
    left = [part for part in path.split("/") if part]
    at, links = "/", 0
    _refuse_foreign(at, owners)
    while left:
        part = left.pop(0)
        if part == "..":
            at = os.path.dirname(at)  # noqa: PTH120 - an absolute path without links
            continue
        step = f"{at.rstrip('/')}/{part}"
        if not os.path.lexists(step):
            return "/".join([step, *left])
        _refuse_foreign(step, owners)
        if not os.path.islink(step):  # noqa: PTH114
            at = step
            continue
        links += 1
        if links > _LINKS:
            raise InstallError(f"{path}: too many links")
        target = os.readlink(step)  # noqa: PTH115
        at = "/" if target.startswith("/") else at
        left = [word for word in target.split("/") if word not in ("", ".")] + left
    return at


def _refuse_foreign(path: str, owners: Owners) -> None:
    found = os.lstat(path)
    if found.st_uid not in owners.users:
        raise InstallError(
            f"{path}: belongs to user {found.st_uid}, and root writes only where root or SlurmUser "
            f"alone can lead it; `chown root {path}`"
        )
    if stat.S_ISLNK(found.st_mode) or (
        stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    ):
        return
    open_to_all = found.st_mode & stat.S_IWOTH
    open_to_group = found.st_mode & stat.S_IWGRP and found.st_gid not in owners.groups
    if open_to_all or open_to_group:
        raise InstallError(f"{path}: others may write there; `chmod go-w {path}`")


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
