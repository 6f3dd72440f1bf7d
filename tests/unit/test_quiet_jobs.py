"""A hang without a fault: what is suspected, what is not, and what is done about it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_slurmctld import FakeSlurm

from slurm_failover import evidence, files
from slurm_failover.attribution import Device
from slurm_failover.evidence import read_evidence, write_evidence
from slurm_failover.gres import GresSlot
from slurm_failover.model import Evidence, JobCause, JobFacts, Limits, NodeFacts
from slurm_failover.node import suspicion as node_suspicion
from slurm_failover.node.ledger import Ledger
from slurm_failover.node.suspicion import Suspicion
from slurm_failover.policy import Action, decide
from slurm_failover.record import Attempt, Record
from slurm_failover.settings.protection import SuspicionSettings
from slurm_failover.settings.tables import Settings, StateSettings
from slurm_failover.slurm.client import NodeChange
from slurm_failover.suspicion import (
    Quiet,
    follow_idle,
    quiet_since,
    read_quiet,
    suspect,
    write_quiet,
)
from slurm_failover.view.job import view_job

AFTER = 600


# --- what is idle ---------------------------------------------------------------------------------


def test_a_gpu_is_idle_since_it_was_first_seen_so() -> None:
    first = follow_idle({}, [("a", 0), ("b", 2), ("c", 3)], 100.0, 2)
    assert first == {"a": 100.0, "b": 100.0}
    assert follow_idle(first, [("a", 1), ("b", 90), ("c", 0)], 200.0, 2) == {
        "a": 100.0,
        "c": 200.0,
    }


def test_what_nvml_does_not_say_is_not_idle() -> None:
    assert follow_idle({"a": 1.0}, [("a", None)], 100.0, 2) == {}


@pytest.mark.parametrize(
    ("held", "since"),
    [({"a"}, 1.0), ({"a", "b"}, 5.0), ({"a", "c"}, None), (set(), None), (None, None)],
)
def test_a_job_is_quiet_when_all_its_gpus_are(held: set[str] | None, since: float | None) -> None:
    assert quiet_since(held, {"a": 1.0, "b": 5.0}) == since


def job(nodes: str = "n[1-2]", **more: Any) -> JobFacts:
    facts = JobFacts(
        7, "7", states=frozenset({"RUNNING"}), nodes=nodes, start=100.0, comment="failover"
    )
    return replace(facts, **more)


def word(name: str, since: float = 200.0, start: float = 100.0) -> NodeFacts:
    return NodeFacts(name, extra=write_quiet('{"x":1}', [Quiet(7, start, since)]))


def test_a_job_is_suspected_when_every_node_of_it_says_so() -> None:
    assert suspect(job(), [word("n1"), word("n2", 300.0), NodeFacts("n3")]) == 300.0
    assert suspect(job(), [word("n1"), NodeFacts("n2")]) is None
    assert suspect(job(), [word("n1")]) is None


def test_a_word_of_another_attempt_counts_for_nothing() -> None:
    assert suspect(job(), [word("n1"), word("n2", start=50.0)]) is None


@pytest.mark.parametrize("states", [{"PENDING"}, {"RUNNING", "COMPLETING"}, {"FAILED"}])
def test_a_job_that_does_not_run_is_not_suspected(states: set[str]) -> None:
    assert suspect(job(states=frozenset(states)), [word("n1"), word("n2")]) is None


def test_words_stand_beside_evidence_and_foreign_text() -> None:
    entry = Evidence("n1", 7, 100.0, JobCause.HARDWARE, "because", time.time())
    extra = write_quiet(write_evidence('{"x":1}', "n1", [entry], entry.time), [Quiet(7, 1.0, 2.0)])
    assert extra.startswith('{"x":1,')
    assert read_quiet(extra) == [Quiet(7, 1.0, 2.0)]
    assert len(read_evidence("n1", write_quiet(extra, []))) == 1
    assert read_quiet(write_quiet(extra, [])) == []


@pytest.mark.parametrize("items", ["1", "[1]", "[[1,2]]", '[["x",1,2]]', "[[1,1e999,2]]", "null"])
def test_a_word_that_makes_no_sense_is_none(items: str) -> None:
    assert read_quiet(f'{{"slurm-failover":{{"v":1,"quiet":{items}}}}}') == []


def test_status_says_that_a_job_is_suspected() -> None:
    view = view_job(job("n1"), Limits(), [word("n1")])
    assert view.because.startswith("suspected to hang: its GPUs are idle")


# --- a node ---------------------------------------------------------------------------------------


class Scene:
    """Node n1 with one GPU, held by a flagged job whose log was last written long ago."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, action: str = "report"
    ) -> None:
        self.slurm = FakeSlurm()
        self.said: list[str] = []
        self.written: float | None = 0.0
        self.clock = float(self.slurm.clock)
        self.uptime = 1000.0
        self.told: list[Any] = []
        self.settings = replace(
            Settings(),
            suspicion=SuspicionSettings(AFTER, action=action),
            state=StateSettings(directory=str(folder)),
        )
        (folder / "node").mkdir()
        monkeypatch.setattr(Suspicion, "_log_written", lambda *_: self.written)
        monkeypatch.setattr(Suspicion, "_slots", (GresSlot(0, None),))
        monkeypatch.setattr(node_suspicion, "reporter", lambda *_: self.told.append)
        monkeypatch.setattr(node_suspicion.time, "time", lambda: self.clock)
        monkeypatch.setattr(node_suspicion.time, "monotonic", lambda: self.uptime)
        self.monkeypatch = monkeypatch

    def run(self, comment: str = "failover") -> str:
        label = self.slurm.submit(comment)
        self.slurm.schedule()
        self.clock = float(self.slurm.clock)
        shown = self.slurm.jobs_on
        held = {"gres_detail": ("gpu:1(IDX:0)",), "allocated": ("n1",), "batch_host": "n1"}
        self.monkeypatch.setattr(
            self.slurm, "jobs_on", lambda node: [replace(one, **held) for one in shown(node)]
        )
        return label

    def look(self, busy: int | None = 0, after: float = AFTER + 1) -> None:
        """A look, so many seconds after the one before."""
        self.clock += after
        self.uptime += after
        suspicion = Suspicion(
            self.settings, "n1", lambda: self.slurm, self.said.append, (Device("a", minor=0),)
        )
        suspicion.look([("a", busy)])

    @property
    def words(self) -> list[Quiet]:
        return read_quiet(self.slurm.peek_node("n1").extra)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


def test_a_quiet_job_is_reported_once_and_runs_on(scene: Scene) -> None:
    label = scene.run()
    scene.look()
    scene.look()
    scene.look()
    assert [one.job_id for one in scene.words] == [int(label)]
    assert [str(one.kind) for one in scene.told] == ["suspicion"]
    assert scene.slurm.job(label).states == {"RUNNING"}


def test_slurm_is_not_asked_while_no_gpu_was_idle_for_long(scene: Scene) -> None:
    scene.run()
    scene.slurm.calls.clear()
    scene.look()
    scene.look(after=AFTER - 1)
    scene.look(busy=99)
    scene.look(busy=None)
    assert scene.slurm.calls == []


def test_an_idle_node_asks_seldom(scene: Scene) -> None:
    scene.look()
    scene.look()
    scene.slurm.calls.clear()
    for _ in range(10):
        scene.look(after=10)
    assert scene.slurm.calls == []


def test_a_job_that_works_again_is_suspected_no_more(scene: Scene) -> None:
    scene.run()
    scene.look()
    scene.look()
    scene.look(busy=80)
    assert scene.words == []


@pytest.mark.parametrize("written", ["now", "unknown"])
def test_a_log_that_grows_or_that_nobody_knows_is_no_suspicion(scene: Scene, written: str) -> None:
    scene.run()
    scene.look()
    scene.written = scene.clock + 300 if written == "now" else None
    scene.look(after=AFTER - 10)
    scene.look(after=20)
    assert scene.words == []
    assert scene.told == []


def test_gpus_that_were_idle_before_the_job_began_say_nothing_of_it(scene: Scene) -> None:
    scene.look()
    scene.look()
    scene.slurm.clock = int(scene.clock)
    scene.run()
    scene.look(after=AFTER - 10)
    assert scene.words == []
    scene.look(after=AFTER / 2)
    assert len(scene.words) == 1


def test_a_job_that_is_not_flagged_is_not_looked_at(scene: Scene) -> None:
    scene.run("words")
    scene.look()
    scene.look()
    assert (scene.words, scene.told) == ([], [])


def test_a_disk_that_takes_nothing_is_said_and_is_no_bug_of_ours(tmp_path: Path) -> None:
    (tmp_path / "node").touch()
    settings = Settings(
        suspicion=SuspicionSettings(after=AFTER), state=StateSettings(directory=str(tmp_path))
    )
    said: list[str] = []
    node_suspicion.look_for_hangs(settings, "n1", Ledger(), [("a", 0)], said.append)
    assert len(said) == 1
    assert said[0].startswith("no job is suspected: ")


def test_where_the_site_says_so_the_job_is_stopped_with_a_word_to_the_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tellers: list[dict[str, str]]
) -> None:
    scene = Scene(tmp_path, monkeypatch, "requeue")
    label = scene.run()
    scene.look()
    scene.look()
    assert scene.slurm.job(label).held
    assert [told["FAILOVER_STOPPED_JOB"] for told in tellers] == [label]
    node = scene.slurm.peek_node("n1")
    [entry] = read_evidence("n1", node.extra)
    assert (entry.cause, entry.requeued, node.reason) == (JobCause.HUNG, True, "")


def test_what_is_left_in_slurm_is_written_under_the_nodes_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch, "requeue")
    scene.run()
    update, alone = scene.slurm.update_node, list[bool]()

    def look_for_the_lock(name: str, change: NodeChange) -> None:
        with files.locked(str(tmp_path / "node" / "lock"), 0) as free:
            alone.append(not free)
        update(name, change)

    monkeypatch.setattr(scene.slurm, "update_node", look_for_the_lock)
    scene.look()
    scene.look()
    assert alone == [True, True], "the word that it is quiet, and the one that it was stopped"


def test_a_stop_whose_word_pushes_out_others_says_so_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, monkeypatch, "requeue")
    scene.run()
    monkeypatch.setattr(evidence, "LONGEST_EXTRA", 100)
    scene.look()
    scene.look()
    assert any("no room for all words" in words for words in scene.said)


# --- the decision ---------------------------------------------------------------------------------


def hung(retries: int, *more: Evidence) -> Any:
    entry = Evidence("n1", 7, 100.0, JobCause.HUNG, "suspected to hang", 150.0, requeued=True)
    record = Record(max_retries=3, retries=retries, attempt=Attempt(nodes="n1", start=100.0))
    node = NodeFacts("n1", extra=write_evidence("", "n1", [entry, *more], 150.0))
    held = job("n1", states=frozenset({"PENDING"}), held=True)
    return decide(held, record, [node], Limits())


def test_a_suspected_job_is_moved_and_no_node_is_excluded() -> None:
    verdict = hung(0)
    assert (verdict.action, verdict.bad_nodes) == (Action.FAILOVER, ())


def test_a_suspicion_counts_as_a_retry() -> None:
    assert hung(3).action is Action.EXCEED


def test_the_owner_of_the_log_is_whose_rights_count(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    suspicion = Suspicion(Settings(), "n1", FakeSlurm, pytest.fail, ())
    facts = job(user="root", stdout=str(log))
    assert suspicion._log_written(facts) == pytest.approx(log.stat().st_mtime, abs=1)
    assert suspicion._log_written(replace(facts, stdout="/dev/null")) is None
    assert suspicion._log_written(replace(facts, stdout=str(tmp_path / "none"))) is None
    assert suspicion._log_written(replace(facts, user="nobody-of-that-name")) is None
    tmp_path.chmod(0o700)
    assert suspicion._log_written(replace(facts, user="nobody")) is None
