"""The breaker on the controller: failovers wait, are lost by nobody, and every change is told."""

from __future__ import annotations

import errno
import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from failover_world import House
from fake_slurmctld import FakeSlurm
from test_decider import Story

from slurm_failover import files
from slurm_failover.breaker import FaultNote, Word, read_word, write_notes, write_word
from slurm_failover.cli import main
from slurm_failover.commands import breaker as breaker_command
from slurm_failover.commands import nodes as nodes_command
from slurm_failover.commands import status as status_command
from slurm_failover.controller import breaker as controller_breaker
from slurm_failover.controller.breaker import Guard
from slurm_failover.errors import SlurmError
from slurm_failover.happening import Happening, Kind
from slurm_failover.model import Limits
from slurm_failover.record import State, Step
from slurm_failover.settings.protection import BreakerSettings
from slurm_failover.slurm.client import NodeChange

SITE = BreakerSettings()


class Held(Story):
    """A story with a guard before every failover."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, Limits(2))
        self.memory = folder / "breaker.json"
        self.told: list[Happening] = []

    def guard(self) -> Guard:
        return Guard(
            self.slurm,
            SITE,
            memory=str(self.memory),
            say=self.house.story.append,
            report=self.told.append,
        )

    def decide(self) -> None:
        with self.house.process() as slurm:
            decider = self.house.make_decider(
                slurm, guard=self.guard().against, report=self.told.append
            )
            decider.run(lambda _: None)

    def say(self, state: str) -> None:
        word = write_word("", Word(state, float(self.slurm.clock), "root", "the cooling fails"))
        self.slurm.update_node("n4", NodeChange(comment=word))

    def fail_under_open(self) -> str:
        label = self.start()
        self.say("open")
        self.fail(label)
        self.complete(label)
        self.decide()
        return label

    def kinds(self) -> list[Kind]:
        return [one.kind for one in self.told]


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Held:
    found = Held(tmp_path)
    monkeypatch.setattr(controller_breaker.time, "time", lambda: float(found.slurm.clock))
    return found


def test_a_failover_waits_held_and_says_so(story: Held) -> None:
    label = story.fail_under_open()
    record = story.record(label)
    assert story.slurm.peek(label).hold
    assert (record.state, record.step, record.retries) == (State.FAILOVERINPROGRESS, Step.HELD, 0)
    assert record.because == (
        "the circuit breaker is open (root opened it: the cooling fails); decided when it closes"
    )
    assert story.slurm.peek(label).excluded == ""
    assert story.kinds() == [Kind.BREAKER_OPEN, Kind.PUT_OFF]


def test_it_is_said_once_however_often_it_is_looked_at(story: Held) -> None:
    story.fail_under_open()
    story.house.story.clear()
    story.house.reconcile = lambda: None  # type: ignore[method-assign]
    before = len(story.told)
    story.slurm.calls.clear()
    take_up(story)
    assert "update_job" not in story.slurm.calls
    assert len(story.told) == before


def take_up(story: Held) -> None:
    """reconcile, with the guard."""
    from slurm_failover.controller.work import take_up as take_up_all

    with story.house.process() as slurm:
        take_up_all(slurm, story.house.notes, story.house.limits, story.house.story.append)
    story.decide()


def test_when_it_closes_the_job_is_decided_and_counted_once(story: Held) -> None:
    label = story.fail_under_open()
    story.slurm.clock += 10
    story.say("closed")
    take_up(story)
    record = story.record(label)
    assert (record.step, record.retries, record.excluded) == (Step.PLACED, 1, "n1")
    assert story.slurm.peek(label).hold == ""
    assert story.kinds()[-2:] == [Kind.BREAKER_CLOSED, Kind.FAILOVER]
    take_up(story)
    assert story.record(label).retries == 1


def test_a_denial_does_not_wait(story: Held) -> None:
    label = story.start()
    story.say("open")
    story.fail(label, "internal")
    story.complete(label)
    story.decide()
    assert story.record(label).state is State.INTERNALERROR


def test_one_look_serves_all_jobs_of_a_moment(story: Held) -> None:
    labels = [story.start() for _ in range(3)]
    for label in labels:
        story.fail(label)
        story.complete(label)
    story.slurm.calls.clear()
    story.decide()
    assert all(story.record(label).retries == 1 for label in labels)
    assert story.slurm.calls.count("nodes") == 2


def test_a_breaker_that_a_nodes_fault_opened_is_told_by_that_node_alone(story: Held) -> None:
    now = float(story.slurm.clock)
    for number in range(1, 5):
        note = FaultNote(f"n{number}", now - 5 + number, f"code-{number}", "because")
        extra = write_notes("", [note], now)
        story.slurm.update_node(note.node, NodeChange(extra=extra))
    assert story.guard().look().is_open
    assert story.told == []
    assert any("OPEN for the cluster: faults on 4 of 4 nodes" in x for x in story.house.story)


def test_a_breaker_that_lost_nodes_opened_is_told_by_the_controller(story: Held) -> None:
    for number in range(1, 5):
        story.slurm.lose_node(f"n{number}")
        story.slurm.peek_node(f"n{number}").reason_time = story.slurm.clock
    assert story.guard().look().is_open
    story.guard().look()
    assert story.kinds() == [Kind.BREAKER_OPEN]


def test_the_end_of_its_time_is_told(story: Held) -> None:
    word = Word("open", float(story.slurm.clock), "root", "", story.slurm.clock + 60.0)
    story.slurm.update_node("n4", NodeChange(comment=write_word("", word)))
    story.guard().look()
    story.slurm.clock += 61
    story.guard().look()
    assert [(one.kind, one.because) for one in story.told][-1] == (
        Kind.BREAKER_CLOSED,
        "its time is over",
    )


@pytest.mark.parametrize("kept", ["", "[1]", "{", "null"])
def test_a_damaged_memory_is_none(story: Held, kept: str) -> None:
    story.memory.write_text(kept)
    story.say("open")
    story.guard().look()
    assert json.loads(story.memory.read_text()).keys() == {"0"}


def test_how_long_a_restart_took_is_told(story: Held) -> None:
    label = story.start()
    story.fail(label)
    story.complete(label)
    story.decide()
    end = story.record(label).attempt.end
    assert story.slurm.schedule() == [label]
    house: House = story.house
    with house.process() as slurm:
        from slurm_failover.controller.arrivals import Arrival
        from slurm_failover.controller.arrivals import Kind as Hook
        from slurm_failover.controller.endings import record_start

        arrival = Arrival(Hook.START, label)
        record_start(
            slurm, Limits(), slurm.job(label), arrival, say=print, report=story.told.append
        )
    resumed = story.told[-1]
    assert resumed.kind is Kind.RESUMED
    assert resumed.seconds == story.slurm.peek(label).start - end


# --- the command ----------------------------------------------------------------------------------


class Desk:
    """An admin before a small cluster."""

    def __init__(self, folder: Path) -> None:
        self.slurm = FakeSlurm()
        self.settings = folder / "settings.toml"
        self.settings.write_text(f'[state]\ndirectory = "{folder}"\n')

    def type(self, *words: str) -> Result:
        return CliRunner().invoke(main, ["--settings", str(self.settings), *words])


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    found = Desk(tmp_path)
    for module in (breaker_command, nodes_command, status_command):
        for name in ("connect", "connect_for_many"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, lambda *_: found.slurm)
    monkeypatch.setenv("COLUMNS", "250")
    return found


def test_an_open_breaker_is_the_first_line_and_the_exit_status_of_every_view(desk: Desk) -> None:
    assert desk.type("breaker", "open", "the", "cooling").exit_code == 0
    for words in (["status"], ["nodes"], ["breaker", "status"]):
        shown = desk.type(*words)
        assert shown.exit_code == 3
        assert shown.output.startswith("CIRCUIT BREAKER OPEN since ")
        assert "root opened it: the cooling; nothing is drained or moved until" in shown.output
        as_json = desk.type(*words, "--json")
        assert as_json.exit_code == 3
        json.loads(as_json.stdout)
    assert desk.type("breaker", "close").exit_code == 0
    for words in (["status"], ["nodes"], ["breaker", "status"]):
        assert desk.type(*words).exit_code == 0


def test_the_word_stays_on_one_node(desk: Desk) -> None:
    desk.slurm.update_node("n1", NodeChange(comment="rack 7"))
    desk.type("breaker", "open")
    desk.type("breaker", "close")
    said = read_word(desk.slurm.nodes())
    assert said is not None
    assert (said[0].state, said[1]) == ("closed", "n1")
    assert desk.slurm.peek_node("n1").comment.startswith("rack 7 ")
    assert [desk.slurm.peek_node(f"n{number}").comment for number in (2, 3, 4)] == [""] * 3


def test_closing_says_which_nodes_drain_now(desk: Desk) -> None:
    note = FaultNote("n2", 1.0, "xid-79", "Xid 79 on GPU 0000:3b:00", waits=True)
    desk.slurm.update_node("n2", NodeChange(extra=write_notes("", [note], 1.0)))
    desk.type("breaker", "open")
    shown = desk.type("breaker", "close").stdout
    assert "n2: to be drained at its next look: Xid 79 on GPU 0000:3b:00" in shown
    assert "not drained yet: Xid 79" in desk.type("nodes").output


def test_each_fault_that_counts_says_what_became_of_its_drain(desk: Desk) -> None:
    now = time.time()
    note = FaultNote("n1", now, "xid-79", "Xid 79")

    def told(note: FaultNote) -> str:
        desk.slurm.update_node("n1", NodeChange(extra=write_notes("", [note], now)))
        [as_json] = json.loads(desk.type("breaker", "status", "--json").stdout)["faults"]
        row = desk.type("breaker", "status").output.splitlines()[-1].split()
        assert row[3] == as_json["drain"]
        return str(as_json["drain"])

    assert told(replace(note, waits=True)) == "waits"
    assert told(replace(note, observed=True)) == "observed"
    assert told(replace(note, observed=True, waits=True)) == "observed"
    desk.slurm.drain("n1", "slurm-failover: Xid 79")
    assert told(note) == "drained"
    desk.slurm.resume("n1")
    assert told(note) == "over"
    desk.slurm.update_node("n1", NodeChange(extra=write_notes("", [], now)))
    desk.slurm.clock = int(now)
    desk.slurm.lose_node("n1")
    assert " - lost Slurm lost the node" in re.sub(" +", " ", desk.type("breaker", "status").output)


def test_closing_in_observe_mode_drains_no_node_and_says_so(desk: Desk) -> None:
    note = FaultNote("n2", 1.0, "xid-79", "Xid 79 on GPU 0000:3b:00", waits=True, observed=True)
    desk.slurm.update_node("n2", NodeChange(extra=write_notes("", [note], 1.0)))
    with desk.settings.open("a") as settings:
        settings.write('[failover]\nmode = "observe"\n')
    desk.type("breaker", "open")
    assert "would have been drained (observe mode): Xid 79" in desk.type("nodes").output
    shown = desk.type("breaker", "close").stdout
    assert "n2: would be drained at its next look: Xid 79 on GPU 0000:3b:00" in shown


def test_closing_says_nothing_of_an_open_breaker(desk: Desk) -> None:
    desk.type("breaker", "open", "the", "cooling")
    done = desk.type("breaker", "close")
    assert "OPEN" not in done.output
    assert "The circuit breaker is closed." in done.output


def test_who_may_not_write_is_told_who_may(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise SlurmError("slurm_update error: Invalid user id")

    monkeypatch.setattr(desk.slurm, "update_node", refuse)
    refused = desk.type("breaker", "close")
    assert refused.exit_code == 1
    assert "Invalid user id; run this as root or SlurmUser" in refused.output


def test_observe_mode_is_said_first(desk: Desk) -> None:
    with desk.settings.open("a") as file:
        file.write('[failover]\nmode = "observe"\n')
    shown = desk.type("status")
    assert shown.output.startswith("OBSERVE MODE: nothing is drained, held or moved.\n")
    assert shown.exit_code == 0


def test_where_the_disk_is_full_a_job_waits_under_an_open_breaker_and_that_is_told_once(
    story: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, text: str) -> None:
        if path == str(story.memory):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, text)

    write = files.write_whole
    monkeypatch.setattr(files, "write_whole", refuse)
    monkeypatch.setattr(controller_breaker, "GOOD_FOR", 0.0)
    label = story.fail_under_open()
    assert story.record(label).because.startswith("the circuit breaker is open")
    told, guard = len(story.told), story.guard()
    for _ in range(3):
        assert guard.against(story.slurm.job(label))
    assert len(story.told) == told + 1
