"""Many messages of one kind: one event, with the span, the number and the worst of them."""

from __future__ import annotations

import pytest

from slurm_failover.catalogue import load_rules
from slurm_failover.classify import read_events
from slurm_failover.classify.events import GAP
from slurm_failover.model import Event, Record

CATALOGUE = load_rules()
LOST = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


def record(line: int, time: float | None, **more: object) -> Record:
    known = {"time_certain": True, "sequence": line, "trusted": True, "origin": "kernel"} | more
    return Record(LOST, line, time, **known)  # type: ignore[arg-type]


def fold(*records: Record) -> list[Event]:
    return read_events(records, CATALOGUE)


def test_repeats_are_one_event_with_the_firsts_place_and_the_lasts_time() -> None:
    (event,) = fold(record(5, 100.0), record(7, 200.0), record(9, 150.0))
    assert (event.line, event.time, event.last_time) == (5, 100.0, 150.0)
    assert (event.sequence, event.lines, event.time_certain) == (9, 3, True)


def test_a_line_that_stands_for_many_counts_as_many() -> None:
    (event,) = fold(record(1, 100.0, repeats=4), record(2, 101.0, repeats=10))
    assert event.lines == 14


def test_what_a_later_record_does_not_say_stays_as_it_was() -> None:
    (event,) = fold(record(1, 100.0), record(2, None, sequence=None))
    assert (event.last_time, event.sequence, event.lines) == (100.0, 1, 2)


@pytest.mark.parametrize("first", [True, False])
def test_one_uncertain_time_makes_the_span_uncertain(first: bool) -> None:
    (event,) = fold(record(1, 1.0, time_certain=first), record(2, 2.0, time_certain=not first))
    assert not event.time_certain


@pytest.mark.parametrize(("gap", "count"), [(GAP, 1), (-GAP, 1), (GAP + 0.5, 2), (-GAP - 0.5, 2)])
def test_a_longer_silence_parts_two_events(gap: float, count: int) -> None:
    assert len(fold(record(1, 5000.0), record(2, 5000.0 + gap))) == count


@pytest.mark.parametrize("times", [(None, None), (None, 9e9), (100.0, None)])
def test_what_has_no_time_is_taken_for_near(times: tuple[float | None, float | None]) -> None:
    assert len(fold(record(1, times[0]), record(2, times[1]))) == 1


def test_a_silence_is_counted_from_the_last_message() -> None:
    assert len(fold(*(record(i, i * GAP) for i in range(5)))) == 1


def test_trusted_and_untrusted_words_are_never_one_event() -> None:
    told = fold(record(1, 100.0), record(2, 101.0, trusted=False), record(3, 102.0))
    assert [(event.trusted, event.lines) for event in told] == [(True, 2), (False, 1)]
