"""NVML's events through the real bindings and the stand-in library: heard, hung, gone, back."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nvml_stand_in import TWO_GPUS, stand_in_library  # noqa: F401 - a fixture

from slurm_failover.node.gpu_events import XidEvent, read_heard
from slurm_failover.sources.nvml.listener import FIRST_PAUSE, SILENCE, Listener

DEADLINE = 30.0


class Driver:
    """A driver with two GPUs, and a listener with a clock of the test's."""

    def __init__(self, folder: Path) -> None:
        self.answers = folder / "answers"
        self.facts: dict[str, object] = dict(TWO_GPUS)
        self.write()
        self.said: list[str] = []
        self.is_loaded = True
        self.spoke = False
        self.now = 0.0
        self.listener = Listener(self.said.append, lambda: self.is_loaded)

    def write(self, **facts: object) -> None:
        self.facts |= {key.replace("__", "."): value for key, value in facts.items()}
        fresh = self.answers.with_suffix(".new")
        fresh.write_text("".join(f"{key} {value}\n" for key, value in self.facts.items()))
        fresh.replace(self.answers)

    def hear(self, enough: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Listen until it is enough."""
        heard: list[dict[str, Any]] = []
        deadline = time.monotonic() + DEADLINE
        while not enough(heard):
            assert time.monotonic() < deadline, (heard, self.said)
            self.listener.tend(self.now)
            handle = self.listener.fileno()
            if handle is not None and select.select([handle], [], [], 0.1)[0]:
                self.spoke = True
            heard += self.listener.read(self.now)
        return heard

    @property
    def pid(self) -> int:
        """The child's process."""
        child = self.listener._child
        assert child is not None
        return child.pid


@pytest.fixture
def driver(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stand_in_library: Path,  # noqa: F811
) -> Iterator[Driver]:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(stand_in_library))
    monkeypatch.setenv("NVML_STAND_IN", str(tmp_path / "answers"))
    driver = Driver(tmp_path)
    yield driver
    driver.listener.stop()


def test_an_xid_is_heard_with_its_gpu_and_code(driver: Driver) -> None:
    driver.write(event1="1 8 79")
    (part,) = driver.hear(lambda heard: len(heard) == 1)
    xid = read_heard(part)
    assert xid == XidEvent(part["time"], "0000:3b:00", 79, None)
    assert abs(part["time"] - time.time()) < DEADLINE


def test_an_xid_of_a_mig_instance_names_it(driver: Driver) -> None:
    driver.write(event1="1 8 31 5")
    (part,) = driver.hear(lambda heard: len(heard) == 1)
    xid = read_heard(part)
    assert xid is not None
    assert xid.gpu_instance == 5


def test_a_double_bit_error_is_heard_as_a_state(driver: Driver) -> None:
    driver.write(event1="0 2 0")
    (part,) = driver.hear(lambda heard: len(heard) == 1)
    assert read_heard(part) is None


def test_single_bit_errors_and_clock_changes_are_not_asked_for(driver: Driver) -> None:
    driver.write(event1="0 1 0", event2="0 16 0", event3="0 8 63")
    (part,) = driver.hear(lambda heard: len(heard) == 1)
    assert part["xid"] == 63


def test_a_child_that_was_killed_comes_back_after_a_pause(driver: Driver) -> None:
    driver.hear(lambda _: driver.listener.fileno() is not None)
    first = driver.pid
    os.kill(first, signal.SIGKILL)
    driver.hear(lambda _: driver.listener.fileno() is None)
    assert driver.said == ["no events from NVML: its process has ended"]
    driver.listener.tend(driver.now)
    assert driver.listener.fileno() is None
    driver.now += FIRST_PAUSE + 1
    driver.write(event1="0 8 79")
    (part,) = driver.hear(lambda heard: len(heard) == 1)
    assert part["xid"] == 79
    assert driver.pid != first


@pytest.mark.parametrize("call", ["nvmlInitWithFlags", "nvmlEventSetWait_v2"])
def test_an_nvml_that_hangs_is_given_up_and_said_once(driver: Driver, call: str) -> None:
    driver.write(**{f"hang__{call}": 1})
    speaks_first = call != "nvmlInitWithFlags"
    for _ in range(3):
        driver.spoke = False
        driver.hear(lambda _: driver.listener.fileno() is not None)
        driver.hear(lambda _: driver.spoke or not speaks_first)
        driver.now += SILENCE + 1
        driver.hear(lambda _: driver.listener.fileno() is None)
        driver.now += FIRST_PAUSE * 9
    assert len([line for line in driver.said if "no sign" in line]) == 1


def test_a_gpu_that_is_lost_ends_the_listening_and_is_said(driver: Driver) -> None:
    driver.write(wait=15)
    driver.hear(lambda _: bool(driver.said))
    assert "lost" in driver.said[0].lower() or "15" in driver.said[0]


def test_a_refused_gpu_costs_no_other_its_events(driver: Driver) -> None:
    driver.write(gpu0__error=15, event1="1 8 79")
    (part,) = driver.hear(lambda heard: len(heard) == 1)
    assert part["xid"] == 79


def test_a_driver_that_is_loaded_later_is_listened_to(driver: Driver) -> None:
    driver.is_loaded = False
    driver.listener.tend(0.0)
    assert driver.listener.fileno() is None
    driver.is_loaded = True
    driver.listener.tend(FIRST_PAUSE / 2)
    assert driver.listener.fileno() is None
    driver.listener.tend(FIRST_PAUSE)
    assert driver.listener.fileno() is not None
