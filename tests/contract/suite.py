"""What our code relies on in Slurm, as one suite for the fake and for every adapter.

A ``World`` is a Slurm with someone to play users and administrators. A class of tests inherits
``SlurmContract`` and gives the fixture ``world``; its nodes are n1 to n4, all idle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import pytest

from slurm_failover.errors import NoSuchJob, SlurmError
from slurm_failover.evidence import LONGEST_EXTRA, write_evidence
from slurm_failover.model import Evidence, JobCause, JobFacts
from slurm_failover.slurm.client import TOP_PRIORITY, JobChange, NodeChange, Slurm

FOREIGN = '{"APS": {"a": [1, 2]}, "say": "it\'s \\"so\\""} – ü'
UNKNOWN = "4000000"


class World(Protocol):
    """A Slurm, and hands to play the rest of the world with."""

    slurm: Slurm

    def now(self) -> float:
        """Slurm's clock."""

    def pass_time(self, seconds: int) -> None:
        """Slurm's clock goes on by at least so much."""

    def submit(
        self, comment: str = "", *, requeue: bool = True, array: bool = False, held: bool = False
    ) -> str:
        """A job for one node whose program runs until ``fail``; the label to ask for it."""

    def run(self, comment: str = "", *, requeue: bool = True, array: bool = False) -> str:
        """A job that was submitted and runs."""

    def fail(self, label: str) -> None:
        """The program exits with 3. Its node's Epilog does not end before ``finish_epilogs``."""

    def stall(self, label: str) -> None:
        """From now on the Epilog of the job's node does not end before ``finish_epilogs``."""

    def finish_epilogs(self, label: str) -> None:
        """Let the Epilogs end; the job has left COMPLETING."""

    def cancel(self, label: str) -> None:
        """scancel."""

    def hold_as_admin(self, label: str) -> None:
        """``scontrol hold`` by root."""

    def lose(self, label: str) -> str:
        """The job's node stops answering, and Slurm has noticed; the node's name."""

    def wait_for(self, label: str, condition: Callable[[JobFacts], bool]) -> JobFacts:
        """The job's facts once the condition holds; the test fails where it never does."""


class SlurmContract:
    """The suite."""

    # --- questions --------------------------------------------------------------------------------

    def test_a_running_job_shows_its_node_its_start_and_no_restart(self, world: World) -> None:
        label = world.run("my words")
        job = world.slurm.job(label)
        assert (job.label, str(job.job_id)) == (label, label)
        assert (job.states, job.restarts, job.held) == (frozenset({"RUNNING"}), 0, False)
        assert (job.batch, job.requeue, job.comment) == (True, True, "my words")
        assert job.nodes in ("n1", "n2", "n3", "n4")
        assert 0 <= world.now() - job.start < 60

    def test_an_unknown_job_is_an_error_alone_and_left_out_of_a_list(self, world: World) -> None:
        label = world.run()
        with pytest.raises(NoSuchJob):
            world.slurm.job(UNKNOWN)
        assert world.slurm.jobs([UNKNOWN]) == []
        assert [job.label for job in world.slurm.jobs([UNKNOWN, label])] == [label]

    def test_a_job_is_requeued_by_slurm_itself_only_where_its_owner_asked(
        self, world: World
    ) -> None:
        assert not world.slurm.is_expedited(world.run())
        with pytest.raises(NoSuchJob):
            world.slurm.is_expedited(UNKNOWN)

    def test_a_batch_script_can_be_read_while_the_job_ends(self, world: World) -> None:
        for array in (False, True):
            label = world.run(array=array)
            world.fail(label)
            own_id = str(world.slurm.job(label).job_id)
            assert world.slurm.batch_script(own_id).startswith("#!/bin/bash\n")
        with pytest.raises(SlurmError):
            world.slurm.batch_script(UNKNOWN)

    def test_an_array_task_is_named_by_array_and_task(self, world: World) -> None:
        label = world.run(array=True)
        assert "_" in label
        assert world.slurm.job(label).label == label
        assert [job.label for job in world.slurm.jobs([label])] == [label]

    def test_a_node_lists_the_jobs_that_run_or_end_on_it_and_no_others(self, world: World) -> None:
        label = world.run()
        node = world.slurm.job(label).nodes
        other = next(name for name in ("n1", "n2") if name != node)
        assert [job.label for job in world.slurm.jobs_on(node)] == [label]
        assert world.slurm.jobs_on(other) == []
        world.fail(label)
        assert [job.label for job in world.slurm.jobs_on(node)] == [label]
        world.finish_epilogs(label)
        assert world.slurm.jobs_on(node) == []

    def test_nodes_are_asked_by_hostlist_and_an_unknown_one_is_left_out(self, world: World) -> None:
        assert [node.name for node in world.slurm.nodes("n[2-3]")] == ["n2", "n3"]
        assert len(world.slurm.nodes()) == 4
        assert [node.name for node in world.slurm.nodes("n[1,99]")] == ["n1"]
        assert world.slurm.nodes("n99") == []

    def test_a_setting_is_its_live_value_and_empty_where_there_is_none(self, world: World) -> None:
        assert "nohold_on_prolog_fail" in world.slurm.setting("SchedulerParameters")
        assert world.slurm.setting("NoSuchParameter") == ""

    # --- requeue and hold -------------------------------------------------------------------------

    def test_a_job_that_failed_shows_how_while_it_completes(self, world: World) -> None:
        label = world.run()
        world.fail(label)
        job = world.slurm.job(label)
        assert job.states == {"FAILED", "COMPLETING"}
        assert (job.exit_code, job.exit_signal, job.reason) == (3, 0, "NonZeroExitCode")

    def test_a_failed_completing_job_is_requeued_held(self, world: World) -> None:
        label = world.run()
        world.fail(label)
        node = world.slurm.job(label).nodes
        world.slurm.requeue_and_hold(label)
        job = world.slurm.job(label)
        assert job.states == {"PENDING", "COMPLETING"}
        assert (job.held, job.held_by_requeue, job.priority) == (True, True, 0)
        assert (job.restarts, job.nodes) == (1, node)

    def test_a_running_job_is_requeued_held_the_same_way(self, world: World) -> None:
        label = world.run()
        world.stall(label)
        world.slurm.requeue_and_hold(label)
        job = world.slurm.job(label)
        assert job.states == {"PENDING", "COMPLETING"}
        assert (job.held, job.restarts) == (True, 1)
        assert (job.exit_code, job.exit_signal) == (0, 0)

    def test_a_running_attempt_is_stopped_held_and_once(self, world: World) -> None:
        label = world.run()
        world.stall(label)
        start = world.slurm.job(label).start
        for _ in range(2):
            world.slurm.stop(label, start)
        job = world.slurm.job(label)
        assert job.states == {"PENDING", "COMPLETING"}
        assert (job.held, job.held_by_requeue, job.restarts) == (True, True, 1)

    def test_an_attempt_that_was_cancelled_or_ended_is_not_stopped(self, world: World) -> None:
        cancelled, failed = world.run(), world.run()
        starts = {label: world.slurm.job(label).start for label in (cancelled, failed)}
        world.stall(cancelled)
        world.cancel(cancelled)
        world.fail(failed)
        for label, start in starts.items():
            world.slurm.stop(label, start)
        assert world.slurm.job(cancelled).states == {"CANCELLED", "COMPLETING"}
        assert world.slurm.job(failed).states == {"FAILED", "COMPLETING"}

    def test_a_later_attempt_is_not_stopped_for_an_earlier_one(self, world: World) -> None:
        label = world.run()
        world.slurm.stop(label, world.slurm.job(label).start - 100)
        assert world.slurm.job(label).states == {"RUNNING"}

    @pytest.mark.parametrize("by", ["JobHeldUser", "JobHeldAdmin"])
    def test_whoever_holds_a_running_job_holds_it_when_it_was_stopped(
        self, world: World, by: str
    ) -> None:
        label = world.run()
        world.stall(label)
        world.slurm.hold(label) if by == "JobHeldUser" else world.hold_as_admin(label)
        world.slurm.stop(label, world.slurm.job(label).start)
        world.finish_epilogs(label)
        job = world.slurm.job(label)
        assert (job.states, job.held, job.reason) == ({"PENDING"}, True, by)
        assert not job.held_by_requeue

    def test_a_job_that_was_held_before_it_failed_is_requeued_under_that_hold(
        self, world: World
    ) -> None:
        label = world.run()
        world.hold_as_admin(label)
        world.fail(label)
        assert world.slurm.job(label).held
        for _ in range(2):
            world.slurm.requeue(label)
        world.finish_epilogs(label)
        job = world.slurm.job(label)
        # The owner's hold of a running job that then fails turns into this one too (24.11.5).
        assert (job.states, job.held, job.reason) == ({"PENDING"}, True, "JobHeldAdmin")
        assert (job.held_by_requeue, job.restarts) == (False, 1)

    def test_requeued_twice_is_requeued_once(self, world: World) -> None:
        label = world.run()
        world.fail(label)
        for _ in range(2):
            world.slurm.requeue_and_hold(label)
        world.finish_epilogs(label)
        world.slurm.requeue_and_hold(label)
        job = world.slurm.job(label)
        assert (job.states, job.restarts) == ({"PENDING"}, 1)

    def test_a_requeued_job_no_longer_shows_when_its_attempt_started(self, world: World) -> None:
        """It shows the present, so the attempt's start must come from elsewhere."""
        label = world.run()
        started = world.slurm.job(label).start
        world.fail(label)
        assert world.slurm.job(label).start == started
        world.pass_time(2)
        world.slurm.requeue_and_hold(label)
        assert world.slurm.job(label).start >= started + 2

    def test_a_job_without_requeue_can_not_be_requeued(self, world: World) -> None:
        label = world.run(requeue=False)
        assert not world.slurm.job(label).requeue
        with pytest.raises(SlurmError):
            world.slurm.requeue_and_hold(label)
        assert world.slurm.job(label).has("RUNNING")

    def test_a_job_cancelled_while_it_completes_after_a_requeue_stays_cancelled(
        self, world: World
    ) -> None:
        label = world.run()
        world.fail(label)
        world.slurm.requeue_and_hold(label)
        world.cancel(label)
        world.finish_epilogs(label)
        job = world.slurm.job(label)
        assert job.has("CANCELLED")
        with pytest.raises(SlurmError):
            world.slurm.release(label)
        with pytest.raises(SlurmError):
            world.slurm.update_job(label, JobChange(start_now=True))

    def test_cancelling_twice_is_no_error(self, world: World) -> None:
        label = world.submit(held=True)
        world.slurm.cancel(label)
        world.slurm.cancel(label)
        assert world.slurm.job(label).states == {"CANCELLED"}

    def test_a_start_can_be_put_off(self, world: World) -> None:
        label = world.run()
        world.fail(label)
        world.slurm.requeue_and_hold(label)
        world.finish_epilogs(label)
        world.slurm.release(label)
        world.slurm.update_job(label, JobChange(start_in=500))
        assert 400 < world.slurm.job(label).eligible - world.now() <= 501

    def test_requeueing_a_cancelled_job_revives_it_so_nobody_may_ask(self, world: World) -> None:
        label = world.run()
        world.cancel(label)
        world.wait_for(label, lambda job: job.states == {"CANCELLED"})
        world.slurm.requeue_and_hold(label)
        assert world.slurm.job(label).has("PENDING")

    def test_a_lost_node_requeues_its_job_unheld(self, world: World) -> None:
        label = world.run()
        node = world.lose(label)
        job = world.slurm.job(label)
        assert (job.has("PENDING"), job.held, job.restarts) == (True, False, 1)
        world.slurm.hold(label)
        held = world.slurm.job(label)
        assert (held.held, held.reason) == (True, "JobHeldUser")
        assert not held.held_by_requeue
        assert world.slurm.nodes(node)[0].has("DOWN")

    # --- release, delay, priority -----------------------------------------------------------------

    def test_a_released_job_waits_out_the_start_delay_unless_it_is_lifted(
        self, world: World
    ) -> None:
        label = world.run()
        world.fail(label)
        world.slurm.requeue_and_hold(label)
        world.finish_epilogs(label)
        world.slurm.release(label)
        job = world.slurm.job(label)
        assert (job.held, job.held_by_requeue) == (False, False)
        assert 100 < job.eligible - world.now() <= 122
        world.slurm.update_job(label, JobChange(start_now=True))
        assert world.wait_for(label, lambda job: job.has("RUNNING")).restarts == 1

    def test_lifting_the_delay_before_the_epilogs_ended_does_not_last(self, world: World) -> None:
        label = world.run()
        world.fail(label)
        world.slurm.requeue_and_hold(label)
        world.slurm.release(label)
        world.slurm.update_job(label, JobChange(start_now=True))
        world.finish_epilogs(label)
        job = world.slurm.job(label)
        assert job.has("PENDING")
        assert job.eligible - world.now() > 100

    def test_a_held_job_refuses_a_priority_and_a_release_drops_a_raised_one(
        self, world: World
    ) -> None:
        label = world.run()
        world.fail(label)
        world.slurm.requeue_and_hold(label)
        world.finish_epilogs(label)
        with pytest.raises(SlurmError):
            world.slurm.update_job(label, JobChange(priority=TOP_PRIORITY))
        world.slurm.release(label)
        world.slurm.update_job(label, JobChange(priority=TOP_PRIORITY))
        assert world.slurm.job(label).priority == TOP_PRIORITY
        world.slurm.hold(label)
        world.slurm.release(label)
        assert 0 < world.slurm.job(label).priority < TOP_PRIORITY

    def test_releasing_a_job_that_is_not_held_drops_its_priority_too(self, world: World) -> None:
        label = world.run()
        world.fail(label)
        world.slurm.requeue_and_hold(label)
        world.finish_epilogs(label)
        world.slurm.release(label)
        world.slurm.update_job(label, JobChange(priority=TOP_PRIORITY))
        world.slurm.release(label)
        assert 0 < world.slurm.job(label).priority < TOP_PRIORITY

    def test_a_raised_priority_outlasts_the_start_and_a_release_drops_it_while_the_job_runs(
        self, world: World
    ) -> None:
        label = world.submit(held=True)
        world.slurm.update_job(label, JobChange(start_in=3600))
        world.slurm.release(label)
        world.slurm.update_job(label, JobChange(priority=TOP_PRIORITY, start_now=True))
        job = world.wait_for(label, lambda job: job.states == {"RUNNING"})
        assert job.priority == TOP_PRIORITY
        world.slurm.release(label)
        after = world.slurm.job(label)
        assert (after.states, after.start, after.held) == (job.states, job.start, False)
        assert 0 < after.priority < TOP_PRIORITY

    def test_an_administrators_hold_shows_also_over_ours(self, world: World) -> None:
        label = world.run()
        world.fail(label)
        world.slurm.requeue_and_hold(label)
        world.hold_as_admin(label)
        job = world.slurm.job(label)
        assert (job.held, job.reason) == (True, "JobHeldAdmin")

    def test_a_hold_of_a_running_job_waits_for_its_requeue(self, world: World) -> None:
        label = world.run()
        world.slurm.hold(label)
        job = world.slurm.job(label)
        assert (job.states, job.held, job.reason) == ({"RUNNING"}, True, "JobHeldUser")

    def test_a_refused_priority_leaves_an_update_half_made(self, world: World) -> None:
        label = world.run()
        world.fail(label)
        world.slurm.requeue_and_hold(label)
        world.finish_epilogs(label)
        before = world.slurm.job(label)
        change = JobChange(
            excluded="n2", admin_comment="a", comment="c", priority=5, start_now=True
        )
        with pytest.raises(SlurmError):
            world.slurm.update_job(label, change)
        job = world.slurm.job(label)
        assert (job.excluded, job.admin_comment, job.comment) == ("n2", "a", "c")
        assert job.eligible == before.eligible

    def test_refused_excluded_nodes_leave_an_update_unmade(self, world: World) -> None:
        label = world.run()
        with pytest.raises(SlurmError):
            world.slurm.update_job(label, JobChange(excluded="n1", admin_comment="a", comment="c"))
        job = world.slurm.job(label)
        assert (job.excluded, job.admin_comment, job.comment) == ("", "", "")

    def test_an_administrators_hold_can_be_told_from_ours(self, world: World) -> None:
        label = world.submit(held=True)
        assert world.slurm.job(label).reason == "JobHeldUser"
        world.hold_as_admin(label)
        job = world.slurm.job(label)
        assert (job.held, job.reason) == (True, "JobHeldAdmin")

    # --- fields -----------------------------------------------------------------------------------

    def test_foreign_text_in_job_fields_survives_an_update_and_a_requeue(
        self, world: World
    ) -> None:
        label = world.run()
        world.slurm.update_job(label, JobChange(comment=FOREIGN, admin_comment=FOREIGN + "\t x "))
        world.fail(label)
        world.slurm.requeue_and_hold(label)
        world.finish_epilogs(label)
        job = world.slurm.job(label)
        assert (job.comment, job.admin_comment) == (FOREIGN, FOREIGN + "\t x ")

    def test_a_finished_job_refuses_every_update(self, world: World) -> None:
        label = world.run("before")
        world.fail(label)
        with pytest.raises(SlurmError):
            world.slurm.update_job(label, JobChange(comment="after"))
        world.finish_epilogs(label)
        with pytest.raises(SlurmError):
            world.slurm.update_job(label, JobChange(comment="after"))
        assert world.slurm.job(label).comment == "before"

    def test_a_comment_over_the_limit_fails_the_whole_update(self, world: World) -> None:
        label = world.run("before")
        world.slurm.update_job(label, JobChange(comment="x" * 1024))
        with pytest.raises(SlurmError):
            world.slurm.update_job(label, JobChange(comment="y" * 1025, admin_comment="after"))
        job = world.slurm.job(label)
        assert (job.comment, job.admin_comment) == ("x" * 1024, "")

    def test_the_limit_of_a_comment_counts_bytes(self, world: World) -> None:
        label = world.run()
        with pytest.raises(SlurmError):
            world.slurm.update_job(label, JobChange(comment="ü" * 513))
        world.slurm.update_job(label, JobChange(comment="ü" * 512))
        assert world.slurm.job(label).comment == "ü" * 512

    def test_excluded_nodes_are_replaced_kept_and_not_used(self, world: World) -> None:
        label = world.run()
        world.fail(label)
        world.slurm.requeue_and_hold(label)
        world.slurm.update_job(label, JobChange(excluded="n1"))
        world.slurm.update_job(label, JobChange(excluded="n[1-3]"))
        world.finish_epilogs(label)
        assert world.slurm.job(label).excluded == "n[1-3]"
        world.slurm.release(label)
        world.slurm.update_job(label, JobChange(start_now=True))
        assert world.wait_for(label, lambda job: job.has("RUNNING")).nodes == "n4"

    # --- nodes ------------------------------------------------------------------------------------

    def test_a_drain_and_an_extra_are_set_in_one_request(self, world: World) -> None:
        world.slurm.update_node("n2", NodeChange(drain="slurm-failover: it's so", extra=FOREIGN))
        node = world.slurm.nodes("n2")[0]
        assert node.has("DRAIN")
        assert (node.reason, node.extra) == ("slurm-failover: it's so", FOREIGN)
        assert 0 <= world.now() - node.reason_time < 60

    def test_a_new_reason_overwrites_the_old_and_an_extra_alone_does_not(
        self, world: World
    ) -> None:
        world.slurm.update_node("n2", NodeChange(drain="first"))
        world.slurm.update_node("n2", NodeChange(drain="second"))
        world.slurm.update_node("n2", NodeChange(extra="x"))
        node = world.slurm.nodes("n2")[0]
        assert (node.reason, node.extra) == ("second", "x")

    def test_a_resume_clears_the_reason_and_keeps_the_extra(self, world: World) -> None:
        world.slurm.update_node("n2", NodeChange(drain="why", extra='{"x":1}'))
        world.slurm.update_node("n2", NodeChange(resume=True))
        node = world.slurm.nodes("n2")[0]
        assert (node.has("DRAIN"), node.reason, node.extra) == (False, "", '{"x":1}')

    def test_an_extra_with_all_the_words_that_a_node_has_room_for_comes_back_whole(
        self, world: World
    ) -> None:
        word = Evidence("n2", 1, 100.0, JobCause.HARDWARE, "GPU lost", 100.0, requeued=True)
        words = [replace(word, job_id=job) for job in range(1000)]
        full = write_evidence("", "n2", words, 100.0)
        assert LONGEST_EXTRA - 200 < len(full) <= LONGEST_EXTRA
        world.slurm.update_node("n2", NodeChange(drain="why", extra=full))
        assert world.slurm.nodes("n2")[0].extra == full

    def test_a_nodes_comment_is_set_alone_and_outlives_a_resume(self, world: World) -> None:
        world.slurm.update_node("n2", NodeChange(drain="why"))
        world.slurm.update_node("n2", NodeChange(comment=FOREIGN))
        assert (world.slurm.nodes("n2")[0].reason, world.slurm.nodes("n2")[0].comment) == (
            "why",
            FOREIGN,
        )
        world.slurm.update_node("n2", NodeChange(resume=True))
        assert world.slurm.nodes("n2")[0].comment == FOREIGN

    def test_an_unknown_node_refuses_a_change(self, world: World) -> None:
        with pytest.raises(SlurmError):
            world.slurm.update_node("n99", NodeChange(drain="why"))
