"""A program that says too much is cut off."""

from __future__ import annotations

import pytest

from slurm_failover.sources import bounded


def test_of_a_program_that_never_stops_talking_no_more_is_kept_than_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded, "_MOST_BYTES", 1 << 16)
    answer = bounded.run_bounded(["yes"], 0.3)
    assert answer.timed_out
    assert 1 << 16 < len(answer.output) < 1 << 18
