"""The scontrol adapter keeps the contract against a live slurmctld, and the fake with it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import pytest
from cluster import CONTROLLER, NODES, Cluster

from slurm_failover import errors
from slurm_failover.model import JobFacts, NodeFacts

pytest.register_assert_rewrite("contract.suite")

from contract.suite import SlurmContract, World  # noqa: E402

PYTHON = "/opt/slurm-failover/bin/python"
ASK = """
import json, sys
from dataclasses import asdict, is_dataclass
from slurm_failover.errors import SlurmError
from slurm_failover.slurm.client import JobChange, NodeChange
from slurm_failover.slurm.scontrol import Scontrol

name, words, change = json.loads(sys.argv[1])
kind = {"update_job": JobChange, "update_node": NodeChange}.get(name)
def plain(value):
    return sorted(value) if isinstance(value, frozenset) else asdict(value)
try:
    answer = getattr(Scontrol(), name)(*words, *([kind(**change)] if kind else []))
    print(json.dumps({"answer": answer}, default=plain))
except SlurmError as error:
    print(json.dumps({"error": type(error).__name__, "text": str(error)}))
"""
PROGRAM = """touch /shared/up-$SLURM_JOB_ID
until [ -e /shared/go-$SLURM_JOB_ID ]; do sleep 0.1; done
exit 3"""


class RemoteScontrol:
    """The adapter as it is installed, run in the controller's container as SlurmUser."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def ask(*words: Any) -> Any:
            change = asdict(words[-1]) if name.startswith("update") else None
            words = words[:-1] if change is not None else words
            request = json.dumps(
                [name, [list(w) if isinstance(w, list) else w for w in words], change]
            )
            argv = [PYTHON, "-I", "-c", ASK, request]
            reply = json.loads(self._cluster.check(CONTROLLER, argv, "slurm"))
            if "error" in reply:
                raise getattr(errors, reply["error"])(reply["text"])
            return _facts(reply["answer"])

        return ask


def _facts(answer: Any) -> Any:
    """JobFacts and NodeFacts out of their JSON; what is neither stays."""
    if isinstance(answer, list):
        return [_facts(item) for item in answer]
    if not isinstance(answer, dict):
        return answer
    states = {**answer, "states": frozenset(answer["states"])}
    if "job_id" not in answer:
        return NodeFacts(**states)
    lists = {name: tuple(answer[name]) for name in ("gres_detail", "allocated")}
    return JobFacts(**states | lists)


class LiveWorld:
    """The live cluster as a world. An Epilog that shall not end is one whose slurmd is frozen."""

    def __init__(self, cluster: Cluster) -> None:
        self.slurm = RemoteScontrol(cluster)
        self._cluster = cluster
        self._killed = ""

    def now(self) -> float:
        return time.time()

    def pass_time(self, seconds: int) -> None:
        over = time.time() + seconds
        self._cluster.wait(lambda: time.time() > over, seconds + 10, "passing of time")

    def submit(
        self, comment: str = "", *, requeue: bool = True, array: bool = False, held: bool = False
    ) -> str:
        options = ["--export=NIL", f"--comment={comment}"]
        options += [] if requeue else ["--no-requeue"]
        options += ["--array=1"] if array else []
        options += ["--hold"] if held else []
        job = self._cluster.sbatch(PROGRAM, *options)
        return f"{job}_1" if array else str(job)

    def run(self, comment: str = "", *, requeue: bool = True, array: bool = False) -> str:
        label = self.submit(comment, requeue=requeue, array=array)
        started = self.wait_for(label, lambda job: job.states == {"RUNNING"})
        up = ["test", "-e", f"/shared/up-{started.job_id}"]
        self._cluster.wait(lambda: self._cluster.run(CONTROLLER, up).rc == 0, 40, "program")
        return label

    def fail(self, label: str) -> None:
        self.stall(label)
        self._cluster.check(CONTROLLER, ["touch", f"/shared/go-{self._job(label).job_id}"])
        self.wait_for(label, lambda job: job.has("FAILED"))

    def stall(self, label: str) -> None:
        self._cluster.freeze_daemon(self._job(label).nodes, "slurmd")

    def finish_epilogs(self, label: str) -> None:
        for node in NODES:
            self._cluster.thaw_daemon(node, "slurmd")
        self.wait_for(label, lambda job: not job.has("COMPLETING"))

    def cancel(self, label: str) -> None:
        self._cluster.check(CONTROLLER, ["scancel", label])

    def hold_as_admin(self, label: str) -> None:
        self._cluster.check(CONTROLLER, ["scontrol", "hold", label])

    def lose(self, label: str) -> str:
        node = self._job(label).nodes
        self._cluster.kill_daemon(node, "slurmd")
        self.wait_for(label, lambda job: job.states == {"PENDING"})
        return node

    def wait_for(self, label: str, condition: Callable[[JobFacts], bool]) -> JobFacts:
        def look() -> JobFacts | None:
            try:
                job = self._job(label)
            except errors.NoSuchJob:
                return None  # An array's task is no job of its own before it starts.
            return job if condition(job) else None

        return self._cluster.wait(look, 40, f"awaited state of job {label}")

    def _job(self, label: str) -> JobFacts:
        job: JobFacts = self.slurm.job(label)
        return job


class TestScontrol(SlurmContract):
    """All of it."""

    @pytest.fixture
    def world(self, cluster: Cluster) -> Iterator[World]:
        """The live cluster, clean."""
        yield LiveWorld(cluster)
