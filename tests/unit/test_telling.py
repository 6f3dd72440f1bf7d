"""When a node looks for the verdict on a job that ended there: every look is a request."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import pytest
from fake_slurmctld import FakeSlurm

from slurm_failover.node import attempts, telling
from slurm_failover.settings.tables import Settings

ENDED = {
    "SLURM_JOB_ID": "100",
    "SLURM_JOB_COMMENT": "failover",
    "SLURM_JOB_NODELIST": "n1",
    "SLURM_JOB_START_TIME": "1",
    "SLURM_JOB_EXIT_CODE": "256",
    "SLURMD_NODENAME": "n1",
}


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    slurm = FakeSlurm()
    monkeypatch.setattr(telling, "connect", lambda *_: slurm)
    return slurm


def look(monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str]) -> list[float]:
    """The pauses before each look at a job of which nothing is decided."""
    pauses: list[float] = []
    clock = SimpleNamespace(sleep=pauses.append, monotonic=lambda: sum(pauses))
    monkeypatch.setattr(telling, "time", clock)
    telling.tell_verdict(environment, Settings(), lambda _: None)
    return pauses


def follow(monkeypatch: pytest.MonkeyPatch, *, moves: bool) -> dict[str, str]:
    """What the process is started with that waits for the verdict."""
    started: list[dict[str, str]] = []
    monkeypatch.setattr(
        telling, "start_detached", lambda _, more=None: started.append(ENDED | (more or {}))
    )
    monkeypatch.setattr(telling, "report_image", lambda *_: None)
    attempts.close_attempt(ENDED, Settings(), lambda _: None, moves=moves)
    return started[0]


def test_a_verdict_that_takes_long_is_looked_for_ever_more_seldom(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.submit("failover")
    pauses = look(monkeypatch, follow(monkeypatch, moves=False))
    assert pauses[0] < 3 < pauses[1]
    assert len(pauses) < 12
    assert slurm.calls == ["jobs"] * len(pauses)


def test_the_verdict_on_a_job_of_a_broken_node_is_looked_for_late_since_it_most_likely_moves(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.submit("failover")
    pauses = look(monkeypatch, follow(monkeypatch, moves=True))
    assert pauses[0] > 9
