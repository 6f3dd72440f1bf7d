"""Any order of faults, ends, deaths and interventions, and what must hold after each of them.

The real code runs over the fake slurmctld (see ``failover_world``). What the machine knows to be
true it notes itself, and compares with what Slurm shows.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import defaultdict
from typing import Any

from ClusterShell.NodeSet import NodeSet
from failover_world import DEATHS, FINDINGS, House, Trouble
from fake_slurmctld import ADMIN_HOLD, USER_HOLD, FakeSlurm
from fake_state import FakeJob
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from slurm_failover.embed import MARK
from slurm_failover.model import Limits, NodeAction
from slurm_failover.record import Record, State, Step, read_record

LIMIT = 2
NODES = [f"n{number}" for number in range(1, 10)]
TOOL = "nhc: the disk is full"
FOREIGN = ["", "kept as it is", '{"APS": {"a": 1}, "b": "\\u00fc"}', "{ not JSON", "ü [x]"]
KINDS = ["none", *DEATHS]
INTERVENTIONS = [
    "cancel",
    "release",
    "release",
    "release",
    "hold_as_owner",
    "hold_as_admin",
    "requeue",
    "drain",
    "resume",
    "resume",
    "sick_node",
    "reconcile",
]
ENDS = ["exit 1", "exit 1", "exit 1", "signal", "exit 0", "OUT_OF_MEMORY", "TIMEOUT"]
ENDS += ["fault", "fault", "lost", "lost"]

nodes = st.sampled_from(NODES)
picks = st.integers(0, 999)
findings = st.sampled_from(["nothing", "hardware", "hardware", *FINDINGS])
troubles = st.one_of(
    st.just(Trouble()), st.builds(Trouble, st.sampled_from(KINDS), st.integers(1, 6))
)


class FailoverMachine(RuleBasedStateMachine):
    """Users, administrators, hardware and death, against the promises."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.slurm = FakeSlurm("n[1-9]")
        self.house = House(self.slurm, self.folder, Limits(LIMIT, ("nhc:",)))
        self.labels: list[str] = []
        self.words: dict[str, str] = {}
        self.admin_words: dict[str, str] = {}
        self.extra_words: dict[str, str] = {}
        self.limits: dict[str, int] = {}
        self.seen_ends: dict[str, int] = {}
        self.hooks: list[tuple[str, int, str]] = []
        self.epilogs: list[tuple[str, int, str]] = []
        self.attempts: dict[tuple[str, int], list[str]] = {}
        self.faulty: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.needy: set[str] = set()
        self.reasons: dict[str, str] = {}
        self.cancelled: set[str] = set()
        self.held: dict[str, str] = {}

    def teardown(self) -> None:
        try:
            self.settle()
        finally:
            note("\n".join(self.house.story))
            shutil.rmtree(self.folder)

    # --- helpers ----------------------------------------------------------------------------------

    def pick(self, number: int, *states: str) -> FakeJob | None:
        """One of the jobs in these states."""
        jobs = [self.slurm.peek(label) for label in self.labels]
        fit = [job for job in jobs if job.state in states]
        return fit[number % len(fit)] if fit else None

    def notice(self) -> None:
        """Slurm starts the hooks of every job that has come to an end."""
        for label in self.labels:
            job = self.slurm.peek(label)
            if job.hook and self.seen_ends.get(label) != job.start:
                self.seen_ends[label] = job.start
                self.hooks.append((label, job.start, str(NodeSet.fromlist(job.nodes))))
                self.epilogs += [(label, job.start, node) for node in sorted(job.busy)]

    def record(self, label: str) -> Record | None:
        return read_record(self.slurm.peek(label).admin_comment)

    # --- users ------------------------------------------------------------------------------------

    @initialize(extra=st.sampled_from(FOREIGN))
    def someone_uses_extra_too(self, extra: str) -> None:
        for name in NODES:
            self.extra_words[name] = self.slurm.peek_node(name).extra = extra

    @initialize(
        submitted=st.lists(
            st.tuples(
                st.sampled_from(FOREIGN),
                st.sampled_from(FOREIGN),
                st.sampled_from(["failover", "failover", "failover", "failover=1", ""]),
                st.integers(1, 2),
                st.sampled_from([True, True, True, True, False]),
            ),
            min_size=1,
            max_size=3,
        )
    )
    def users_submit(self, submitted: list[tuple[str, str, str, int, bool]]) -> None:
        for words, admin_words, wish, size, requeue in submitted:
            comment = f"{words} {wish}"
            label = self.slurm.submit(comment, size=size, requeue=requeue)
            self.labels.append(label)
            self.slurm.peek(label).admin_comment = admin_words
            self.words[label], self.admin_words[label] = comment, admin_words
            self.limits[label] = {"failover": LIMIT, "failover=1": 1, "": 0}[wish] * requeue

    def cancel(self, number: int, _: str) -> None:
        if job := self.pick(number, "PENDING", "RUNNING"):
            self.slurm.cancel(job.label)
            self.cancelled.add(job.label)
            self.held.pop(job.label, None)

    def release(self, number: int, _: str) -> None:
        job = self.pick(number, "PENDING")
        if job and job.hold:
            self.slurm.release(job.label)
            self.held.pop(job.label, None)

    def hold_as_owner(self, number: int, _: str) -> None:
        """While a note waits our own hold may have got lost, and nobody could tell the two."""
        job = self.pick(number, "PENDING", "RUNNING")
        waits = {waiting.label for waiting in self.house.notes.read()}
        if job and not job.hold and job.label not in waits:
            job.hold = self.held[job.label] = USER_HOLD

    def hold_as_admin(self, number: int, _: str) -> None:
        if job := self.pick(number, "PENDING", "RUNNING"):
            job.hold = self.held[job.label] = ADMIN_HOLD

    def requeue(self, number: int, _: str) -> None:
        if (job := self.pick(number, "RUNNING")) and job.requeue:
            self.slurm.requeue(job.label)

    def drain(self, number: int, name: str) -> None:
        self.reasons[name] = ("maintenance", "it's ü", TOOL)[number % 3]
        self.slurm.drain(name, self.reasons[name])
        if self.reasons[name] == TOOL:
            self.blame(name)

    def resume(self, number: int, _: str) -> None:
        for name in NODES[number % 3 :: 3]:
            self.slurm.resume(name)
            self.reasons.pop(name, None)
            self.needy.discard(name)

    def sick_node(self, number: int, name: str) -> None:
        """A look that was killed did not write its ledger, so it is made again."""
        found = ("hardware", "internal, reboot")[number % 2]
        hit = [self.slurm.peek(job.label) for job in self.slurm.jobs_on(name)]
        self.mark(name, found, {(job.label, job.start) for job in hit})
        for trouble in (Trouble(KINDS[number % 5], number % 5), Trouble()):
            self.house.health_check(name, FINDINGS[found], trouble)

    # --- what goes on by itself -------------------------------------------------------------------

    @rule(
        number=picks,
        name=nodes,
        act=st.sampled_from(["go_on"] * 20 + INTERVENTIONS),
        how=st.sampled_from(ENDS),
        found=findings,
        trouble=troubles,
        again=st.sampled_from([False, False, True]),
        later=st.sampled_from([0, 0, 0, 10, 400]),
    )
    def something_happens(self, number: int, name: str, act: str, later: int, **drawn: Any) -> None:
        """Someone intervenes, or a story goes on by one of its steps that are due."""
        self.slurm.clock += later
        if act == "go_on":
            self.go_on(number, drawn)
        else:
            self.house.story.append(f"-- {act} {number} {name}")
            getattr(self, act)(number, name)
        self.notice()

    def go_on(self, number: int, drawn: dict[str, Any]) -> None:
        due = [
            step
            for step, is_due in (
                (self.schedule, self.waiting()),
                (self.a_run_ends, self.pick(0, "RUNNING")),
                (self.controller_hook, self.hooks),
                (self.node_hook, self.epilogs),
                (self.decide, self.house.notes.read()),
            )
            if is_due
        ]
        if due:
            step = due[number % len(due)]
            self.house.story.append(f"-- {step.__name__} {drawn}")
            step(number=number // len(due), **drawn)

    def waiting(self) -> list[FakeJob]:
        """The jobs that nothing but time or a lack of nodes keeps from running."""
        jobs = [self.slurm.peek(label) for label in self.labels]
        return [j for j in jobs if j.state == "PENDING" and not j.hold and not j.completing]

    def schedule(self, *, trouble: Trouble, **_: Any) -> None:
        self.slurm.clock = max(self.slurm.clock, min(job.begin for job in self.waiting()))
        for label in self.slurm.schedule():
            job, record = self.slurm.peek(label), self.record(label)
            if record is not None and record.step in (Step.DECIDED, Step.PLACED):
                assert not set(job.nodes) & {str(n) for n in NodeSet(record.excluded)}
            self.attempts[label, job.start] = list(job.nodes)
            self.house.start_hook(label, trouble)

    def a_run_ends(self, *, number: int, how: str, **_: Any) -> None:
        """By itself, by Slurm, by the loss of a node, or by the nodes on which a fault came up."""
        job = self.pick(number, "RUNNING")
        assert job is not None
        if how == "lost":
            self.lose_node(job.nodes[0])
        elif how == "fault":
            for name in list(job.nodes):
                self.mark(name, "hardware", {(job.label, job.start)})
                self.house.health_check(name, FINDINGS["hardware"])
        elif how in ("exit 0", "exit 1", "signal"):
            self.slurm.finish(job.label, code=how == "exit 1", signal=9 * (how == "signal"))
        else:
            self.slurm.finish(job.label, state=how)

    def lose_node(self, name: str) -> None:
        self.blame(name)
        self.slurm.lose_node(name)
        self.epilogs = [item for item in self.epilogs if item[2] != name]
        if not self.slurm.peek_node(name).reason.startswith("slurm-failover"):
            self.reasons[name] = self.slurm.peek_node(name).reason

    def controller_hook(self, *, number: int, trouble: Trouble, again: bool, **_: Any) -> None:
        """A second run is what a restart of slurmctld causes while the job still completes."""
        label, start, names = self.hooks[number % len(self.hooks)]
        self.house.end_hook(label, start, names, trouble)
        if not again:
            self.hooks.remove((label, start, names))
            self.slurm.end_hook(label)

    def node_hook(
        self, *, number: int, found: str, trouble: Trouble, again: bool, **_: Any
    ) -> None:
        label, start, name = self.epilogs[number % len(self.epilogs)]
        if found != "nothing":
            self.mark(name, found, {(label, start)})
            self.house.node_epilog(label, start, name, FINDINGS[found], trouble)
        if not again:
            self.epilogs.remove((label, start, name))
            self.slurm.end_epilog(label, name)

    def decide(self, *, number: int, trouble: Trouble, **_: Any) -> None:
        self.house.decide(trouble, rounds=1 + number % 3)

    def reconcile(self, *_: Any) -> None:
        self.house.reconcile()

    def blame(self, name: str) -> None:
        """Slurm's own word against a node counts for every attempt there that is not decided."""
        for attempt, names in self.attempts.items():
            if name in names:
                self.faulty[attempt].add(name)

    def mark(self, name: str, found: str, attempts: set[tuple[str, int]]) -> None:
        """Note what a node truly has, and whom it hit."""
        if found == "hardware":
            for attempt in attempts:
                self.faulty[attempt].add(name)
        if FINDINGS[found].node is not NodeAction.NONE:
            self.needy.add(name)

    # --- promises ---------------------------------------------------------------------------------

    @invariant()
    def no_retry_is_exceeded_or_comes_without_a_hardware_fault(self) -> None:
        for label in self.labels:
            moved = self.house.released[label]
            assert len(moved) <= self.limits[label]
            for start in moved:
                assert self.faulty[label, start], f"job {label} was moved for nothing"

    @invariant()
    def no_retry_is_lost_or_counted_twice(self) -> None:
        for label in self.labels:
            record = self.record(label)
            moved = self.house.released[label]
            if record is not None:
                counted = [past for past in record.history if past.outcome == "failover"]
                assert record.retries == len(counted) == len({past.start for past in counted})
                assert moved <= {int(past.start) for past in counted}
                assert record.retries <= self.limits[label]
            else:
                assert not moved

    @invariant()
    def only_a_node_that_needs_it_is_drained(self) -> None:
        for name in NODES:
            node = self.slurm.peek_node(name)
            if node.reason.startswith("slurm-failover: "):
                assert name in self.needy

    @invariant()
    def a_foreign_reason_stays_word_for_word(self) -> None:
        for name, reason in self.reasons.items():
            assert self.slurm.peek_node(name).reason == reason

    @invariant()
    def foreign_text_stays_byte_for_byte(self) -> None:
        for label in self.labels:
            job = self.slurm.peek(label)
            assert job.comment.startswith(self.words[label])
            assert keeps(job.admin_comment, self.admin_words[label])
        for name, words in self.extra_words.items():
            assert keeps(self.slurm.peek_node(name).extra, words)

    @invariant()
    def a_cancelled_job_stays_cancelled(self) -> None:
        assert all(self.slurm.peek(label).state == "CANCELLED" for label in self.cancelled)

    @invariant()
    def a_hold_of_someone_else_stays(self) -> None:
        for label, by in self.held.items():
            assert self.slurm.peek(label).hold == by

    def settle(self) -> None:
        """Every hook ends, reconcile runs: nothing waits, and once more changes nothing."""
        while self.hooks or self.epilogs:
            if self.hooks:
                self.controller_hook(number=0, trouble=Trouble(), again=False)
            if self.epilogs:
                self.node_hook(number=0, found="nothing", trouble=Trouble(), again=False)
        self.slurm.clock += 10
        self.house.reconcile()
        settled = self.picture()
        assert self.house.notes.read() == []
        for label in self.labels:
            record, job = self.record(label), self.slurm.peek(label)
            if record is not None and job.state == "PENDING":
                assert record.step not in (Step.HELD, Step.DECIDED), self.house.story
                assert (
                    record.state is not State.FAILOVERINPROGRESS
                    or not job.hold
                    or (label in self.held)
                )
        self.slurm.clock += 10
        self.house.reconcile()
        assert self.picture() == settled

    def picture(self) -> list[Any]:
        jobs = [self.slurm.peek(label).facts(0) for label in self.labels]
        return [jobs, [self.slurm.peek_node(name).facts() for name in NODES]]


def keeps(text: str, foreign: str) -> bool:
    """Whether ``text`` is ``foreign``, with or without something of ours."""
    try:
        theirs = json.loads(foreign or "{}")
    except ValueError:
        return text.startswith(foreign)
    if not text:
        return not foreign
    merged = json.loads(text)
    merged.pop(MARK, None)
    return bool(merged == theirs) and text.startswith(foreign[:-1])


TestFailoverMachine = FailoverMachine.TestCase
TestFailoverMachine.settings = settings(max_examples=100, stateful_step_count=30)
