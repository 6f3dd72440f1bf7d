"""From a held job to its verdict, and to the start on other nodes."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from failover_world import DEATHS, FINDINGS, WAIT_FOR_NODES, House, Trouble
from fake_slurmctld import ADMIN_HOLD, USER_HOLD, FakeSlurm
from fake_state import DEFAULT_PRIORITY

from slurm_failover import files, lifecycle
from slurm_failover.controller import decider
from slurm_failover.controller.notes import Note
from slurm_failover.controller.placement import Placement
from slurm_failover.errors import NoSuchJob, SlurmUnavailable
from slurm_failover.model import JobFacts, Limits
from slurm_failover.policy import Ending
from slurm_failover.record import Attempt, Record, State, Step, read_record, write_record
from slurm_failover.slurm.client import TOP_PRIORITY, JobChange


class Story:
    """One or more flagged jobs from their start to what becomes of them."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.slurm = FakeSlurm()
        self.house = House(self.slurm, str(folder), limits)

    def start(self, comment: str = "failover", size: int = 1) -> str:
        label = self.slurm.submit(comment, size=size)
        self.restart(label)
        return label

    def restart(self, label: str) -> None:
        assert label in self.slurm.schedule()
        self.house.start_hook(label)

    def fail(self, label: str, found: str = "hardware", *faulty: str) -> None:
        """The program fails; ``faulty`` nodes, or the first one, find something in its window."""
        job = self.slurm.peek(label)
        self.slurm.finish(label, code=1)
        self.house.end_hook(label, job.start, ",".join(job.nodes))
        for name in faulty or job.nodes[:1]:
            if found:
                self.house.node_epilog(label, job.start, name, FINDINGS[found])

    def complete(self, label: str) -> None:
        """All Epilogs end."""
        for name in sorted(self.slurm.peek(label).busy):
            self.slurm.end_epilog(label, name)
        self.slurm.end_hook(label)

    def record(self, label: str) -> Record:
        record = read_record(self.slurm.peek(label).admin_comment)
        assert record is not None
        return record


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path, Limits(2, ("nhc:",)))


def test_a_hardware_fault_moves_the_job_at_once_and_ahead_of_all(story: Story) -> None:
    label = story.start()
    story.fail(label)
    story.complete(label)
    story.house.decide()
    job = story.slurm.peek(label)
    assert (job.hold, job.excluded, job.priority) == ("", "n1", TOP_PRIORITY)
    assert job.begin <= story.slurm.clock
    story.restart(label)
    assert job.nodes == ["n2"]
    record = story.record(label)
    assert (record.state, record.retries, record.excluded) == (State.RESUMED, 1, "n1")
    assert [past.outcome for past in record.history] == ["failover"]


@pytest.mark.parametrize("wiped", [False, True], ids=["beside ours", "with ours wiped out"])
def test_a_record_that_stands_in_the_comment_is_its_owners_words_and_no_record(
    story: Story, wiped: bool
) -> None:
    forged = write_record("failover", Record(max_retries=99, by_option=True))
    label = story.start(forged)
    job = story.slurm.peek(label)
    for retries in (1, 2):
        job.comment, job.admin_comment = forged, "" if wiped else job.admin_comment
        story.fail(label)
        assert story.record(label).max_retries == 2
        job.comment = forged
        story.complete(label)
        story.house.decide()
        assert story.record(label).retries == (1 if wiped else retries)
        job.comment, job.admin_comment = forged, "" if wiped else job.admin_comment
        story.restart(label)
        assert story.record(label).max_retries == 2


def test_reconcile_takes_up_no_record_that_stands_in_a_comment(story: Story) -> None:
    forged = Record(State.FAILOVERINPROGRESS, Step.HELD, attempt=Attempt(1, "n1", 5.0))
    words = write_record("", forged)
    label = story.slurm.submit(words)
    story.slurm.hold(label)
    story.house.reconcile()
    job = story.slurm.peek(label)
    assert (job.hold != "", job.comment, job.admin_comment) == (True, words, "")


def test_a_decision_notes_how_often_slurm_has_restarted_the_job_by_then(story: Story) -> None:
    label = story.start()
    story.fail(label)
    story.complete(label)
    job = story.slurm.peek(label)
    job.restarts -= 1  # Slurm did not count what the hold took for certain.
    story.house.decide()
    assert story.record(label).restarts == job.restarts == 0


def test_a_hold_that_died_before_its_record_is_not_finished_on_a_job_that_was_released_since(
    story: Story,
) -> None:
    label = story.start()
    story.house.health_check("n1", FINDINGS["hardware"])
    record = lifecycle.hold(
        story.record(label), story.slurm.job(label), Ending.STOPPED_BY_NODE, 5.0
    )
    story.house.notes.add(Note(int(label), label, Ending.STOPPED_BY_NODE, record))
    story.slurm.release(label)
    story.complete(label)
    before = story.slurm.peek(label).facts(0)
    story.house.decide()
    assert story.slurm.peek(label).facts(0) == before


def test_nothing_is_decided_before_the_nodes_were_heard(story: Story) -> None:
    label = story.start()
    story.fail(label, "")
    story.house.decide(rounds=3)
    assert story.record(label).step is Step.HELD
    job = story.slurm.peek(label)
    story.house.node_epilog(label, job.start, "n1", FINDINGS["hardware"])
    story.complete(label)
    story.house.decide()
    assert story.record(label).retries == 1


def test_a_node_that_is_never_heard_does_not_hold_the_job_up_for_ever(story: Story) -> None:
    label = story.start()
    story.fail(label, "")
    story.slurm.clock += WAIT_FOR_NODES + 1
    story.house.decide()
    record = story.record(label)
    assert record.state is State.INTERNALERROR
    assert "Epilog has not ended" in record.because


def test_a_failover_decided_before_the_last_epilog_starts_once_that_has_ended(story: Story) -> None:
    label = story.start(size=2)
    story.fail(label)
    story.slurm.clock += WAIT_FOR_NODES + 1
    story.house.decide()
    assert (story.record(label).step, story.slurm.peek(label).hold) == (Step.DECIDED, "")
    story.complete(label)
    assert story.slurm.peek(label).begin > story.slurm.clock
    story.house.decide()
    assert story.record(label).step is Step.PLACED
    assert story.slurm.peek(label).begin <= story.slurm.clock


@pytest.mark.parametrize("found", ["", "internal", "internal, reboot", "unknown"])
def test_without_a_hardware_fault_the_job_stays_held_for_its_owner(
    story: Story, found: str
) -> None:
    label = story.start()
    story.fail(label, found)
    story.complete(label)
    story.house.decide()
    job, record = story.slurm.job(label), story.record(label)
    assert job.states == {"PENDING"}
    assert (record.state, record.retries, job.excluded) == (State.INTERNALERROR, 0, "")
    assert "[slurm-failover: internalerror, retries 0/2" in job.comment
    assert story.house.notes.read() == []


def test_two_nodes_at_once_are_one_retry_and_both_are_excluded(story: Story) -> None:
    label = story.start(size=2)
    for name in ("n1", "n2"):
        story.house.health_check(name, FINDINGS["hardware"])
    job = story.slurm.peek(label)
    assert job.restarts == 1
    story.house.end_hook(label, job.start, "n[1-2]")
    story.complete(label)
    story.house.decide()
    assert (story.record(label).retries, job.excluded) == (1, "n[1-2]")


def test_the_limit_ends_it(story: Story) -> None:
    label = story.start()
    for _ in range(2):
        story.fail(label)
        story.complete(label)
        story.house.decide()
        story.restart(label)
    story.fail(label)
    story.complete(label)
    story.house.decide()
    record = story.record(label)
    assert (record.state, record.retries) == (State.MAXRETRIESEXCEEDED, 2)
    assert story.slurm.job(label).held


def test_excluded_nodes_of_the_owner_stay_excluded(story: Story) -> None:
    label = story.slurm.submit("failover")
    story.slurm.peek(label).excluded = "n1"
    story.restart(label)
    story.fail(label)
    story.complete(label)
    story.house.decide()
    assert story.slurm.peek(label).excluded == "n[1-2]"


def test_a_trusted_drain_moves_the_job_and_keeps_its_words(story: Story) -> None:
    label = story.start()
    story.slurm.drain("n1", "nhc: GPU is sick")
    story.fail(label, "")
    story.complete(label)
    story.house.decide()
    assert story.record(label).retries == 1
    assert story.slurm.peek_node("n1").reason == "nhc: GPU is sick"


# --- others have a say ----------------------------------------------------------------------------


def test_a_job_that_was_released_before_the_decision_is_its_owners(story: Story) -> None:
    label = story.start()
    story.fail(label)
    story.slurm.release(label)
    story.complete(label)
    story.house.decide()
    record = story.record(label)
    assert (record.state, record.retries) == (State.ARMED, 0)
    assert record.because == "the job was released before the decision"


@pytest.mark.parametrize(
    ("hold", "who"), [(ADMIN_HOLD, "an administrator"), (USER_HOLD, "its owner")]
)
def test_a_hold_of_someone_else_before_the_decision_stays(
    story: Story, hold: str, who: str
) -> None:
    label = story.start()
    story.fail(label)
    story.slurm.release(label)
    story.slurm.peek(label).hold = hold
    story.complete(label)
    story.house.decide()
    assert story.slurm.job(label).reason == hold
    assert story.record(label).because == f"{who} holds the job before the decision"


@pytest.mark.parametrize("hold", [ADMIN_HOLD, USER_HOLD])
def test_a_hold_of_someone_else_after_the_decision_stays(story: Story, hold: str) -> None:
    label = story.start()
    story.fail(label)
    story.complete(label)
    story.house.decide(Trouble("killed_after", 4))
    assert story.record(label).step is Step.DECIDED
    story.slurm.peek(label).hold = hold
    story.house.reconcile()
    assert story.slurm.job(label).reason == hold
    assert story.record(label).step is Step.PLACED


@pytest.mark.parametrize("comment", ["failover", ""])
def test_a_raised_priority_is_for_one_start_and_an_owners_requeue_waits_in_line(
    story: Story, comment: str
) -> None:
    label = story.start()
    story.fail(label)
    story.complete(label)
    story.house.decide()
    story.house.reconcile()
    job = story.slurm.peek(label)
    assert job.priority == TOP_PRIORITY, "it has not started"
    job.comment = comment  # with the word away no hook is started for the job any more
    story.slurm.schedule()
    if comment:
        story.house.start_hook(label)
    story.house.reconcile()
    assert (job.state, job.hold, job.priority) == ("RUNNING", "", DEFAULT_PRIORITY)


def test_a_priority_that_is_none_of_ours_stays(story: Story) -> None:
    label = story.start()
    story.slurm.peek(label).priority = TOP_PRIORITY
    story.house.reconcile()
    assert story.slurm.peek(label).priority == TOP_PRIORITY


def test_a_job_that_was_cancelled_while_it_waited_stays_cancelled(story: Story) -> None:
    label = story.start()
    story.fail(label)
    story.slurm.cancel(label)
    story.complete(label)
    story.house.decide()
    assert story.slurm.job(label).has("CANCELLED")
    assert story.house.notes.read() == []


# --- any step can be the last ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", DEATHS)
@pytest.mark.parametrize("at", range(1, 6))
def test_a_death_or_a_lost_answer_at_any_request_of_the_decision_costs_nothing(
    story: Story, kind: str, at: int
) -> None:
    label = story.start()
    story.fail(label)
    story.complete(label)
    story.house.decide(Trouble(kind, at), rounds=1)
    story.house.decide()
    story.house.reconcile()
    job, record = story.slurm.peek(label), story.record(label)
    assert (record.step, record.retries, record.excluded) == (Step.PLACED, 1, "n1")
    assert (job.hold, job.priority, job.restarts) == ("", TOP_PRIORITY, 1)


@pytest.mark.parametrize("kind", DEATHS)
@pytest.mark.parametrize("at", [2, 3])
def test_a_death_or_a_lost_answer_at_any_request_of_the_hold_costs_nothing(
    story: Story, kind: str, at: int
) -> None:
    label = story.start()
    job = story.slurm.peek(label)
    story.slurm.finish(label, code=1)
    story.house.end_hook(label, job.start, "n1", Trouble(kind, at))
    story.house.node_epilog(label, job.start, "n1", FINDINGS["hardware"])
    story.complete(label)
    story.house.decide()
    record = story.record(label)
    assert (record.step, record.retries, job.restarts) == (Step.PLACED, 1, 1)


def test_a_note_that_outlived_its_attempt_changes_nothing(story: Story) -> None:
    label = story.start()
    story.fail(label)
    story.complete(label)
    old = story.house.notes.read()
    story.house.decide()
    story.restart(label)
    story.fail(label, "")
    before = story.slurm.peek(label).facts(0)
    story.house.notes.remove(story.house.notes.read()[0])
    story.house.notes.add(old[0])
    story.complete(label)
    story.house.decide()
    after = story.slurm.peek(label).facts(0)
    assert (after.admin_comment, after.comment) == (before.admin_comment, before.comment)
    assert story.house.notes.read() == []


def test_a_note_on_a_job_whose_id_was_given_away_again_changes_nothing(story: Story) -> None:
    label = story.start()
    story.fail(label)
    other = story.slurm.peek(label)
    other.state, other.hold, other.requeued_held = "FAILED", "", False
    other.comment = other.admin_comment = ""
    other.start += 86400
    story.complete(label)
    story.house.decide()
    assert (other.state, other.admin_comment) == ("FAILED", "")
    assert story.house.notes.read() == []


def test_a_damaged_record_of_one_job_does_not_stop_the_others(story: Story) -> None:
    damaged, sound = story.start(), story.start()
    for label in (damaged, sound):
        story.fail(label)
        story.complete(label)
    story.slurm.peek(damaged).admin_comment = '{"slurm-failover":{"v":1}}'
    story.house.decide()
    assert story.record(sound).step is Step.PLACED
    assert story.slurm.peek(damaged).admin_comment == '{"slurm-failover":{"v":1}}'
    assert story.house.notes.read() == []


def test_while_slurm_is_silent_every_job_waits(story: Story) -> None:
    label = story.start()
    story.fail(label)
    story.complete(label)
    story.house.decide(Trouble("lost_before", 1), rounds=1)
    assert story.record(label).step is Step.HELD
    assert len(story.house.notes.read()) == 1
    assert any("the decision waits" in line for line in story.house.story)


def test_jobs_that_wait_together_are_two_requests_and_not_two_for_each(story: Story) -> None:
    labels = [story.start() for _ in range(4)]
    for label in labels:
        story.fail(label, "")
        story.complete(label)
    story.slurm.calls.clear()
    story.house.decide()
    assert story.slurm.calls.count("jobs") == story.slurm.calls.count("nodes") == 1


def test_one_decider_at_a_time(story: Story) -> None:
    label = story.start()
    story.fail(label)
    story.complete(label)
    with files.locked(story.house.notes.lock("decider"), 0):
        story.house.decide()
    assert story.record(label).step is Step.HELD
    story.house.decide()
    assert story.record(label).step is Step.PLACED


def test_a_job_that_slurm_forgot_is_forgotten_after_a_while(story: Story) -> None:
    label = story.start()
    story.fail(label)
    del story.slurm._jobs[label]
    begun = story.slurm.clock

    def pause(seconds: float) -> None:
        story.slurm.clock += seconds
        assert story.slurm.clock - begun < 60, "it waits for ever"

    with story.house.process() as slurm:
        story.house.make_decider(slurm).run(pause)
    assert story.house.notes.read() == []
    assert decider.GONE <= story.slurm.clock - begun < 3 * decider.GONE


def test_an_answer_of_a_slurmctld_that_ends_is_not_the_end_of_its_jobs(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = story.start()
    story.fail(label)
    story.complete(label)
    ask, answers = FakeSlurm.jobs, iter([True])

    def know_none_at_first(slurm: FakeSlurm, job_ids: Collection[str] = ()) -> list[JobFacts]:
        return [] if next(answers, False) else ask(slurm, job_ids)

    monkeypatch.setattr(FakeSlurm, "jobs", know_none_at_first)
    story.house.decide()
    assert story.record(label).step is Step.PLACED


def test_a_change_that_a_slurmctld_refuses_which_ends_is_made_later(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = story.start()
    story.fail(label)
    story.complete(label)
    update, answers = FakeSlurm.update_job, iter([True])

    def know_none_at_first(slurm: FakeSlurm, label: str, change: JobChange) -> None:
        if next(answers, False):
            raise NoSuchJob("Invalid job id specified")
        update(slurm, label, change)

    monkeypatch.setattr(FakeSlurm, "update_job", know_none_at_first)
    story.house.decide()
    assert story.record(label).step is Step.PLACED


def test_two_slurmctlds_that_end_while_the_nodes_of_a_job_do_not_are_no_end_of_the_job(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = story.start()
    story.fail(label)
    ask, answers = FakeSlurm.jobs, iter([False, True, False])

    def restart_twice(slurm: FakeSlurm, job_ids: Collection[str] = ()) -> list[JobFacts]:
        is_known = next(answers, None)
        story.slurm.clock += int(decider.GONE)
        if is_known is None:
            story.complete(label)
        return ask(slurm, job_ids) if is_known is not False else []

    monkeypatch.setattr(FakeSlurm, "jobs", restart_twice)
    story.house.decide(rounds=5)
    assert story.record(label).step is Step.PLACED


def test_a_slurmctld_that_is_silent_between_two_that_end_is_no_sign_that_the_job_is_gone(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = story.start()
    story.fail(label)
    story.complete(label)
    ask, answers = FakeSlurm.jobs, iter(["none", "silent", "none"])

    def restart_twice(slurm: FakeSlurm, job_ids: Collection[str] = ()) -> list[JobFacts]:
        answer = next(answers, "")
        if answer == "silent":
            story.slurm.clock += 10 * decider.GONE
            raise SlurmUnavailable("slurmctld is away")
        return [] if answer else ask(slurm, job_ids)

    monkeypatch.setattr(FakeSlurm, "jobs", restart_twice)
    story.house.decide(rounds=5)
    assert story.record(label).step is Step.PLACED


def test_nodes_that_are_no_hostlist_in_one_record_do_not_stop_the_others(story: Story) -> None:
    damaged, sound = story.start(), story.start()
    for label in (damaged, sound):
        story.fail(label)
        story.complete(label)
    peeked = story.slurm.peek(damaged)
    peeked.admin_comment = peeked.admin_comment.replace('"n1"', '"n[1"')
    story.house.decide()
    assert story.record(sound).step is Step.PLACED
    assert story.house.notes.read() == []


def test_a_refused_priority_costs_the_priority_and_not_the_start(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Placement, change: JobChange, record: Record) -> JobChange:
        return replace(change, start_now=True, qos="gone")

    monkeypatch.setattr(Placement, "place", refuse)
    label = story.start()
    story.fail(label)
    story.complete(label)
    story.house.decide()
    assert story.record(label).step is Step.PLACED
    assert label in story.slurm.schedule()
    assert any("without a raised priority" in line for line in story.house.story)


@pytest.mark.parametrize("code", [0, 1])
def test_an_end_whose_hook_died_before_its_note_is_taken_up_by_reconcile(
    story: Story, code: int
) -> None:
    label = story.start()
    job = story.slurm.peek(label)
    node = job.nodes[0]
    if code:
        story.slurm.finish(label, code=code)
        story.house.node_epilog(label, job.start, node, FINDINGS["hardware"])
    else:
        story.house.health_check(node, FINDINGS["hardware"])
    story.house.end_hook(label, job.start, node, Trouble("killed_before", 1))
    story.complete(label)
    assert story.house.notes.read() == []
    story.house.reconcile()
    assert (story.record(label).retries, story.record(label).step) == (1, Step.PLACED)


def test_reconcile_leaves_a_failed_job_alone_whose_owner_took_the_wish_back(story: Story) -> None:
    label = story.start()
    job = story.slurm.peek(label)
    job.comment = ""
    story.slurm.finish(label, code=1)
    story.complete(label)
    story.house.reconcile()
    assert "FAILED" in story.slurm.peek(label).facts(0).states


@pytest.mark.parametrize("comment", ["", "run 7", "failover=off"])
@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "no hook ran"])
def test_a_job_that_its_node_stopped_is_moved_though_its_owner_took_the_wish_back_since(
    story: Story, recorded: bool, comment: str
) -> None:
    label = story.start()
    job = story.slurm.peek(label)
    node = job.nodes[0]
    if not recorded:
        job.admin_comment = ""
    story.house.health_check(node, FINDINGS["hardware"])
    assert story.slurm.job(label).held
    job.comment = comment
    story.house.end_hook(label, job.start, node)
    story.complete(label)
    story.house.reconcile()
    assert (story.record(label).retries, story.record(label).step) == (1, Step.PLACED)
    assert not story.slurm.job(label).held


def test_the_hold_of_a_later_attempt_is_not_lifted_by_the_decision_on_an_earlier_one(
    story: Story,
) -> None:
    label = story.start()
    story.fail(label)
    story.complete(label)
    job = story.slurm.peek(label)
    story.slurm.release(label)
    story.slurm.clock += 200
    assert label in story.slurm.schedule()
    second = (job.start, job.nodes[0])
    story.house.health_check(second[1], FINDINGS["hardware"])
    story.complete(label)
    story.house.decide()
    assert (job.hold != "", story.record(label).retries) == (True, 0)
    story.house.end_hook(label, *second)
    story.house.decide()
    record = story.record(label)
    assert (job.hold, record.retries, record.excluded) == ("", 1, second[1])


# --- one of several ------------------------------------------------------------------------------


def test_a_job_that_a_node_sent_back_starts_elsewhere_at_once(story: Story) -> None:
    label = story.start()
    job = story.slurm.peek(label)
    story.slurm.drain("n1", "slurm-failover: Xid 79")
    story.slurm.requeue(label)
    story.house.end_hook(label, job.start, "n1")
    story.house.decide(rounds=1)
    assert len(story.house.notes.read()) == 1
    story.complete(label)
    assert job.begin > story.slurm.clock
    story.house.decide()
    assert job.begin <= story.slurm.clock
    assert story.record(label).retries == 0
    assert story.house.notes.read() == []
    story.restart(label)
    assert job.nodes == ["n2"]


@pytest.mark.parametrize("reason", ["ticket 4711", ""])
def test_a_job_that_someone_requeued_keeps_slurms_delay(story: Story, reason: str) -> None:
    label = story.start()
    job = story.slurm.peek(label)
    if reason:
        story.slurm.drain("n1", reason)
    story.slurm.requeue(label)
    story.house.end_hook(label, job.start, "n1")
    story.complete(label)
    assert story.house.notes.read() == []
    story.house.reconcile()
    assert job.begin > story.slurm.clock


def test_a_decider_stops_before_the_next_job_when_another_controller_acts(
    story: Story,
) -> None:
    labels = [story.start() for _ in range(2)]
    for label in labels:
        story.fail(label, "")
        story.complete(label)
    asked: list[bool] = []

    def is_standby() -> bool:
        asked.append(True)
        return len(asked) > 2

    with story.house.process() as slurm:
        decider = story.house.make_decider(slurm, is_standby=is_standby)
        story.slurm.clock += 60
        decider.run(lambda _: None)
    assert [story.record(label).step for label in labels] == [Step.NONE, Step.HELD]
    assert len(story.house.notes.read()) == 1
    assert "another controller acts for Slurm now, and decides" in story.house.story


def test_a_note_that_comes_before_the_lock_is_let_go_is_served_by_the_same_decider(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    early, late = story.start(), story.start()
    story.fail(early, "")
    story.complete(early)
    locked, comes = files.locked, [late]

    @contextmanager
    def lock(path: str, patience: float) -> Iterator[bool]:
        with locked(path, patience) as alone:
            yield alone
            if path.endswith("decider.lock") and comes:
                story.fail(comes[0], "")
                story.complete(comes.pop())

    monkeypatch.setattr(files, "locked", lock)
    story.house.decide(rounds=9)
    assert story.record(late).state is State.INTERNALERROR
    assert story.house.notes.read() == []


def test_what_a_hook_left_behind_is_served_and_decided(story: Story) -> None:
    label = story.start()
    job = story.slurm.peek(label)
    story.slurm.finish(label, code=1)
    left = [True]

    def catch_up(may_serve: bool) -> bool:
        if may_serve and left and left.pop():
            story.house.end_hook(label, job.start, "n1")
            story.complete(label)
        return bool(left)

    with story.house.process() as slurm:
        story.house.make_decider(slurm, catch_up=catch_up).run(lambda _: None)
    assert story.record(label).state is State.INTERNALERROR


@pytest.mark.parametrize("at", range(1, 6))
def test_a_decider_that_is_told_to_end_leaves_the_job_to_the_next(story: Story, at: int) -> None:
    label = story.start()
    story.fail(label)
    story.complete(label)
    story.house.decide(Trouble("ended_before", at))
    assert len(story.house.notes.read()) == 1
    story.house.decide()
    assert (story.record(label).retries, story.slurm.peek(label).hold) == (1, "")


def test_a_decider_that_gets_nothing_done_leaves_it_to_reconcile(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.fail(story.start(), "")
    pauses: list[float] = []

    def be_silent(*_: object) -> None:
        raise SlurmUnavailable("Socket timed out")

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        story.slurm.clock += 60

    monkeypatch.setattr(story.slurm, "jobs", be_silent)
    with story.house.process() as slurm:
        story.house.make_decider(slurm).run(pause)
    assert len(story.house.notes.read()) == 1
    assert "left to reconcile" in story.house.story[-1]
    assert len(pauses) < 30
    assert 2 < max(pauses) < 5


@pytest.mark.parametrize("method", ["top", "none"])
@pytest.mark.parametrize(("back", "stays"), [(USER_HOLD, ""), (ADMIN_HOLD, ADMIN_HOLD)])
def test_a_release_that_slurmctld_forgot_after_a_lost_node_is_made_again(
    story: Story, monkeypatch: pytest.MonkeyPatch, method: str, back: str, stays: str
) -> None:
    label = story.start(size=2)
    job, release = story.slurm.peek(label), story.slurm.release
    start, nodes = job.start, ",".join(job.nodes)
    story.slurm.lose_node("n1")
    story.house.end_hook(label, start, nodes)
    story.complete(label)

    def forget(label: str) -> None:
        monkeypatch.setattr(story.slurm, "release", release)
        release(label)
        job.hold = back

    monkeypatch.setattr(story.slurm, "release", forget)
    monkeypatch.setattr("failover_world.Placement", lambda: Placement(method))
    story.house.decide()
    assert (job.state, job.hold) == ("PENDING", stays)
    assert story.record(label).step is Step.PLACED


def test_a_round_compares_no_end_with_any_other(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, jobs = [], []
    for n in range(100):
        states = frozenset({"PENDING", "COMPLETING"} if n % 2 else {"PENDING"})
        record = Record(attempt=Attempt(1, "n1", 1000.0, end=time.time()))
        jobs.append(JobFacts(n, str(n), states=states))
        notes.append(Note(n, str(n), Ending.SENT_BACK, record))
    compared: list[Note] = []
    monkeypatch.setattr(Note, "__eq__", lambda one, _: compared.append(one))
    slurm = Mock(jobs=lambda *_: jobs, nodes=lambda *_: [])
    patient = decider.Decider(
        slurm,
        story.house.notes,
        limits=Limits(),
        placement=Placement("none", 0, ""),
        wait_for_nodes=300,
        say=lambda _: None,
    )
    patient._round(notes)
    assert compared == []
