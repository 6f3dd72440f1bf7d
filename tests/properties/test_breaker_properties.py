"""The breaker over any notes: it never opens too early, and no text breaks it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slurm_failover.breaker import (
    FaultNote,
    Word,
    add_note,
    due,
    read_breaker,
    read_notes,
    read_word,
    write_notes,
    write_word,
)
from slurm_failover.model import NodeFacts
from slurm_failover.settings.protection import BreakerSettings
from slurm_failover.suspicion import read_quiet

NOW = 1_700_000_000.0
texts = st.text(max_size=60) | st.sampled_from(
    [
        "{}",
        "[]",
        '{"slurm-failover":{"v":1,"faults":[[]],"breaker":[],"quiet":{}}}',
        '{"slurm-failover":{"v":1,"faults":[{"time":1e999,"code":"x"}]}}',
        '{"slurm-failover":{"v":1,"faults":[{"time":"x","code":7,"attempts":[[1]]}]}}',
        '{"slurm-failover":{"v":1,"breaker":{"state":"open","time":NaN}}}',
    ]
)
sites = st.builds(
    BreakerSettings,
    nodes=st.integers(1, 6),
    percent=st.integers(1, 100),
    same_percent=st.integers(1, 100),
    users=st.integers(1, 3),
    attempts=st.integers(1, 4),
    pace=st.integers(0, 5),
    at_once=st.integers(1, 4),
)
notes = st.builds(
    FaultNote,
    node=st.integers(1, 12).map("n{}".format),
    time=st.integers(-9000, 0).map(lambda ago: NOW + ago),
    code=st.sampled_from(["xid-79", "xid-48", "nic-stuck"]),
    because=st.just("because"),
    driver=st.sampled_from(["", "550.54", "570.1"]),
    attempts=st.sets(st.tuples(st.integers(1, 3), st.integers(1, 6)), max_size=2).map(
        lambda found: tuple(sorted(found))
    ),
    who=st.sets(st.sampled_from("abc"), max_size=2).map(lambda found: tuple(sorted(found))),
    waits=st.booleans(),
)


def cluster(found: list[FaultNote], comment: str = "") -> list[NodeFacts]:
    names = [f"n{number}" for number in range(1, 13)]
    own = {name: [note for note in found if note.node == name] for name in names}
    return [
        NodeFacts(
            name,
            extra=write_notes("", own[name], NOW),
            comment=comment if name == "n1" else "",
        )
        for name in names
    ]


@given(texts, texts)
def test_no_text_of_a_node_breaks_it(extra: str, comment: str) -> None:
    nodes = [NodeFacts("n1", extra=extra, comment=comment)]
    read_breaker(nodes, BreakerSettings(), NOW)
    read_quiet(extra)
    said = read_word(nodes)
    assert said is None or said[1] == "n1"


@given(texts, st.lists(notes, max_size=4))
def test_notes_survive_beside_any_text(text: str, found: list[FaultNote]) -> None:
    own = [replace(note, node="n1") for note in found]
    kept = [note for note in own if note.waits or NOW - note.time < 86400][-8:]
    assert read_notes("n1", write_notes(text, own, NOW)) == kept


@given(st.lists(notes, max_size=20), sites)
def test_it_never_opens_for_all_before_more_nodes_than_allowed_are_faulty(
    found: list[FaultNote], site: BreakerSettings
) -> None:
    breaker = read_breaker(cluster(found), site, NOW)
    if breaker.against() is not None:
        assert len({note.node for note in found}) > site.nodes


@given(st.lists(notes, max_size=20), sites)
def test_a_job_alone_is_stopped_only_after_more_attempts_than_allowed(
    found: list[FaultNote], site: BreakerSettings
) -> None:
    for trip in read_breaker(cluster(found), site, NOW).trips:
        if trip.job:
            starts = {start for note in found for job, start in note.attempts if job == trip.job}
            assert len(starts) > site.attempts


@given(st.lists(notes, max_size=20), sites)
def test_closed_is_closed_whatever_was_noted_before(
    found: list[FaultNote], site: BreakerSettings
) -> None:
    word = write_word("", Word("closed", NOW + 1, "root"))
    assert not read_breaker(cluster(found, word), site, NOW + 2).is_open


@given(st.lists(notes, max_size=20), sites)
def test_a_trip_is_over_when_it_says_so(found: list[FaultNote], site: BreakerSettings) -> None:
    for trip in read_breaker(cluster(found), site, NOW).trips:
        later = read_breaker(cluster(found), site, trip.until)
        assert trip not in later.trips


@given(st.lists(notes, max_size=8), notes, st.booleans())
def test_the_same_fault_again_changes_nothing(
    found: list[FaultNote], new: FaultNote, in_service: bool
) -> None:
    noted: list[FaultNote] = []
    for note in sorted(found, key=lambda note: note.time):
        noted = add_note(noted, note, 1800, in_service=in_service)
    asking = replace(new, time=NOW + 1, waits=True)
    once = add_note(noted, asking, 1800, in_service=in_service)
    assert add_note(once, asking, 1800, in_service=in_service) == once


@given(st.lists(notes, max_size=20, unique_by=lambda note: (note.node, note.code)), sites)
def test_drains_keep_their_pace(found: list[FaultNote], site: BreakerSettings) -> None:
    turns = sorted(due(found, note, site.pace, site.at_once) for note in found)
    for first, later in zip(turns, turns[site.at_once :], strict=False):
        assert later - first >= site.pace * 0.999 - 1e-6
    assert all(due(found, note, site.pace, site.at_once) >= note.time for note in found)
