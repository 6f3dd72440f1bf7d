"""The breaker on a node: a fault that may not be acted on now is acted on when it may."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
from fake_slurmctld import FakeSlurm
from test_checks import LOST, Node

from slurm_failover.breaker import (
    FaultNote,
    Word,
    read_breaker,
    read_notes,
    write_notes,
    write_word,
)
from slurm_failover.model import NodeFacts
from slurm_failover.node.breaker import LONGEST_TURN, Gate, read_driver
from slurm_failover.settings.protection import BreakerSettings
from slurm_failover.slurm.client import NodeChange

SITE = BreakerSettings(pace=0)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def break_others(slurm: FakeSlurm, *names: str, now: float, code: str = "xid-48") -> None:
    for name in names:
        note = FaultNote(name, now, code, "because")
        slurm.update_node(name, NodeChange(extra=write_notes("", [note], now)))


def say_word(node: Node, state: str) -> None:
    word = Word(state, read_notes("n1", node.slurm.peek_node("n1").extra)[-1].time + 1, "root")
    node.slurm.update_node("n3", NodeChange(comment=write_word("", word)))


def waits(node: Node) -> bool:
    return any(note.waits for note in read_notes("n1", node.slurm.peek_node("n1").extra))


def open_breaker(node: Node) -> None:
    node.slurm.update_node(
        "n3", NodeChange(comment=write_word("", Word("open", 1.0, "root", "the cooling fails")))
    )


def test_with_an_open_breaker_no_node_is_drained_and_no_job_stopped(node: Node) -> None:
    label = node.run_job()
    open_breaker(node)
    node.record(LOST)
    assert not node.checks().check_health()
    assert node.reason == ""
    assert node.slurm.job(label).states == {"RUNNING"}
    assert any("root opened it: the cooling fails" in line for line in node.said)
    assert waits(node)


def test_when_it_closes_the_next_look_drains_and_moves(node: Node) -> None:
    label = node.run_job()
    open_breaker(node)
    node.record(LOST)
    node.checks().check_health()
    say_word(node, "closed")
    assert node.checks().check_health()
    assert node.reason.startswith("slurm-failover: Xid 79")
    assert node.slurm.job(label).held_by_requeue
    assert not waits(node)
    assert not node.checks().check_health()


def test_a_job_that_ends_under_an_open_breaker_has_its_evidence(node: Node) -> None:
    label = node.run_job()
    open_breaker(node)
    node.record(LOST)
    assert not node.end_job(label)
    assert node.reason == ""
    assert [cause.value for cause in node.causes()] == ["hardware"]


def test_a_prolog_lets_a_job_start_under_an_open_breaker(node: Node) -> None:
    node.run_job()
    open_breaker(node)
    node.record(LOST)
    assert not node.checks().check_job_start()
    assert node.reason == ""


def test_a_node_that_was_repaired_meanwhile_is_not_drained(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_breaker(node)
    node.record(LOST)
    node.checks().check_health()
    node.log.write_text("")
    monkeypatch.setattr("slurm_failover.sources.kmsg.boot_id", lambda *_: "another-boot")
    say_word(node, "closed")
    assert not node.checks().check_health()
    assert node.reason == ""


# --- the gate -------------------------------------------------------------------------------------


class Crowd:
    """Nodes that find a fault one after the other."""

    def __init__(self, size: int) -> None:
        self.slurm = FakeSlurm(f"n[1-{size}]")

    def ask(self, name: str, site: BreakerSettings = SITE) -> str:
        gate = Gate(self.slurm, name, site, self._no_pause)
        note = FaultNote(name, float(self.slurm.clock), f"code-{name}", "because")
        return gate.ask(self.facts(name), note).waits

    def facts(self, name: str) -> NodeFacts:
        return self.slurm.nodes(name)[0]

    @staticmethod
    def _no_pause(seconds: float) -> None:
        raise AssertionError(f"waited {seconds} s")


def test_of_many_nodes_at_once_no_more_than_the_share_may_drain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crowd = Crowd(40)
    monkeypatch.setattr("slurm_failover.node.breaker.time.time", lambda: crowd.slurm.clock + 1.0)
    refused = [crowd.ask(f"n{i}") for i in range(1, 9)]
    assert [bool(words) for words in refused] == [False] * 4 + [True] * 4
    assert "faults on 5 of 40 nodes" in refused[4]


def test_of_nodes_that_look_in_the_same_moment_none_overlooks_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crowd = Crowd(40)
    monkeypatch.setattr("slurm_failover.node.breaker.time.time", lambda: crowd.slurm.clock + 1.0)
    together = Barrier(8, timeout=20)
    look = crowd.slurm.nodes

    def look_together(names: str = "") -> list[NodeFacts]:
        if not names:
            together.wait()
        return look(names)

    monkeypatch.setattr(crowd.slurm, "nodes", look_together)
    with ThreadPoolExecutor(8) as pool:
        refused = list(pool.map(crowd.ask, [f"n{i}" for i in range(1, 9)]))
    assert sum(not words for words in refused) <= 4


def test_the_node_that_is_one_too_many_knows_it_and_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crowd = Crowd(4)
    monkeypatch.setattr("slurm_failover.node.breaker.time.time", lambda: crowd.slurm.clock + 1.0)
    break_others(crowd.slurm, "n1", "n2", "n3", now=crowd.slurm.clock - 1)
    gate = Gate(crowd.slurm, "n4", SITE)
    note = FaultNote("n4", float(crowd.slurm.clock), "xid-79", "because")
    first = gate.ask(crowd.facts("n4"), note)
    assert first.opened is not None
    assert first.opened.opener == "n4"
    assert gate.ask(crowd.facts("n4"), note).opened is None


def test_a_fault_that_waits_costs_one_request_at_each_look() -> None:
    crowd = Crowd(4)
    crowd.slurm.update_node("n1", NodeChange(comment=write_word("", Word("open", 1.0))))
    crowd.ask("n2")
    crowd.slurm.calls.clear()
    crowd.ask("n2")
    assert crowd.slurm.calls == ["nodes", "nodes"]  # the first is the test's own


def test_a_drain_waits_for_its_turn_and_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd(400)
    now = float(crowd.slurm.clock)
    break_others(crowd.slurm, "n1", "n2", "n3", now=now - 1)
    clock = [now]
    monkeypatch.setattr("slurm_failover.node.breaker.time.time", lambda: clock[0])
    paused: list[float] = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        clock[0] += seconds
        crowd.slurm.update_node("n9", NodeChange(comment=write_word("", Word("open", now))))

    gate = Gate(crowd.slurm, "n4", BreakerSettings(pace=4), pause)
    answer = gate.ask(crowd.facts("n4"), FaultNote("n4", now, "xid-79", "because"))
    assert paused == [pytest.approx(3, abs=0.1)]
    assert "the circuit breaker is open" in answer.waits


def test_a_turn_that_is_too_far_off_is_left_to_the_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crowd = Crowd(4000)
    now = float(crowd.slurm.clock)
    monkeypatch.setattr("slurm_failover.node.breaker.time.time", lambda: now)
    break_others(crowd.slurm, *[f"n{i}" for i in range(1, 10)], now=now - 1)
    words = crowd.ask("n99", BreakerSettings(pace=round(LONGEST_TURN)))
    assert words == "other drains go first, 10 s apart"
    assert [note.waits for note in read_notes("n99", crowd.facts("n99").extra)] == [True]


def test_a_note_names_no_user(node: Node) -> None:
    node.run_job()
    node.record(LOST)
    node.checks().check_health()
    [note] = read_notes("n1", node.slurm.peek_node("n1").extra)
    assert len(note.who) == 1
    assert "alice" not in node.slurm.peek_node("n1").extra
    assert note.code == "xid-79"


def test_the_drivers_version_is_read_from_sysfs(tmp_path: Path) -> None:
    (tmp_path / "module/nvidia").mkdir(parents=True)
    (tmp_path / "module/nvidia/version").write_text("550.54.15\n")
    assert read_driver(str(tmp_path)) == "550.54.15"
    assert read_driver(str(tmp_path / "none")) == ""


def test_the_share_is_of_all_nodes() -> None:
    crowd = Crowd(60)
    break_others(crowd.slurm, *[f"n{i}" for i in range(1, 7)], now=crowd.slurm.clock)
    site = replace(SITE, same_percent=100)
    assert not read_breaker(crowd.slurm.nodes(), site, crowd.slurm.clock).is_open


# --- a site that counts no faults -----------------------------------------------------------------


def uncounted(node: Node) -> None:
    node.settings = replace(node.settings, breaker=BreakerSettings(enabled=False, pace=0))


def test_where_no_faults_are_counted_one_look_and_one_request_do_it_all(node: Node) -> None:
    uncounted(node)
    node.checks().check_health()
    label = node.run_job()
    node.slurm.finish(label, code=1)
    node.environment["SLURM_JOB_EXIT_CODE"] = "256"
    node.record(LOST)
    node.slurm.calls.clear()
    assert node.checks().check_job_end()
    assert node.slurm.calls == ["jobs_on", "nodes", "update_node"]
    (note,) = read_notes("n1", node.slurm.peek_node("n1").extra)
    assert (note.code, note.waits, node.reason[:16]) == ("xid-79", False, "slurm-failover: ")


def test_an_admins_word_counts_where_faults_do_not(node: Node) -> None:
    uncounted(node)
    label = node.run_job()
    open_breaker(node)
    node.record(LOST)
    assert not node.checks().check_health()
    assert (node.reason, node.slurm.job(label).states) == ("", {"RUNNING"})
    assert waits(node)
