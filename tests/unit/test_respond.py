"""What a node does about a judgement: the reason's words, one request, and only what is ours."""

from __future__ import annotations

from dataclasses import replace

import pytest
from failover_world import FINDINGS
from fake_slurmctld import FakeSlurm

from slurm_failover.errors import SlurmError
from slurm_failover.evidence import read_evidence
from slurm_failover.model import JobCause, JobFacts, Judgement, Limits, NodeAction
from slurm_failover.node.blame import Share
from slurm_failover.node.respond import (
    REASON_LIMIT,
    EndingJob,
    Responder,
    Response,
    is_ours_to_stop,
    lift_drain,
    write_reason,
)
from slurm_failover.record import Record, write_record

HARDWARE = FINDINGS["hardware"]
INTERNAL = FINDINGS["internal"]


class Scene:
    """Node n1 with jobs on it."""

    def __init__(self) -> None:
        self.slurm = FakeSlurm("n1")
        self.said: list[str] = []

    def run(self, comment: str = "failover") -> str:
        label = self.slurm.submit(comment)
        self.slurm.schedule()
        return label

    def respond(self, found: Judgement, ending: EndingJob | None = None) -> Response:
        facts = self.slurm.nodes("n1")[0]
        jobs = [(job, Share(found)) for job in self.slurm.jobs_on("n1")]
        fault = found if found.node is not NodeAction.NONE else None
        return Responder(self.slurm, "n1", self.said.append).respond(
            facts, fault, jobs if ending is None else [], ending
        )


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_drain_and_the_evidence_are_one_request_before_the_job_is_stopped(scene: Scene) -> None:
    label = scene.run()
    scene.slurm.calls.clear()
    done = scene.respond(HARDWARE)
    assert (done.hit, done.reason) == ((int(label),), scene.slurm.peek_node("n1").reason)
    assert scene.slurm.calls[-2:] == ["update_node", "stop"]
    entry = read_evidence("n1", scene.slurm.peek_node("n1").extra)[0]
    assert (entry.requeued, entry.start) == (True, scene.slurm.peek(label).start)


def test_done_again_it_changes_nothing(scene: Scene) -> None:
    scene.run()
    scene.respond(HARDWARE)
    before = scene.slurm.peek_node("n1").facts()
    scene.slurm.calls.clear()
    scene.respond(HARDWARE)
    assert scene.slurm.peek_node("n1").facts().reason == before.reason
    assert "stop" not in scene.slurm.calls


@pytest.mark.parametrize("state", ["DRAIN", "DOWN", "FAIL"])
def test_the_reason_of_a_node_out_of_service_stays(scene: Scene, state: str) -> None:
    label = scene.run()
    node = scene.slurm.peek_node("n1")
    node.flags.add(state)
    node.reason = "ADMIN SHUTDOWN"
    scene.respond(HARDWARE)
    assert node.reason == "ADMIN SHUTDOWN"
    assert [entry.job_id for entry in read_evidence("n1", node.extra)] == [int(label)]


def test_a_fault_that_is_not_the_hardwares_stops_no_job(scene: Scene) -> None:
    label = scene.run()
    assert scene.respond(FINDINGS["internal, reboot"]).hit == ()
    assert scene.slurm.job(label).states == {"RUNNING"}
    assert scene.slurm.peek_node("n1").reason.endswith("; reboot needed")


def test_word_on_an_ending_job_drains_nothing(scene: Scene) -> None:
    label = scene.run()
    start = scene.slurm.peek(label).start
    scene.slurm.finish(label, code=1)
    scene.respond(INTERNAL, EndingJob(int(label), start, INTERNAL))
    assert scene.slurm.peek_node("n1").reason == ""
    entry = read_evidence("n1", scene.slurm.peek_node("n1").extra)[0]
    assert (entry.cause, entry.requeued) == (JobCause.INTERNAL, False)


@pytest.mark.parametrize("record", [None, Record()], ids=["new", "recorded before"])
@pytest.mark.parametrize("comment", ["", "failover=x", "failover=off"])
def test_a_job_without_a_valid_wish_runs_on(
    scene: Scene, comment: str, record: Record | None
) -> None:
    label = scene.run(comment)
    if record is not None:
        scene.slurm.peek(label).admin_comment = write_record("", record)
    scene.respond(HARDWARE)
    assert scene.slurm.job(label).states == {"RUNNING"}


def test_a_job_is_not_flagged_by_a_record_in_its_comment(scene: Scene) -> None:
    label = scene.run(write_record("", Record(by_option=True)))
    scene.respond(HARDWARE)
    assert scene.slurm.job(label).states == {"RUNNING"}


def test_of_a_job_that_it_does_not_stop_no_node_says_that_it_did(scene: Scene) -> None:
    scene.run("")
    scene.respond(HARDWARE)
    [entry] = read_evidence("n1", scene.slurm.peek_node("n1").extra)
    assert (entry.cause, entry.requeued) == (JobCause.HARDWARE, False)


def test_all_flagged_jobs_that_a_fault_hit_are_stopped(scene: Scene) -> None:
    labels = [scene.slurm.submit("failover") for _ in range(3)]
    for label in labels:  # The fake gives a whole node to each.
        job = scene.slurm.peek(label)
        job.state, job.nodes, job.start = "RUNNING", ["n1"], scene.slurm.clock
    scene.respond(HARDWARE)
    assert all(scene.slurm.job(label).held_by_requeue for label in labels)


def test_a_job_flagged_by_the_option_is_known_by_its_record(scene: Scene) -> None:
    label = scene.run("")
    scene.slurm.peek(label).admin_comment = write_record("", Record(by_option=True))
    scene.respond(HARDWARE)
    assert scene.slurm.job(label).held_by_requeue


@pytest.mark.parametrize(("own_id", "flagged"), [(7, True), (8, False)])
def test_a_heterogeneous_job_is_flagged_by_its_leaders_words_alone(
    own_id: int, flagged: bool
) -> None:
    part = JobFacts(
        own_id, "7", states=frozenset({"RUNNING"}), comment="failover", components=(7, 8)
    )
    assert is_ours_to_stop(part, Limits()) is flagged
    recorded = replace(part, comment="", admin_comment=write_record("", Record(max_retries=3)))
    assert is_ours_to_stop(recorded, Limits()) is not flagged


def test_a_job_with_a_record_that_can_not_be_read_runs_on(scene: Scene) -> None:
    label = scene.run()
    scene.slurm.peek(label).admin_comment = '{"slurm-failover":{"v":2}}'
    scene.respond(HARDWARE)
    assert scene.slurm.job(label).states == {"RUNNING"}


def test_a_job_that_slurm_can_not_requeue_runs_on(scene: Scene) -> None:
    label = scene.slurm.submit("failover", requeue=False)
    scene.slurm.schedule()
    scene.respond(HARDWARE)
    assert scene.slurm.job(label).states == {"RUNNING"}


def test_a_refused_requeue_leaves_the_drain(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise SlurmError("no")

    scene.run()
    monkeypatch.setattr(scene.slurm, "stop", refuse)
    with pytest.raises(SlurmError):
        scene.respond(HARDWARE)
    assert scene.slurm.peek_node("n1").reason.startswith("slurm-failover: ")


# --- the way back ---------------------------------------------------------------------------------

OURS = "slurm-failover: Xid 79; reboot needed"


@pytest.mark.parametrize(
    ("reason", "written", "refusal"),
    [
        (OURS, OURS, ""),
        (OURS, "", ""),
        (f"{OURS} : reboot issued : reboot complete", OURS, ""),
        (f"{OURS} : Not responding", OURS, ""),
        (f"{OURS}. RMA 4711, do not resume", OURS, "its reason was changed since we wrote it"),
        (f"{OURS} : RMA 4711", OURS, "its reason was changed since we wrote it"),
        (f"{OURS} : reboot issued : RMA 4711", OURS, "its reason was changed since we wrote it"),
        (OURS, f"{OURS} (job 5)", "its reason was changed since we wrote it"),
        ("slurm-failover: kept for bob", OURS, "its reason was changed since we wrote it"),
        ("memory test", OURS, "its reason is not ours"),
        (f"memory test, was: {OURS}", OURS, "its reason is not ours"),
    ],
)
def test_only_our_own_drain_as_we_wrote_it_is_lifted(
    scene: Scene, reason: str, written: str, refusal: str
) -> None:
    scene.slurm.drain("n1", reason)
    said = lift_drain(scene.slurm, "n1", written)
    assert said == (f"{refusal}: {reason}" if refusal else "")
    assert scene.slurm.peek_node("n1").facts().has("DRAIN") is bool(refusal)


def test_a_node_in_service_is_not_resumed_again(scene: Scene) -> None:
    assert lift_drain(scene.slurm, "n1", OURS) == "n1 is in service"
    assert "update_node" not in scene.slurm.calls


# --- the reason -----------------------------------------------------------------------------------


def test_a_reason_names_fault_and_jobs() -> None:
    jobs = [JobFacts(number, str(number)) for number in range(1, 7)]
    assert write_reason(HARDWARE, [], None) == "slurm-failover: a fault of kind hardware"
    assert write_reason(HARDWARE, jobs[:1], None).endswith(" (job 1)")
    assert write_reason(HARDWARE, jobs, None).endswith(" (jobs 1, 2, 3, 4)")
    assert write_reason(HARDWARE, [], EndingJob(9, 0.0, HARDWARE)).endswith(" (job 9)")
    assert write_reason(HARDWARE, [], EndingJob(9, 0.0, INTERNAL)).endswith("hardware")


def test_a_reason_is_one_plain_line_that_fits_into_slurms_database() -> None:
    long = replace(HARDWARE, because="a\nb \x1b[31m" + "ü" * 500, node=NodeAction.REBOOT)
    reason = write_reason(long, [JobFacts(1, "1")], None)
    assert len(reason) <= REASON_LIMIT
    assert reason.isprintable()
    assert reason.endswith("…; reboot needed (job 1)")
