"""A job that ends on GPUs that Slurm does not name any more: slurmctld, started anew, may end it
before it knows what it holds, and has forgotten that of every job that completes.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_node import GpuNode
from nvml_stand_in import stand_in_library  # noqa: F401 - a fixture
from test_checks import LOST

from slurm_failover.errors import SlurmUnavailable
from slurm_failover.evidence import read_evidence
from slurm_failover.model import JobCause
from slurm_failover.node import attempts, ends, untold

DOUBT = "whether that hit this job can not be told"


class Forgetful(GpuNode):
    """Its job has ended, and neither slurmctld nor slurmd says of it which GPUs it held."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, library: Path) -> None:
        super().__init__(folder, monkeypatch, library)
        self.later: list[dict[str, str]] = []
        self.wants_gpus = True
        monkeypatch.setattr(untold, "start_detached", lambda _, told: self.later.append(told))
        self.ask = ask = self.slurm.jobs_on
        forgotten = {"gres_detail": (), "allocated": ()}
        monkeypatch.setattr(
            self.slurm,
            "jobs_on",
            lambda name: [
                replace(job, **forgotten, wants_gpus=self.wants_gpus) for job in ask(name)
            ],
        )

    def remembers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """slurmctld tells of the running job what it holds."""
        monkeypatch.setattr(self.slurm, "jobs_on", self.ask)

    def start_job(self, gpus: str | None, *, has_prolog: bool = True) -> str:
        label = self.run_job()
        self.environment["SLURM_JOB_START_TIME"] = f"{self.slurm.peek(label).start:.0f}"
        del self.environment["SLURM_JOB_GPUS"]
        if has_prolog:
            told = {} if gpus is None else {"SLURM_JOB_GPUS": gpus}
            attempts.open_attempt(self.environment | told, self.settings, pytest.fail)
        return label


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in_library: Path) -> Forgetful:  # noqa: F811
    return Forgetful(tmp_path, monkeypatch, stand_in_library)


@pytest.mark.parametrize(
    ("gpus", "causes"),
    [("0", [JobCause.HARDWARE]), ("1", []), (None, [JobCause.UNKNOWN])],
    ids=["the faulty one", "another", "none either"],
)
def test_an_epilog_to_which_slurmd_names_no_gpu_goes_by_what_it_told_the_prolog(
    node: Forgetful, gpus: str | None, causes: list[JobCause]
) -> None:
    label = node.start_job(gpus)
    node.record(LOST)
    assert node.end_job(label)
    assert node.causes() == causes


@pytest.mark.parametrize(
    ("wants_gpus", "causes"), [(True, [JobCause.UNKNOWN]), (False, [])], ids=["some", "none"]
)
def test_where_the_prolog_noted_nothing_a_job_that_asked_for_gpus_is_in_doubt(
    node: Forgetful, wants_gpus: bool, causes: list[JobCause]
) -> None:
    label = node.start_job(None, has_prolog=False)
    node.wants_gpus = wants_gpus
    node.record(LOST)
    assert node.end_job(label)
    assert node.causes() == causes
    assert [DOUBT in line for line in node.said if line.startswith(f"job {label} failed")] == (
        [True] * len(causes)
    )


def test_what_was_told_to_the_prolog_of_another_attempt_says_nothing(node: Forgetful) -> None:
    label = node.start_job("0")
    start = int(node.environment["SLURM_JOB_START_TIME"]) - 1
    node.environment["SLURM_JOB_START_TIME"] = str(start)
    node.record(LOST)
    assert node.end_job(label)
    assert node.causes() == [JobCause.UNKNOWN]


def test_an_end_that_is_told_later_still_knows_them(
    node: Forgetful, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep_silent(*_: object) -> None:
        raise SlurmUnavailable("Socket timed out")

    label = node.start_job("0")
    node.record(LOST)
    tell = node.slurm.update_node
    monkeypatch.setattr(node.slurm, "update_node", keep_silent)
    assert node.end_job(label)
    attempts.close_attempt(
        node.environment | {"SLURM_JOB_EXIT_CODE": "0"}, node.settings, pytest.fail
    )
    monkeypatch.setattr(node.slurm, "update_node", tell)
    monkeypatch.setattr(untold.time, "sleep", lambda _: None)
    [told] = node.later
    untold.tell_end(node.environment | told, node.settings, node.said.append)
    assert node.causes() == [JobCause.HARDWARE]


def test_a_health_check_names_a_job_that_completes_beside_the_fault_that_hit_it(
    node: Forgetful, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = node.start_job("0")
    start = node.slurm.peek(label).start
    ask = node.slurm.jobs_on
    ends = frozenset({"PENDING", "COMPLETING"})
    monkeypatch.setattr(
        node.slurm,
        "jobs_on",
        lambda name: [replace(job, states=ends, start=start + 9000) for job in ask(name)],
    )
    node.record(LOST)
    assert node.checks().check_health()
    assert node.reason.endswith(f"; reboot needed (job {label})")
    [entry] = read_evidence("n1", node.slurm.peek_node("n1").extra)
    assert (entry.cause, entry.start) == (JobCause.HARDWARE, round(start))


@pytest.mark.parametrize("shift", [0, 500])
def test_a_note_counts_for_the_attempt_alone_that_it_is_of(node: Forgetful, shift: int) -> None:
    label = node.start_job("0")
    job = node.slurm.peek(label)
    job.start = round(job.start) - shift
    node.record(LOST)
    assert node.checks().check_health()
    assert job.requeued_held is (shift == 0)


@pytest.mark.parametrize("age", [50.0, 5.0], ids=["under the first", "under the second"])
def test_the_end_of_an_attempt_that_is_told_late_says_nothing_of_a_later_one(
    node: Forgetful, monkeypatch: pytest.MonkeyPatch, age: float
) -> None:
    """The first held GPU 1 and the second holds GPU 0, which has the fault."""
    label = node.run_job()
    job, now = node.slurm.peek(label), round(time.time())
    job.start = now - 20
    end = {"SLURM_JOB_GPUS": "1", "SLURM_JOB_START_TIME": str(now - 95), ends.ENDED: str(now - 40)}
    path = ends.leave_end(f"{node.settings.state.directory}/node", node.environment | end)
    os.utime(path, (now - 100, now - 100))
    node.remembers(monkeypatch)
    node.record(LOST, age=age)
    node.environment = {"SLURMD_NODENAME": "n1"}
    node.checks().check_health()
    told = read_evidence("n1", node.slurm.peek_node("n1").extra)
    assert [(entry.cause, entry.start) for entry in told] == [(JobCause.HARDWARE, now - 20)]
    assert job.requeued_held


def test_the_uuids_that_slurmd_named_are_known_to_a_later_look(node: Forgetful) -> None:
    node.start_job("0")
    told = {"CUDA_VISIBLE_DEVICES": "MIG-1"}
    path = ends.leave_end(f"{node.settings.state.directory}/node", node.environment | told)
    assert ends.read_end(path)["CUDA_VISIBLE_DEVICES"] == "MIG-1"


@pytest.mark.parametrize("completes", [True, False])
def test_a_job_that_completes_is_not_said_to_run_on(
    node: Forgetful, monkeypatch: pytest.MonkeyPatch, completes: bool
) -> None:
    label = node.start_job(None, has_prolog=False)
    states = {"states": frozenset({"FAILED", "COMPLETING"})} if completes else {}
    ask = node.slurm.jobs_on
    monkeypatch.setattr(
        node.slurm, "jobs_on", lambda name: [replace(job, **states) for job in ask(name)]
    )
    node.record(LOST)
    assert node.checks().check_health()
    assert any(f"job {label} runs on: " in line for line in node.said) is not completes


@pytest.mark.parametrize("state", ["FAILED", "PENDING"])
def test_an_end_that_is_told_late_is_not_that_of_an_attempt_which_completes_since(
    node: Forgetful, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """The first held GPU 1, and the second GPU 0, which has the fault."""
    label, now = node.run_job(), round(time.time())
    end = {"SLURM_JOB_GPUS": "1", "SLURM_JOB_START_TIME": str(now - 95), ends.ENDED: str(now - 40)}
    path = ends.leave_end(f"{node.settings.state.directory}/node", node.environment | end)
    os.utime(path, (now - 100, now - 100))
    told = {"SLURM_JOB_START_TIME": str(now - 20), "SLURM_JOB_GPUS": "0"}
    attempts.open_attempt(node.environment | told, node.settings, pytest.fail)
    ask, start = node.slurm.jobs_on, now + 9000 if state == "PENDING" else now - 20
    completes = {"states": frozenset({state, "COMPLETING"}), "start": float(start)}
    monkeypatch.setattr(
        node.slurm, "jobs_on", lambda name: [replace(job, **completes) for job in ask(name)]
    )
    node.record(LOST, age=5)
    node.environment = {"SLURMD_NODENAME": "n1"}
    node.checks().check_health()
    assert node.reason.endswith(f"(job {label})")
    [entry] = read_evidence("n1", node.slurm.peek_node("n1").extra)
    assert (entry.cause, entry.start) == (JobCause.HARDWARE, now - 20)
