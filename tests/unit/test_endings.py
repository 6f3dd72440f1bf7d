"""What the controller's hooks do at the start and at the end of an attempt."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from fake_slurmctld import ADMIN_HOLD, USER_HOLD, FakeSlurm

from slurm_failover import embed, files
from slurm_failover.controller import serving, work
from slurm_failover.controller.arrivals import Arrival, Kind, Queue
from slurm_failover.controller.notes import Note, Notes
from slurm_failover.controller.serving import Server
from slurm_failover.controller.work import take_up
from slurm_failover.errors import HookEnded, SlurmError, SlurmUnavailable
from slurm_failover.evidence import write_evidence
from slurm_failover.model import Evidence, JobCause, JobFacts, Limits
from slurm_failover.policy import Ending
from slurm_failover.record import Record, State, Step, read_record, write_record

LIMITS = Limits(3)


class Scene:
    """A Slurm with one job, and the hooks to run on it."""

    def __init__(self, folder: Path) -> None:
        self.slurm = FakeSlurm()
        self.notes = Notes(str(folder))
        self.notes.open()
        self.queue = Queue(self.notes.queue)
        self.said: list[str] = []

    def run(self, comment: str = "failover", **facts: object) -> str:
        label = self.slurm.submit(comment, **facts)  # type: ignore[arg-type]
        self.slurm.schedule()
        return label

    def start(self, label: str, option: str | None = None) -> None:
        self.serve(Arrival(Kind.START, label, option=option))

    def end(self, label: str, option: str | None = None) -> bool:
        """Whether a decision is due."""
        job = self.slurm.peek(label)
        self.serve(Arrival(Kind.END, label, job.start, ",".join(job.nodes), option))
        return bool(self.notes.read())

    def serve(self, *arrivals: Arrival) -> None:
        for arrival in arrivals:
            self.queue.add(arrival)
        Server(self.slurm, self.notes, LIMITS, self.said.append).serve(self.queue)

    def record(self, label: str) -> Record:
        record = read_record(self.slurm.peek(label).admin_comment)
        assert record is not None
        return record

    def stop_by_node(self, label: str, *, stops: bool = True) -> None:
        """What a node does about a fault under a running job; without ``stops`` it has its say."""
        job = self.slurm.peek(label)
        node = self.slurm.peek_node(job.nodes[0])
        now = time.time()
        entry = Evidence(
            node.name, job.job_id, job.start, JobCause.HARDWARE, "lost", now, requeued=stops
        )
        node.extra = write_evidence(node.extra, node.name, [entry], now)
        if stops:
            self.slurm.requeue_and_hold(label)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


# --- the start ------------------------------------------------------------------------------------


def test_a_flagged_job_gets_a_record_and_shows_it(scene: Scene) -> None:
    label = scene.run("failover=2 mine")
    scene.start(label)
    assert scene.record(label).max_retries == 2
    assert scene.slurm.peek(label).comment == (
        "failover=2 mine [slurm-failover: armed, retries 0/2]"
    )


def test_an_unflagged_job_is_left_as_it_is(scene: Scene) -> None:
    label = scene.run("words")
    scene.start(label)
    scene.slurm.finish(label, code=1)
    assert not scene.end(label)
    assert {"update_job", "requeue_and_hold"}.isdisjoint(scene.slurm.calls)


def test_the_option_flags_a_job_without_a_word_in_its_comment(scene: Scene) -> None:
    label = scene.run("")
    scene.start(label, "default")
    assert scene.record(label).max_retries == 3


@pytest.mark.parametrize(
    ("comment", "facts", "why"),
    [
        ("failover=none", {}, "scontrol update JobId=100 Comment=failover=2"),
        ("failover=x", {}, "scontrol update JobId=100 Comment=failover=2"),
        ("failover", {"requeue": False}, "--no-requeue"),
        ("failover", {"batch": False}, "only batch jobs"),
    ],
)
def test_a_void_wish_is_answered_in_the_comment(
    scene: Scene, comment: str, facts: dict[str, object], why: str
) -> None:
    label = scene.run(comment, **facts)
    scene.start(label)
    job = scene.slurm.peek(label)
    assert job.comment.startswith(f"{comment} [slurm-failover: off: ")
    assert why in job.comment
    assert read_record(job.admin_comment) is None
    scene.slurm.finish(label, code=1)
    assert not scene.end(label)


def test_a_void_wish_that_was_mended_while_the_job_runs_counts(scene: Scene) -> None:
    label = scene.run("failover=0")
    scene.start(label)
    scene.slurm.peek(label).comment = "failover=2"
    scene.slurm.finish(label, code=1)
    assert scene.end(label)
    assert scene.record(label).max_retries == 2


def test_a_record_from_before_the_first_run_is_a_forgery(scene: Scene) -> None:
    label = scene.slurm.submit("failover")
    scene.slurm.peek(label).admin_comment = write_record("", Record(max_retries=99))
    scene.slurm.schedule()
    scene.start(label)
    assert scene.record(label).max_retries == 3


def test_a_record_of_a_newer_version_is_left_as_it_is(scene: Scene) -> None:
    label = scene.run()
    job = scene.slurm.peek(label)
    job.restarts, job.admin_comment = 1, '{"slurm-failover":{"v":2}}'
    scene.start(label)
    assert "newer" in scene.said[0]
    assert job.admin_comment == '{"slurm-failover":{"v":2}}'


# --- the end --------------------------------------------------------------------------------------


def test_a_failed_job_is_held_and_recorded(scene: Scene) -> None:
    label = scene.run()
    scene.start(label)
    scene.slurm.finish(label, code=3)
    assert scene.end(label)
    job = scene.slurm.job(label)
    assert job.states == {"PENDING", "COMPLETING"}
    assert "[slurm-failover: failoverinprogress, retries 0/3" in job.comment
    record = scene.record(label)
    assert (record.step, record.cause) == (Step.HELD, "the program ended with exit code 3")
    assert [note.label for note in scene.notes.read()] == [label]


def test_the_hook_run_twice_holds_once(scene: Scene) -> None:
    label = scene.run()
    scene.start(label)
    scene.slurm.finish(label, code=3)
    assert scene.end(label)
    before = scene.slurm.peek(label).facts(0)
    assert scene.end(label)
    assert scene.slurm.peek(label).facts(0) == before
    assert scene.slurm.calls.count("requeue_and_hold") == 1


def test_a_job_whose_start_was_not_recorded_is_held_all_the_same(scene: Scene) -> None:
    label = scene.run()
    scene.slurm.finish(label, code=3)
    assert scene.end(label)
    assert scene.record(label).attempt.nodes == "n1"


@pytest.mark.parametrize("state", ["TIMEOUT", "PREEMPTED", "DEADLINE", "COMPLETED"])
def test_an_end_that_is_no_failure_is_left_alone(scene: Scene, state: str) -> None:
    label = scene.run()
    scene.start(label)
    scene.slurm.finish(label, state=state)
    assert not scene.end(label)
    assert scene.slurm.job(label).has(state)
    assert scene.notes.read() == []


def test_a_cancelled_job_is_never_revived(scene: Scene) -> None:
    label = scene.run()
    scene.start(label)
    scene.slurm.cancel(label)
    assert not scene.end(label)
    assert scene.slurm.job(label).has("CANCELLED")


@pytest.mark.parametrize("by_its_node", [True, False])
def test_a_job_without_a_record_is_taken_up_where_its_node_has_stopped_it(
    scene: Scene, by_its_node: bool
) -> None:
    label = scene.run()
    if by_its_node:
        scene.stop_by_node(label)
    else:
        scene.slurm.requeue_and_hold(label)
    scene.slurm.end_epilog(label, "n1")
    scene.slurm.end_hook(label)
    take_up(scene.slurm, scene.notes, LIMITS, scene.said.append)
    scene.serve()
    assert len(scene.notes.read()) == by_its_node
    if by_its_node:
        assert scene.record(label).step is Step.HELD
        assert scene.record(label).attempt.nodes == "n1"


def test_a_job_that_was_requeued_by_hand_is_left_alone(scene: Scene) -> None:
    label = scene.run()
    scene.start(label)
    scene.slurm.requeue(label)
    assert not scene.end(label)
    assert not scene.slurm.job(label).held


@pytest.mark.parametrize("node", ["knows nothing", "explains a failure", "is drained by us"])
def test_a_requeue_with_a_hold_by_hand_is_left_alone(scene: Scene, node: str) -> None:
    label = scene.run()
    scene.start(label)
    if node == "explains a failure":
        scene.stop_by_node(label, stops=False)
    if node == "is drained by us":
        scene.slurm.drain("n1", "slurm-failover: Xid 79")
    scene.slurm.requeue_and_hold(label)
    assert not scene.end(label)
    assert scene.record(label).state is State.ARMED


def test_a_job_that_its_owner_released_after_its_node_had_stopped_it_is_theirs(
    scene: Scene,
) -> None:
    label = scene.run()
    scene.start(label)
    scene.stop_by_node(label)
    scene.slurm.release(label)
    assert not scene.end(label)
    assert not scene.slurm.job(label).held


def test_a_job_that_its_node_stopped_is_recorded_however_long_ago_it_started(scene: Scene) -> None:
    label = scene.run()
    scene.start(label)
    scene.slurm.clock += 5000
    scene.stop_by_node(label)
    assert scene.end(label)
    record = scene.record(label)
    assert (record.step, record.cause) == (Step.HELD, "the job was stopped by its node")
    assert scene.slurm.calls.count("requeue_and_hold") == 1


@pytest.mark.parametrize(
    ("dropped", "ours"),
    [({"stopped": True}, True), ({}, False), ({"stopped": True, "last": 1, "first": 1}, False)],
)
def test_a_job_that_may_have_been_stopped_by_a_word_that_had_no_room_is_taken_up(
    scene: Scene, dropped: dict[str, object], ours: bool
) -> None:
    label = scene.run()
    scene.start(label)
    start = scene.slurm.peek(label).start
    value = {"first": start - 9, "last": start + 9, "time": start} | dropped
    scene.slurm.peek_node("n1").extra = embed.put("", {"v": 1, "jobs": [], "dropped": value})
    scene.slurm.requeue_and_hold(label)
    assert scene.end(label) is ours


def test_a_job_that_lost_a_node_is_held(scene: Scene) -> None:
    label = scene.run(size=2)
    scene.start(label)
    scene.slurm.lose_node("n1")
    assert scene.end(label)
    assert scene.slurm.job(label).reason == USER_HOLD
    assert scene.record(label).lost == "n1"


@pytest.mark.parametrize("hold", [USER_HOLD, ADMIN_HOLD])
def test_a_job_that_someone_held_after_it_lost_a_node_is_theirs(scene: Scene, hold: str) -> None:
    label = scene.run(size=2)
    scene.start(label)
    scene.slurm.lose_node("n1")
    scene.slurm.peek(label).hold = hold
    assert not scene.end(label)
    assert scene.slurm.job(label).reason == hold


def test_the_note_comes_before_the_hold(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    label = scene.run()
    scene.start(label)
    scene.slurm.finish(label, code=3)

    def refuse(_: str) -> None:
        raise SlurmError("no")

    monkeypatch.setattr(scene.slurm, "requeue_and_hold", refuse)
    scene.end(label)
    assert scene.said[-1] == f"job {label}: no"
    assert [note.ending for note in scene.notes.read()] == [Ending.FAILED]


# --- notes ----------------------------------------------------------------------------------------


def test_a_note_comes_back_as_it_was_left_and_the_same_note_is_one(scene: Scene) -> None:
    note = Note(7, "5_2", Ending.NODE_LOST, Record(lost="n1"))
    scene.notes.add(note)
    scene.notes.add(note)
    assert scene.notes.read() == [note]
    scene.notes.remove(note)
    scene.notes.remove(note)
    assert scene.notes.read() == []


@pytest.mark.parametrize("text", ["", "{}", "[1,2,3]", '[1,"a","failed",{"v":9}]', "[1"])
def test_a_note_that_can_not_be_understood_is_passed_over(
    scene: Scene, tmp_path: Path, text: str
) -> None:
    (tmp_path / "controller" / "waiting" / "1-2.json").write_text(text)
    good = Note(7, "7", Ending.FAILED, Record())
    scene.notes.add(good)
    assert scene.notes.read() == [good]


def test_a_half_written_note_is_not_seen(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "controller" / "waiting" / "1-2.json.77.new").write_text("half")
    assert scene.notes.read() == []


# --- many at once ---------------------------------------------------------------------------------


def test_many_ends_are_asked_about_with_one_question(scene: Scene) -> None:
    labels = [scene.run() for _ in range(4)]
    jobs = [scene.slurm.peek(label) for label in labels]
    for label in labels:
        scene.slurm.finish(label, code=3)
    scene.slurm.calls.clear()
    scene.serve(*(Arrival(Kind.END, j.label, j.start, ",".join(j.nodes)) for j in jobs))
    assert sorted(note.label for note in scene.notes.read()) == labels
    assert scene.slurm.calls.count("jobs") == 1
    assert {"job", "nodes"}.isdisjoint(scene.slurm.calls)
    assert scene.queue.read() == []


def test_the_trouble_of_one_is_not_the_others(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "GONE", 0.0)
    damaged, sound = scene.run(), scene.run()
    for label in (damaged, sound):
        scene.start(label)
        scene.slurm.finish(label, code=3)
    scene.slurm.peek(damaged).admin_comment = '{"slurm-failover":{"v":2}}'
    jobs = [scene.slurm.peek(label) for label in (damaged, sound)]
    scene.serve(
        Arrival(Kind.END, "4711", 5.0, "n1"),
        *(Arrival(Kind.END, j.label, j.start, ",".join(j.nodes)) for j in jobs),
    )
    assert [note.label for note in scene.notes.read()] == [sound]
    assert scene.queue.read() == []


@pytest.mark.parametrize("trouble", [SlurmUnavailable("Socket timed out"), HookEnded("time over")])
def test_what_could_not_be_served_for_want_of_time_or_answer_stays_in_the_queue(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    label = scene.run()
    scene.slurm.finish(label, code=3)

    def fail(_: str) -> None:
        raise trouble

    with monkeypatch.context() as troubled:
        troubled.setattr(scene.slurm, "requeue_and_hold", fail)
        with pytest.raises(type(trouble)):
            scene.end(label)
        for _ in range(3):
            with pytest.raises(type(trouble)):
                scene.serve()
    assert [arrival.job_id for arrival in scene.queue.read()] == [label]
    assert scene.end(label)
    assert scene.record(label).step is Step.HELD


def test_an_entry_that_kills_its_server_keeps_the_others_back_twice_at_most(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [scene.slurm.peek(scene.run()) for _ in range(2)]
    for job in jobs:
        scene.slurm.finish(job.label, code=3)
    hold = serving.hold_end

    def die(slurm: FakeSlurm, notes: Notes, limits: Limits, job: JobFacts, *rest: Any, **more: Any):
        if job.label == jobs[0].label:
            raise ZeroDivisionError("a bug")
        hold(slurm, notes, limits, job, *rest, **more)

    monkeypatch.setattr(serving, "hold_end", die)
    ends = [Arrival(Kind.END, j.label, j.start, ",".join(j.nodes)) for j in jobs]
    for arrivals in (ends, ()):
        with pytest.raises(ZeroDivisionError):
            scene.serve(*arrivals)
    scene.serve()
    assert [note.label for note in scene.notes.read()] == [jobs[1].label]
    assert scene.queue.read() == []


def test_a_turn_ends_in_time_and_leaves_the_rest_to_the_next(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [scene.slurm.peek(scene.run()) for _ in range(3)]
    for job in jobs:
        scene.slurm.finish(job.label, code=3)
    ticks = iter([0.0, 1.0, 50.0])
    monkeypatch.setattr(serving.time, "monotonic", lambda: next(ticks))
    scene.serve(*(Arrival(Kind.END, j.label, j.start, ",".join(j.nodes)) for j in jobs))
    assert len(scene.notes.read()) == 1
    assert len(scene.queue.read()) == 2


def test_a_start_that_is_served_after_its_end_changes_nothing(scene: Scene) -> None:
    label = scene.run()
    scene.slurm.finish(label, code=3)
    assert scene.end(label)
    before = scene.slurm.peek(label).facts(0)
    scene.start(label)
    assert scene.slurm.peek(label).facts(0) == before


def test_a_start_that_is_served_while_its_attempt_ends_records_nothing(scene: Scene) -> None:
    label = scene.run()
    scene.slurm.finish(label, code=3)
    scene.slurm.calls.clear()
    scene.start(label)
    assert "update_job" not in scene.slurm.calls


def test_an_entry_that_is_being_written_is_left_to_its_writer(scene: Scene) -> None:
    entry = Path(scene.notes.queue) / "epilog_slurmctld.7.5.new"
    entry.parent.mkdir(exist_ok=True)
    entry.write_text("n1\n")
    assert scene.queue.read() == []
    assert entry.exists()


@pytest.mark.parametrize("taken", [True, False], ids=["a hook serves it", "its turn"])
def test_what_hooks_left_behind_is_served_in_turn(scene: Scene, taken: bool) -> None:
    scene.queue.add(Arrival(Kind.END, "7", 5.0, "n1"))
    server = Mock(spec=Server)
    server.serve.side_effect = SlurmUnavailable("Socket timed out")
    with files.locked(scene.queue.lock, 0) if taken else contextlib.nullcontext():
        assert work._catch_up(server, scene.queue, scene.said.append, True)
    assert server.serve.called is not taken
    assert ("what its hooks handed in waits" in "".join(scene.said)) is not taken


def test_where_nothing_can_be_written_the_controller_goes_on(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "write_whole", refuse)
    scene.notes.begin(anew=True)
    scene.notes.mark_reconciled()
    assert (scene.notes.since(), scene.notes.reconciled()) == (0.0, 0.0)


def test_an_end_that_another_controller_held_is_decided_here(scene: Scene) -> None:
    label = scene.run()
    scene.slurm.finish(label, code=3)
    assert scene.end(label)
    for note in scene.notes.read():
        scene.notes.remove(note)
    assert scene.end(label)
    assert scene.slurm.calls.count("requeue_and_hold") == 1


def test_an_end_of_which_a_slurmctld_that_ends_knows_no_job_waits_for_a_while(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = scene.run()
    scene.slurm.finish(label, code=1)
    with monkeypatch.context() as ending:
        ending.setattr(scene.slurm, "jobs", lambda *_: [])
        assert not scene.end(label)
    [left] = scene.queue.read()
    scene.serve(left)
    assert scene.slurm.job(label).held

    scene.serve(Arrival(Kind.END, "4711", 5.0, "n1"))
    [left] = scene.queue.read()
    entry = f"{scene.notes.queue}/{left.name}"
    long_ago = time.time() - serving.GONE
    os.utime(entry, (long_ago, long_ago))
    Server(scene.slurm, scene.notes, LIMITS, scene.said.append).serve(scene.queue)
    assert scene.queue.read() == []
    assert scene.said[-1] == "job 4711: Slurm does not know it"


def test_an_owners_own_hold_after_a_stop_that_no_hook_recorded_is_left_alone(scene: Scene) -> None:
    label = scene.run()
    scene.stop_by_node(label)
    scene.slurm.end_epilog(label, "n1")
    scene.slurm.end_hook(label)
    scene.slurm.release(label)
    scene.slurm.clock += 200
    scene.slurm.schedule()
    assert scene.slurm.peek(label).state == "RUNNING"
    scene.slurm.requeue_and_hold(label)
    scene.slurm.end_epilog(label, *scene.slurm.peek(label).nodes)
    scene.slurm.end_hook(label)
    take_up(scene.slurm, scene.notes, LIMITS, scene.said.append)
    scene.serve()
    assert scene.notes.read() == []


def test_a_job_with_a_damaged_record_is_not_taken_up_again_and_again(scene: Scene) -> None:
    label = scene.run()
    scene.start(label)
    scene.stop_by_node(label)
    scene.slurm.end_epilog(label, "n1")
    scene.slurm.end_hook(label)
    job = scene.slurm.peek(label)
    job.admin_comment = job.admin_comment.replace('"v":1', '"v":"x"')
    for _ in range(2):
        take_up(scene.slurm, scene.notes, LIMITS, scene.said.append)
        scene.serve()
    assert f"job {label}: its epilog_slurmctld was missed" not in scene.said


def test_a_job_without_a_record_that_is_refused_is_not_handed_in_each_minute(scene: Scene) -> None:
    label = scene.run()
    scene.stop_by_node(label)
    scene.slurm.end_epilog(label, "n1")
    scene.slurm.end_hook(label)
    scene.slurm.peek(label).requeue = False
    for _ in range(3):
        take_up(scene.slurm, scene.notes, LIMITS, scene.said.append)
        scene.serve()
    assert scene.said.count(f"job {label}: its epilog_slurmctld was missed") <= 1
