"""Who can change what stands at a path: the file, a folder above it, or a link on the way."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass

_LINKS = 40


@dataclass(frozen=True, slots=True)
class Owners:
    """Whom we trust: these users with what they own, and these groups with what they may write."""

    users: Collection[int]
    groups: Collection[int] = (0,)


@dataclass(frozen=True, slots=True)
class Weakness:
    """A folder, link or file by which others could lead a path elsewhere or change what is there:
    what is wrong with it in words, and the command that mends it.
    """

    path: str
    found: str
    remedy: str


def steps(path: str) -> Iterator[str]:
    """All folders, links and files that a whole path leads through, ``/`` first; the last one is
    where it leads, whether something is there or not. Raises OSError for a circle of links.
    """
    left = [part for part in path.split("/") if part not in ("", ".")]
    at, links = "/", 0
    yield at
    while left:
        part = left.pop(0)
        if part == "..":
            at = os.path.dirname(at)  # noqa: PTH120 - an absolute path without links
            yield at
            continue
        step = f"{at.rstrip('/')}/{part}"
        if not os.path.lexists(step):
            yield "/".join([step, *left])
            return
        yield step
        if not os.path.islink(step):  # noqa: PTH114
            at = step
            continue
        links += 1
        if links > _LINKS:
            raise OSError(errno.ELOOP, "too many links", path)
        target = os.readlink(step)  # noqa: PTH115
        at = "/" if target.startswith("/") else at
        left = [word for word in target.split("/") if word not in ("", ".")] + left
        yield at


def find_weakness(path: str, owners: Owners) -> Weakness | None:
    """The first step on the way to a whole path that others than the owners could change, or None.

    What is not there is no weakness. Raises OSError for what we may not look at, and for a circle
    of links.
    """
    return next(filter(None, (judge_step(step, owners) for step in steps(path))), None)


def judge_step(path: str, owners: Owners) -> Weakness | None:
    """What is wrong with one folder, link or file, or None. In a sticky folder nobody can replace
    what is another's. Raises OSError.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    is_link = stat.S_ISLNK(found.st_mode)
    if found.st_uid not in owners.users:
        remedy = f"chown {'-h ' if is_link else ''}root {path}"
        return Weakness(path, f"belongs to user {found.st_uid}", remedy)
    if is_link or (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX):
        return None
    by_group = found.st_mode & stat.S_IWGRP and found.st_gid not in owners.groups
    if found.st_mode & stat.S_IWOTH or by_group:
        return Weakness(path, "others may write there", f"chmod go-w {path}")
    return None
