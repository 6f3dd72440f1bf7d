"""At most one health check of a node at a time.

slurmd starts one at every interval, also while an earlier one hangs. They would pile up, each with
its own wait; whatever the earlier one finds, the next interval's look finds as well. The lock lies
in memory, since a check that sleeps over a dead disk (state D) can not be killed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from slurm_failover import files

Say = Callable[[str], None]

FOLDER = "/run/slurm-failover"
"""Where the lock of this node's health checks lies."""


@contextmanager
def only_one(folder: str, say: Say) -> Iterator[bool]:
    """Give True to the only health check at work on this node, and False to any other at once.

    ``folder`` is ours. However many find the same one at work, it is said once. Where nothing can
    be written or locked there, no check keeps another out.
    """
    handle = _open(folder)
    try:
        yield handle is None or _is_first(handle, say)
    finally:
        if handle is not None:
            os.close(handle)


def _open(folder: str) -> int | None:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        files.make_folder(folder)
        return os.open(f"{folder}/healthcheck.lock", flags, 0o600)
    except OSError:
        return None


def _is_first(handle: int, say: Say) -> bool:
    """Take the lock, which the kernel drops with its holder; a byte in its file says that somebody
    has told of it.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not os.fstat(handle).st_size:
            say("another health check is still at work, and this node's looks are left to it")
            with suppress(OSError):
                os.write(handle, b"\n")
        return False
    except OSError:
        return True
    if os.fstat(handle).st_size:
        with suppress(OSError):  # a disk that died since: the next wait is then not told of
            os.ftruncate(handle, 0)
    return True
