"""Files of ours, torn or of another release: read as far as they go, or passed over."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from slurm_failover.attribution import Device, devices_from_json, devices_to_json
from slurm_failover.catalogue import Catalogue, load_rules
from slurm_failover.controller.arrivals import Arrival, Kind, Queue
from slurm_failover.controller.notes import Note, Notes
from slurm_failover.errors import RuleError
from slurm_failover.health.memory import Memory
from slurm_failover.model import Event, FaultClass, NodeAction, Scope
from slurm_failover.node import ends, stops
from slurm_failover.node.blame import Blame
from slurm_failover.node.ledger import (
    JudgedFault,
    Ledger,
    SourceNote,
    keep_events,
    last_of,
    read_events_kept,
    read_ledger,
    write_ledger,
)
from slurm_failover.policy import Ending
from slurm_failover.record import Record

QUICK = settings(
    max_examples=200,
    suppress_health_check=[HealthCheck.too_slow],
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
faults = st.builds(
    JudgedFault,
    time=st.floats(0, 2e9),
    rule=texts,
    because=texts,
    jobs=st.lists(st.integers(1, 9), max_size=3).map(tuple),
    boot=texts,
    repair=texts,
    reason=texts,
)
ledgers = st.builds(
    Ledger,
    boot=texts,
    cursor=st.integers(-1, 2**63),
    faults=st.lists(faults, max_size=2).map(tuple),
    open=st.lists(faults, max_size=2).map(tuple),
    sources=st.dictionaries(texts, st.builds(SourceNote, st.floats(0, 2e9), texts, texts)),
    events=st.just(()),
    devices=texts,
)

SHOWN = Event(
    "gpu",
    FaultClass.HARDWARE,
    Scope.GPU,
    "gpu-remap-failed",
    "a row could not be remapped",
    pci="0000:3b:00",
    node_action=NodeAction.REBOOT,
    time=1.7e9,
    last_time=1.7e9,
    trusted=True,
    source="nvml",
)


def torn(whole: str, data: st.DataObject) -> bytes:
    """A file that a crash has cut off, or in which a disk has changed something."""
    raw = bytearray(whole.encode())
    del raw[data.draw(st.integers(0, len(raw))) :]
    if raw and data.draw(st.booleans()):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    return bytes(raw)


def in_folder(check: Callable[[Path], None]) -> None:
    """Run a check in a folder of its own."""
    with TemporaryDirectory() as folder:
        check(Path(folder))


@QUICK
@given(ledgers)
def test_a_ledger_comes_back_as_it_was_written(ledger: Ledger) -> None:
    assert read_ledger(write_ledger(ledger)) == ledger


@QUICK
@given(st.sampled_from([field.name for field in fields(Event)]), values)
def test_whatever_stands_in_a_kept_event_it_is_sound_or_left_out(name: str, odd: Any) -> None:
    raw = json.loads(json.dumps(asdict(SHOWN)))
    [kept] = read_events_kept(Ledger(events=(raw,)))
    assert kept == SHOWN
    for event in read_events_kept(Ledger(events=({**raw, name: odd},))):
        assert round(last_of(event)) >= 0
        assert keep_events(Ledger(), [event], 0.0).events == (asdict(event),)
        assert Blame((event,)).of_node().node in NodeAction


@QUICK
@given(ledgers, st.data())
def test_a_torn_ledger_is_read_or_is_a_value_error(ledger: Ledger, data: st.DataObject) -> None:
    raw = torn(write_ledger(ledger), data).decode("utf-8", "replace")
    try:
        assert isinstance(read_ledger(raw), Ledger)
    except ValueError:
        return


@QUICK
@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("boot", "cursor", "faults", "open", "sources", "events", "devices"), values
        ),
    )
)
def test_a_ledger_of_any_json_is_read_or_is_a_value_error(raw: dict[str, Any]) -> None:
    try:
        assert isinstance(read_ledger(json.dumps(raw)), Ledger)
    except ValueError:
        return


@QUICK
@given(st.data())
def test_a_torn_note_or_arrival_is_passed_over_and_keeps_no_other_back(
    data: st.DataObject,
) -> None:
    def check(folder: Path) -> None:
        notes = Notes(str(folder))
        notes.open()
        queue = Queue(notes.queue)
        first, second = (
            Note(number, str(number), Ending.FAILED, Record(max_retries=3)) for number in (1, 2)
        )
        arrivals = [Arrival(Kind.END, str(number), 5.0, "n[1-2]", "3") for number in (1, 2)]
        for note, arrival in zip((first, second), arrivals, strict=True):
            notes.add(note)
            queue.add(arrival)
        for path in folder.rglob("*1*"):
            if path.is_file() and path.name[0] in "1e" and path.name != "lock":
                path.write_bytes(torn(path.read_text(), data))
        assert second in notes.read()
        assert arrivals[1] in queue.read()

    in_folder(check)


@QUICK
@given(st.binary(max_size=64))
@example(b"n[1\n\n")
@example(b"\xff")
def test_any_bytes_as_an_arrival_are_understood_or_gone(raw: bytes) -> None:
    def check(folder: Path) -> None:
        (folder / "queue").mkdir()
        entry = folder / "queue" / "epilog_slurmctld.7.5"
        entry.write_bytes(raw)
        queue = Queue(str(folder / "queue"))
        assert bool(queue.read()) is entry.exists()

    in_folder(check)


@QUICK
@given(st.binary(max_size=64))
@example(b'{"SLURM_JOB_ID": 5}')
def test_any_bytes_as_a_nodes_own_files_are_read_or_refused(raw: bytes) -> None:
    def check(folder: Path) -> None:
        path = folder / "7-5.json"
        path.write_bytes(raw)
        stop = stops.read_stop(str(path))
        assert stop is None or isinstance(stop.label, str)
        try:
            assert all(isinstance(text, str) for text in ends.read_end(str(path)).values())
        except ValueError:
            return

    in_folder(check)


@QUICK
@given(values)
def test_a_sources_memory_of_any_json_is_read_or_refused(raw: Any) -> None:
    for read in (Memory.from_json, devices_from_json):
        try:
            read(json.dumps(raw))  # type: ignore[operator]
        except (ValueError, TypeError, KeyError):
            continue


def test_devices_come_back_as_they_were_noted() -> None:
    devices = (Device("0000:3b:00", "GPU-1", 1),)
    assert devices_from_json(devices_to_json(devices)) == devices


@settings(QUICK, max_examples=50)
@given(st.binary(max_size=200))
@example(b"[x]\nclass = 5")
@example(b"[x]\nregex = '" + b"(" * 3000 + b"'")
def test_any_bytes_as_a_rule_file_are_rules_or_one_error_that_names_the_file(raw: bytes) -> None:
    def check(folder: Path) -> None:
        (folder / "site.toml").write_bytes(raw)
        try:
            assert isinstance(load_rules(folder), Catalogue)
        except RuleError as error:
            assert "site.toml" in str(error)

    in_folder(check)
