"""Tell a program of the site's what happened: one JSON object on its standard input.

The program runs in a process of its own with a deadline, so that no hook ever waits for it, and
without a shell. What it makes of it is the site's: examples/notify has a mail and a webhook. One
that others could change than root and the user who would run it is not run.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping

from slurm_failover.detach import start_detached
from slurm_failover.happening import Happening
from slurm_failover.settings.tables import Settings
from slurm_failover.trust import Owners, Weakness, find_weakness

Say = Callable[[str], None]

_EVENT = "FAILOVER_EVENT"
_LAST_WORDS = 1200
"""Bytes of what the program says that are kept: it may say more than there is memory."""
_PATIENCE = 1.0
"""Seconds to wait for its last words once it has ended; what it left running may hold them open."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def notify(settings: Settings, what: Happening) -> None:
    """Start the site's program for an event, if there is one; its end is not awaited."""
    if not settings.notify.command:
        return
    host, mode = os.uname().nodename.split(".")[0], settings.failover.mode
    event = what.as_json(time=time.time(), host=host, mode=mode)
    start_detached("notify", {_EVENT: json.dumps(event)})


def find_program(settings: Settings) -> str:
    """The whole path of the site's program, "" where it is nowhere to be found."""
    word = settings.notify.command[0]
    return os.path.join("/", word) if "/" in word else shutil.which(word, path=_PATH) or ""  # noqa: PTH118


def judge_program(path: str, user: int) -> Weakness | None:
    """By what others than root and ``user``, who runs the program at a whole path, could change it;
    None if by nothing. Raises OSError.
    """
    return find_weakness(path, Owners({0, user}))


def run_program(environment: Mapping[str, str], settings: Settings, say: Say) -> None:
    """Run the program for the event in our environment, and say if it fails or takes too long, or
    may not be run.
    """
    event = environment[_EVENT]
    command = settings.notify.command
    if refusal := _refuse(settings):
        say(f"{command[0]} is not run, [notify] command names it: {refusal}")
        return
    errors = _Tail()
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors.writer,
            env={"PATH": _PATH, "LC_ALL": "C.UTF-8"},
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        say(f"{command[0]} can not be run, [notify] command names it: {error.strerror}")
        return
    finally:
        os.close(errors.writer)
    try:
        child.communicate(event.encode() + b"\n", settings.notify.timeout)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        say(f"{command[0]} did not end in {settings.notify.timeout} s and was killed: {event}")
        return
    if child.returncode != 0:
        words = errors.read() or "without a word"
        say(f"{command[0]} failed with status {child.returncode}: {words}")


def _refuse(settings: Settings) -> str:
    """Why the program is not to be run, and what to do; "" if it may be."""
    try:
        weak = judge_program(find_program(settings), os.geteuid())
    except OSError as error:
        return str(error.strerror)
    return f"{weak.path}: {weak.found}; `{weak.remedy}`" if weak else ""


class _Tail:
    """The end of what is written to ``writer``, a pipe that never fills up."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        self._kept = b""
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        with open(self._reader, "rb", buffering=0) as reader:  # noqa: PTH123 - a pipe has no path
            while chunk := reader.read(1 << 16):
                self._kept = (self._kept + chunk)[-_LAST_WORDS:]

    def read(self) -> str:
        """The last words, at most so many as fit on a line of a log."""
        self._thread.join(_PATIENCE)
        return self._kept.decode(errors="replace").strip()[-300:]
