"""What all unit tests share."""

from __future__ import annotations

import pytest

from slurm_failover.node import stopping


@pytest.fixture(autouse=True)
def tellers(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The variables of each process that was to look for the verdict on a stopped job: no test
    leaves one behind.
    """
    begun: list[dict[str, str]] = []
    monkeypatch.setattr(stopping, "start_detached", lambda _, told: begun.append(told))
    return begun
