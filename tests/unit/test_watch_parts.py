"""The watcher's parts: what it holds back, keeps, and when it has what looked at."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_failover.anchors import read_anchors
from slurm_failover.model import Event, FaultClass, Scope
from slurm_failover.node import gpu_events
from slurm_failover.node.catch import KINDS, PER_KIND, Catch, kind_of
from slurm_failover.node.caught import Caught, read_caught, write_caught
from slurm_failover.node.gpu_events import SOURCE, XidEvent, judge_xids, not_in_log
from slurm_failover.node.look import read_rules
from slurm_failover.node.schedule import BURST, PACE, STORM_INTERVAL, Schedule
from slurm_failover.settings.tables import SourceSettings
from slurm_failover.sources.sieve import Sieve

XID = b"3,%d,100,-;NVRM: Xid (PCI:0000:3b:00): %d, pid=1, Ch 0000001%d\n"


# --- the sieve ------------------------------------------------------------------------------------


@given(
    st.lists(st.binary(max_size=60), max_size=40),
    st.lists(st.binary(min_size=1, max_size=4), min_size=1, max_size=5),
)
def test_the_sieve_holds_back_exactly_what_no_anchor_stands_in(
    records: list[bytes], anchors: list[bytes]
) -> None:
    found = [raw for _, raw in Sieve(tuple(anchors)).sift([*records, *records])]
    assert found == [r for r in [*records, *records] if any(anchor in r for anchor in anchors)]


def test_messages_that_differ_in_numbers_alone_are_searched_once() -> None:
    class Counting(bytes):
        searched = 0

        def __contains__(self, item: object) -> bool:
            Counting.searched += 1
            return bytes.__contains__(self, item)  # type: ignore[operator]

    sieve = Sieve((b"NVRM",))
    for number in range(100):
        sieve.sift([Counting(b"6,%d,%d,-;usb %d-1: reset\n" % (number, number, number))])
    assert Counting.searched == 1


def test_anchors_of_digits_are_found_behind_a_harmless_message_of_the_same_shape() -> None:
    sieve = Sieve((b"Xid 79",))
    assert sieve.sift([b"6,1,1,-;Xid 13\n", b"6,2,2,-;Xid 79\n"]) == [
        (b"Xid 79", b"6,2,2,-;Xid 79\n")
    ]


def test_no_shipped_anchor_is_lost_by_dulling_it() -> None:
    for anchor in read_anchors():
        assert Sieve(read_anchors()).sift([b"3,1,1,-;x " + anchor + b" y\n"])


# --- the catch ------------------------------------------------------------------------------------


def test_of_a_storm_the_newest_are_kept_and_of_everything_else_all() -> None:
    catch = Catch()
    catch.add(b"NVRM:", XID % (0, 79, 1))
    for number in range(1, 1000):
        catch.add(b"NVRM:", XID % (number, 31, number % 10))
    kept = catch.records()
    assert kept[0] == XID % (0, 79, 1)
    assert [b": 31," in raw for raw in kept[1:]] == [True] * PER_KIND
    assert kept[-1] == XID % (999, 31, 9)


def test_a_user_with_many_names_pushes_out_his_own_lines_alone() -> None:
    catch = Catch()
    catch.add(b"Killed", XID % (0, 79, 1))
    for number in range(1, 5000):
        catch.add(b"Killed", b"3,%d,1,-;Killed process %d (a) total-vm\n" % (number, number))
    kept = catch.records()
    assert kept[0] == XID % (0, 79, 1)
    assert len(kept) == KINDS


@given(st.lists(st.binary(max_size=80), max_size=20))
def test_whatever_was_caught_is_read_back_or_left_out(tmp_path_factory, texts) -> None:  # type: ignore[no-untyped-def]
    folder = str(tmp_path_factory.mktemp("watch"))
    records = [b"3,%d,1,-;" % n + text.replace(b"\n", b"") + b"\n" for n, text in enumerate(texts)]
    write_caught(folder, Caught("boot", 99, tuple(records)))
    caught = read_caught(folder, "boot")
    assert caught is not None
    assert caught.position == 99
    assert len(caught.records) == len(records)
    assert read_caught(folder, "another boot") is None


GPU = "NVRM: Xid (PCI:0000:3b:00): "
INSTANCE = "NVRM: Xid (PCI:0000:3b:00 GPU-I:05): "
BANK = "mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 17: "


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (f"{GPU}31, pid=1, name=a", f"{GPU}31, pid=2345, name=b", True),
        (f"{GPU}31, pid=1, name=a", f"{GPU}79, pid=1, name=a", False),
        (f"{GPU}31, pid=1", f"{GPU.replace('3b', '86')}31, pid=1", False),
        (f"{INSTANCE}31, pid=1", f"{INSTANCE}79, pid=1", False),
        (f"{BANK}dc2040000000011b", f"{BANK}be00000000800400", False),
    ],
)
def test_repeats_are_of_one_kind_and_other_codes_and_devices_are_not(
    first: str, second: str, same: bool
) -> None:
    kinds = {kind_of(f"3,{n},{n},-;{text}\n".encode()) for n, text in enumerate((first, second))}
    assert (len(kinds) == 1) is same


# --- the schedule ---------------------------------------------------------------------------------


def begun(interval: float = 120.0) -> Schedule:
    schedule = Schedule(interval)
    schedule.look(0)
    return schedule


def test_the_first_look_is_due_at_once_and_the_next_after_the_interval() -> None:
    schedule = Schedule(120)
    assert schedule.look_in(50) <= 0
    schedule.look(50)
    assert schedule.look_in(50) == 120


def test_a_suspicious_record_is_judged_at_once_and_a_look_follows() -> None:
    schedule = begun()
    assert schedule.judge_in(1) == float("inf")
    schedule.notice(b"a")
    assert schedule.judge_in(20) <= 0
    schedule.judge(20)
    assert schedule.look_in(20) <= 0


def test_a_storm_of_one_kind_is_judged_every_now_and_then() -> None:
    schedule = begun()
    schedule.notice(b"a")
    schedule.judge(1)
    schedule.notice(b"a")
    assert schedule.judge_in(2) == STORM_INTERVAL - 1


def test_a_fault_in_the_middle_of_a_storm_of_another_kind_does_not_wait() -> None:
    schedule = begun()
    schedule.notice(b"a")
    schedule.judge(1)
    schedule.notice(b"a")
    schedule.notice(b"b")
    assert schedule.judge_in(2) <= 0


def test_many_kinds_at_once_are_judged_together_and_none_waits_long() -> None:
    schedule, now, checks = begun(), 0.0, 0
    for number in range(6000):
        now = number / 100
        schedule.notice(b"%d" % number)
        if schedule.judge_in(now) <= 0:
            schedule.judge(now)
            checks += 1
        assert not schedule.is_waiting or schedule.judge_in(now) <= PACE
    assert checks <= BURST + now / PACE


def test_looks_keep_their_distance_in_a_storm() -> None:
    schedule = begun()
    for _ in range(5):
        schedule.hurry(3)
    assert schedule.look_in(3) == STORM_INTERVAL - 3


def test_what_could_not_be_judged_comes_back_later_and_later() -> None:
    schedule, now, pauses = begun(), 0.0, []
    schedule.notice(b"a")
    for _ in range(10):
        now += max(schedule.judge_in(now), 0)
        schedule.judge(now)
        schedule.failed(now)
        pauses.append(schedule.judge_in(now))
    assert pauses[:3] == [1, 2, 4]
    assert pauses[-1] == 60
    schedule.judged()
    assert (schedule.is_waiting, schedule.failures) == (False, 0)


def test_the_schedule_forgets_kinds_that_are_over() -> None:
    schedule = begun()
    for number in range(1000):
        schedule.notice(b"%d" % number)
        schedule.judge(number * 1.0)
    assert len(schedule._checked) <= STORM_INTERVAL + 1


# --- NVML's events --------------------------------------------------------------------------------


def xids_of(*codes: int, pci: str = "0000:3b:00", at: float = 1000.0) -> list[XidEvent]:
    return [XidEvent(at + n, pci, code) for n, code in enumerate(codes)]


def test_an_xid_from_nvml_is_judged_by_the_rules_of_the_kernels_messages() -> None:
    rules = read_rules(SourceSettings(rules=""))
    lost, bug = judge_xids(xids_of(79, 31), rules)
    assert (lost.klass, lost.pci, lost.code) == (FaultClass.HARDWARE, "0000:3b:00", 79)
    assert bug.klass is FaultClass.INTERNAL
    assert lost.trusted


def test_an_xid_of_a_mig_instance_names_it() -> None:
    rules = read_rules(SourceSettings(rules=""))
    (event,) = judge_xids([XidEvent(1.0, "0000:3b:00", 31, 5)], rules)
    assert event.gpu_instance == 5


@pytest.mark.parametrize(
    ("pci", "code", "time", "kept"),
    [
        ("0000:3b:00", 79, 1000.0, 0),
        ("0000:3b:00", 79, 1059.0, 0),
        ("0000:86:00", 79, 1000.0, 1),
        ("0000:3b:00", 48, 1000.0, 1),
        ("0000:3b:00", 79, 1100.0, 1),
    ],
)
def test_an_xid_that_the_log_tells_as_well_is_the_logs(
    pci: str, code: int, time: float, kept: int
) -> None:
    def event(source: str, pci: str, code: int, time: float) -> Event:
        return Event(
            *("xid", FaultClass.HARDWARE, Scope.GPU, f"xid-{code}", ""),
            code=code,
            pci=pci,
            time=time,
            source=source,
        )

    heard = event(SOURCE, "0000:3b:00", 79, 1000.0)
    assert len(not_in_log([heard], [event("kmsg", pci, code, time)])) == kept


def test_events_are_read_back_from_the_last_that_was_judged_on(tmp_path: Path) -> None:
    gpu_events.write_xids(str(tmp_path), xids_of(*range(100)))
    assert len(gpu_events.read_xids(str(tmp_path))) == gpu_events.KEEP
    assert [xid.xid for xid in gpu_events.read_xids(str(tmp_path), 1097.0)] == [98, 99]


@pytest.mark.parametrize("torn", ["", "[", "{}", "[[1]]", '[["a", 1, 2, 3]]', "[1, 2]", "\xff"])
def test_a_torn_file_of_events_is_none(tmp_path: Path, torn: str) -> None:
    (tmp_path / "events").write_text(torn, encoding="latin-1")
    assert gpu_events.read_xids(str(tmp_path)) == []


@pytest.mark.parametrize("part", [{}, {"pci": None, "xid": 79}, {"pci": "x", "xid": 1, "time": 1}])
def test_what_names_no_gpu_is_no_xid(part: dict[str, object]) -> None:
    assert gpu_events.read_heard({"time": time.time(), **part}) is None
