"""What hooks say: to syslog, or appended to the file that the settings name; where that takes no
line, to syslog after all.

A hook's own output is lost, so this is where an admin looks.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress


class Log:
    """Lines of one component; never raises, since a lost line must not cost a verdict."""

    def __init__(self, component: str, path: str = "") -> None:
        self._component = component
        self._path = path

    def say(self, message: str) -> None:
        """Write one line; control characters are escaped."""
        line = message.encode("unicode_escape", "backslashreplace").decode("ascii")
        if self._path:
            self._append(line)
        else:
            self._send(line)

    def _append(self, line: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        whole = f"{stamp} slurm-failover[{os.getpid()}] {self._component}: {line}\n"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        flags |= os.O_NONBLOCK  # a pipe that nobody reads is not waited for
        try:
            handle = os.open(self._path, flags, 0o644)
            try:
                os.write(handle, whole.encode())
            finally:
                os.close(handle)
        except OSError as error:
            _print(f"{self._path}: {error.strerror}\n{whole}")
            self._send(f"{self._path}: {error.strerror}: {line}")

    def _send(self, line: str) -> None:
        import syslog

        syslog.openlog("slurm-failover", syslog.LOG_PID, syslog.LOG_DAEMON)
        syslog.syslog(syslog.LOG_NOTICE, f"{self._component}: {line}")


def _print(text: str) -> None:
    """The last resort; where nobody listens there either, or that is full as well, text is lost."""
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()
