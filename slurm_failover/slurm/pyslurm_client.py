"""Slurm through pyslurm where many jobs or nodes are asked for, and through scontrol for the rest.

pyslurm answers ``jobs`` and ``nodes``: no command is started, and no JSON of a whole cluster is
written and read. All else goes through scontrol, since pyslurm 25.11 can not do it, or not so well:
it can not empty a field (an empty text leaves it as it is), change all components of a
heterogeneous job or one task of a waiting array, tell which GPUs a job holds, or be relied on to
say whether a cancel or a signal succeeded (it reads errno alone).

What the worker can not answer, in time or at all, scontrol is asked: a broken pyslurm costs time,
and no answer.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ClusterShell.NodeSet import NodeSet

from slurm_failover.model import JobFacts, NodeFacts
from slurm_failover.slurm.facts import know_components
from slurm_failover.slurm.pyslurm_facts import Unclear, read_jobs, read_nodes
from slurm_failover.slurm.scontrol import WHOLE_TEXTS, Scontrol

_T = TypeVar("_T")

WORKER = (sys.executable, "-I", str(Path(__file__).with_name("pyslurm_worker.py")))
PAUSE = 60.0
"""Seconds before a worker that failed is started again."""

COMMANDS = 7
"""So many questions about named things are commands before a worker is started for the next: it
costs as much as they do (82 ms against 6 to 12, seen on 26.05.5).
"""

_MOST_NAMES = 1000
"""More names than this are not put on one command line: all are asked for."""


class WorkerFailed(Exception):
    """The worker gave no answer; the text says why."""


class Worker:
    """The child process that asks through pyslurm; it ends with this process, or when it does not
    answer within ``timeout`` seconds.
    """

    def __init__(self, timeout: float, command: Sequence[str] = WORKER) -> None:
        self._timeout = timeout
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._greeted = False
        self._failed = ""
        self._rests_until = 0.0

    def is_up(self, start: bool) -> bool:
        """Whether it answers at once. ``start`` starts it where it does not run, without waiting.

        Raises WorkerFailed.
        """
        self._guard(lambda: self._prepare(start))
        return self._greeted

    def ask(self, request: dict[str, list[str]]) -> list[dict[str, Any]]:
        """The answer to a request, see pyslurm_worker.py; it is started where it does not run.

        Raises WorkerFailed.
        """
        return self._guard(lambda: self._ask(request))

    def close(self) -> None:
        """End the worker, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process, self._greeted = None, False

    def _guard(self, action: Callable[[], _T]) -> _T:
        """The result of an action; a failure ends the worker, and lets it rest for a while."""
        if time.monotonic() < self._rests_until:
            raise WorkerFailed(self._failed)
        try:
            return action()
        except (WorkerFailed, OSError, ValueError) as error:
            self.close()
            self._failed, self._rests_until = str(error), time.monotonic() + PAUSE
            raise WorkerFailed(self._failed) from error

    def _prepare(self, start: bool) -> None:
        if self._process is None and start:
            self._start()
        elif self._process is not None and not self._greeted and _has_output(self._process, 0):
            self._greet(time.monotonic() + self._timeout)

    def _ask(self, request: dict[str, list[str]]) -> list[dict[str, Any]]:
        deadline = time.monotonic() + self._timeout
        process = self._process or self._start()
        if not self._greeted:
            self._greet(deadline)
        assert process.stdin is not None  # noqa: S101 - Popen was given a pipe
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        answer = self._read_line(deadline)
        if not isinstance(answer, list):
            raise WorkerFailed(f"pyslurm: {answer['error']}")
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **WHOLE_TEXTS},
        )
        return self._process

    def _greet(self, deadline: float) -> None:
        """Hear which releases the worker's pyslurm is of; those of one kind are fit to be used."""
        hello = self._read_line(deadline)
        if hello["slurm"] != hello["built_for"]:
            raise WorkerFailed(
                f"pyslurm was built for Slurm {hello['built_for']}, and this is {hello['slurm']}"
            )
        self._greeted = True

    def _read_line(self, deadline: float) -> Any:
        assert self._process is not None and self._process.stdout is not None  # noqa: S101
        parts = [b""]
        while not parts[-1].endswith(b"\n"):
            if not _has_output(self._process, deadline - time.monotonic()):
                raise WorkerFailed(f"pyslurm did not answer in {self._timeout} s")
            parts.append(os.read(self._process.stdout.fileno(), 1 << 20))
            if not parts[-1]:
                raise WorkerFailed("pyslurm can not be used; `import pyslurm` says why")
        return json.loads(b"".join(parts))


class Pyslurm(Scontrol):
    """The Slurm protocol over pyslurm's worker and the commands in ``folder``.

    ``say`` is told, once, why scontrol is asked in its place.
    """

    def __init__(
        self,
        worker: Worker,
        say: Callable[[str], None],
        folder: str = "/usr/bin",
        timeout: float = 10,
        patience: float = 30,
    ) -> None:
        super().__init__(folder, timeout, patience)
        self._worker = worker
        self._say = say
        self._said = ""
        self._asked = 0

    def jobs(self, job_ids: Collection[str] = ()) -> list[JobFacts]:
        """See the protocol. What a job holds of its nodes may be unset."""
        raws = self._ask({"jobs": list(job_ids)}, named=bool(job_ids))
        if raws is None:
            return super().jobs(job_ids)
        found = read_jobs(raws, job_ids)
        unclear = [job.name for job in found if isinstance(job, Unclear)]
        asked = {job.job_id: job for job in super().jobs(_few(unclear))} if unclear else {}
        known = [asked.get(job.job_id) if isinstance(job, Unclear) else job for job in found]
        return know_components([job for job in known if job is not None])

    def nodes(self, names: str = "") -> list[NodeFacts]:
        """See the protocol."""
        raws = self._ask({"nodes": []}, named=bool(names))
        if raws is None:
            return super().nodes(names)
        found = read_nodes(raws, frozenset(map(str, NodeSet(names))))
        unclear = [node.name for node in found if isinstance(node, Unclear)]
        hostlist = str(NodeSet.fromlist(_few(unclear)))
        asked = {node.name: node for node in super().nodes(hostlist)} if unclear else {}
        known = [asked.get(node.name) if isinstance(node, Unclear) else node for node in found]
        return [node for node in known if node is not None]

    def _ask(self, request: dict[str, list[str]], named: bool) -> list[dict[str, Any]] | None:
        """The worker's answer, or None where scontrol shall be asked.

        A few questions about named things are answered by commands; for more of them a worker is
        started, and commands answer until it is up.
        """
        self._asked += 1
        try:
            if named and not self._worker.is_up(start=self._asked > COMMANDS):
                return None
            return self._worker.ask(request)
        except WorkerFailed as error:
            if self._said != str(error):
                self._said = str(error)
                self._say(f"scontrol is asked instead of pyslurm: {error}")
            return None


def _has_output(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the process writes, or ends, within so many seconds."""
    assert process.stdout is not None  # noqa: S101 - Popen was given a pipe
    return bool(select.select([process.stdout], [], [], max(0, seconds))[0])


def _few(names: list[str]) -> list[str]:
    return names if len(names) <= _MOST_NAMES else []
