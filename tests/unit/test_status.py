"""``slurm-failover status``, ``nodes`` and ``reconcile``, as a user types them."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result
from failover_world import FINDINGS, House
from fake_slurmctld import FakeSlurm

from slurm_failover.breaker import FaultNote, write_notes
from slurm_failover.cli import main
from slurm_failover.commands import breaker, nodes, reconcile, status
from slurm_failover.controller import decider, endings, work
from slurm_failover.controller.decider import Decider
from slurm_failover.controller.missed import find_stop_without_record
from slurm_failover.doctor.timer import LATE
from slurm_failover.errors import NotPermitted
from slurm_failover.evidence import write_evidence
from slurm_failover.model import Evidence, JobCause, JobFacts, Limits
from slurm_failover.record import Attempt, Record, State, Step, read_record, write_record
from slurm_failover.slurm.client import NodeChange

HARDWARE = JobCause.HARDWARE
CALM = "slurm-failover: 0 jobs had something left to do\n"


class Terminal:
    """A terminal before a small cluster on which one job was failed over."""

    def __init__(self, folder: Path) -> None:
        self.slurm = FakeSlurm()
        self.settings = folder / "settings.toml"
        self.settings.write_text(f'[state]\ndirectory = "{folder}"\n')
        self.house = House(self.slurm, str(folder), Limits())

    def set_mode(self, mode: str) -> None:
        state = f'[state]\ndirectory = "{self.settings.parent}"\n'
        self.settings.write_text(f'{state}[failover]\nmode = "{mode}"\n')

    def type(self, *words: str) -> Result:
        return CliRunner().invoke(main, ["--settings", str(self.settings), *words])

    def fail_over(self) -> str:
        label = self.start("failover")
        job = self.slurm.peek(label)
        self.slurm.finish(label, code=1)
        self.house.end_hook(label, job.start, "n1")
        self.house.node_epilog(label, job.start, "n1", FINDINGS["hardware"])
        self.slurm.end_epilog(label, "n1")
        self.slurm.end_hook(label)
        self.house.decide()
        self.slurm.schedule()
        self.house.start_hook(label)
        return label

    def deny(self) -> str:
        label = self.start("failover")
        job = self.slurm.peek(label)
        self.slurm.finish(label, code=3)
        self.house.end_hook(label, job.start, "n1")
        self.slurm.end_epilog(label, "n1")
        self.slurm.end_hook(label)
        self.house.decide()
        return label

    def start(self, comment: str) -> str:
        label = self.slurm.submit(comment)
        self.slurm.schedule()
        self.house.start_hook(label)
        return label


def know(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, *jobs: JobFacts) -> None:
    """Let Slurm know these jobs alone; a heterogeneous job's leader brings its components."""

    def answer(names: Collection[str] = ()) -> list[JobFacts]:
        return [
            job
            for job in jobs
            if not names
            or {str(job.job_id), job.label, job.label.partition("_")[0]}.intersection(names)
        ]

    monkeypatch.setattr(terminal.slurm, "jobs", answer)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    terminal = Terminal(tmp_path)
    for module in (status, nodes, reconcile, work):
        monkeypatch.setattr(module, "connect_for_many", lambda *_: terminal.slurm)
    monkeypatch.setattr(decider, "GONE", 0.0)
    monkeypatch.setenv("COLUMNS", "200")
    return terminal


def test_status_lists_the_flagged_jobs_and_no_others(terminal: Terminal) -> None:
    flagged, other = terminal.start("failover"), terminal.start("words")
    shown = terminal.type("status").output
    assert flagged in shown
    assert other not in shown


def test_status_without_a_flagged_job_says_so(terminal: Terminal) -> None:
    terminal.start("words")
    assert terminal.type("status").output.strip() == "No job has failover on."
    assert json.loads(terminal.type("status", "--json").output) == []


def test_status_as_json_tells_the_story(terminal: Terminal) -> None:
    label = terminal.fail_over()
    told = json.loads(terminal.type("status", "--json", label).output)
    assert len(told) == 1
    job = told[0]
    assert (job["state"], job["display"], job["retries"]) == ("resumed", "Running", 1)
    assert (job["nodes"], job["excluded_nodes"]) == (["n2"], ["n1"])
    assert job["cause"] == "n1: a fault of kind hardware"
    assert [past["outcome"] for past in job["history"]] == ["failover"]


def test_status_of_one_job_shows_its_history(terminal: Terminal) -> None:
    label = terminal.fail_over()
    shown = terminal.type("status", label).output
    assert "OUTCOME" in shown
    assert "failover" in shown
    assert "1/3" in shown


def test_status_of_one_job_shows_the_attempt_that_runs_and_the_words_of_history(
    terminal: Terminal,
) -> None:
    label = terminal.fail_over()
    first, second = terminal.type("status", label).output.splitlines()[-2:]
    assert first.split()[3:5] == ["n1", "failover"]
    assert second.split()[0] == "2"
    assert second.split()[2:] == ["-", "n2", "running", "-"]
    terminal.slurm.finish(label)
    ended = terminal.type("status", label).output.splitlines()[-1].split()
    assert (ended[3:], ended[2] != "-") == (["n2", "completed", "-"], True)


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ({"code": 3}, "failed the program ended with exit code 3"),
        ({"signal": 9}, "failed the program was ended by signal 9"),
        ({"state": "TIMEOUT"}, "timeout -"),
        ({"state": "NODE_FAIL"}, "node fail -"),
        ({"state": "CANCELLED"}, "cancelled -"),
    ],
)
def test_how_an_attempt_ended_that_no_record_tells_of_is_told_in_slurms_words(
    terminal: Terminal, end: dict[str, Any], words: str
) -> None:
    label = terminal.start("failover")
    terminal.slurm.finish(label, **end)
    row = " ".join(terminal.type("status", label).output.splitlines()[-1].split())
    assert words in row


def test_an_attempt_after_which_the_job_waits_again_was_requeued_or_is_not_decided_on(
    terminal: Terminal,
) -> None:
    label = terminal.start("failover")
    terminal.slurm.requeue(label)
    assert " n1 requeued -" in re.sub(" +", " ", terminal.type("status", label).output)
    other = terminal.start("failover")
    job = terminal.slurm.peek(other)
    terminal.slurm.finish(other, code=3)
    terminal.house.end_hook(other, job.start, job.nodes[0])
    assert " undecided -" in re.sub(" +", " ", terminal.type("status", other).output)


def test_an_attempt_that_a_node_sent_back_says_what_that_node_found(terminal: Terminal) -> None:
    label = terminal.start("failover")
    start = terminal.slurm.peek(label).start
    note = FaultNote("n1", start + 1.0, "gpu-reset-required", "NVML: GPU 0 requires a reset")
    extra = write_notes("", [note], note.time)
    terminal.slurm.update_node("n1", NodeChange(extra=extra))
    terminal.slurm.drain("n1", "slurm-failover: NVML: GPU 0 requires a reset; reboot needed")
    terminal.slurm.requeue(label)

    def row() -> str:
        return re.sub(" +", " ", terminal.type("status", label).output.splitlines()[-1])

    told = "n1 requeued n1 was unfit: NVML: GPU 0 requires a reset"
    assert row().endswith(f"{told}; reboot needed")
    terminal.slurm.resume("n1")
    assert row().endswith(told)
    for other in (
        replace(note, time=start + 600.0),
        replace(note, time=start - 600.0),
        replace(note, observed=True),
        replace(note, waits=True),
    ):
        extra = write_notes("", [other], note.time)
        terminal.slurm.update_node("n1", NodeChange(extra=extra))
        assert row().endswith("n1 requeued -"), other
    terminal.slurm.clock += 600
    terminal.slurm.drain("n1", "slurm-failover: Xid 79")
    assert row().endswith("n1 requeued -"), "a fault of a later time sent nothing back"


def test_a_job_that_waits_for_a_drained_node_by_name_is_told_that_it_can_not_start(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.slurm.drain("n2", "slurm-failover: Xid 79 on GPU 0000:3b:00: lost (job 4711)")
    terminal.slurm.drain("n3", "bad fan")
    job = terminal.slurm.job(terminal.slurm.submit("failover"))

    def told(**facts: Any) -> str | None:
        know(terminal, monkeypatch, replace(job, **facts))
        view = json.loads(terminal.type("status", "--json", job.label).output)[0]
        return str(view["because"]) if view["because"] else None

    terminal.slurm.calls.clear()
    assert told(required="n[1-2]") == (
        "no healthy nodes: the job asks for n2 (--nodelist), which is drained: "
        "Xid 79 on GPU 0000:3b:00: lost (job 4711)"
    )
    assert terminal.slurm.calls == ["nodes"]
    for facts in ({"required": "n[1,3]"}, {"required": ""}, {"required": "n2", "held": True}):
        assert told(**facts) is None, facts
    placed = Record(State.FAILOVERINPROGRESS, Step.PLACED, 1, 3, because="n1: lost")
    assert "--nodelist" in str(told(required="n2", admin_comment=write_record("", placed)))


def test_a_job_that_holds_another_gpu_of_a_drained_node_is_told_why_it_stays(
    terminal: Terminal,
) -> None:
    label = terminal.start("failover")
    terminal.slurm.drain("n1", "slurm-failover: Xid 79 on GPU 0000:3b:00: lost (job 4711)")
    terminal.slurm.calls.clear()
    told = json.loads(terminal.type("status", "--json", label).output)[0]["because"]
    assert told == (
        "runs on, since it is not known to hold what broke on n1, which is drained: "
        "Xid 79 on GPU 0000:3b:00: lost (job 4711)"
    )
    assert terminal.slurm.calls == ["jobs", "nodes"]
    start = terminal.slurm.peek(label).start
    for extra in (
        write_evidence("", "n1", [Evidence("n1", int(label), start, HARDWARE, "x", start)], start),
        write_notes("", [FaultNote("n1", start, "xid-79", attempts=((int(label), start),))], start),
    ):
        terminal.slurm.update_node("n1", NodeChange(extra=extra))
        assert json.loads(terminal.type("status", "--json", label).output)[0]["because"] is None


@pytest.mark.parametrize(("node", "reason"), [("n1", "bad fan"), ("n2", "slurm-failover: Xid 79")])
def test_of_another_drain_or_another_node_nothing_is_said(
    terminal: Terminal, node: str, reason: str
) -> None:
    label = terminal.start("failover")
    terminal.slurm.drain(node, reason)
    assert json.loads(terminal.type("status", "--json", label).output)[0]["because"] is None


def test_status_of_a_held_job_says_what_its_owner_can_do(terminal: Terminal) -> None:
    label = terminal.deny()
    shown = terminal.type("status", label).output
    assert f"\nHeld. Start it again: scontrol release {label} - end it: scancel {label}\n" in shown
    assert " denied " in shown.splitlines()[-1]
    told = json.loads(terminal.type("status", "--json", label).output)[0]
    assert [past["outcome"] for past in told["history"]] == ["deny"]
    terminal.slurm.release(label)
    assert "Held." not in terminal.type("status", label).output


def test_status_in_observe_mode_shows_the_attempt_that_would_have_been_judged(
    terminal: Terminal,
) -> None:
    terminal.set_mode("observe")
    label = terminal.slurm.submit("failover")
    terminal.slurm.schedule()
    terminal.slurm.finish(label, code=3)
    terminal.slurm.end_epilog(label, "n1")
    terminal.slurm.end_hook(label)
    shown = terminal.type("status", label).output
    assert "would be held as internalerror: the program ended with exit code 3" in shown
    assert "No attempt of this job has ended by a failure" not in shown
    row = shown.splitlines()[-1].split(maxsplit=4)
    assert (row[0], row[3]) == ("1", "n1")
    assert row[4].startswith("would be held the program ended with exit code 3")


def test_json_in_observe_mode_tells_a_program_that_nothing_is_done_and_what_would_be(
    terminal: Terminal,
) -> None:
    terminal.set_mode("observe")
    running, failed = terminal.slurm.submit("failover"), terminal.slurm.submit("failover")
    terminal.slurm.schedule()
    terminal.slurm.finish(failed, code=3)
    terminal.slurm.end_epilog(failed, terminal.slurm.peek(failed).nodes[0])
    terminal.slurm.end_hook(failed)

    def told() -> list[list[str | None]]:
        views = json.loads(terminal.type("status", "--json", running, failed).stdout)
        return [[view[key] for key in ("mode", "state", "foreseen")] for view in views]

    assert told() == [["observe", "armed", None], ["observe", "armed", "internalerror"]]
    terminal.set_mode("act")
    assert told() == [["act", "armed", None], ["act", "armed", None]]


def test_status_says_until_when_slurm_delays_a_requeued_job(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = terminal.deny()
    job = terminal.slurm.job(label)
    soon = round(time.time()) + 60
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(soon))
    words = f"at {at} at the earliest (BeginTime)."
    for held, restarts, eligible, told in (
        (True, 1, soon, True),
        (False, 1, soon, True),
        (False, 1, soon - 120, False),
        (False, 0, soon, False),  # its owner's own --begin
    ):
        now = replace(job, held=held, restarts=restarts, eligible=eligible)
        know(terminal, monkeypatch, now)
        shown = terminal.type("status", label).output
        assert (words in shown) is told, now
        assert (f"Once released, it starts {words}" in shown) is (told and held), now
        assert words not in terminal.type("status").output
    decided = Record(State.FAILOVERINPROGRESS, Step.DECIDED, retries=1, max_retries=3)
    moved = replace(job, restarts=1, eligible=soon, admin_comment=write_record("", decided))
    know(terminal, monkeypatch, moved)
    assert words not in terminal.type("status", label).output


def test_an_administrators_hold_is_no_owners_to_release(terminal: Terminal) -> None:
    label = terminal.deny()
    terminal.slurm.hold_as_admin(label)
    assert "Held." not in terminal.type("status", label).output


def test_an_unflagged_job_that_is_asked_for_is_off(terminal: Terminal) -> None:
    label = terminal.start("words")
    assert json.loads(terminal.type("status", "--json", label).output)[0]["state"] is None


def test_an_unknown_job_is_an_error_that_names_where_to_look(terminal: Terminal) -> None:
    done = terminal.type("status", "4711")
    assert done.exit_code == 1
    assert "Slurm does not know job 4711" in done.output
    assert "sacct" in done.output


@pytest.mark.parametrize("words", [["status", "4711"], ["nodes", "n99"], ["status", "abc"]])
def test_an_error_is_words_beside_the_output_and_no_half_json(
    terminal: Terminal, words: list[str]
) -> None:
    done = terminal.type(*words, "--json")
    assert done.exit_code in (1, 2)
    assert done.stdout == "" or json.loads(done.stdout) == []
    assert "Error: " in done.stderr


def test_what_is_known_is_whole_json_beside_the_error(terminal: Terminal) -> None:
    label = terminal.start("failover")
    done = terminal.type("status", "--json", label, "4711")
    assert (done.exit_code, [job["label"] for job in json.loads(done.stdout)]) == (1, [label])
    assert "Slurm does not know job 4711" in done.stderr


def test_an_arrays_id_shows_all_its_tasks_once(terminal: Terminal) -> None:
    tasks = [terminal.slurm.submit("failover", array=100) for _ in range(3)]
    terminal.slurm.submit("failover")
    for words in (["100"], ["100", tasks[1]]):
        told = json.loads(terminal.type("status", "--json", *words).output)
        assert [job["label"] for job in told] == tasks == ["100_0", "100_1", "100_2"]
    shown = terminal.type("status", "100").output
    assert all(task in shown for task in tasks)


@pytest.mark.parametrize(
    ("word", "tasks"),
    [
        ("100_[1-3]", [1, 2, 3]),
        ("100_[0,2-3]", [0, 2, 3]),
        ("100_[1-3%2]", [1, 2, 3]),
        ("100_[0-4:2]", [0, 2, 4]),
        ("100_[4]", [4]),
    ],
)
def test_tasks_are_named_as_squeue_prints_them(
    terminal: Terminal, word: str, tasks: list[int]
) -> None:
    for _ in range(5):
        terminal.slurm.submit("failover", array=100)
    told = json.loads(terminal.type("status", "--json", word).output)
    assert [job["label"] for job in told] == [f"100_{task}" for task in tasks]


def test_tasks_that_wait_are_known_by_the_one_record_of_all_of_them(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = frozenset(("PENDING",))
    waiting = JobFacts(100, "100", comment="failover", states=states, tasks="1,4-6")
    know(terminal, monkeypatch, waiting, JobFacts(101, "100_0", comment="failover"))
    for words in (["100_4"], ["100_[1,4-6%2]"], ["100_1", "100_6"]):
        done = terminal.type("status", "--json", *words)
        assert [job["label"] for job in json.loads(done.output)] == ["100"]
        assert done.exit_code == 0
    rows = [line.split()[0] for line in terminal.type("status").output.splitlines()]
    assert rows == ["JOBID", "100_[1,4-6]", "100_0"]
    gone = terminal.type("status", "100_[3-4]")
    assert gone.exit_code == 1
    assert "Slurm does not know job 100_3;" in gone.output


@pytest.mark.parametrize(
    ("word", "remedy"),
    [
        ("100_[0,2,...]", "write them as 100_[1,4-6], or 100 for all of the array"),
        ("100_[5-3]", "write them as 100_[1,4-6], or 100 for all of the array"),
        ("100_[a]", "write them as 100_[1,4-6], or 100 for all of the array"),
        ("100_[0-999999999]", "too many tasks: write 100 for all of the array"),
        ("100_[1]2", "is no job: write its number"),
    ],
)
def test_tasks_that_can_not_be_named_are_refused_with_what_to_write(
    terminal: Terminal, word: str, remedy: str
) -> None:
    for command in ("status", "history"):
        done = terminal.type(command, word)
        assert done.exit_code == 2
        assert remedy in " ".join(done.output.split())


def test_a_log_is_one_tasks(terminal: Terminal) -> None:
    done = terminal.type("logs", "100_[1-3]")
    assert done.exit_code == 2
    assert "write it as 4711_2" in " ".join(done.output.split())


def test_known_jobs_are_shown_beside_an_unknown_one(terminal: Terminal) -> None:
    label = terminal.start("failover")
    done = terminal.type("status", label, "4711")
    assert done.exit_code == 1
    assert "Running" in done.output
    assert "Slurm does not know job 4711; look for older jobs with 'sacct" in done.output
    assert label not in done.output.split("Slurm does not know")[1]


@pytest.mark.parametrize("command", ["status", "logs"])
@pytest.mark.parametrize("word", ["abc", "-", "4711.0", "0", "1,2", "12+", "+1"])
def test_what_is_no_job_is_refused_with_what_to_write(
    terminal: Terminal, command: str, word: str
) -> None:
    done = terminal.type(command, word)
    assert done.exit_code == 2
    assert f"'{word}' is no job: write its number, as 4711" in done.output


def test_a_component_of_a_heterogeneous_job_stands_for_its_leader(terminal: Terminal) -> None:
    label = terminal.start("failover")
    told = json.loads(terminal.type("status", "--json", f"{label}+1", f"{label}+0").output)
    assert [job["label"] for job in told] == [label]


def test_a_later_components_own_id_stands_for_its_leader(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [
        JobFacts(12, "12", comment="failover", nodes="n1", components=(12, 13)),
        JobFacts(13, "12", nodes="n2", components=(12, 13)),
    ]
    know(terminal, monkeypatch, *parts)
    for words in (["13"], ["12"], []):
        told = json.loads(terminal.type("status", "--json", *words).output)
        assert [(job["job_id"], job["nodes"]) for job in told] == [(12, ["n1", "n2"])]


def test_a_flag_in_a_later_component_is_told_where_it_belongs(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [
        JobFacts(12, "12", comment="words", components=(12, 13)),
        JobFacts(13, "12", comment="failover", components=(12, 13)),
    ]
    know(terminal, monkeypatch, *parts)
    why = "ask in the first component of a heterogeneous job"
    for words in ([], ["12"], ["13"]):
        told = json.loads(terminal.type("status", "--json", *words).output)
        assert [(job["job_id"], job["state"], job["because"]) for job in told] == [(12, None, why)]
    know(terminal, monkeypatch, replace(parts[0], comment="failover", batch=True), parts[1])
    told = json.loads(terminal.type("status", "--json").output)
    assert [(job["state"], job["because"]) for job in told] == [("armed", None)]


def test_jobs_are_sorted_by_their_numbers_and_their_tasks(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = {11: "11_10", 16: "11_2", 14: "14", 9: "9", 17: "11_0"}
    jobs = [JobFacts(key, label, comment="failover") for key, label in labels.items()]
    know(terminal, monkeypatch, *jobs)
    told = json.loads(terminal.type("status", "--json").output)
    assert [job["label"] for job in told] == ["9", "11_0", "11_2", "11_10", "14"]


def test_a_job_without_a_cause_has_a_dash_for_it(terminal: Terminal) -> None:
    terminal.start("failover")
    assert terminal.type("status").output.splitlines()[1].split()[-2:] == ["-", "-"]


def test_a_pipe_gets_whole_lines_unless_columns_gives_a_width(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = terminal.fail_over()
    for columns, fits in (("60", True), ("", False)):
        monkeypatch.setenv("COLUMNS", columns)
        lines = terminal.type("status", label).output.splitlines()
        assert (max(map(len, lines)) <= 90) is fits


def test_no_command_is_cut_short_in_the_help(terminal: Terminal) -> None:
    assert "..." not in terminal.type("--help").output.split("Commands:")[1]


def test_bad_settings_are_an_error_of_every_command(terminal: Terminal) -> None:
    terminal.settings.write_text("[failover]\nmode = 'maybe'\n")
    for command in ("status", "nodes", "reconcile"):
        done = terminal.type(command)
        assert done.exit_code == 1
        assert f"{terminal.settings}: line 2: [failover] mode: must be one of" in done.output
        assert "Traceback" not in done.output


def test_nodes_shows_what_is_known_against_them(terminal: Terminal) -> None:
    label = terminal.fail_over()
    told = json.loads(terminal.type("nodes", "--json").output)
    assert [node["node"] for node in told] == ["n1"]
    assert told[0]["drained_by_us"] is True
    assert told[0]["evidence"][0]["job_id"] == int(label)
    assert "n1" in terminal.type("nodes").output


def test_nodes_and_breaker_name_the_same_jobs_that_a_drain_hit(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "connect", lambda *_: terminal.slurm)
    now = time.time()
    note = FaultNote("n1", now, "xid-79", "Xid 79", attempts=((4712, 6), (4711, 5), (4711, 9)))
    terminal.slurm.update_node("n1", NodeChange(extra=write_notes("", [note], now)))
    terminal.slurm.drain("n1", "slurm-failover: Xid 79")
    shown = terminal.type("nodes").output.splitlines()[1].split()
    assert shown[3] == "4711,4712"
    told = json.loads(terminal.type("nodes", "--json").output)
    assert told[0]["faults"][0]["jobs"] == [4711, 4712]
    assert "4711,4712 drained" in terminal.type("breaker", "status").output


@pytest.mark.parametrize(
    ("reason", "needs"),
    [
        ("slurm-failover: Xid 79 on GPU 0000:3b:00; reboot needed (job 7)", "reboot"),
        ("slurm-failover: Xid 64 on GPU 0000:3b:00", "repair"),
        ("bad fan; reboot needed", None),
    ],
)
def test_json_tells_of_a_drained_node_whether_it_waits_for_a_reboot_or_a_repair(
    terminal: Terminal, reason: str, needs: str | None
) -> None:
    def told() -> str | None:
        [node] = json.loads(terminal.type("nodes", "--json", "n1").output)
        return None if node["needs"] is None else str(node["needs"])

    assert told() is None
    terminal.slurm.drain("n1", reason)
    assert told() == needs
    assert reason in terminal.type("nodes", "n1").output
    terminal.slurm.resume("n1")
    assert told() is None


def test_a_node_that_is_back_in_service_says_that_its_fault_is_past(terminal: Terminal) -> None:
    terminal.fail_over()
    note = FaultNote("n1", 1.0, "xid-79", "Xid 79 on GPU 0000:3b:00")
    extra = terminal.slurm.peek_node("n1").extra
    terminal.slurm.update_node("n1", NodeChange(extra=write_notes(extra, [note], 1.0)))
    assert "(resumed)" not in terminal.type("nodes").output
    terminal.slurm.resume("n1")
    assert terminal.type("nodes").output.splitlines()[1].endswith(f"{note.because} (resumed)")
    waits = replace(note, waits=True)
    terminal.slurm.update_node("n1", NodeChange(extra=write_notes(extra, [waits], 1.0)))
    assert "(resumed)" not in terminal.type("nodes").output


def test_a_node_that_was_judged_in_observe_mode_was_never_drained_nor_resumed(
    terminal: Terminal,
) -> None:
    note = FaultNote("n1", time.time(), "xid-79", "Xid 79", observed=True)
    terminal.slurm.update_node("n1", NodeChange(extra=write_notes("", [note], note.time)))
    words = "would have been drained (observe mode): Xid 79"
    for mode in ("observe", "act"):
        terminal.set_mode(mode)
        assert terminal.type("nodes").output.splitlines()[-1].endswith(words)
    terminal.slurm.drain("n1", "slurm-failover: Xid 48")
    terminal.slurm.resume("n1")
    later = replace(note, time=note.time + 60, because="Xid 48", observed=False)
    extra = write_notes("", [note, later], note.time)
    terminal.slurm.update_node("n1", NodeChange(extra=extra))
    assert terminal.type("nodes").output.splitlines()[-1].endswith("Xid 48 (resumed)")


def test_nodes_of_a_healthy_cluster_says_so_and_asked_for_shows_them(terminal: Terminal) -> None:
    assert "Nothing is known against any node" in terminal.type("nodes").output
    told = json.loads(terminal.type("nodes", "--json", "n[2-3]").output)
    assert [node["node"] for node in told] == ["n2", "n3"]


FIRST_RECORD = (
    '{"slurm-failover":{"v":1,"state":"armed","retries":0,"max":2,"option":true,'
    '"attempt":[1,"",0,0,"",""]}}'
)
"""What job_submit.lua writes."""


@pytest.mark.parametrize(("comment", "off"), [("failover", False), ("run 7", True), ("", True)])
def test_a_job_whose_owner_took_the_wish_back_is_shown_without_failover(
    terminal: Terminal, comment: str, off: bool
) -> None:
    label = terminal.slurm.submit("failover")
    terminal.slurm.schedule()
    job = terminal.slurm.peek(label)
    attempt = Attempt(1, "n1", job.start)
    job.admin_comment = write_record("", Record(max_retries=3, attempt=attempt))
    job.comment = comment
    told = json.loads(terminal.type("status", label, "--json").output)
    [shown] = told["jobs"] if isinstance(told, dict) else told
    assert (shown["state"] is None) is off
    assert ("does not ask for it any more" in terminal.type("status", label).output) is off


def test_a_record_in_a_comment_is_not_shown(terminal: Terminal) -> None:
    forged = Record(State.MAXRETRIESEXCEEDED, retries=3, max_retries=3, because="trust me")
    label = terminal.slurm.submit(write_record("", forged))
    assert "No job has failover on." in terminal.type("status").output.splitlines()[-1:]
    assert "trust me" not in terminal.type("status", label).output


def hold_unrecorded(terminal: Terminal, comment: str = "failover", record: str = "") -> str:
    """A job whose start and end no hook has recorded, requeued and held."""
    label = terminal.slurm.submit(comment)
    terminal.slurm.peek(label).admin_comment = record
    terminal.slurm.schedule()
    terminal.slurm.requeue_and_hold(label)
    terminal.slurm.end_epilog(label, "n1")
    terminal.slurm.end_hook(label)
    return label


@pytest.mark.parametrize(
    ("comment", "record", "limit"),
    [
        ("failover", "", 3),
        ("failover", FIRST_RECORD, 2),
        ("", FIRST_RECORD, 2),
        ("failover [slurm-failover: off: the partition is spot]", "", 3),
    ],
    ids=["comment", "both", "option", "refused once"],
)
def test_a_job_that_its_node_stopped_is_taken_up_wherever_its_wish_stands(
    terminal: Terminal, comment: str, record: str, limit: int
) -> None:
    label = hold_unrecorded(terminal, comment, record)
    now = time.time()
    word = Evidence(
        "n1", int(label), now - 60, JobCause.HARDWARE, "Xid 79", now - 60, requeued=True
    )
    extra = write_evidence("", "n1", [word], now)
    terminal.slurm.update_node("n1", NodeChange(extra=extra, drain="slurm-failover: Xid 79"))
    assert terminal.type("reconcile").exit_code == 0
    told = read_record(terminal.slurm.job(label).admin_comment)
    assert told is not None
    assert (told.state, told.retries, told.max_retries) == (State.FAILOVERINPROGRESS, 1, limit)
    assert not terminal.slurm.job(label).held


def test_where_slurm_shows_no_nodes_status_tells_of_jobs_and_not_what_nodes_would_tell(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise NotPermitted("scontrol: slurm_load_node error: Access/permission denied")

    label = hold_unrecorded(terminal)
    monkeypatch.setattr(terminal.slurm, "nodes", refuse)
    told = terminal.type("status", label)
    assert told.exit_code == 0
    assert "no start of it is recorded: reconcile takes it up if its node did that" in told.output
    assert "without what nodes tell, also of the circuit breaker" in told.output
    assert "scontrol release" not in told.output
    assert label in terminal.type("status").output


@pytest.mark.parametrize(
    ("restarts", "ages", "by_node"),
    [
        (1, [60.0], True),
        (2, [60.0, 9000.0], True),
        (1, [], False),
        (1, [3 * 86400.0], False),
        (2, [60.0], False),
    ],
    ids=["stopped", "twice", "no word", "an earlier job of that number", "once by another"],
)
def test_a_job_that_is_held_and_of_which_nothing_is_recorded_can_be_released_unless_by_its_node(
    terminal: Terminal, restarts: int, ages: list[float], by_node: bool
) -> None:
    label = hold_unrecorded(terminal)
    terminal.slurm.peek(label).restarts = restarts
    now, job_id = time.time(), int(label)
    words = [
        Evidence("n1", job_id, now - age, JobCause.HARDWARE, "Xid 79", now - age, requeued=True)
        for age in ages
    ]
    extra = write_evidence("", "n1", words, min([now, *(word.time for word in words)]))
    terminal.slurm.update_node("n1", NodeChange(extra=extra))
    shown = terminal.type("status", label).output
    taken_up = "held by its node, and no start of it is recorded: reconcile takes it up"
    assert (taken_up in shown) is by_node
    assert ("requeued and held, and left as it is: no start of it is recorded" in shown) is (
        not by_node
    )
    assert (f"Held. Start it again: scontrol release {label}" in shown) is not by_node
    (job,) = terminal.slurm.jobs([label])
    stop = find_stop_without_record(job, None, terminal.slurm.nodes(), now)
    assert (stop is not None) is by_node


def test_status_and_nodes_change_nothing(terminal: Terminal) -> None:
    label = terminal.fail_over()
    terminal.slurm.calls.clear()
    for words in (["status"], ["status", label], ["nodes"], ["nodes", "n1"]):
        assert terminal.type(*words).exit_code == 0
    assert set(terminal.slurm.calls) <= {"jobs", "nodes"}


def test_reconcile_is_not_done_by_root_where_that_is_not_slurm_user(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    terminal.slurm.parameters["SlurmUser"] = "slurm(64030)"
    done = terminal.type("reconcile")
    assert done.exit_code == 1
    assert "as that, for example with `sudo -u slurm slurm-failover reconcile`" in done.output


def test_reconcile_finishes_what_was_interrupted_and_counts_it(terminal: Terminal) -> None:
    label = terminal.start("failover")
    job = terminal.slurm.peek(label)
    terminal.slurm.finish(label, code=1)
    terminal.house.end_hook(label, job.start, "n1")
    terminal.slurm.end_epilog(label, "n1")
    terminal.slurm.end_hook(label)
    for note in terminal.house.notes.read():
        terminal.house.notes.remove(note)
    done = terminal.type("reconcile")
    assert done.exit_code == 0
    assert "1 job had something left to do" in done.output
    assert "internalerror" in job.comment
    assert "0 jobs had something left to do" in terminal.type("reconcile").output


def test_a_job_that_completes_for_ever_keeps_reconcile_from_the_others_for_minutes_only(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = terminal.start("failover")
    job = terminal.slurm.peek(label)
    terminal.slurm.finish(label, code=1)
    terminal.house.end_hook(label, job.start, "n1")
    terminal.house.node_epilog(label, job.start, "n1", FINDINGS["hardware"])
    clock = Mock(time=time.time, monotonic=Mock(return_value=1000.0))

    def pause(seconds: float) -> None:
        clock.monotonic.return_value += seconds

    monkeypatch.setattr(decider, "time", clock)
    monkeypatch.setattr(Decider.run, "__defaults__", (pause,))
    assert "1 job had something left to do" in terminal.type("reconcile").output
    assert clock.monotonic() - 1000.0 < LATE / 2
    assert "1 job had something left to do" in terminal.type("reconcile").output

    terminal.slurm.end_epilog(label, "n1")
    terminal.slurm.end_hook(label)
    terminal.type("reconcile")
    assert terminal.house.notes.read() == []
    assert read_record(job.admin_comment).step is Step.PLACED


def failed_at(end: float) -> JobFacts:
    """A flagged job of which no hook of ours ever heard."""
    states = frozenset({"FAILED"})
    return JobFacts(7, "7", comment="failover", states=states, nodes="n1", start=end - 9, end=end)


def test_reconcile_brings_back_no_job_that_failed_before_we_came(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(terminal, monkeypatch, failed_at(time.time() - 60))
    assert terminal.type("reconcile").output == CALM
    know(terminal, monkeypatch, failed_at(time.time() + 1))
    assert "job 7: its epilog_slurmctld was missed" in terminal.type("reconcile").output


def test_reconcile_brings_back_no_job_that_failed_while_we_only_observed(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts = terminal.settings.read_text()
    terminal.type("reconcile")
    know(terminal, monkeypatch, failed_at(time.time()))
    terminal.settings.write_text(acts + '[failover]\nmode = "observe"\n')
    assert terminal.type("reconcile").output == CALM
    terminal.settings.write_text(acts)
    assert terminal.type("reconcile").output == CALM


def test_a_controller_on_standby_takes_up_after_a_takeover_what_failed_since_it_came(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "Standby", lambda _: Mock(is_known=lambda: True))
    assert "another controller acts" in terminal.type("reconcile").output
    monkeypatch.setattr(reconcile, "Standby", lambda _: Mock(is_known=lambda: False))
    know(terminal, monkeypatch, failed_at(time.time() + 1))
    assert "job 7: its epilog_slurmctld was missed" in terminal.type("reconcile").output


def test_a_job_that_slurms_own_requeue_holds_is_explained(terminal: Terminal) -> None:
    label = terminal.slurm.submit("")
    terminal.slurm.schedule()
    terminal.slurm.finish(label, code=3)
    terminal.slurm.requeue_and_hold(label)
    assert json.loads(terminal.type("status", "--json", label).output)[0]["because"] is None
    terminal.slurm.expedited.add(label)
    told = json.loads(terminal.type("status", "--json", label).output)[0]["because"]
    assert told.startswith("Slurm holds the job: its program failed, and no Epilog did")
    assert f"scontrol release {label}" in told


def test_a_hold_of_ours_is_never_taken_for_slurms(terminal: Terminal) -> None:
    label = terminal.deny()
    terminal.slurm.expedited.add(label)
    view = json.loads(terminal.type("status", "--json", label).output)[0]
    assert (view["state"], "exit code 3" in view["because"]) == ("internalerror", True)


def test_a_component_that_completes_for_ever_keeps_no_failed_job_from_its_decision(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = time.time() + 10
    record = Record(max_retries=3, attempt=Attempt(1, "n1", 1000.0))
    leader = JobFacts(
        100,
        "100",
        states=frozenset({"FAILED"}),
        comment="failover",
        admin_comment=write_record("", record),
        start=1000.0,
        end=ended,
        nodes="n1",
        exit_code=1,
        components=(100, 101),
    )
    led = replace(leader, job_id=101, states=frozenset({"FAILED", "COMPLETING"}), nodes="n2")
    know(terminal, monkeypatch, leader, led)
    held: list[str] = []
    monkeypatch.setattr(terminal.slurm, "requeue_and_hold", held.append)
    now = [ended]
    clock = Mock(time=lambda: now[0], monotonic=lambda: now[0])

    def pause(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(decider, "time", clock)
    monkeypatch.setattr(endings, "time", clock)
    monkeypatch.setattr(Decider.run, "__defaults__", (pause,))
    for _ in range(4):
        terminal.type("reconcile")
        now[0] += 60
    assert held


@pytest.mark.parametrize("recorded", [True, False])
def test_a_job_that_its_node_has_just_stopped_is_not_its_owners_to_release(
    terminal: Terminal, recorded: bool
) -> None:
    label = terminal.slurm.submit("failover")
    terminal.slurm.schedule()
    if recorded:
        terminal.house.start_hook(label)
    job = terminal.slurm.peek(label)
    now = time.time()
    entry = Evidence("n1", job.job_id, job.start, HARDWARE, "Xid 79", now, requeued=True)
    node = terminal.slurm.peek_node("n1")
    node.extra = write_evidence(node.extra, "n1", [entry], now)
    terminal.slurm.requeue_and_hold(label)
    shown = terminal.type("status", label).output
    assert "Start it again" not in shown
