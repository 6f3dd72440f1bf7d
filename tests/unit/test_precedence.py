"""Events side by side, each made for the purpose: which counts, which explains, which is let go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurm_failover.classify import judge, weigh
from slurm_failover.model import Event, FaultClass, JobCause, NodeAction, Role, Scope, Window

HARDWARE, INTERNAL, AMBIGUOUS = FaultClass.HARDWARE, FaultClass.INTERNAL, FaultClass.AMBIGUOUS
OURS, OTHER = "0000:3b:00", "0000:5e:00"


def event(
    klass: FaultClass, at: float | None = 100.0, role: Role = Role.ROOT, **more: Any
) -> Event:
    known: dict[str, Any] = {
        "kind": "xid",
        "scope": Scope.GPU,
        "rule": f"a-{klass.value}",
        "because": f"{klass.value} {role.value} at {at}",
        "code": 1,
        "pci": OURS,
        "role": role,
        "time": at,
        "last_time": at,
        "trusted": True,
    }
    return Event(klass=klass, **{**known, **more})


def echo(at: float = 100.0, klass: FaultClass = AMBIGUOUS, **more: Any) -> Event:
    return event(klass, at, Role.ECHO, **more)


def hint(at: float | None = 100.0, **more: Any) -> Event:
    return event(AMBIGUOUS, at, Role.HINT, **{"kind": "aer", **more})


def cause(*events: Event, **how: Any) -> JobCause:
    return judge(events, **how).cause


# --- order ----------------------------------------------------------------------------------------


def test_the_earliest_root_is_named_from_the_first_moment_on() -> None:
    first, second = event(HARDWARE, 0.0), event(HARDWARE, 0.5)
    assert judge([second, first]).root is first


def test_where_one_time_is_not_known_the_order_of_the_log_counts() -> None:
    later, unknown = event(HARDWARE, 100.0), event(HARDWARE, None)
    assert judge([later, unknown, event(HARDWARE, 5.0)]).root is later


def test_all_that_was_in_the_jobs_time_comes_with_the_judgement() -> None:
    told = [event(INTERNAL), event(FaultClass.INFORMATIONAL, 300.0), event(AMBIGUOUS, 500.0)]
    assert judge(told).events == tuple(told)
    assert judge(told, Window(250.0, 320.0)).events == (told[1],)


# --- the window of the job ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "last", "counts"),
    [
        (150.0, 9000.0, True),
        (10.0, 150.0, True),
        (10.0, 9000.0, True),
        (10.0, 20.0, False),
        (9000.0, 9001.0, False),
        (None, None, False),
        (None, 9000.0, False),
        (10.0, None, False),
        (None, 150.0, True),
    ],
)
def test_an_event_counts_that_was_at_any_moment_of_the_job(
    first: float | None, last: float | None, counts: bool
) -> None:
    told = replace(event(HARDWARE), time=first, last_time=last)
    assert (cause(told, window=Window(100.0, 200.0)) is JobCause.HARDWARE) is counts


# --- what was judged before -----------------------------------------------------------------------


def test_what_was_judged_before_is_neither_a_cause_nor_a_need_again() -> None:
    old = event(HARDWARE, node_action=NodeAction.REBOOT)
    again = judge([], earlier=[old])
    assert (again.cause, again.node, again.root) == (JobCause.UNKNOWN, NodeAction.NONE, None)
    fresh = judge([event(INTERNAL, 200.0, pci=OTHER)], earlier=[old])
    assert (fresh.cause, fresh.node) == (JobCause.INTERNAL, NodeAction.NONE)


def test_what_was_judged_before_explains_its_consequences() -> None:
    assert cause(echo(120.0), earlier=[event(INTERNAL)]) is JobCause.INTERNAL
    assert cause(echo(120.0), earlier=[event(HARDWARE)]) is JobCause.HARDWARE


def test_a_consequence_is_not_explained_by_what_came_after_it() -> None:
    assert cause(echo(100.0, HARDWARE), event(INTERNAL, 101.0)) is JobCause.HARDWARE
    assert cause(event(INTERNAL, 99.0), echo(100.0, HARDWARE)) is JobCause.INTERNAL


@pytest.mark.parametrize(("apart", "explains"), [(600.0, True), (600.5, False)])
def test_a_cause_explains_for_ten_minutes(apart: float, explains: bool) -> None:
    assert (judge([event(HARDWARE), echo(100.0 + apart)]).node is NodeAction.DRAIN) is explains


# --- hints ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "raises"),
    [
        (hint(), True),
        (hint(700.0), True),
        (hint(701.0), False),
        (hint(None), True),
        (hint(pci=None), True),
        (hint(110.0, pci=None), True),
        (hint(111.0, pci=None), False),
        (hint(pci=OTHER), False),
        (hint(pci="0000:00:01", scope=Scope.NODE), True),
        (hint(111.0, pci="0000:00:01", scope=Scope.NODE), False),
        (event(AMBIGUOUS, kind="aer"), False),
    ],
)
def test_a_hint_raises_what_is_near_in_time_and_may_be_of_its_device(
    told: Event, raises: bool
) -> None:
    doubtful = echo()
    judgement = judge([told, doubtful])
    assert (judgement.cause is JobCause.HARDWARE) is raises
    assert (judgement.node is NodeAction.DRAIN) is raises


@pytest.mark.parametrize(("scope", "raises"), [(Scope.FABRIC, True), (Scope.NODE, False)])
def test_a_hint_raises_nothing_that_is_not_about_a_gpu_or_its_links(
    scope: Scope, raises: bool
) -> None:
    assert (cause(hint(), echo(scope=scope)) is JobCause.HARDWARE) is raises


def test_a_hint_raises_no_root() -> None:
    assert cause(hint(), event(AMBIGUOUS)) is JobCause.UNKNOWN


# --- a request that is taken back -----------------------------------------------------------------

ASKS = echo(100.0, HARDWARE, code=154, node_action=NodeAction.DRAIN)


def done(**more: Any) -> Event:
    return event(FaultClass.INFORMATIONAL, 101.0, Role.CANCEL, **{"code": 154, **more})


@pytest.mark.parametrize(
    ("by", "taken_back"),
    [
        (done(), True),
        (done(pci=OTHER), False),
        (done(code=155), False),
        (done(kind="other"), False),
        (done(trusted=False), False),
    ],
)
def test_only_the_same_trusted_source_takes_a_request_back(by: Event, taken_back: bool) -> None:
    assert (judge([ASKS, by]).node is NodeAction.NONE) is taken_back


def test_a_fault_that_stands_on_its_own_is_not_taken_back() -> None:
    assert judge([replace(ASKS, role=Role.ROOT), done()]).node is NodeAction.DRAIN


def test_what_a_user_could_have_written_is_taken_back_by_anyone() -> None:
    forged = replace(ASKS, trusted=False)
    for by in (done(), done(trusted=False)):
        assert judge([forged, by], untrusted_counts=True).node is NodeAction.NONE


# --- whose it is ----------------------------------------------------------------------------------


def test_what_a_user_wrote_explains_a_job_on_its_own_gpus_alone() -> None:
    told = event(INTERNAL, trusted=False)
    assert cause(told, gpus=frozenset({OURS})) is JobCause.INTERNAL
    assert cause(told, gpus=frozenset({OTHER})) is JobCause.UNKNOWN
    assert weigh([replace(told, klass=HARDWARE)], gpus=frozenset({OTHER})).cause is JobCause.UNKNOWN
    assert weigh([replace(told, klass=HARDWARE)], gpus=frozenset({OURS})).cause is JobCause.HARDWARE


def test_a_need_of_another_gpu_is_told_with_the_judgement_on_the_job() -> None:
    broken = event(HARDWARE, pci=OTHER, node_action=NodeAction.REBOOT)
    alone = judge([broken], gpus=frozenset({OURS}))
    assert (alone.cause, alone.node, alone.root) == (JobCause.UNKNOWN, NodeAction.REBOOT, broken)
    assert alone.because == (
        "no fault was found that explains the end of a job; "
        f"the node needs a reboot: {broken.because}"
    )
    beside = judge([event(INTERNAL), broken], gpus=frozenset({OURS}))
    assert beside.because == (f"internal root at 100.0; the node needs a reboot: {broken.because}")


def test_a_reader_is_told_the_cause_that_text_names_and_no_need() -> None:
    first = event(HARDWARE, 100.0, trusted=False, node_action=NodeAction.DRAIN)
    second = event(HARDWARE, 200.0, trusted=False, node_action=NodeAction.REBOOT)
    shown = weigh([first, second])
    assert shown.because == f"{first.because}, in text that a user could have written"
    assert (shown.root, shown.node) == (first, NodeAction.NONE)


def test_a_condition_of_a_gpu_shows_that_a_step_ran() -> None:
    image = event(FaultClass.IMAGE_PULL, pci=None, kind="image", scope=Scope.JOB)
    assert cause(image) is JobCause.IMAGE_PULL
    assert cause(image, event(HARDWARE, role=Role.CONDITION)) is JobCause.UNKNOWN


@pytest.mark.parametrize("lost", [{"kind": "gpu_lost", "code": None}, {"kind": "xid", "code": 79}])
@pytest.mark.parametrize(("apart", "named"), [(60.0, True), (60.5, False)])
def test_a_gpu_that_is_lost_within_a_minute_is_named_before_the_switch(
    lost: dict[str, Any], apart: float, named: bool
) -> None:
    switch = event(HARDWARE, kind="sxid", code=20034, pci="0000:c3:00", scope=Scope.FABRIC)
    gone = event(HARDWARE, 100.0 + apart, **lost)
    assert judge([switch, gone]).root is (gone if named else switch)
