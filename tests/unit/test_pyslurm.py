"""Slurm through pyslurm: its worker over a stand-in module, and what is left to scontrol."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_failover.model import JobFacts
from slurm_failover.settings.tables import Settings, SlurmSettings
from slurm_failover.slurm import pyslurm_client, pyslurm_worker
from slurm_failover.slurm.connect import connect_for_many
from slurm_failover.slurm.pyslurm_client import Pyslurm, Worker, WorkerFailed
from slurm_failover.slurm.pyslurm_facts import Unclear, read_jobs, read_nodes
from slurm_failover.slurm.scontrol import Scontrol

HELLO = {"slurm": "26.5", "built_for": "26.5"}
JOB: dict[str, Any] = {
    **dict.fromkeys(pyslurm_worker.JOB),
    "id": 7,
    "name": "train",
    "user_name": "alice",
    "state": "RUNNING",
    "state_reason": "None",
    "allocated_nodes": "n1",
    "requeue_count": 1,
    "start_time": 1000,
    "exit_code": 0,
    "exit_code_signal": 0,
    "is_batch_job": True,
    "is_requeueable": True,
    "priority": 5,
    "num_nodes": 1,
}
NODE: dict[str, Any] = {
    "name": "n1",
    "state": "IDLE+DRAIN",
    "reason": "why",
    "reason_time": 9,
    "extra": None,
    "comment": "an admin's word",
    "partitions": ["gpu"],
}
MODULE = """
import json, os, time
__version__ = "25.11.2+slurm26.5"
HOME = os.path.dirname(__file__)
class RPCError(Exception):
    def __init__(self, errno, text):
        super().__init__(text)
        self.errno = errno
class Thing:
    def __init__(self, raw):
        self.__dict__.update(raw)
    def __getattr__(self, name):
        b"\\xff".decode()
def note(text):
    with open(HOME + "/calls", "a") as file:
        file.write(text + "\\n")
def load(name):
    note(name)
    with open(HOME + "/" + name) as file:
        raws = json.load(file)
    if raws == "down":
        raise RPCError(1, "Unable to contact slurm controller (connect failure)")
    if raws == "hang":
        time.sleep(1e6)
    if raws == "crash":
        os.abort()
    return {raw.get("id", raw.get("name")): Thing(raw) for raw in raws}
class Jobs:
    load = staticmethod(lambda: load("jobs"))
class Nodes:
    load = staticmethod(lambda: load("nodes"))
class Job:
    @staticmethod
    def load(number):
        note(f"job {number}")
        with open(HOME + "/jobs") as file:
            for raw in json.load(file):
                if raw["id"] == number:
                    return Thing(raw)
        raise RPCError(2017, "Invalid job id specified")
class slurmctld:
    class Config:
        @staticmethod
        def load():
            return Thing({"version": "26.05.5"})
"""


class Bindings:
    """A folder with a module ``pyslurm`` that answers from files and notes what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workers: list[Worker] = []
        (folder / "pyslurm.py").write_text(MODULE)
        self.answer(jobs=[JOB], nodes=[NODE])

    def answer(self, **answers: Any) -> None:
        for name, value in answers.items():
            (self.folder / name).write_text(json.dumps(value))

    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def worker(self, timeout: float = 20) -> Worker:
        start = f"import sys, runpy; sys.path.insert(0, {str(self.folder)!r}); "
        run = f"runpy.run_path({pyslurm_worker.__file__!r}, run_name='__main__')"
        self.workers.append(Worker(timeout, [sys.executable, "-c", start + run]))
        return self.workers[-1]


@pytest.fixture
def bindings(tmp_path: Path) -> Iterator[Bindings]:
    bindings = Bindings(tmp_path)
    yield bindings
    for worker in bindings.workers:
        worker.close()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What scontrol is asked; it knows every job as one that failed with 130, and no node."""
    seen: list[object] = []

    def jobs(self: Scontrol, ids: tuple[str, ...] = ()) -> list[JobFacts]:
        seen.append(tuple(ids))
        return [JobFacts(7, "7", states=frozenset({"FAILED"}), exit_code=130)]

    def nodes(self: Scontrol, names: str = "") -> list[Any]:
        seen.append(names)
        return []

    monkeypatch.setattr(Scontrol, "jobs", jobs)
    monkeypatch.setattr(Scontrol, "nodes", nodes)
    return seen


@pytest.fixture
def said() -> list[str]:
    return []


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline


def client_of(worker: Worker, said: list[str]) -> Pyslurm:
    return Pyslurm(worker, said.append)


# --- the worker -----------------------------------------------------------------------------------


def test_all_jobs_and_nodes_come_from_pyslurm(
    bindings: Bindings, asked: list[object], said: list[str]
) -> None:
    slurm = client_of(bindings.worker(), said)
    (job,), (node,) = slurm.jobs(), slurm.nodes()
    assert (job.label, job.states, job.nodes, job.restarts) == ("7", {"RUNNING"}, "n1", 1)
    assert (node.states, node.reason, node.reason_time) == ({"IDLE", "DRAIN"}, "why", 9)
    assert node.comment == "an admin's word"
    assert (asked, said) == ([], [])


def test_a_few_named_questions_start_no_worker_and_the_next_one_does(
    asked: list[object], said: list[str]
) -> None:
    slurm = client_of(Worker(20, ["/nowhere/python"]), said)
    for _ in range(pyslurm_client.COMMANDS):
        assert slurm.jobs(["7"])[0].exit_code == 130
    assert (len(asked), said) == (pyslurm_client.COMMANDS, [])
    slurm.nodes("n1")
    assert "/nowhere/python" in said[0]


def test_of_many_named_questions_the_later_ones_go_to_the_worker(
    bindings: Bindings, asked: list[object], said: list[str]
) -> None:
    slurm = client_of(bindings.worker(), said)
    wait_for(lambda: slurm.jobs(["7"])[0].nodes == "n1")
    assert bindings.calls() == ["job 7"]
    assert len(asked) > 1


def test_a_few_jobs_are_asked_for_one_by_one_and_unknown_ones_left_out(
    bindings: Bindings, asked: list[object], said: list[str]
) -> None:
    slurm = client_of(bindings.worker(), said)
    slurm.jobs()
    assert [job.job_id for job in slurm.jobs(["7", "8"])] == [7]
    assert bindings.calls() == ["jobs", "job 7", "job 8"]


def test_for_an_array_or_many_jobs_all_are_asked_for(
    bindings: Bindings, asked: list[object], said: list[str]
) -> None:
    bindings.answer(jobs=[{**JOB, "array_id": 5, "array_task_id": 2}, {**JOB, "id": 8}])
    slurm = client_of(bindings.worker(), said)
    slurm.jobs()
    assert [job.label for job in slurm.jobs(["5_2"])] == ["5_2"]
    assert [job.label for job in slurm.jobs(["7"])] == ["5_2"]
    slurm.jobs([str(number) for number in range(17)])
    assert bindings.calls() == ["jobs", "jobs", "job 7", "jobs", "jobs"]


@pytest.mark.parametrize(
    ("state", "word"),
    [("down", "Unable to contact"), ("crash", "can not be used"), ("hang", "did not answer")],
)
def test_what_pyslurm_can_not_answer_scontrol_is_asked(
    bindings: Bindings, asked: list[object], said: list[str], state: str, word: str
) -> None:
    bindings.answer(jobs=state)
    slurm = client_of(bindings.worker(timeout=2 if state == "hang" else 20), said)
    assert slurm.jobs()[0].exit_code == 130
    assert word in said[0]


def test_a_worker_that_failed_rests_and_it_is_said_once(
    bindings: Bindings, asked: list[object], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bindings.answer(jobs="crash")
    slurm = client_of(bindings.worker(), said)
    for _ in range(3):
        slurm.jobs()
    assert (len(asked), len(said), bindings.calls()) == (3, 1, ["jobs"])
    bindings.answer(jobs=[JOB])
    monkeypatch.setattr(pyslurm_client.time, "monotonic", lambda: 1e9)
    assert slurm.jobs()[0].nodes == "n1"


def test_a_pyslurm_built_for_another_release_is_not_asked(
    bindings: Bindings, asked: list[object], said: list[str]
) -> None:
    for version, built_for in (("25.11.2", "25.11"), ("26.5.1+slurm26.11", "26.11")):
        changed = MODULE.replace("25.11.2+slurm26.5", version)
        (bindings.folder / "pyslurm.py").write_text(changed)
        assert client_of(bindings.worker(), said).jobs()[0].exit_code == 130
        assert f"built for Slurm {built_for}, and this is 26.5" in said[-1]
    assert bindings.calls() == []


def test_a_pyslurm_that_ends_the_interpreter_on_import_costs_no_answer(
    bindings: Bindings, asked: list[object], said: list[str]
) -> None:
    (bindings.folder / "pyslurm.py").write_text("import os; os._exit(1)")
    assert client_of(bindings.worker(), said).jobs()[0].exit_code == 130
    assert "import pyslurm" in said[0]


def test_a_worker_ends_with_the_process_that_asked(tmp_path: Path) -> None:
    code = textwrap.dedent(
        """
        import sys
        from slurm_failover.slurm.pyslurm_client import Worker
        worker = Worker(20, [sys.executable, "-c", sys.argv[1], sys.argv[2]])
        while not worker.is_up(start=True):
            pass
        """
    )
    echo = (
        f"import sys; print({json.dumps(HELLO)!r}, flush=True); "
        "sys.stdin.read(); open(sys.argv[1], 'w')"
    )
    ended = tmp_path / "ended"
    subprocess.run([sys.executable, "-c", code, echo, str(ended)], check=True, timeout=60)
    wait_for(ended.exists)


# --- what pyslurm tells ---------------------------------------------------------------------------


def test_what_pyslurm_does_not_tell_exactly_is_unclear() -> None:
    unclear = [
        {"state": "COMPLETING"},
        {"state": "CONFIGURING"},
        {"state": "FAILED", "exit_code": 2},
        {"state": "PENDING", "exit_code": 2},
        {"state": "FAILED", "exit_code": 0},
        {"state": "PENDING", "state_reason": "launch failed requeued held"},
    ]
    for change in unclear:
        assert read_jobs([{**JOB, **change}]) == [Unclear("7", 7)]
    assert read_jobs([{"id": 7}]) == [Unclear("7", 7)]
    assert read_nodes([{**NODE, "state": "MIXED+DRAIN"}, {"name": "n2"}]) == [
        Unclear("n1"),
        Unclear("n2"),
    ]


def test_unclear_jobs_and_nodes_are_asked_of_scontrol_in_one_question(
    bindings: Bindings, asked: list[object], said: list[str]
) -> None:
    bindings.answer(
        jobs=[{**JOB, "id": 6}, {**JOB, "state": "COMPLETING"}, {**JOB, "id": 8}],
        nodes=[
            NODE,
            {**NODE, "name": "n2", "state": "MIXED"},
            {**NODE, "name": "n3", "state": "MIXED"},
        ],
    )
    slurm = client_of(bindings.worker(), said)
    assert [(job.job_id, job.exit_code) for job in slurm.jobs()] == [(6, 0), (7, 130), (8, 0)]
    assert [node.name for node in slurm.nodes()] == ["n1"]
    assert asked == [("7",), "n[2-3]"]


def test_a_text_that_is_no_utf8_leaves_its_job_to_scontrol(
    bindings: Bindings, asked: list[object], said: list[str]
) -> None:
    broken = {key: value for key, value in JOB.items() if key != "comment"}
    bindings.answer(jobs=[broken, {**JOB, "id": 8}])
    assert [job.job_id for job in client_of(bindings.worker(), said).jobs()] == [7, 8]
    assert asked == [("7",)]


def test_a_job_that_was_requeued_held_is_held_by_that() -> None:
    words = "job requeued in held state"
    raw = {**JOB, "state": "SPECIAL_EXIT", "state_reason": words, "priority": 0}
    (job,) = read_jobs([raw])
    assert isinstance(job, JobFacts)
    assert job.states == {"PENDING", "SPECIAL_EXIT"}
    assert (job.held, job.held_by_requeue, job.reason) == (True, True, "JobHeldUser")


@pytest.mark.parametrize(("reason", "held"), [("BadConstraints", False), ("JobHeldUser", True)])
def test_a_job_that_finds_too_few_nodes_is_not_held_by_anybody(reason: str, held: bool) -> None:
    (job,) = read_jobs([{**JOB, "state": "PENDING", "state_reason": reason, "priority": 0}])
    assert isinstance(job, JobFacts)
    assert (job.held, job.reason) == (held, reason)


def test_details_after_a_reason_are_no_part_of_it() -> None:
    raw = {**JOB, "state": "PENDING", "state_reason": "ReqNodeNotAvail, UnavailableNodes:n1"}
    (job,) = read_jobs([raw])
    assert isinstance(job, JobFacts)
    assert job.reason == "ReqNodeNotAvail"


def test_task_0_is_told_from_the_tasks_that_wait() -> None:
    first = {**JOB, "array_id": 5}
    waiting = {**JOB, "id": 5, "array_id": 5, "array_tasks_waiting": "1-9", "state": "PENDING"}
    jobs = read_jobs([first, waiting], ["5"])
    known = [(job.label, job.tasks) for job in jobs if isinstance(job, JobFacts)]
    assert known == [("5_0", ""), ("5", "1-9")]


def test_components_of_a_heterogeneous_job_are_known_by_their_leader() -> None:
    second = {**JOB, "id": 8, "heterogeneous_id": 7, "heterogeneous_offset": 1}
    jobs = read_jobs([second, {**JOB, "heterogeneous_id": 7}, {**JOB, "id": 9}], ["7"])
    assert [replace(job, name="").components for job in jobs if isinstance(job, JobFacts)] == [
        (7, 8),
        (7, 8),
    ]
    assert [job.label for job in jobs if isinstance(job, JobFacts)] == ["7", "7"]


# --- the setting ----------------------------------------------------------------------------------


def test_the_client_is_as_set_and_pyslurm_only_where_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: list[str]
) -> None:
    def kind(client: str) -> type:
        settings = Settings(slurm=SlurmSettings(client=client))
        return type(connect_for_many(settings, said.append))

    assert [kind("auto"), kind("scontrol"), kind("pyslurm")] == [Scontrol, Scontrol, Pyslurm]
    (tmp_path / "pyslurm.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert [kind("auto"), kind("scontrol"), kind("pyslurm")] == [Pyslurm, Scontrol, Pyslurm]


def test_a_worker_that_answers_what_is_no_json_has_failed(tmp_path: Path) -> None:
    with pytest.raises(WorkerFailed):
        Worker(20, [sys.executable, "-c", "print('Slurm says hello')"]).ask({"jobs": []})
