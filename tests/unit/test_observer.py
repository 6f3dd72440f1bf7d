"""Observe mode: all is looked at and judged, what would be done is said, and nothing is done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from failover_world import FINDINGS, House
from fake_slurmctld import FakeSlurm
from test_checks import LOST, Node

from slurm_failover.breaker import read_notes
from slurm_failover.controller.decider import Decider
from slurm_failover.controller.placement import Placement
from slurm_failover.foresight import foresee, imagine_held
from slurm_failover.model import JobFacts, Limits, NodeFacts
from slurm_failover.node import attempts, telling
from slurm_failover.slurm.client import NodeChange
from slurm_failover.slurm.observe import Observer
from slurm_failover.view import view_foreseen, view_job


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    found = Node(tmp_path, monkeypatch)
    failover = replace(found.settings.failover, mode="observe")
    found.settings = replace(found.settings, failover=failover)
    return found


def changes(slurm: FakeSlurm) -> set[str]:
    asked = {"job", "jobs", "jobs_on", "nodes", "setting"}
    return set(slurm.calls) - asked


def test_a_hit_job_runs_on_and_the_node_stays_in_service(node: Node) -> None:
    label = node.run_job()
    node.record(LOST)
    assert not node.checks().check_health()
    assert changes(node.slurm) == {"update_node"}
    assert (node.reason, node.slurm.peek_node("n1").flags) == ("", set())
    assert node.slurm.job(label).states == {"RUNNING"}
    assert any("would update node n1: drain='slurm-failover: Xid 79" in x for x in node.said)
    assert any(f"would requeue and hold job {label}" in x for x in node.said)


def test_a_fault_is_judged_once(node: Node) -> None:
    node.run_job()
    node.record(LOST)
    node.checks().check_health()
    node.said.clear()
    node.checks().check_health()
    assert node.said == []


def test_a_prolog_never_sends_a_job_away(node: Node) -> None:
    node.run_job()
    node.record(LOST)
    assert not node.checks().check_job_start()
    node.slurm.drain("n1", "maintenance")
    assert not node.checks().check_job_start()


def test_no_line_is_added_to_a_jobs_log_and_nothing_to_its_environment(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[str] = []
    monkeypatch.setattr(attempts, "FOLDER", str(tmp_path / "run"))
    monkeypatch.setattr(telling, "start_detached", started.append)
    node.run_job()
    told = node.environment | {"SLURM_JOB_NODELIST": "n1", "SLURM_JOB_RESTART_COUNT": "1"}
    attempts.open_attempt(told, node.settings, node.said.append)
    attempts.close_attempt(told, node.settings, node.said.append)
    assert not (tmp_path / "run").exists()
    assert (started, node.said) == ([], [])


def test_the_controller_says_the_verdict_and_touches_no_job(tmp_path: Path) -> None:
    slurm, said = FakeSlurm(), []
    house = House(Observer(slurm, said.append), str(tmp_path), Limits())  # type: ignore[arg-type]
    house.story = said
    label = slurm.submit("failover")
    slurm.schedule()
    job = slurm.peek(label)
    slurm.finish(label, code=1)
    house.slurm = slurm
    house.end_hook(label, job.start, "n1")
    house.node_epilog(label, job.start, "n1", FINDINGS["hardware"])
    slurm.resume("n1")
    slurm.end_epilog(label, "n1")
    slurm.end_hook(label)
    observer = Observer(slurm, said.append)
    before = slurm.peek(label).facts(slurm.clock)
    decider = Decider(
        observer,
        house.notes,
        limits=Limits(),
        placement=Placement(),
        wait_for_nodes=300,
        say=said.append,
        imagine=imagine_held,
    )
    decider.run(lambda _: None)
    assert slurm.peek(label).facts(slurm.clock) == before
    assert any(line.startswith(f"job {label}: failover: n1: a fault") for line in said)
    assert any(line.startswith(f"would release job {label}") for line in said)
    assert house.notes.read() == []


# --- what status foresees -------------------------------------------------------------------------


def ended(*states: str, code: int = 1) -> JobFacts:
    return JobFacts(
        7,
        "7",
        comment="failover",
        states=frozenset(states),
        nodes="n1",
        start=100.0,
        end=200.0,
        exit_code=code,
    )


def test_status_says_that_a_job_would_be_held_and_why() -> None:
    job = ended("FAILED")
    view = view_foreseen(view_job(job, Limits()), job, [NodeFacts("n1")], Limits())
    assert view.because == (
        "would be held as internalerror: the program ended with exit code 1, and no node shows a "
        "hardware fault"
    )


def test_status_says_that_a_job_would_be_failed_over_and_why() -> None:
    job = ended("FAILED")
    lost = [NodeFacts("n1", frozenset({"DOWN"}))]
    view = view_foreseen(view_job(job, Limits()), job, lost, Limits())
    assert view.because == "would be failed over: n1: Slurm lost the node"


@pytest.mark.parametrize("state", ["CANCELLED", "TIMEOUT", "COMPLETED", "RUNNING"])
def test_status_foresees_nothing_for_a_job_that_would_be_left_alone(state: str) -> None:
    assert foresee(ended(state, code=0), [NodeFacts("n1")], Limits()) is None


def test_an_observer_leaves_word_in_extra_and_nothing_else() -> None:
    slurm, said = FakeSlurm(), []
    observer = Observer(slurm, said.append)
    observer.update_node("n1", NodeChange(drain="why", extra="{}", comment="x"))
    found = slurm.peek_node("n1")
    assert (found.extra, found.reason, found.comment, found.flags) == ("{}", "", "", set())
    assert said == ["would update node n1: drain='why', comment='x'"]
    assert read_notes("n1", found.extra) == []
