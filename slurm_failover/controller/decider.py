"""The decider: one process for all waiting jobs. Level-triggered: every step can be repeated.

Each round asks Slurm once for all waiting jobs and once for their nodes, brings every job one step
further, and ends when nothing waits.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import replace

from slurm_failover import files, lifecycle
from slurm_failover.controller.account import account
from slurm_failover.controller.endings import Say, finish_hold, write_both
from slurm_failover.controller.notes import Note, Notes
from slurm_failover.controller.placement import Placement
from slurm_failover.deed import Deed
from slurm_failover.errors import (
    FailoverError,
    NoSuchJob,
    RecordError,
    SlurmError,
    SlurmUnavailable,
)
from slurm_failover.evidence import SAME_ATTEMPT
from slurm_failover.foresight import show_as_it_is
from slurm_failover.happening import Happening, Kind
from slurm_failover.model import JobFacts, Limits, NodeFacts
from slurm_failover.policy import Action, Ending, decide
from slurm_failover.record import Record, Step, read_record
from slurm_failover.reporter import Report, report_to_nobody
from slurm_failover.slurm.client import GONE, JobChange, Slurm

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 3.0
PATIENCE = 600.0
"""Seconds beyond the wait for the nodes after which a decider ends that gets nothing done."""
FRESH = 3.0
"""Seconds for which a decider trusts that the controller whose hook started it still acts."""


class Decider:
    """Brings every waiting job to what its record calls for."""

    def __init__(
        self,
        slurm: Slurm,
        notes: Notes,
        *,
        limits: Limits,
        placement: Placement,
        wait_for_nodes: float,
        say: Say,
        lifetime: float = math.inf,
        catch_up: Callable[[bool], bool] = lambda _: False,
        is_standby: Callable[[], bool] = lambda: False,
        guard: Callable[[JobFacts], str] = lambda _: "",
        imagine: Callable[[JobFacts, Record], JobFacts] = show_as_it_is,
        report: Report = report_to_nobody,
    ) -> None:
        """``catch_up`` serves what hooks left behind, if it may, and says whether anything is left;
        ``is_standby`` says whether another controller acts now, so that this one must not.
        ``guard`` says why a job may not be moved now, if so; ``imagine`` shows a job as it would be
        had we acted, where we only observe. ``lifetime`` is for how many seconds it serves.
        """
        self._lifetime = lifetime
        self._guard = guard
        self._imagine = imagine
        self._report = report
        self._catch_up = catch_up
        self._is_standby = is_standby
        self._began = time.monotonic()
        self._seen: dict[str, tuple[float, float]] = {}
        self._missing: dict[str, float] = {}
        self._slurm = slurm
        self._notes = notes
        self._limits = limits
        self._placement = placement
        self._wait_for_nodes = wait_for_nodes
        self._say = say

    def run(self, pause: Callable[[float], None] = time.sleep) -> None:
        """Serve the notes until none is left; at most one process does so at any time.

        A note that comes too late for this process is seen by the look after its lock is let go;
        whoever leaves one before that finds the lock taken, and need not start another.
        """
        unfinished = True
        while unfinished and self._is_anything_left(look_only=True):
            with files.locked(self._notes.lock("decider"), 0) as alone:
                unfinished = alone and self._serve(pause)

    def _is_anything_left(self, *, look_only: bool = False) -> bool:
        left = self._catch_up(not look_only)
        return left or bool(self._notes.read())

    def _serve(self, pause: Callable[[float], None]) -> bool:
        """False where it gives up with work left, which the next hook or reconcile takes up."""
        length, moved_at = FIRST_PAUSE, time.monotonic()
        while self._is_anything_left():
            if self._must_stop(moved_at):
                return False
            if self._round(self._notes.read()):
                length, moved_at = FIRST_PAUSE, time.monotonic()
            else:
                length = min(length * 1.5, LONGEST_PAUSE)
            pause(length * random.uniform(0.7, 1.3))  # noqa: S311 - jitter, not a secret
        return True

    def _must_stop(self, moved_at: float) -> bool:
        if self._is_superseded():
            self._say("another controller acts for Slurm now, and decides")
            return True
        if time.monotonic() - moved_at > self._wait_for_nodes + PATIENCE:
            self._say("nothing has moved for long; what waits is left to reconcile")
            return True
        if time.monotonic() - self._began > self._lifetime:
            self._say("what waits is left to the next reconcile")
            return True
        return False

    def _is_superseded(self) -> bool:
        return time.monotonic() - self._began > FRESH and self._is_standby()

    def _round(self, waiting: list[Note]) -> bool:
        """One round over all notes. True if any job came to its end."""
        if not waiting:
            return False
        try:
            jobs = {job.job_id: job for job in self._slurm.jobs([note.label for note in waiting])}
            ready = [note for note in waiting if self._is_ready_or_shown(note, jobs)]
            for note in ready:
                if note.job_id in jobs:
                    jobs[note.job_id] = self._imagine(jobs[note.job_id], note.record)
            nodes = self._ask_nodes([jobs[note.job_id] for note in ready if note.job_id in jobs])
        except SlurmUnavailable as error:
            self._say(f"Slurm does not answer, the decision waits: {error}")
            self._missing.clear()  # what says nothing shows nothing either
            return False
        served = [self._attend(note, jobs.get(note.job_id), nodes) for note in ready]
        return any(served)

    def _is_ready(self, note: Note, jobs: dict[int, JobFacts]) -> bool:
        """Whether the nodes of the job, and of its components, are done or have had their time."""
        job = jobs.get(note.job_id)
        ids = job.components or (job.job_id,) if job else ()
        completing = any(jobs[one].has("COMPLETING") for one in ids if one in jobs)
        return not completing or self._waited(note) > self._wait_for_nodes

    def _is_ready_or_shown(self, note: Note, jobs: dict[int, JobFacts]) -> bool:
        """Whether a note is ready; of one that is not, Slurm shows the job."""
        is_ready = self._is_ready(note, jobs)
        if not is_ready:
            self._missing.pop(note.name, None)
        return is_ready

    def _waited(self, note: Note) -> float:
        """Seconds since the job's end: before this process saw the note by the clock on the wall,
        which may be set at any time, and from then on by one that nobody sets.
        """
        now, before = time.monotonic(), max(time.time() - note.since, 0.0)
        seen, waited = self._seen.setdefault(note.name, (now, before))
        return waited + now - seen

    def _is_gone(self, note: Note) -> bool:
        """Whether Slurm, which knows no such job, has said so for long enough to be believed."""
        now = time.monotonic()
        return now - self._missing.setdefault(note.name, now) >= GONE

    def _ask_nodes(self, jobs: list[JobFacts]) -> dict[str, NodeFacts]:
        names = lifecycle.merge_nodes(*map(_read_attempt_nodes, jobs))
        return {node.name: node for node in self._slurm.nodes(names)} if names else {}

    def _attend(self, note: Note, job: JobFacts | None, nodes: dict[str, NodeFacts]) -> bool:
        """Bring one job a step further, and say whether that was the last; its trouble is not the
        others'.
        """
        if self._is_superseded():
            return False
        try:
            if job is None and not self._is_gone(note):
                return False
            if job is not None:
                is_done = self._advance(note, job, nodes)
                self._missing.pop(note.name, None)
                if not is_done:
                    return False
        except SlurmUnavailable as error:
            self._say(f"job {note.label}: Slurm does not answer, trying again: {error}")
            return False
        except FailoverError as error:
            if isinstance(error, NoSuchJob) and not self._is_gone(note):
                return False
            self._say(f"job {note.label} stays as it is: {error}")
        self._notes.remove(note)
        return True

    def _advance(self, note: Note, job: JobFacts, nodes: dict[str, NodeFacts]) -> bool:
        """True when nothing is left to do for this note."""
        if note.ending is Ending.SENT_BACK:
            return self._hasten(job)
        record = read_record(job.admin_comment)
        if record is not None and record.attempt.start > note.start:
            return True
        if record is None or record.attempt.start < note.start or lifecycle.is_running(record):
            return not self._resume_hold(note, job)
        if lifecycle.is_outrun(record, job):
            self._say(f"job {job.label}: a later attempt has ended, and reconcile takes it up")
        elif job.has("PENDING") and record.step is Step.HELD:
            return self._decide(note, job, record, nodes)
        elif job.has("PENDING"):
            return self._finish(job, record)
        return True

    def _resume_hold(self, note: Note, job: JobFacts) -> bool:
        """Finish a hold that was interrupted; False where the job is no longer ours to hold."""
        lost = note.ending is Ending.NODE_LOST
        # Slurm gives an id away again some day: another start of a failed job is another job's.
        failed = job.has("FAILED", "OUT_OF_MEMORY") and abs(job.start - note.start) <= SAME_ATTEMPT
        if failed or (job.has("PENDING") and (job.held or lost)):
            finish_hold(self._slurm, job, note)
            return True
        return False

    def _hasten(self, job: JobFacts) -> bool:
        """Lift the start delay of a job that a node sent back before its program could begin."""
        if job.has("COMPLETING"):
            return False
        if job.has("PENDING") and not job.held:
            self._slurm.update_job(job.label, JobChange(start_now=True))
            told = "was sent back by a node, and may start elsewhere at once"
            self._say(Deed(f"job {job.label} {told}"))
        return True

    def _decide(
        self, note: Note, job: JobFacts, record: Record, nodes: dict[str, NodeFacts]
    ) -> bool:
        taken_over = _whose_hold(job, record) if job.held else "the job was released"
        if taken_over:
            self._write(job, lifecycle.step_back(record, f"{taken_over} before the decision"))
            return True
        heard = [nodes[name] for name in lifecycle.expand(record.attempt.nodes) if name in nodes]
        verdict = decide(job, record, heard, self._limits, silent=job.has("COMPLETING"))
        if verdict.awaited and self._waited(note) <= self._wait_for_nodes:
            return False
        if verdict.action is Action.FAILOVER and (stop := self._guard(job)):
            return self._put_off(job, record, f"{stop}; decided when it closes")
        decided = lifecycle.note_restarts(lifecycle.apply_verdict(record, verdict), job)
        change = write_both(job, decided)
        if verdict.action is Action.FAILOVER:
            change = replace(change, excluded=lifecycle.merge_nodes(job.excluded, decided.excluded))
        self._slurm.update_job(job.label, change)
        self._say(Deed(f"job {job.label}: {verdict.action.value}: {verdict.because}"))
        self._report(account(job, decided, verdict))
        return self._finish(job, decided)

    def _put_off(self, job: JobFacts, record: Record, because: str) -> bool:
        """Leave the job held, and say so once. Whoever reconciles next decides on it again."""
        if record.because != because:
            self._write(job, replace(record, because=because))
            told = Happening(Kind.PUT_OFF, because, job=job.label, user=job.user)
            self._report(told)
        return True

    def _finish(self, job: JobFacts, record: Record) -> bool:
        """Do what the decision asks for: cancel the job, or release and place it."""
        if record.step is Step.TO_CANCEL and job.held:
            self._slurm.cancel(job.label)
        if record.step is not Step.DECIDED and not lifecycle.is_held_again(record, job):
            return True
        taken_over = _whose_hold(job, record) if job.held else ""
        if taken_over:
            placed = replace(lifecycle.place(record), because=f"{record.because}; {taken_over}")
            self._write(job, placed)
            return True
        if job.held:
            self._slurm.release(job.label)
        if job.has("COMPLETING"):
            # Slurm sets the start delay when the job leaves COMPLETING: too early to lift it.
            return False
        self._place(job, record)
        if job.held and not job.held_by_requeue and _is_held_by_user(self._slurm.job(job.label)):
            # A slurmctld that was killed since has forgotten the release. What a requeue holds is
            # known for that at any time (is_held_again), a plain hold only now.
            self._slurm.release(job.label)
            self._place(job, record)
        return True

    def _place(self, job: JobFacts, record: Record) -> None:
        change = write_both(job, lifecycle.place(record))
        try:
            self._slurm.update_job(job.label, self._placement.place(change, record))
        except SlurmUnavailable:
            raise
        except SlurmError as error:
            self._say(f"job {job.label} starts without a raised priority: {error}")
            self._slurm.update_job(job.label, replace(change, start_now=True))

    def _write(self, job: JobFacts, record: Record) -> None:
        self._slurm.update_job(job.label, write_both(job, record))
        self._say(Deed(f"job {job.label}: {record.because}"))


def _is_held_by_user(job: JobFacts) -> bool:
    return job.has("PENDING") and job.held and job.reason != "JobHeldAdmin"


def _whose_hold(job: JobFacts, record: Record) -> str:
    """Who holds a held job, as a clause; empty where it is our hold.

    Ours came with a requeue, save for a job that Slurm requeued itself after it lost a node.
    """
    if job.reason == "JobHeldAdmin":
        return "an administrator holds the job"
    ours = job.held_by_requeue or record.lost
    return "" if ours else "its owner holds the job"


def _read_attempt_nodes(job: JobFacts) -> str:
    """The nodes of the attempt; none where the record is damaged, which is said in its turn."""
    try:
        record = read_record(job.admin_comment)
        return lifecycle.merge_nodes(record.attempt.nodes) if record else ""
    except RecordError:
        return ""
