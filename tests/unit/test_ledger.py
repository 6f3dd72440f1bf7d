"""What a node remembers of what it has judged."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_failover.node.ledger import (
    KEEP_FAULTS,
    JudgedFault,
    Ledger,
    SourceNote,
    read_events_kept,
    read_ledger,
    write_ledger,
)

FAULT = JudgedFault(5.0, "xid-79", "GPU lost", (1, 2))
LEDGER = Ledger("boot", 7).judged(9, FAULT)


def test_a_ledger_comes_back_as_it_was_written() -> None:
    assert read_ledger(write_ledger(LEDGER)) == LEDGER
    assert read_ledger(write_ledger(Ledger())) == Ledger()


def test_the_cursor_never_goes_back_within_a_boot() -> None:
    assert LEDGER.judged(3).cursor == 9
    assert LEDGER.judged(12).cursor == 12
    assert LEDGER.at_boot("boot") == LEDGER


def test_after_a_reboot_the_cursor_starts_anew_and_the_faults_stay() -> None:
    later = LEDGER.at_boot("another")
    assert (later.boot, later.cursor, later.faults) == ("another", -1, (FAULT,))


def test_only_on_the_very_first_look_are_old_records_none() -> None:
    assert Ledger().since(1000.0, 900.0) == 100.0
    assert LEDGER.since(1000.0, 900.0) == LEDGER.at_boot("another").since(1000.0, 900.0) == 0.0


def test_a_storm_of_faults_does_not_fill_the_disk() -> None:
    ledger = Ledger("boot")
    for cursor in range(KEEP_FAULTS + 5):
        ledger = ledger.judged(cursor, FAULT)
    assert len(ledger.faults) == KEEP_FAULTS


@settings(max_examples=60)
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
        lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
        max_leaves=8,
    ),
    st.sampled_from(sorted(json.loads(write_ledger(LEDGER)))),
)
def test_a_damaged_ledger_is_one_kind_of_error(value: Any, key: str) -> None:
    whole = json.loads(write_ledger(LEDGER))
    for damaged in (value, {**whole, key: value}, {**whole, "faults": [value]}):
        try:
            read_ledger(json.dumps(damaged))
        except ValueError:
            continue


@pytest.mark.parametrize("text", ["", "{", "\x00", "[" * 3, "nul"])
def test_a_half_written_ledger_is_the_same_kind_of_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"line 1|Expecting"):
        read_ledger(text)


def test_what_a_later_release_notes_of_a_source_is_passed_over() -> None:
    ledger = Ledger("boot-1", sources={"nvml": SourceNote(5.0, memory="{}")})
    raw = json.loads(write_ledger(ledger))
    raw["sources"]["nvml"]["later"] = [1]
    assert read_ledger(json.dumps(raw)) == ledger


@pytest.mark.parametrize(
    "change",
    [
        {"time": "soon"},
        {"last_time": []},
        {"last_time": math.inf},
        {"pci": 5},
        {"rule": None},
        {"because": 1},
        {"node_action": None},
        {"node_action": ""},
        {"trusted": "yes"},
        {"of a later release": 1},
    ],
)
def test_a_kept_event_that_makes_no_sense_is_left_out(change: dict[str, Any]) -> None:
    sound = {"kind": "k", "klass": "hardware", "scope": "gpu", "rule": "r", "because": "b"}
    ledger = Ledger("boot-1", events=(sound, {**sound, **change}))
    assert [event.rule for event in read_events_kept(ledger)] == ["r"]


@pytest.mark.parametrize("key", ["time", "uptime", "told"])
@pytest.mark.parametrize("value", [None, "soon", [], math.nan, math.inf])
def test_a_note_of_a_source_that_makes_no_sense_is_a_damaged_ledger(key: str, value: Any) -> None:
    raw = json.loads(write_ledger(Ledger("boot-1", sources={"nvml": SourceNote(5.0)})))
    raw["sources"]["nvml"][key] = value
    with pytest.raises(ValueError):
        read_ledger(json.dumps(raw))
