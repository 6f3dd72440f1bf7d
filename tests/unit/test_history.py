"""What happened to jobs and nodes, told from Slurm's accounting, and as a user types it."""

from __future__ import annotations

import json
import stat
import sys
import threading
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_failover.breaker import FaultNote, write_notes
from slurm_failover.cli import main
from slurm_failover.commands import past
from slurm_failover.commands.history import row_of
from slurm_failover.commands.jobid import is_run_of
from slurm_failover.errors import NoSuchTime, SlurmError, SlurmUnavailable
from slurm_failover.happening import Kind
from slurm_failover.history import (
    STOCK_DELAY,
    Entry,
    Outage,
    Run,
    entries,
    kept_going,
    lost,
    named_nodes,
    on_nodes,
    saved,
    tell,
)
from slurm_failover.model import JobFacts, NodeFacts
from slurm_failover.record import Attempt, Record, State, write_record
from slurm_failover.slurm.accounting import Accounting, Span
from slurm_failover.slurm.accounting_facts import read_outage, read_run

LOST = "n1: Xid 79 on GPU 0000:3b:00: GPU has fallen off the bus"
FIRST = Attempt(1, "n[1-2]", 1000.0, 1101.0, "failover", LOST)
MOVED = write_record("", Record(State.RESUMED, retries=1, max_retries=3, history=(FIRST,)))
ARMED = write_record("", Record(State.ARMED))
RUNS = [
    Run("7", "alice", "train", "n[1-2]", 1000.0, 1100.0, 4, ARMED),
    Run("7", "alice", "train", "n[3-4]", 1102.0, 1202.0, 4, MOVED),
]
DRAIN = Outage("n1", 1099.0, 0.0, "DRAIN", "slurm-failover: Xid 79 on GPU 0000:3b:00: GPU has fal")


def denied(because: str = "the program ended with exit code 3") -> str:
    attempt = Attempt(1, "n1", 1000.0, 1101.0, "deny", because)
    return write_record("", Record(State.INTERNALERROR, attempt=attempt, history=(attempt,)))


def test_a_failover_is_told_with_its_run_its_restart_and_its_cause() -> None:
    assert tell(RUNS) == [
        Entry(Kind.FAILOVER, 1100.0, LOST, "n[1-2]", "7", "alice", "train", 1, 4, 100.0, 2.0)
    ]


def test_a_fault_of_observe_mode_stays_told_beside_a_later_drain_for_the_same() -> None:
    seen = FaultNote("n1", 1000.0, "xid-79", "Xid 79 on GPU 0000:3b:00", observed=True)
    drained = FaultNote("n1", 1099.0, "xid-79", "Xid 79 on GPU 0000:3b:00")
    node = NodeFacts("n1", extra=write_notes("", [seen, drained], 1099.0))
    told = [(entry.kind, entry.time, entry.because) for entry in tell([], [], [DRAIN], [node])]
    assert told[0] == (Kind.FAULT, 1000.0, "Xid 79 on GPU 0000:3b:00 (observe mode)")
    assert [kind for kind, *_ in told] == [Kind.FAULT, Kind.DRAIN]


def test_a_denial_that_slurmctld_alone_knows_yet_is_told() -> None:
    job = JobFacts(7, "7", admin_comment=denied())
    told = tell(RUNS[:1], [job])
    assert [(e.kind, e.because, e.waited) for e in told] == [
        (Kind.DENIED, "the program ended with exit code 3", None)
    ]


def test_a_run_that_the_span_does_not_hold_is_not_told() -> None:
    assert tell(RUNS[1:]) == []


def test_a_job_that_only_ran_is_not_told() -> None:
    assert tell([replace(RUNS[0], admin_comment=ARMED), Run("8", start=5.0, end=6.0)]) == []


def test_a_later_record_overrules_an_earlier_one() -> None:
    first = replace(RUNS[0], admin_comment=denied("too early"))
    assert [entry.kind for entry in tell([first, RUNS[1]])] == [Kind.FAILOVER]


def test_a_denial_is_told_though_the_job_was_cancelled_and_never_started_again() -> None:
    rest = replace(RUNS[0], start=0.0, end=1500.0, nodes="", admin_comment=denied("last word"))
    told = tell([rest, replace(RUNS[0], admin_comment=denied("too early"))])
    assert [(e.kind, e.time, e.waited, e.because) for e in told] == [
        (Kind.DENIED, 1100.0, None, "last word")
    ]


def test_the_components_of_a_job_are_one_run() -> None:
    others = [replace(run, nodes=nodes) for run, nodes in zip(RUNS, ("n5", "n6"), strict=True)]
    told = tell([*RUNS, *others])
    assert [(e.nodes, e.gpus, e.waited) for e in told] == [("n[1-2],n5", 8, 2.0)]


def test_runs_that_follow_in_seconds_are_told_apart() -> None:
    first, second = (
        Attempt(1, "n1", 1000.0, 1001.0, "failover", "a"),
        Attempt(2, "n2", 1001.0, 1002.0, "deny", "b"),
    )
    comment = write_record("", Record(State.INTERNALERROR, history=(first, second)))
    runs = [
        Run("7", start=1000.0, end=1001.0),
        Run("7", start=1001.0, end=1002.0, admin_comment=comment),
    ]
    assert [(e.attempt, e.because) for e in tell(runs)] == [(1, "a"), (2, "b")]
    last = write_record("", Record(State.RESUMED, history=(first,)))
    assert [e.because for e in tell([runs[0], replace(runs[1], admin_comment=last)])] == ["a"]


def test_another_jobs_record_counts_for_nothing() -> None:
    assert tell(RUNS[:1], [JobFacts(8, "8", admin_comment=denied())]) == []


def test_our_drains_are_told_and_those_of_others_are_not() -> None:
    outages = [DRAIN, replace(DRAIN, node="n2", reason="bad fan"), replace(DRAIN, reason="")]
    told = tell([], (), outages)
    assert [(e.kind, e.nodes, e.time, e.job) for e in told] == [(Kind.DRAIN, "n1", 1099.0, "")]
    assert told[0].because.startswith("Xid 79 on GPU")


def test_a_fault_that_drained_nothing_is_told_from_the_nodes_note() -> None:
    def node(name: str, because: str, *, waits: bool) -> NodeFacts:
        note = FaultNote(name, 1098.0, "xid-79", because, waits=waits)
        return NodeFacts(name, extra=write_notes("", [note], 1100.0))

    same = node("n1", "Xid 79 on GPU 0000:3b:00: GPU has fal…", waits=False)
    nodes = [same, node("n2", "Xid 48", waits=True), node("n3", "Xid 48", waits=False)]
    told = tell([], (), [DRAIN], nodes)
    assert [(e.kind, e.nodes) for e in told] == [
        (Kind.DRAIN_PUT_OFF, "n2"),
        (Kind.FAULT, "n3"),
        (Kind.DRAIN, "n1"),
    ]


@pytest.mark.parametrize("time", ["1e300", "-1", "253402300800", "NaN", "1e999"])
def test_a_time_that_no_calendar_knows_costs_its_own_note_alone(time: str) -> None:
    extra = '{"slurm-failover":{"v":1,"faults":[{"time":%s,"code":"a"},{"time":5,"code":"b"}]}}'
    told = tell([], nodes=[NodeFacts("n1", extra=extra % time)])
    assert [(entry.because, row_of(entry)[0][:4]) for entry in told] == [("b", "1970")]


def test_what_is_no_list_of_nodes_is_shown_as_it_is() -> None:
    entry = replace(tell(RUNS)[0], nodes="n[1")
    assert row_of(entry)[4] == "n[1"
    assert entry.as_json()["nodes"] == ["n[1"]


def test_what_is_told_can_not_steer_a_terminal() -> None:
    wild = replace(RUNS[0], name="a\x1b[2J", user="b\n", admin_comment=denied("c\x1b[0m"))
    entry = tell([wild])[0]
    assert all(word.isprintable() for word in (entry.name, entry.user, entry.because))


def test_a_damaged_record_costs_its_own_job_alone() -> None:
    runs = [*RUNS, Run("9", start=1.0, end=2.0, admin_comment='{"slurm-failover":{"v":9}}')]
    assert [entry.job for entry in tell(runs)] == ["7"]


def test_the_entries_of_some_nodes() -> None:
    entries = tell(RUNS, (), [DRAIN, replace(DRAIN, node="n9")])
    assert [entry.nodes for entry in on_nodes(entries, ["n2", "n9"])] == ["n9", "n[1-2]"]


def test_time_lost_is_the_run_and_the_wait_and_time_saved_is_slurms_own_delay() -> None:
    moved = tell(RUNS)[0]
    assert lost(moved) == 4 * (100.0 + 2.0)
    assert saved(moved) == 4 * (STOCK_DELAY - 2.0)
    slow, open_end = replace(moved, waited=500.0), replace(moved, waited=None)
    assert (saved(slow), saved(open_end), lost(open_end)) == (0.0, 0.0, 400.0)
    denial, exceeded = replace(moved, kind=Kind.DENIED), replace(open_end, kind=Kind.EXCEEDED)
    assert (lost(denial), saved(denial)) == (0.0, 0.0)
    assert (lost(exceeded), saved(exceeded)) == (400.0, 0.0)


def test_what_kept_going_are_the_runs_after_a_failover_that_were_not_lost() -> None:
    entries = tell(RUNS)
    assert kept_going(RUNS, entries, 5000.0) == 400.0
    running = [RUNS[0], replace(RUNS[1], end=0.0)]
    assert kept_going(running, entries, 1112.0) == 40.0
    again = replace(entries[0], time=1202.0)
    assert kept_going(RUNS, [*entries, again], 5000.0) == 0.0
    assert kept_going([Run("8", start=1.0, end=9.0, gpus=1)], entries, 5000.0) == 0.0


# --- what Slurm's commands write ----------------------------------------------------------------

ROW = {
    "job_id": 12,
    "array": {"job_id": 11, "task_id": {"set": True, "infinite": False, "number": 3}},
    "het": {"job_id": 0},
    "user": "alice",
    "name": "train",
    "nodes": "n1",
    "time": {"start": 1000, "end": 1100},
    "comment": {"administrator": "words", "job": "", "system": ""},
    "tres": {
        "allocated": [
            {"type": "cpu", "name": "", "count": 9},
            {"type": "energy", "name": "", "count": -2},
            {"type": "gres", "name": "gpu", "count": 4},
            {"type": "gres", "name": "gpu:h200", "count": 4},
        ]
    },
}


def test_a_row_of_the_accounting_is_read() -> None:
    assert read_run(ROW) == Run("11_3", "alice", "train", "n1", 1000.0, 1100.0, 4, "words", 12)


def test_a_run_that_never_started_has_no_start_however_slurm_writes_that() -> None:
    for start in (0, 0xFFFFFFFE, 0xFFFFFFFF, -2, None):
        run = read_run({**ROW, "time": {"start": start, "end": 1100}})
        assert run is not None
        assert (run.start, run.end) == (0.0, 1100.0)


def test_a_components_row_is_its_leaders_and_typed_gpus_are_summed() -> None:
    typed = [{"type": "gres", "name": f"gpu:{kind}", "count": 2} for kind in "ab"]
    run = read_run({**ROW, "het": {"job_id": 10}, "tres": {"allocated": typed}})
    assert run is not None
    assert (run.label, run.gpus) == ("10", 4)


@pytest.mark.parametrize("key", ["array", "het", "time", "comment", "tres", "nodes", "user"])
@pytest.mark.parametrize("odd", [None, 5, "x", [], {}, {"allocated": [None, {"type": "gres"}]}])
def test_an_odd_member_costs_itself_alone(key: str, odd: object) -> None:
    run = read_run({**ROW, key: odd})
    assert run is not None
    assert run.name == "train"


@pytest.mark.parametrize("odd", [None, 5, [], {}, {"job_id": 0}, {"job_id": "x"}])
def test_what_is_no_row_is_no_run(odd: object) -> None:
    assert read_run(odd) is None


def test_a_node_event_is_read_and_its_reason_may_hold_the_delimiter() -> None:
    assert read_outage("n1|5|Unknown|DRAIN|slurm-failover: a|b") == Outage(
        "n1", 5.0, 0.0, "DRAIN", "slurm-failover: a|b"
    )
    assert read_outage("|5|Unknown||Cluster Registered TRES") is None
    assert read_outage("a wrapped reason") is None


class Bin:
    """A folder with a sacct and a sacctmgr that write down how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.say("sacct", json.dumps({"jobs": [ROW]}))
        self.say("sacctmgr", "n1|5|6|DRAIN|slurm-failover: x")

    def say(self, program: str, answer: str, rc: int = 0) -> None:
        path = self.folder / program
        (self.folder / f"{program}.answer").write_text(answer + "\n")
        path.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$SLURM_TIME_FORMAT" "$@" >{path}.called\n'
            f"cat {path}.answer\nexit {rc}\n"
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def called(self, program: str) -> list[str]:
        return (self.folder / f"{program}.called").read_text().splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Bin:
    return Bin(tmp_path)


def test_sacct_itself_understands_the_times(folder: Bin) -> None:
    accounting = Accounting(str(folder.folder))
    span = Span("now-7days", "noon")
    assert [run.label for run in accounting.runs(span, ["7", "8_1"])] == ["11_3"]
    assert accounting.outages(span) == [Outage("n1", 5.0, 6.0, "DRAIN", "slurm-failover: x")]
    called = folder.called("sacct")
    assert {"--starttime=now-7days", "--endtime=noon", "--jobs=7,8_1"} <= set(called)
    assert {"--duplicates", "--allocations", "--allusers"} <= set(called)
    assert {"start=now-7days", "end=noon"} <= set(folder.called("sacctmgr"))
    assert called[0] == folder.called("sacctmgr")[0] == "%s"


def test_runs_after_which_a_node_was_lost_are_asked_for_by_their_end(folder: Bin) -> None:
    assert [run.label for run in Accounting(str(folder.folder)).runs(Span("now-7days"))] == ["11_3"]
    called = folder.called("sacct")
    assert {"--starttime=now-7days", "--endtime=now", "--state=NODE_FAIL,REQUEUED"} <= set(called)


def test_a_run_that_ends_between_the_two_questions_is_one(folder: Bin) -> None:
    went_on = {**ROW, "time": {"start": 1000, "end": 0, "elapsed": 90, "submission": 900}}
    ended = {**ROW, "time": {"start": 1000, "end": 1100, "elapsed": 100, "submission": 900}}
    earlier = {**ROW, "time": {"start": 500, "end": 600, "elapsed": 100, "submission": 400}}
    folder.say("sacct", json.dumps({"jobs": [went_on]}))
    (folder.folder / "later").write_text(json.dumps({"jobs": [ended, earlier]}))
    script = (folder.folder / "sacct").read_text()
    later = f'case "$*" in *--state=*) exec cat {folder.folder}/later ;; esac\ncat '
    (folder.folder / "sacct").write_text(script.replace("cat ", later))
    runs = Accounting(str(folder.folder)).runs(Span("now-7days"))
    assert [run.start for run in runs] == [1000.0, 500.0]


def test_a_list_of_nodes_that_many_runs_share_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def names_in(nodes: str) -> list[str]:
        read.append(nodes)
        return [nodes]

    monkeypatch.setattr(entries, "names_in", names_in)
    runs = [replace(RUNS[0], nodes="n1"), replace(RUNS[0], nodes="n1"), replace(RUNS[0], nodes="")]
    assert named_nodes(runs, [DRAIN]) == {"n1", DRAIN.node}
    assert read == ["n1"]


def test_a_users_jobs_are_asked_for_by_name(folder: Bin) -> None:
    Accounting(str(folder.folder)).runs(Span(), user="bob")
    called = folder.called("sacct")
    assert "--user=bob" in called
    assert "--allusers" not in called
    assert not [word for word in called if "starttime" in word or "--jobs" in word]


def test_what_slurm_refuses_is_told_in_its_own_words(folder: Bin) -> None:
    accounting = Accounting(str(folder.folder))
    folder.say("sacct", "Invalid time specification (pos=0): foo", 1)
    with pytest.raises(NoSuchTime, match=r"^foo$"):
        accounting.runs(Span("foo"))
    folder.say("sacct", "sacct: error: Problem talking to the database: Connection refused", 1)
    with pytest.raises(SlurmUnavailable):
        accounting.runs(Span())
    for answer in ("no JSON", "[]", "{}", '{"jobs": 5}'):
        folder.say("sacct", answer)
        with pytest.raises(SlurmError, match="is it older than"):
            accounting.runs(Span())


# --- the command --------------------------------------------------------------------------------


class Desk:
    """A terminal before a site with one failover, one denial and one drain."""

    def __init__(self) -> None:
        self.asked: list[tuple[Span, tuple[str, ...], str]] = []
        self.runs_told = [*RUNS, replace(RUNS[0], label="8", user="bob", nodes="n2")]
        self.jobs_told = [JobFacts(8, "8", admin_comment=denied())]
        self.nodes_told: list[NodeFacts] = []
        self.is_up = True

    def runs(self, span: Span, jobs: tuple[str, ...] = (), user: str = "") -> list[Run]:
        self.asked.append((span, tuple(jobs), user))
        return self.runs_told

    def outages(self, _: Span) -> list[Outage]:
        return [DRAIN]

    def jobs(self) -> list[JobFacts]:
        if not self.is_up:
            raise SlurmUnavailable("scontrol: no answer")
        return self.jobs_told

    def nodes(self) -> list[NodeFacts]:
        return self.nodes_told

    def know_all(self) -> None:
        """Let slurmctld tell its nodes as well, and sacct only the runs that it is asked for."""
        self.nodes_told = [NodeFacts(f"n{number}") for number in (1, 2, 3)]
        told = self.runs_told
        told[:] = [replace(run, job_id=int(run.label)) for run in told]

        def runs(span: Span, jobs: tuple[str, ...] = (), user: str = "") -> list[Run]:
            self.asked.append((span, tuple(jobs), user))
            chosen = [run for run in told if not jobs or str(run.job_id) in jobs]
            return [run for run in chosen if span.since != "now" and user in ("", run.user)]

        self.runs = runs  # type: ignore[method-assign]

    def type(self, *words: str) -> Result:
        return CliRunner().invoke(main, words)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk = Desk()
    monkeypatch.setattr(past, "Accounting", lambda _: desk)
    monkeypatch.setattr(past, "connect_for_many", lambda *_: desk)
    monkeypatch.setenv("COLUMNS", "220")
    monkeypatch.setenv("TZ", "UTC")
    return desk


def test_the_history_is_a_table_oldest_first(desk: Desk) -> None:
    done = desk.type("history")
    rows = [line.split(maxsplit=8) for line in done.output.splitlines()]
    assert done.exit_code == 0
    assert [row[1] for row in rows[1:]] == ["drain", "failover", "denied"]
    moved = next(row for row in rows if row[1] == "failover")
    assert moved[2:8] == ["7", "alice", "n[1-2]", "00:01:40", "00:00:02", "00:06:48"]
    assert moved[8] == LOST
    assert desk.asked == [(Span("now-7days", ""), (), "")]


def test_the_history_as_json_is_whole(desk: Desk) -> None:
    told = json.loads(desk.type("history", "--json", "--node", "n1").output)
    assert [entry["event"] for entry in told] == ["drain", "failover"]
    assert told[1] == {
        "time": 1100.0,
        "event": "failover",
        "job": "7",
        "user": "alice",
        "name": "train",
        "attempt": 1,
        "nodes": ["n1", "n2"],
        "because": LOST,
        "gpus": 4,
        "ran_seconds": 100.0,
        "restart_seconds": 2.0,
        "gpu_seconds_lost": 408.0,
    }
    assert told[0]["job"] is told[0]["gpu_seconds_lost"] is None


def test_of_named_jobs_all_times_and_no_drains(desk: Desk) -> None:
    told = json.loads(desk.type("history", "--json", "7").output)
    assert {entry["event"] for entry in told} == {"failover", "denied"}
    desk.type("history", "--since", "2026-01-31", "--until", "now", "7", "8")
    desk.type("history", "--user", "bob")
    assert desk.asked == [
        (Span("", ""), ("7",), ""),
        (Span("2026-01-31", "now"), ("7", "8"), ""),
        (Span("now-7days", ""), (), "bob"),
    ]


def test_tasks_are_asked_for_one_by_one_since_sacct_takes_no_ranges(desk: Desk) -> None:
    desk.type("history", "8_[1,4-5%2]", "8_4", "7")
    assert desk.asked == [(Span("", ""), ("8_1", "8_4", "8_5", "7"), "")]


@pytest.mark.parametrize("option", ["--since", "--until"])
@pytest.mark.parametrize("command", [["history"], ["report", "--html"]])
def test_a_time_that_slurm_does_not_understand_is_named_with_its_option(
    desk: Desk, folder: Bin, monkeypatch: pytest.MonkeyPatch, command: list[str], option: str
) -> None:
    monkeypatch.setattr(past, "Accounting", lambda _: Accounting(str(folder.folder)))
    folder.say("sacct", "Invalid time specification (pos=8): now-7dayz", 1)
    page = [str(folder.folder / "page.html")] if "report" in command else []
    done = desk.type(*command, *page, option, "now-7dayz")
    assert done.exit_code == 2
    said = " ".join(done.output.split())
    assert f"Invalid value for {option}: 'now-7dayz' is no time: write now-7days" in said
    assert not (folder.folder / "sacctmgr.called").exists()
    assert not page or not Path(page[0]).exists()


def test_a_quiet_week_is_told_with_what_was_looked_at(desk: Desk) -> None:
    desk.runs_told = [Run("8", start=5.0, end=6.0)]
    assert desk.type("history", "7").output == (
        "Nothing happened: 1 run of jobs in that time, and none failed over, was denied or "
        "exceeded.\n"
    )


def test_a_person_who_waits_long_is_told_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(StringIO):
        def isatty(self) -> bool:
            return True

    def waiting(quiet: float, seconds: float) -> str:
        monkeypatch.setattr(past, "QUIET", quiet)
        monkeypatch.setattr(sys, "stderr", screen := Screen())
        end = time.monotonic() + seconds
        with past.told("waiting for Slurm"):
            while "waiting for Slurm" not in screen.getvalue() and time.monotonic() < end:
                threading.Event().wait(0.01)
        return screen.getvalue()

    assert "waiting for Slurm" in waiting(0.0, 30.0)
    assert waiting(600.0, 0.1) == ""


def test_without_slurmctld_the_accounting_alone_tells(desk: Desk) -> None:
    desk.is_up = False
    done = desk.type("history", "7")
    assert done.exit_code == 0
    assert "failover" in done.output
    assert "denied" not in done.output
    assert "without what only slurmctld knows" in done.output


def test_a_job_that_nobody_knows_is_told_apart_from_one_to_which_nothing_happened(
    desk: Desk,
) -> None:
    desk.know_all()
    done = desk.type("history", "424242")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "neither Slurm nor its accounting knows job 424242, as far as you may see" in done.stderr
    both = desk.type("history", "--json", "7", "424242")
    assert (both.exit_code, {entry["job"] for entry in json.loads(both.stdout)}) == (1, {"7"})
    assert "job 424242," in both.stderr
    assert json.loads(desk.type("history", "--json", "424242").stdout) == []


@pytest.mark.parametrize("words", [["--since", "now"], ["--user", "carol"]])
def test_a_job_outside_the_span_or_of_another_user_is_known_all_the_same(
    desk: Desk, words: list[str]
) -> None:
    desk.know_all()
    done = desk.type("history", "7", "8", *words)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("Nothing happened: 0 runs of jobs in that time")
    assert [jobs for _, jobs, _ in desk.asked] == [("7", "8"), ("7",)]
    assert desk.type("history", "424242", *words).exit_code == 1


def test_a_job_that_has_not_run_yet_is_known(desk: Desk) -> None:
    desk.know_all()
    desk.jobs_told = [JobFacts(9, "9"), JobFacts(20, "20", tasks="1,4-6")]
    for words in (["9"], ["20"], ["20_5"], ["20_[4-6]"]):
        done = desk.type("history", *words)
        assert (done.exit_code, done.output[:16]) == (0, "Nothing happened")
    assert desk.type("history", "20_3").exit_code == 1


@pytest.mark.parametrize("name", ["12", "11", "11_3"])
def test_a_row_of_a_task_is_known_by_each_name_of_its_job(name: str) -> None:
    run = read_run(ROW)
    assert run is not None
    assert is_run_of(run, name)
    assert not is_run_of(run, "11_4")
    assert is_run_of(Run("11", job_id=11), "11_4")


def test_a_node_that_nobody_knows_is_told_apart_from_one_to_which_nothing_happened(
    desk: Desk,
) -> None:
    desk.know_all()
    assert desk.type("history", "--node", "n3").exit_code == 0
    done = desk.type("history", "--node", "nosuch")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "Slurm does not know node nosuch, and nothing in that time names it" in done.stderr
    both = desk.type("history", "--json", "--node", "n[1,8-9]")
    assert (both.exit_code, "node n[8-9]," in both.stderr) == (1, True)
    assert {entry["event"] for entry in json.loads(both.stdout)} == {"drain", "failover"}


def test_a_node_that_is_gone_is_known_by_what_happened_there(desk: Desk) -> None:
    desk.know_all()
    desk.nodes_told = [NodeFacts("n9")]
    for node in ("n1", "n4"):
        assert desk.type("history", "--node", node).exit_code == 0


def test_without_slurmctld_nobody_says_that_a_job_or_a_node_is_unknown(desk: Desk) -> None:
    desk.know_all()
    desk.is_up = False
    for words in (["424242"], ["--node", "nosuch"]):
        done = desk.type("history", *words)
        assert done.exit_code == 0
        assert "without what only slurmctld knows" in done.stderr
