"""A clock that jumps by hours makes nothing hot, hung, late or forgotten."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from failover_world import WAIT_FOR_NODES, House
from fake_slurmctld import FakeSlurm

from slurm_failover.breaker import FaultNote, read_notes
from slurm_failover.catalogue import load_rules
from slurm_failover.controller import decider
from slurm_failover.health import gpu
from slurm_failover.health.gpu_state import Gpu, GpuState
from slurm_failover.model import Limits
from slurm_failover.node import breaker, checkpoint, stops
from slurm_failover.node import suspicion as node_suspicion
from slurm_failover.node.breaker import Gate
from slurm_failover.node.clock import set_by
from slurm_failover.node.ledger import Ledger, read_ledger, write_ledger
from slurm_failover.node.readings import Reading
from slurm_failover.node.remember import take
from slurm_failover.node.suspicion import Suspicion
from slurm_failover.record import State, Step, read_record
from slurm_failover.settings.protection import BreakerSettings, SuspicionSettings
from slurm_failover.settings.tables import CheckpointSettings, Settings, StateSettings
from slurm_failover.settings.thresholds import GpuThresholds

HOUR = 3600.0
STEPS = [-30 * HOUR, -3 * HOUR, 3 * HOUR, 30 * HOUR]
steps = pytest.mark.parametrize("step", STEPS)


class Clocks:
    """The clock on the wall, which a test sets, and the one that nobody sets."""

    def __init__(self, wall: float = 1_700_000_000.0, up: float = 5000.0) -> None:
        self.wall, self.up = wall, up

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.up += seconds

    def rule(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(time, "time", lambda: self.wall)
        monkeypatch.setattr(time, "monotonic", lambda: self.up)


# --- what a node remembers ------------------------------------------------------------------------


def look_at_hot_gpu(ledger: Ledger, clocks: Clocks, hot_ns: int = 0) -> tuple[Ledger, list[str]]:
    """A look that shows a GPU which heat slows down at this moment."""
    one = Gpu(index=0, pci="0000:3b:00", clock_events=gpu.HW_THERMAL_SLOWDOWN, thermal_ns=hot_ns)
    state, limits = GpuState(time=clocks.wall, boot_id="boot", gpus=(one,)), GpuThresholds()
    rules = load_rules()
    reading = Reading(
        source="nvml",
        time=clocks.wall,
        unseen="",
        judge=lambda before, _, gpus: gpu.judge_gpus(state, before, limits, gpus, rules.rule),
        remember=lambda before: gpu.remember(state, before, limits),
        uptime=clocks.up,
    )
    ledger, shown = take(ledger, [reading], lambda: rules, lambda: None, lambda _: None)
    return read_ledger(write_ledger(ledger)), [event.rule for event in shown]


@steps
def test_heat_of_seconds_is_not_heat_of_hours(step: float) -> None:
    clocks, ledger = Clocks(), Ledger(boot="boot")
    for _ in range(GpuThresholds().clock_event_looks):
        ledger, shown = look_at_hot_gpu(ledger, clocks)
        assert shown == []
        clocks.pass_by(1)
    clocks.wall += step
    assert look_at_hot_gpu(ledger, clocks)[1] == []


@steps
def test_heat_that_lasts_is_found_all_the_same(step: float) -> None:
    clocks, ledger = Clocks(), Ledger(boot="boot")
    ledger, _ = look_at_hot_gpu(ledger, clocks)
    clocks.wall += step
    for _ in range(GpuThresholds().clock_event_looks):
        clocks.pass_by(GpuThresholds().clock_event_seconds)
        ledger, shown = look_at_hot_gpu(ledger, clocks)
    assert shown == ["gpu-thermal-slowdown"]


def test_heat_that_outlasts_a_reboot_is_not_forgotten_for_as_long_as_the_node_was_up() -> None:
    clocks, ledger = Clocks(up=30 * 24 * HOUR), Ledger(boot="boot")
    ledger, _ = look_at_hot_gpu(ledger, clocks)
    clocks.wall, clocks.up = clocks.wall + 300, 60.0
    for _ in range(GpuThresholds().clock_event_looks):
        clocks.pass_by(GpuThresholds().clock_event_seconds)
        ledger, shown = look_at_hot_gpu(ledger, clocks)
    assert shown == ["gpu-thermal-slowdown"]


@steps
def test_a_job_whose_gpus_were_idle_for_a_moment_does_not_hang(
    step: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = Clocks()
    clocks.rule(monkeypatch)
    (tmp_path / "node").mkdir()
    asked: list[float] = []
    monkeypatch.setattr(Suspicion, "_ask", lambda self, _: asked.append(self._now))
    settings = Settings(
        suspicion=SuspicionSettings(after=600), state=StateSettings(directory=str(tmp_path))
    )

    def look() -> None:
        node_suspicion.look_for_hangs(settings, "n1", Ledger(), [("a", 0)], pytest.fail)

    look()
    clocks.pass_by(60)
    clocks.wall += step
    look()
    clocks.pass_by(300)
    look()
    assert asked == []
    clocks.pass_by(301)
    look()
    assert len(asked) == 1


def test_a_clock_that_ticks_a_little_wrong_or_was_not_noted_was_not_set() -> None:
    assert set_by((100.0, 10.0), (200.0, 105.0)) == 0
    assert set_by((100.0, 0.0), (1e9, 105.0)) == 0
    assert set_by((), (1e9, 105.0)) == 0
    assert set_by((100.0, 10.0), (3700.0, 10.0)) == HOUR


# --- what a job is given --------------------------------------------------------------------------


@steps
def test_a_jobs_grace_is_as_long_as_it_asked_for(
    step: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks, slurm = Clocks(), FakeSlurm()
    clocks.rule(monkeypatch)
    monkeypatch.setattr(stops, "FOLDER", str(tmp_path / "stops"))
    monkeypatch.setattr(checkpoint, "connect", lambda *_: slurm)
    monkeypatch.setattr(checkpoint, "start_detached", lambda *_: None)
    monkeypatch.setattr(time, "sleep", clocks.pass_by)
    label = slurm.submit("failover checkpoint=USR1@60")
    slurm.schedule()
    checkpoint.stop_job(slurm, slurm.job(label), CheckpointSettings(), lambda _: None)
    clocks.wall += step
    [path] = stops.left_stops()
    began = clocks.up
    checkpoint.stop_after_grace({"FAILOVER_STOP": path}, Settings(), lambda _: None)
    assert slurm.job(label).held_by_requeue
    assert clocks.up - began == pytest.approx(60)


@steps
def test_the_nodes_have_their_time_to_report_and_no_more(
    step: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = FakeSlurm()
    house = House(slurm, str(tmp_path), Limits(2))
    label = slurm.submit("failover")
    slurm.schedule()
    house.start_hook(label)
    job = slurm.peek(label)
    slurm.finish(label, code=1)
    house.end_hook(label, job.start, ",".join(job.nodes))
    clocks = Clocks(float(slurm.clock))
    clocks.rule(monkeypatch)
    pauses: list[str] = []

    def step_of_record() -> Step:
        record = read_record(slurm.peek(label).admin_comment)
        assert record is not None
        return record.step

    def pause(_: float) -> None:
        pauses.append(step_of_record())
        clocks.pass_by(WAIT_FOR_NODES / 4)
        if len(pauses) == 2:
            clocks.wall += step
        assert len(pauses) < 9, "the job waits on"

    with house.process() as wire:
        monkeypatch.setattr(decider, "time", time)
        house.make_decider(wire).run(pause)
    assert pauses[:5] == [Step.HELD] * 5
    record = read_record(slurm.peek(label).admin_comment)
    assert record is not None
    assert record.state is State.INTERNALERROR


@pytest.mark.parametrize("step", [-30 * HOUR, -3 * HOUR])
def test_a_drain_that_waits_does_not_wait_for_the_hour_to_come_again(
    step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks, slurm = Clocks(), FakeSlurm("n[1-40]")
    monkeypatch.setattr(breaker.time, "time", lambda: clocks.wall)
    site = BreakerSettings(pace=4)

    def ask() -> str:
        note = FaultNote("n1", clocks.wall, "xid-79", "because")
        return Gate(slurm, "n1", site, pytest.fail).ask(slurm.nodes("n1")[0], note).waits

    assert ask() == ""
    clocks.wall += step
    assert ask() == ""
    [note] = read_notes("n1", slurm.peek_node("n1").extra)
    assert note.time == pytest.approx(clocks.wall)
