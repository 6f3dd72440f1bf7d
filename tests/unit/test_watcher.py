"""The resident watcher: what it notices, and when it looks."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from slurm_failover.errors import SourceUnreadable
from slurm_failover.node.watch import STORM_INTERVAL, Schedule, Watcher, notify
from slurm_failover.sources.follow import Follower

LOST = b"3,7,100,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
BUG = b"3,8,101,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=1, Ch 00000010\n"
NOISE = b"6,9,102,-;usb 1-1: new high-speed USB device\n"


def test_the_first_look_is_due_at_once_and_the_next_after_the_interval() -> None:
    schedule = Schedule(interval=120)
    assert schedule.due_in(50) <= 0
    schedule.begin(50)
    assert schedule.due_in(50) == 120


def test_a_suspicious_record_is_looked_at_at_once() -> None:
    schedule = Schedule(120)
    schedule.begin(0)
    schedule.notice(LOST)
    assert schedule.due_in(1) <= 0


def test_a_storm_of_one_kind_is_looked_at_every_now_and_then() -> None:
    schedule = Schedule(120)
    schedule.begin(0)
    schedule.notice(BUG)
    schedule.begin(1)
    schedule.notice(BUG.replace(b"8,101", b"9,102"))
    assert schedule.due_in(2) == STORM_INTERVAL - 1


def test_a_fault_in_the_middle_of_a_storm_of_another_kind_does_not_wait() -> None:
    schedule = Schedule(120)
    schedule.notice(BUG)
    schedule.begin(0)
    schedule.notice(BUG)
    schedule.notice(LOST)
    assert schedule.due_in(1) <= 0


def test_the_schedule_forgets_kinds_that_are_over() -> None:
    schedule = Schedule(120)
    for number in range(1000):
        schedule.notice(b"3,1,1,-;NVRM: Xid (PCI:%04x:3b:00): 79" % number)
        schedule.begin(number * 1.0)
    assert len(schedule.checked) <= STORM_INTERVAL + 1


def read_all(log: Follower) -> list[bytes]:
    """What the follower gives now."""
    return list(log.read())


def test_a_follower_gives_what_was_written_after_its_opening(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_bytes(NOISE)
    with Follower(str(path)) as log, path.open("ab", buffering=0) as file:
        assert read_all(log) == []
        file.write(LOST + BUG)
        assert read_all(log) == [LOST, BUG]
        assert read_all(log) == []


def test_a_torn_record_is_given_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.touch()
    with Follower(str(path)) as log, path.open("ab", buffering=0) as file:
        file.write(LOST[:30])
        assert read_all(log) == []
        file.write(LOST[30:])
        assert read_all(log) == [LOST]


@pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "emptied"])
def test_a_log_that_begins_anew_is_read_from_its_beginning(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "kmsg"
    path.write_bytes(NOISE * 3)
    with Follower(str(path)) as log:
        if replaced:
            path.unlink()
        path.write_bytes(LOST)
        assert read_all(log) == [LOST]


def test_a_log_that_is_gone_is_said_to_be_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.touch()
    with Follower(str(path)) as log:
        path.unlink()
        with pytest.raises(SourceUnreadable, match="kmsg"):
            read_all(log)


def test_a_flood_of_noise_hides_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.touch()
    looks: list[float] = []
    found = threading.Event()

    def check() -> None:
        looks.append(1)
        if len(looks) == 1:
            with path.open("ab") as file:
                file.write(NOISE * 100_000 + LOST + NOISE * 100_000)
        else:
            found.set()

    watcher = Watcher(str(path), (b"NVRM: Xid",), 3600, check)
    thread = threading.Thread(target=watcher.run, args=(lambda: None,))
    thread.start()
    try:
        assert found.wait(20)
    finally:
        watcher.stop()
        thread.join(20)
    assert len(looks) == 2


def test_systemd_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(address)
        monkeypatch.setitem(os.environ, "NOTIFY_SOCKET", address)
        notify("READY=1")
        assert channel.recv(100) == b"READY=1"


def test_without_systemd_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
