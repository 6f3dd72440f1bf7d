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
from slurm_failover.deed import Deed, in_mode
from slurm_failover.evidence import read_evidence, write_evidence
from slurm_failover.foresight import foresee, imagine_held
from slurm_failover.model import Evidence, JobCause, JobFacts, Limits, NodeFacts
from slurm_failover.node import attempts, telling
from slurm_failover.node.checks import NodeChecks
from slurm_failover.record import Attempt, Record, State, write_record
from slurm_failover.slurm.client import NodeChange
from slurm_failover.slurm.observe import Observer
from slurm_failover.view.job import view_foreseen, view_job


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


def test_what_is_told_as_done_is_told_as_done_in_act_mode(node: Node) -> None:
    said: list[str] = []
    label = node.run_job()
    node.record(LOST)
    told = in_mode("observe", said.append)
    NodeChecks(node.environment, node.settings, told).check_health()
    done = [line for line in said if not line.startswith("would ")]
    assert done[0].startswith("in act mode: drain: slurm-failover: Xid 79")
    assert done[1:] == [f"in act mode: job {label} is requeued and held"]


def test_no_word_says_that_a_job_was_stopped(node: Node) -> None:
    node.run_job()
    node.record(LOST)
    node.checks().check_health()
    extra = node.slurm.peek_node("n1").extra
    assert [entry.requeued for entry in read_evidence("n1", extra)] == [False]
    assert [note.observed for note in read_notes("n1", extra)] == [True]


def test_act_mode_tells_its_deeds_as_they_are() -> None:
    said: list[str] = []
    in_mode("act", said.append)(Deed("job 7 is requeued and held"))
    in_mode("observe", said.append)("can not see NVML")
    assert said == ["job 7 is requeued and held", "can not see NVML"]


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
    assert list((tmp_path / "run").iterdir()) == []
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
    deeds = [line for line in said if isinstance(line, Deed)]
    assert [line.split(": ")[0] for line in deeds] == [
        f"job {label} is held as failoverinprogress",
        "drain",
        f"job {label}",
    ]
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


def hit(at: float, cause: JobCause = JobCause.HARDWARE, start: float = 100.0) -> NodeFacts:
    entry = Evidence("n1", 7, start, cause, "Xid 79 on GPU 0000:3b:00", at)
    return NodeFacts("n1", frozenset({"MIXED"}), extra=write_evidence("", "n1", [entry], at))


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETED", "CANCELLED", "TIMEOUT", "FAILED"])
def test_status_says_that_a_job_that_was_hit_while_it_ran_would_be_failed_over(state: str) -> None:
    job = ended(state, code=0)
    view = view_foreseen(view_job(job, Limits()), job, [hit(150.0)], Limits())
    assert view.because == "would be failed over: n1: Xid 79 on GPU 0000:3b:00"
    assert view.latest is not None
    assert (view.latest.outcome, view.history) == ("would be failed over", ())
    assert (view.latest.end == 0) is (state == "RUNNING")


@pytest.mark.parametrize(
    "found",
    [
        hit(200.0),
        hit(150.0, JobCause.INTERNAL),
        hit(150.0, start=50.0),
        replace(hit(150.0), name="n2"),
    ],
    ids=["by the Epilog", "the program's own", "about another attempt", "another node's"],
)
def test_what_would_have_stopped_no_job_changes_nothing_for_one_that_ended_well(
    found: NodeFacts,
) -> None:
    assert foresee(ended("COMPLETED", code=0), [found], Limits()) is None


@pytest.mark.parametrize("refused", [{"requeue": False}, {"comment": "words"}])
def test_a_job_that_is_hit_and_may_not_be_failed_over_would_run_on(
    refused: dict[str, object],
) -> None:
    job = replace(ended("RUNNING"), **refused)  # type: ignore[arg-type]
    assert foresee(job, [hit(150.0)], Limits()) is None


def test_what_we_did_before_observe_mode_is_not_foreseen() -> None:
    past = Attempt(1, "n1", 100.0, 200.0, "deny", "x")
    record = write_record("", Record(State.INTERNALERROR, attempt=past, history=(past,)))
    job = replace(ended("CANCELLED"), admin_comment=record)
    assert foresee(job, [hit(150.0)], Limits()) is None


def test_a_site_that_cancels_denied_jobs_is_told_so() -> None:
    job = ended("FAILED")
    view = view_foreseen(view_job(job, Limits()), job, [], Limits(cancel_denied=True))
    assert view.because.startswith("would be cancelled as internalerror: ")


def test_a_job_whose_image_may_come_later_would_be_tried_again() -> None:
    busy = Evidence("n1", 7, 100.0, JobCause.IMAGE_PULL, "429", 200.0, passing=True)
    node = NodeFacts("n1", extra=write_evidence("", "n1", [busy], 200.0))
    job = ended("FAILED")
    view = view_foreseen(view_job(job, Limits()), job, [node], Limits())
    assert view.because.startswith("would be tried again: next try in 60 s: ")


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
