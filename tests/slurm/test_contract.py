"""Both adapters keep the contract against a live slurmctld, and the fake with them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest
from cluster import CONTROLLER, NODES, PYTHON, Cluster, poll

from slurm_failover import errors
from slurm_failover.model import JobFacts, NodeFacts

pytest.register_assert_rewrite("contract.suite")

from contract.suite import SlurmContract, World  # noqa: E402

ASK = """
import json, sys
from dataclasses import asdict, is_dataclass
from slurm_failover.errors import SlurmError
from slurm_failover.slurm.client import JobChange, NodeChange
from slurm_failover.slurm.pyslurm_client import Pyslurm, Worker
from slurm_failover.slurm.scontrol import Scontrol

client, folder, name, words, change = json.loads(sys.argv[1])
def fail(why):
    raise AssertionError(why)
if client == "pyslurm":
    slurm = Pyslurm(Worker(20), fail, folder)
    slurm._worker.ask({"nodes": []})  # It is up, so it answers from now on.
else:
    slurm = Scontrol(folder)
kind = {"update_job": JobChange, "update_node": NodeChange}.get(name)
def plain(value):
    return sorted(value) if isinstance(value, frozenset) else asdict(value)
try:
    answer = getattr(slurm, name)(*words, *([kind(**change)] if kind else []))
    print(json.dumps({"answer": answer}, default=plain))
except SlurmError as error:
    print(json.dumps({"error": type(error).__name__, "text": str(error)}))
"""
# Each attempt runs until it is told to fail itself.
PROGRAM = """touch /shared/up-$SLURM_JOB_ID
until [ -e /shared/go-$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0} ]; do sleep 0.1; done
exit 3"""


class Remote:
    """An adapter as it is installed, run in the controller's container as SlurmUser. ``folder``
    is where it finds Slurm's commands.
    """

    def __init__(self, cluster: Cluster, client: str, folder: str = "/usr/bin") -> None:
        self._cluster = cluster
        self._client = client
        self._folder = folder

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def ask(*words: Any) -> Any:
            change = asdict(words[-1]) if name.startswith("update") else None
            words = words[:-1] if change is not None else words
            request = json.dumps([self._client, self._folder, name, words, change])
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


Picture = tuple[dict[int, JobFacts], dict[str, NodeFacts]]
"""Jobs by id, and nodes by name."""


class LiveWorld:
    """The live cluster as a world. An Epilog that shall not end is one whose slurmd is frozen."""

    def __init__(self, cluster: Cluster, client: str) -> None:
        self.slurm = Remote(cluster, client)
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
        job = self._job(label)
        self._cluster.check(CONTROLLER, ["touch", f"/shared/go-{job.job_id}.{job.restarts}"])
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
        yield LiveWorld(cluster, "scontrol")


@pytest.fixture
def bound(cluster: Cluster) -> Cluster:
    """The live cluster, where pyslurm can be had."""
    if not cluster.has_pyslurm():
        pytest.skip("pyslurm is not in this image")
    return cluster


class TestPyslurm(SlurmContract):
    """All of it."""

    @pytest.fixture
    def world(self, bound: Cluster) -> Iterator[World]:
        """The live cluster, clean."""
        yield LiveWorld(bound, "pyslurm")


def test_pyslurm_is_there_where_slurm_is_new_enough(
    cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    wanted = [request.config.getoption(name) for name in ("--suite", "--client")]
    assert cluster.has_pyslurm() is (wanted == ["forky", "auto"])


def test_both_adapters_tell_the_same_of_all_jobs_and_nodes(bound: Cluster) -> None:
    make_a_mixture(bound, LiveWorld(bound, "pyslurm"))

    def picture_of_both() -> Picture | None:
        one, other = picture(bound, "scontrol"), picture(bound, "pyslurm")
        return one if one == other else None

    # The backfill scheduler foretells another start of a waiting job now and then.
    alike = poll(picture_of_both, 20)
    assert alike is not None, (picture(bound, "scontrol"), picture(bound, "pyslurm"))
    jobs, nodes = alike
    assert {state for job in jobs.values() for state in job.states} >= {
        *("PENDING", "RUNNING", "COMPLETED", "CANCELLED", "FAILED", "COMPLETING"),
    }
    assert {state for node in nodes.values() for state in node.states} >= {"DRAIN", "MIXED"}


UNTOLD = {"wants_gpus": False, "has_whole_nodes": False}


def picture(cluster: Cluster, client: str) -> Picture:
    """All that an adapter tells, save for the GPUs that jobs hold and nodes have."""
    slurm = Remote(cluster, client)
    jobs = {
        job.job_id: replace(job, gres_detail=(), allocated=(), **UNTOLD) for job in slurm.jobs()
    }
    return jobs, {node.name: replace(node, gpus=None) for node in slurm.nodes()}


def make_a_mixture(cluster: Cluster, world: LiveWorld) -> None:
    """Jobs and nodes in as many states as can be had at once."""
    cancelled = world.run("cancelled")
    world.cancel(cancelled)
    held = world.submit("h\u00e9ld\tNone", held=True)
    world.hold_as_admin(held)
    ended = cluster.sbatch("true", "--export=NIL")
    cluster.sbatch("exit 130", "--export=NIL")
    requeued = world.run("requeued")
    world.fail(requeued)
    world.slurm.requeue_and_hold(requeued)
    world.finish_epilogs(requeued)
    cluster.check(
        "ctl",
        [
            *("scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=it is \u00fc"),
            *("Comment=an admin's word", "Extra=x=1"),
        ],
    )
    cluster.sbatch("sleep 600", "--export=NIL", "--array=0-1", "-c1", "--comment=array")
    cluster.check(
        "ctl",
        "printf '#!/bin/bash\nsleep 600\n' >/shared/het.sh; "
        "sbatch --export=NIL --comment=het -c1 : -c1 /shared/het.sh",
        "alice",
    )
    cluster.check(
        "ctl", r"""sbatch --export=NIL -H --comment=$'no \xff UTF-8' --wrap=true""", "alice"
    )
    world.wait_for(str(ended), lambda job: job.states == {"COMPLETED"})
    world.fail(world.run("completing"))


def test_pyslurm_answers_where_there_is_no_command(bound: Cluster) -> None:
    world = LiveWorld(bound, "pyslurm")
    label = world.run("asked")
    alone = Remote(bound, "pyslurm", "/nowhere")
    assert [job.comment for job in alone.jobs([label])] == ["asked"]
    idle = next(node for node in NODES if node != world.slurm.job(label).nodes)
    assert [node.name for node in alone.nodes(idle)] == [idle]
