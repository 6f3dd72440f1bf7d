"""Tell a program of the site's what happened: one JSON object on its standard input.

The program runs in a process of its own with a deadline, so that no hook ever waits for it, and
without a shell. What it makes of it is the site's: examples/notify has a mail and a webhook.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping

from slurm_failover.detach import start_detached
from slurm_failover.happening import Happening
from slurm_failover.settings.tables import Settings

Say = Callable[[str], None]

_EVENT = "FAILOVER_EVENT"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def notify(settings: Settings, what: Happening) -> None:
    """Start the site's program for an event, if there is one; its end is not awaited."""
    if not settings.notify.command:
        return
    host, mode = os.uname().nodename.split(".")[0], settings.failover.mode
    event = what.as_json(time=time.time(), host=host, mode=mode)
    start_detached("notify", {_EVENT: json.dumps(event)})


def run_program(environment: Mapping[str, str], settings: Settings, say: Say) -> None:
    """Run the program for the event in our environment, and say if it fails or takes too long."""
    event = environment[_EVENT]
    command = settings.notify.command
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": _PATH, "LC_ALL": "C.UTF-8"},
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        say(f"{command[0]} can not be run, [notify] command names it: {error.strerror}")
        return
    try:
        _, errors = child.communicate(event.encode() + b"\n", settings.notify.timeout)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        say(f"{command[0]} did not end in {settings.notify.timeout} s and was killed: {event}")
        return
    if child.returncode != 0:
        words = errors.decode(errors="replace").strip()[-300:]
        say(f"{command[0]} failed with status {child.returncode}: {words or 'without a word'}")
