"""Every point between two side effects of ours, counted as the code runs, and what happens there.

A side effect is a request to Slurm or a file that is written or removed. A story is played once to
count them; then it is played again for every point and every kind of trouble.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from fake_slurmctld import FakeSlurm

from slurm_failover import catalogue, detach, files, hooks
from slurm_failover.controller.arrivals import Kind, Queue, from_environment
from slurm_failover.controller.decider import Decider
from slurm_failover.controller.notes import Notes
from slurm_failover.errors import FailoverError, SlurmError, SlurmUnavailable
from slurm_failover.node import attempts
from slurm_failover.settings.tables import Settings
from slurm_failover.slurm import connect
from slurm_failover.sources import slurmd

LONGEST_LOOP = 40
"""Pauses after which a process that waits for others is taken for killed."""

KINDS = ("killed_before", "killed_after", "lost_before", "lost_after", "refused")
"""``killed``: SIGKILL, or the hook's deadline where a request hangs. ``lost``: no answer came.
``refused``: Slurm says no, or the disk is full."""


class Killed(BaseException):
    """The process is gone: no handler of the code under test may see this."""


@dataclass
class Steps:
    """The side effects of one story so far; ``troubles`` says what happens at which of them."""

    troubles: Mapping[int, str] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)

    def take(self, what: str, act: Callable[[], Any], fail: Callable[[str], None]) -> Any:
        """Carry out one side effect, or meet the trouble that is due at it."""
        self.done.append(what)
        kind = self.troubles.get(len(self.done), "")
        if kind:
            self.done[-1] += f"  <-- {kind}"
        if kind == "refused" or kind.endswith("_before"):
            fail(kind)
        answer = act()
        if kind.endswith("_after"):
            fail(kind)
        return answer

    def count_met(self) -> int:
        """How many troubles have come so far."""
        return sum("  <-- " in line for line in self.done)

    def met(self, kind: str) -> bool:
        """Whether the story came as far as a trouble of this kind."""
        return any(line.endswith(f"<-- {kind}") for line in self.done)


class Wire:
    """Slurm on the other side of a wire."""

    def __init__(self, slurm: FakeSlurm, steps: Steps) -> None:
        self._slurm = slurm
        self._steps = steps

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def ask(*words: Any, **more: Any) -> Any:
            asked = getattr(self._slurm, name)
            return self._steps.take(f"{name} {words}", lambda: asked(*words, **more), _fail_request)

        return ask


_load_rules = cache(catalogue.load_rules)
"""Read once for all stories; it takes longer than all else."""


def _fail_request(kind: str) -> None:
    if kind.startswith("killed"):
        raise Killed
    if kind == "refused":
        raise SlurmError("scontrol: Access/permission denied")
    raise SlurmUnavailable("Socket timed out on send/recv operation")


def _fail_file(kind: str) -> None:
    if kind == "refused":
        raise OSError(errno.ENOSPC, "No space left on device")
    raise Killed


@dataclass
class Machine:
    """One host: its settings, and the processes of ours that it starts later."""

    settings: Settings
    slurm: FakeSlurm
    steps: Steps
    said: list[str] = field(default_factory=list)
    later: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    disk: int = 0
    """The errno of whatever writes here: ENOSPC, EROFS or, where all is well, none."""

    def hook(self, name: str, environment: Mapping[str, str]) -> str:
        """One hook, as its shell script runs it: "verdict", "well", "error" or "killed"."""
        run = hooks.HOOKS[name]
        try:
            with self.process(environment):
                if name in list(Kind):
                    self._hand_in(Kind(name), environment)
                return "verdict" if run(self.settings, self.said.append) else "well"
        except (FailoverError, OSError) as error:
            self.said.append(f"{name}: {error!r}")
            return "error"
        except Killed:
            return "killed"

    def _hand_in(self, kind: Kind, environment: Mapping[str, str]) -> None:
        """What hand_in.sh does before it waits for its turn."""
        notes = Notes(self.settings.state.directory)
        notes.open()
        Queue(notes.queue).add(from_environment(kind, environment))

    def _refuse(self, *errors: int) -> None:
        if self.disk in errors:
            raise OSError(self.disk, os.strerror(self.disk))

    @contextlib.contextmanager
    def process(self, environment: Mapping[str, str]) -> Iterator[None]:
        """A process on this host, with the fake's clock and with its side effects counted."""
        clock, write, remove = Clock(self.slurm), files.write_whole, files.remove
        make = files.make_folder
        run = f"{self.settings.state.directory}/run"

        def write_whole(path: str, text: str) -> None:
            self._refuse(errno.ENOSPC, errno.EROFS)
            name = f"write {Path(path).name}"
            self.steps.take(name, lambda: write(path, text), _fail_file)

        def remove_file(path: str) -> None:
            self._refuse(errno.EROFS)
            self.steps.take(f"remove {Path(path).name}", lambda: remove(path), _fail_file)

        def make_folder(path: str) -> None:
            self._refuse(errno.EROFS)
            make(path)

        def start(argv: list[str], *, env: dict[str, str], **_: Any) -> None:
            self.later.append((argv[-1], env))

        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.dict(os.environ, environment, clear=True))
            for owner, name, stand_in in (
                (connect, "Scontrol", lambda *_: Wire(self.slurm, self.steps)),
                (files, "write_whole", write_whole),
                (files, "remove", remove_file),
                (files, "make_folder", make_folder),
                (attempts, "FOLDER", run),
                (hooks, "OPENED", run),
                (detach, "subprocess", SimpleNamespace(Popen=start, DEVNULL=None)),
                (slurmd, "read_slots", lambda *_: ()),
                (catalogue, "load_rules", _load_rules),
                (os, "fsync", lambda _: None),
                (Decider.run, "__defaults__", (clock.sleep,)),
                *((time, name, getattr(clock, name)) for name in Clock.SHOWN),
            ):
                stack.enter_context(mock.patch.object(owner, name, stand_in))
            yield


class Clock:
    """Stands for what the module ``time`` tells, and goes on by itself while a process sleeps."""

    SHOWN = ("time", "monotonic", "sleep", "clock_gettime")
    BOOTED = 1_600_000_000

    def __init__(self, slurm: FakeSlurm) -> None:
        self._slurm = slurm
        self._pauses = 0

    def time(self) -> float:
        return float(self._slurm.clock)

    def monotonic(self) -> float:
        return float(self._slurm.clock - self.BOOTED)

    def clock_gettime(self, _: int) -> float:
        return self.monotonic()

    def sleep(self, _: float) -> None:
        self._slurm.clock += 1
        self._pauses += 1
        if self._pauses > LONGEST_LOOP:
            raise Killed


def stamp(slurm: FakeSlurm) -> int:
    """The kernel's stamp of a record that is written now, in microseconds since boot."""
    return (slurm.clock - Clock.BOOTED) * 1_000_000
