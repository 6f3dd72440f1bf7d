"""The resident watcher: what it notices, when it has what judged, and what it answers."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from slurm_failover.node import service
from slurm_failover.node.ask import Desk, Question, ask_watcher
from slurm_failover.node.caught import is_watched, read_caught
from slurm_failover.node.intake import Intake
from slurm_failover.node.ledger import Ledger, write_ledger
from slurm_failover.node.schedule import Schedule
from slurm_failover.node.systemd import notify
from slurm_failover.node.watch import FAULTS, LOOK, Ears, Watcher
from slurm_failover.settings.tables import Settings, StateSettings
from slurm_failover.sources.follow import follow

ANCHORS = (b"NVRM:", b"Link down")
LOST = b"3,%d,100,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
NOISE = b"6,%d,102,-;usb 1-1: new high-speed USB device number 7\n"
BOOT = "boot-1"
DEADLINE = 20.0


class Checks:
    """Checks that end when the test says so."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.running: set[str] = set()
        self.ending: list[str] = []
        self.refuse = False

    def runs(self, name: str) -> bool:
        return name in self.running

    def start(self, name: str, now: float) -> None:
        if self.refuse:
            raise BlockingIOError("no process")
        self.started.append(name)
        self.running.add(name)

    def reap(self, now: float) -> list[str]:
        ended, self.ending = self.ending, []
        self.running -= set(ended)
        return ended

    def next_limit(self, now: float) -> float:
        return 0.01 if self.running else float("inf")


class Node:
    """A node whose watcher runs in a thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "watch"
        self.folder.mkdir()
        self.kmsg = folder / "kmsg"
        self.kmsg.touch()
        self.checks = Checks()
        self.ledger = Ledger(boot=BOOT)
        self.said: list[str] = []
        self.beats = 0
        self.desk: Callable[[str], Desk] = Desk
        self.watcher: Watcher | None = None
        self.thread: threading.Thread | None = None

    def start(self, interval: float = 3600.0) -> None:
        intake = Intake(str(self.folder), ANCHORS, BOOT, self.ledger.cursor)
        held = read_caught(str(self.folder), BOOT)
        schedule = Schedule(interval)
        for kind in intake.take(held.records) if held else ():
            schedule.notice(kind)
        ears = Ears(follow(str(self.kmsg), ""), self.desk(str(self.folder)))
        self.watcher = Watcher(
            intake,
            ears,
            schedule,
            checks=self.checks,
            read_ledger=lambda: self.ledger,
            say=self.said.append,
        )

        def run(watcher: Watcher = self.watcher) -> None:
            try:
                watcher.run(self.beat)
            finally:
                ears.close()

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def beat(self) -> None:
        self.beats += 1

    def stop(self) -> None:
        if self.watcher is not None and self.thread is not None:
            self.watcher.stop()
            self.thread.join(DEADLINE)
            assert not self.thread.is_alive()

    def write(self, *records: bytes) -> None:
        with self.kmsg.open("ab") as file:
            file.write(b"".join(records))

    def ask(self, start: float = 0.0) -> str:
        return ask_watcher(str(self.folder), start)

    def wait(self, condition: object) -> None:
        deadline = time.monotonic() + DEADLINE
        while not condition():  # type: ignore[operator]
            assert time.monotonic() < deadline, (self.checks.started, self.said)
            threading.Event().wait(0.01)

    def end(self, name: str, cursor: int | None = None) -> None:
        """Let a check end that judged up to ``cursor``."""
        self.wait(lambda: name in self.checks.running)
        if cursor is not None:
            self.ledger = self.ledger.judged(cursor)
        self.checks.ending.append(name)
        self.wait(lambda: name not in self.checks.running or self.checks.ending == [])

    def caught(self) -> list[bytes]:
        held = read_caught(str(self.folder), BOOT)
        return list(held.records) if held else []


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.stop()


def test_a_watcher_begins_with_a_look_at_everything(node: Node) -> None:
    node.start()
    node.wait(lambda: node.checks.started == [LOOK])


def test_a_fault_is_judged_at_once_and_laid_out_for_the_check(node: Node) -> None:
    node.start()
    node.end(LOOK)
    node.write(NOISE % 1, LOST % 2)
    node.wait(lambda: FAULTS in node.checks.started)
    assert node.caught() == [LOST % 2]


def test_a_fault_is_judged_while_a_slow_look_goes_on(node: Node) -> None:
    node.start()
    node.wait(lambda: node.checks.running == {LOOK})
    node.write(LOST % 1)
    node.wait(lambda: node.checks.running == {LOOK, FAULTS})


def test_what_a_check_left_unjudged_is_judged_again(node: Node) -> None:
    node.start()
    node.end(LOOK)
    node.write(LOST % 5)
    node.end(FAULTS, cursor=4)
    node.wait(lambda: node.checks.started.count(FAULTS) == 2)
    node.end(FAULTS, cursor=5)
    node.wait(lambda: node.ask() == "clean")
    assert node.checks.started.count(FAULTS) == 2


def test_a_check_that_can_not_be_started_is_started_later(node: Node) -> None:
    node.start()
    node.end(LOOK)
    node.checks.refuse = True
    node.write(LOST % 5)
    node.wait(lambda: any("can not be started" in line for line in node.said))
    node.checks.refuse = False
    node.wait(lambda: FAULTS in node.checks.started)


def test_records_from_before_the_start_are_judged(node: Node) -> None:
    node.write(LOST % 1, NOISE % 2)
    node.start()
    node.wait(lambda: FAULTS in node.checks.started)


def test_records_that_were_judged_before_the_start_are_not_judged_again(node: Node) -> None:
    node.write(LOST % 7, NOISE % 8)
    node.ledger = Ledger(boot=BOOT, cursor=7)
    node.start()
    node.end(LOOK)
    assert node.ask() == "clean"
    assert node.checks.started == [LOOK]
    assert node.caught() == [LOST % 7]


def test_a_watcher_begins_after_a_reboot_with_the_first_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Intake] = []
    monkeypatch.setattr(service, "Watcher", lambda intake, *_, **__: made.append(intake))
    memory = tmp_path / "node" / "ledger.json"
    memory.parent.mkdir()
    memory.write_text(write_ledger(Ledger(boot="an earlier boot", cursor=9000)))
    settings = Settings(state=StateSettings(directory=str(tmp_path)))
    service.make_watcher(settings, print, "hooks.py", Mock(), str(tmp_path))
    assert made[0].take([LOST % 1])


def test_after_a_reboot_what_an_earlier_boot_judged_hides_no_record(node: Node) -> None:
    node.write(LOST % 1)
    node.ledger = Ledger(boot="an earlier boot", cursor=9000)
    intake = Intake(str(node.folder), ANCHORS, BOOT, -1)
    assert intake.take([LOST % 1])
    assert not intake.is_judged(node.ledger)
    assert intake.is_judged(Ledger(boot=BOOT, cursor=9000))


def test_what_was_caught_outlives_its_watcher_and_the_kernels_own_log(node: Node) -> None:
    node.start()
    node.end(LOOK)
    node.write(LOST % 5)
    node.wait(lambda: FAULTS in node.checks.started)
    node.stop()
    node.checks.running.clear()
    node.kmsg.write_bytes(NOISE % 6)
    node.start()
    node.wait(lambda: node.checks.started.count(FAULTS) == 2)
    assert node.caught() == [LOST % 5]


@pytest.mark.parametrize(
    "torn", [b"", b"boot-1", b"boot-1 x\n", b"\xff\xfe", b"boot-0 9\n3,9,1,-;"]
)
def test_a_torn_file_of_what_was_caught_is_a_new_beginning(node: Node, torn: bytes) -> None:
    (node.folder / "caught").write_bytes(torn)
    node.write(LOST % 5)
    node.start()
    node.wait(lambda: FAULTS in node.checks.started)
    assert node.caught() == [LOST % 5]


def test_an_answer_holds_for_all_that_was_written_before_the_question(node: Node) -> None:
    node.start()
    node.end(LOOK)
    for number in range(30):
        node.write(NOISE % number)
        assert node.ask() == "clean"
    for number in range(30, 40):
        node.write(LOST % number)
        assert node.ask() == "busy"
        assert node.caught()[-1] == LOST % number


def test_a_record_that_comes_with_the_question_is_in_the_answer(node: Node) -> None:
    class LateDesk(Desk):
        """A desk at which a fault comes in with every question."""

        def questions(self) -> list[Question]:
            asked = super().questions()
            if asked:
                node.write(LOST % 3)
            return asked

    node.desk = LateDesk
    node.start()
    node.end(LOOK)
    assert node.ask() == "busy"
    assert node.caught() == [LOST % 3]


def test_a_job_in_whose_time_something_was_noticed_gets_no_clean_answer(node: Node) -> None:
    node.write(LOST % 7)
    node.ledger = Ledger(boot=BOOT, cursor=7)
    node.start()
    node.end(LOOK)
    written = time.time() - time.clock_gettime(time.CLOCK_MONOTONIC) + 0.0001
    assert node.ask(written - 5) == "busy"
    assert node.ask(written + 5) == "clean"


def test_a_watcher_that_does_not_get_its_work_done_says_so(node: Node) -> None:
    node.start()
    node.end(LOOK)
    node.write(LOST % 5)
    node.end(FAULTS)
    node.end(FAULTS)
    node.wait(lambda: node.ask() == "blind")


def test_a_hook_that_asks_leaves_nothing_behind(node: Node) -> None:
    node.start()
    node.ask()
    assert not list(node.folder.glob("answer.*"))


def test_nobody_waits_where_no_watcher_lives(node: Node) -> None:
    assert node.ask() == ""
    node.start()
    node.stop()
    assert not is_watched(str(node.folder))
    os.mkfifo(node.folder / "ask")
    assert node.ask() == ""


def test_nonsense_at_the_desk_harms_nobody(node: Node) -> None:
    node.start()
    with (node.folder / "ask").open("wb") as desk:
        desk.write(b"x\n1\n-1 0\n../../etc 0\n\xff\n" + b"9" * 1000 + b"\n")
    node.end(LOOK)
    assert node.ask() == "clean"


def test_a_killed_hooks_answer_is_tidied_up(node: Node) -> None:
    left = node.folder / "answer.999999999"
    os.mkfifo(left)
    node.start()
    node.wait(lambda: not left.exists())


@pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "emptied"])
def test_a_log_that_begins_anew_is_read_from_its_beginning(node: Node, replaced: bool) -> None:
    node.write(*(NOISE % n for n in range(3)))
    node.start()
    node.end(LOOK)
    if replaced:
        node.kmsg.unlink()
    node.kmsg.write_bytes(LOST % 9)
    node.wait(lambda: FAULTS in node.checks.started)


def test_a_torn_record_is_judged_when_it_is_whole(node: Node) -> None:
    record = LOST % 4
    node.start()
    node.end(LOOK)
    node.write(record[:50])
    assert node.ask() == "clean"
    node.write(record[50:])
    assert node.ask() == "busy"


def test_a_flood_of_noise_hides_no_fault_and_delays_no_answer(node: Node) -> None:
    node.start()
    node.end(LOOK)
    block = b"".join(NOISE % n for n in range(1000))
    for part in range(100):
        node.write(block, *([LOST % (2000 + part)] if part % 10 == 5 else []))
        if part % 20 == 0:
            assert node.ask() in ("clean", "busy")
    node.wait(lambda: node.ask() == "busy" and len(node.caught()) == 10)


def test_systemd_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(address)
        monkeypatch.setitem(os.environ, "NOTIFY_SOCKET", address)
        notify("READY=1")
        assert channel.recv(100) == b"READY=1"


def test_a_systemd_that_is_not_there_ends_no_watcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/notify")
    notify("WATCHDOG=1")
