"""Small files of ours, written whole or not at all, and locks: root follows nobody's links."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

_STEP = 0.05


def make_folder(path: str) -> None:
    """Create a folder that only its owner may enter, with its parents; it may be there already."""
    os.makedirs(path, mode=0o700, exist_ok=True)  # noqa: PTH103 - no pathlib on a hook's path


def write_whole(path: str, text: str, mode: int = 0o600) -> None:
    """Replace a file's contents so that a reader sees the old or the new, never a half."""
    temporary = f"{path}.{os.getpid()}.new"
    handle = _open_new(temporary)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)  # noqa: PTH105 - no pathlib on a hook's path
    except (OSError, ValueError):
        remove(temporary)
        raise


def _open_new(path: str) -> int:
    """A file of ours to write to; one of that name may be left by a process that was killed. In a
    folder of someone else's, as that of metrics may be, it can as well be a pipe that nobody reads,
    or a second name of another file: such are refused.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(path, flags, 0o600)
    about = os.fstat(handle)
    if stat.S_ISREG(about.st_mode) and about.st_nlink == 1:
        os.ftruncate(handle, 0)
        return handle
    os.close(handle)
    raise FileExistsError(errno.EEXIST, "Something else stands there", path)


def read_whole(path: str) -> str | None:
    """A file's contents, or None where there is no such file. A pipe in its place is never waited
    for. Raises OSError, and ValueError where it is no text.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, encoding="utf-8") as file:
        return file.read()


def read_named(path: str) -> bytes:
    """The contents of a file that somebody has named. Raises OSError, also where it is none: a pipe
    or a device could be waited for without an end.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        what = what_instead(os.fstat(handle).st_mode)
        if what:
            raise OSError(errno.EINVAL, f"it is {what}, and no file", path)
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def is_missing(path: str) -> bool:
    """Whether there is no such file. One that must not be looked at may be there."""
    try:
        os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def what_instead(mode: int) -> str:
    """What there is in the place of a regular file, by its mode; empty for a regular file."""
    kinds = {
        stat.S_IFREG: "",
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFLNK: "a link",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(mode), "a device")


def remove(path: str) -> None:
    """Remove a file; it may be gone already."""
    try:
        os.unlink(path)  # noqa: PTH108 - no pathlib on a hook's path
    except FileNotFoundError:
        return


@contextmanager
def locked(path: str, patience: float) -> Iterator[bool]:
    """Hold the lock file at ``path``; gives False if it was not free for ``patience`` seconds.

    The kernel drops the lock when its holder dies, so there is no stale lock.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield _acquire(handle, time.monotonic() + patience)
    finally:
        os.close(handle)


def _acquire(handle: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_STEP)
        else:
            return True
