"""When the breaker opens, for whom, and how it closes; what nodes and admins write of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_failover.breaker import (
    FaultNote,
    Word,
    add_note,
    drop_waiting,
    due,
    read_breaker,
    read_notes,
    read_word,
    write_notes,
    write_word,
)
from slurm_failover.evidence import read_evidence, write_evidence
from slurm_failover.model import Evidence, JobCause, NodeFacts
from slurm_failover.settings.protection import BreakerSettings

NOW = 1_700_000_000.0
SITE = BreakerSettings()


def fault(
    node: int,
    ago: float = 10,
    code: str = "xid-79",
    *,
    job: int = 0,
    who: str = "",
    driver: str = "",
) -> FaultNote:
    attempts = ((job, node),) if job else ()
    return FaultNote(
        f"n{node}", NOW - ago, code, "because", driver, attempts, (who,) if who else ()
    )


def cluster(*notes: FaultNote, size: int = 40, word: Word | None = None) -> list[NodeFacts]:
    nodes = []
    for number in range(1, size + 1):
        name = f"n{number}"
        extra = write_notes("", [note for note in notes if note.node == name], NOW)
        comment = write_word("", word) if word is not None and number == 1 else ""
        nodes.append(NodeFacts(name, frozenset({"IDLE"}), extra=extra, comment=comment))
    return nodes


def opened(*notes: FaultNote, size: int = 40, site: BreakerSettings = SITE, at: float = 0) -> str:
    trip = read_breaker(cluster(*notes, size=size), site, NOW + at).against()
    return trip.because if trip else ""


def codes(count: int, ago: float = 10) -> list[FaultNote]:
    """Faults of as many nodes, each of its own kind."""
    return [fault(number, ago, f"code-{number}") for number in range(1, count + 1)]


# --- too many nodes -------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "allowed"), [(4, 3), (39, 3), (40, 4), (256, 25), (1000, 100)])
def test_it_opens_at_the_first_node_beyond_a_tenth_and_beyond_three(
    size: int, allowed: int
) -> None:
    assert opened(*codes(allowed), size=size) == ""
    told = opened(*codes(allowed + 1), size=size)
    assert told == f"faults on {allowed + 1} of {size} nodes within 1800 s, more than {allowed}"


def test_many_faults_of_one_node_are_one_node() -> None:
    assert opened(*[fault(1, ago, f"code-{ago}") for ago in range(1, 9)], size=4) == ""


def test_faults_that_are_far_apart_do_not_count_together() -> None:
    spread = [replace(note, time=NOW - 700 * at) for at, note in enumerate(codes(5))]
    assert opened(*spread) == ""


def test_it_closes_by_itself_some_time_after_the_last_fault_of_too_many() -> None:
    assert opened(*codes(5, ago=0), at=SITE.lasts - 1)
    assert opened(*codes(5, ago=0), at=SITE.lasts) == ""


def test_a_fault_that_comes_while_it_is_open_keeps_it_open() -> None:
    late = replace(fault(6), time=NOW + 1000)
    assert opened(*codes(5, ago=0), late, at=SITE.lasts + 500)


def test_nodes_that_slurm_lost_count_and_nodes_that_an_admin_took_down_do_not() -> None:
    def down(reason: str) -> list[NodeFacts]:
        return [
            NodeFacts(f"n{i}", frozenset({"DOWN"}), reason, NOW - 5 if i < 5 else 0.0)
            for i in range(8)
        ]

    assert read_breaker(down("Not responding"), SITE, NOW).is_open
    assert not read_breaker(down("maintenance"), SITE, NOW).is_open


def test_a_site_can_do_without_it() -> None:
    assert opened(*codes(9), site=replace(SITE, enabled=False)) == ""


# --- one cause ------------------------------------------------------------------------------------


def test_one_code_on_many_nodes_of_several_users_opens_it_earlier() -> None:
    notes = [fault(i, who=f"u{i % 2}") for i in range(1, 7)]
    told = opened(*notes, size=100)
    assert told == "xid-79 on 6 of 100 nodes within 1800 s, more than 5"
    assert opened(*notes[:5], size=100) == ""


def test_one_code_in_the_jobs_of_one_user_does_not() -> None:
    assert opened(*[fault(i, who="u1") for i in range(1, 7)], size=100) == ""


def test_one_driver_version_on_many_nodes_of_several_users_opens_it_earlier() -> None:
    notes = [fault(i, code=f"c{i}", who=f"u{i}", driver="550.54") for i in range(1, 7)]
    assert opened(*notes, size=100).startswith("faults under driver 550.54 on 6 of 100 nodes")
    mixed = [replace(note, driver=f"550.{at}") for at, note in enumerate(notes)]
    assert opened(*mixed, size=100) == ""


def test_a_code_that_follows_one_job_stops_that_job_alone() -> None:
    notes = [fault(i, ago=10000 - 2000 * i, job=7) for i in range(1, 5)]
    breaker = read_breaker(cluster(*notes), SITE, NOW)
    trip = breaker.against([7])
    assert trip is not None
    assert (trip.because, trip.job, trip.opener) == ("xid-79 met 4 attempts of job 7", 7, "n4")
    assert breaker.against([8]) is None
    assert breaker.against() is None
    assert not read_breaker(cluster(*notes[:3]), SITE, NOW).is_open


def test_a_code_on_all_nodes_of_one_attempt_does_not_follow_the_job() -> None:
    notes = [replace(fault(i, ago=1), attempts=((7, 1000),)) for i in range(1, 5)]
    assert not read_breaker(cluster(*notes), SITE, NOW).is_open


# --- the admins' word -----------------------------------------------------------------------------


def test_what_was_noted_before_it_was_closed_counts_no_more() -> None:
    closed = Word("closed", NOW - 5, "root")
    assert not read_breaker(cluster(*codes(9), word=closed), SITE, NOW).is_open
    again = [replace(note, time=NOW - 1) for note in codes(5)]
    assert read_breaker(cluster(*again, word=closed), SITE, NOW).is_open


def test_an_admin_opens_it_until_a_time_or_until_another_word() -> None:
    word = Word("open", NOW - 5, "root", "the cooling fails")
    trip = read_breaker(cluster(word=word), SITE, NOW + 10**6).against()
    assert trip is not None
    assert trip.because == "root opened it: the cooling fails"
    timed = replace(word, until=NOW + 60)
    assert read_breaker(cluster(word=timed), SITE, NOW + 59).is_open
    assert not read_breaker(cluster(word=timed), SITE, NOW + 60).is_open


def test_the_latest_word_counts_and_foreign_comments_stay() -> None:
    first, second = Word("open", NOW - 9, "a"), Word("closed", NOW - 5, "b")
    nodes = [
        NodeFacts("n1", comment=write_word('{"rack":7}', second)),
        NodeFacts("n2", comment=write_word("do not touch", first)),
    ]
    assert read_word(nodes) == (second, "n1")
    assert nodes[0].comment.startswith('{"rack":7,')
    assert nodes[1].comment.startswith("do not touch ")


@pytest.mark.parametrize("said", ["", "x", "{}", '{"state":"ajar","time":1}', '{"state":"open"}'])
def test_a_word_that_makes_no_sense_is_none(said: str) -> None:
    comment = f'{{"slurm-failover":{{"v":1,"breaker":{said or "null"}}}}}'
    assert read_word([NodeFacts("n1", comment=comment)]) is None


# --- notes ----------------------------------------------------------------------------------------


def test_notes_and_evidence_stand_beside_each_other() -> None:
    note = replace(fault(1, job=7, who="abc", driver="550.54"), waits=True)
    entry = Evidence("n1", 7, NOW, JobCause.HARDWARE, "because", NOW)
    extra = write_evidence(write_notes('{"x":1}', [note], NOW), "n1", [entry], NOW)
    assert extra.startswith('{"x":1,')
    assert read_notes("n1", extra) == [note]
    assert read_evidence("n1", extra) == [entry]
    again = write_notes(extra, [], NOW)
    assert read_notes("n1", again) == []
    assert read_evidence("n1", again) == [entry]


def test_a_fault_that_waits_keeps_its_time_however_often_it_is_seen() -> None:
    waiting = replace(fault(1, ago=7000), waits=True)
    [note] = add_note(
        [waiting], replace(fault(1, ago=0, job=9), waits=True), SITE.window, in_service=True
    )
    assert (note.time, note.attempts, note.waits) == (waiting.time, ((9, 1),), True)


@pytest.mark.parametrize(
    ("waits", "was_observed", "is_observed", "told"),
    [
        (True, True, False, False),  # turned to act while the drain waits
        (True, False, True, True),  # turned to observe mode while the drain waits
        (False, False, True, False),  # drained by us before
        (False, True, True, True),
    ],
)
def test_a_fault_is_one_of_observe_mode_while_its_node_was_never_drained_for_it(
    waits: bool, was_observed: bool, is_observed: bool, told: bool
) -> None:
    old = replace(fault(1, ago=60), waits=waits, observed=was_observed)
    new = replace(fault(1, ago=0), waits=True, observed=is_observed)
    [note] = add_note([old], new, SITE.window, in_service=False)
    assert note.observed is told
    assert read_notes("n1", write_notes("", [note], NOW)) == [note]


def test_the_same_code_is_another_fault_when_the_window_has_passed() -> None:
    old = fault(1, ago=7000)
    assert len(add_note([old], fault(1, ago=0), SITE.window, in_service=False)) == 2


@pytest.mark.parametrize(("in_service", "faults"), [(False, 1), (True, 2)])
def test_the_same_code_is_another_fault_where_the_node_was_returned_in_between(
    in_service: bool, faults: int
) -> None:
    drained = fault(1, ago=60)
    again = add_note([drained], fault(1, ago=0), SITE.window, in_service=in_service)
    assert len(again) == faults


def test_a_note_that_waits_is_not_forgotten_and_a_drain_ends_the_waiting() -> None:
    waiting = replace(fault(1, ago=10**6), waits=True)
    extra = write_notes("", [waiting, fault(1, ago=10**6, code="other")], NOW)
    assert read_notes("n1", extra) == [waiting]
    drained = write_notes(extra, drop_waiting(read_notes("n1", extra)), NOW)
    assert read_notes("n1", drained) == []


def test_of_many_notes_those_stay_whose_drain_waits_and_in_order() -> None:
    waiting = replace(fault(1, ago=900, code="first"), waits=True)
    later = [fault(1, ago=800 - n, code=f"code {n}") for n in range(12)]
    kept = read_notes("n1", write_notes("", [waiting, *later], NOW))
    assert kept == [waiting, *later[-7:]]


def test_a_note_names_all_attempts_that_a_fault_has_hit() -> None:
    first = replace(fault(1), waits=True, attempts=tuple((n, 1) for n in range(9)))
    again = replace(first, attempts=tuple((n, 1) for n in range(9, 20)))
    [note] = add_note([first], again, 60.0, in_service=True)
    assert [job for job, _ in note.attempts] == list(range(20))


# --- the pace -------------------------------------------------------------------------------------


def test_the_first_drains_are_at_once_and_the_others_one_by_one() -> None:
    notes = [fault(i, ago=0) for i in range(1, 7)]
    waits = [due(notes, own, 2, 3) - NOW for own in notes]
    assert waits == [0, 0, 0, 2, 4, 6]


def test_a_quiet_time_gives_the_free_drains_back() -> None:
    notes = [*[fault(i, ago=100) for i in range(1, 6)], fault(6, ago=0)]
    assert due(notes, notes[-1], 2, 3) == NOW


def test_without_a_pace_every_drain_is_at_once() -> None:
    notes = [fault(i, ago=0) for i in range(1, 7)]
    assert {due(notes, own, 0, 3) for own in notes} == {NOW}
