"""A node's looks beside its watcher: what was caught, how far they reach, and NVML's events."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_node import GpuNode
from gpu_node import node as gpus  # noqa: F401 - a fixture
from nvml_stand_in import stand_in_library  # noqa: F401 - a fixture
from test_checks import LOST, MEMORY_FAULT, Node
from test_checks import node as plain  # noqa: F401 - a fixture

from slurm_failover.evidence import read_evidence
from slurm_failover.model import JobCause
from slurm_failover.node import caught, gpu_events
from slurm_failover.node.ask import Desk
from slurm_failover.node.caught import Caught, write_caught
from slurm_failover.node.gpu_events import XidEvent
from slurm_failover.node.look import look_at_log
from slurm_failover.slurm.client import NodeChange
from slurm_failover.sources import kmsg

LOST_RECORD = f"3,5,5000,-;{LOST}\n".encode()


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a watcher."""
    folder = tmp_path / "watch"
    folder.mkdir()
    monkeypatch.setattr(caught, "FOLDER", str(folder))
    return folder


@pytest.fixture
def alive(watch: Path) -> Iterator[Path]:
    """The folder of a watcher that answers every hook."""
    desk, over = Desk(str(watch)), threading.Event()

    def serve() -> None:
        while not over.is_set():
            select.select([desk.fileno()], [], [], 0.05)
            for question in desk.questions():
                desk.answer(question, "busy")

    thread = threading.Thread(target=serve)
    thread.start()
    yield watch
    over.set()
    thread.join()
    desk.close()


def boot_of(node: Node) -> str:
    return kmsg.boot_id(node.settings.sources.proc)


def now() -> int:
    """Microseconds of the clock that stamps records."""
    return int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)


def record(number: int, text: str) -> bytes:
    return f"3,{number},{now()},-;{text}\n".encode()


def test_what_a_flood_has_overwritten_is_judged_by_what_was_caught(
    plain: Node,  # noqa: F811
    watch: Path,
) -> None:
    label = plain.run_job()
    write_caught(str(watch), Caught(boot_of(plain), 3, (record(2, LOST),)))
    plain.log.write_bytes(record(9, "usb 1-1: new device"))
    assert plain.end_job(label)
    assert "Xid 79" in plain.reason
    assert plain.causes() == [JobCause.HARDWARE]
    assert not plain.checks().check_health()


def test_what_was_caught_is_judged_where_the_log_itself_holds_nothing(
    plain: Node,  # noqa: F811
    watch: Path,
) -> None:
    write_caught(str(watch), Caught(boot_of(plain), 3, (record(2, LOST),)))
    assert plain.checks().check_health()
    assert not plain.checks().check_health()


def test_what_another_boot_caught_is_nothing(plain: Node, watch: Path) -> None:  # noqa: F811
    write_caught(str(watch), Caught("another", 3, (record(2, LOST),)))
    assert not plain.checks().check_health()
    assert plain.reason == ""


def test_a_look_beside_a_live_watcher_ends_where_the_watcher_stands(
    plain: Node,  # noqa: F811
    alive: Path,
) -> None:
    write_caught(str(alive), Caught(boot_of(plain), 7, (record(5, LOST),)))
    plain.log.write_bytes(record(6, MEMORY_FAULT) + record(8, LOST))
    look = look_at_log(plain.settings.sources)
    assert [kmsg.sequence(raw) for raw in look.records] == [5, 6]
    assert look.last == 7


def test_a_look_without_a_live_watcher_goes_to_the_end_of_the_log(
    plain: Node,  # noqa: F811
    watch: Path,
) -> None:
    write_caught(str(watch), Caught(boot_of(plain), 7, (record(5, LOST),)))
    plain.log.write_bytes(record(6, MEMORY_FAULT) + record(8, LOST))
    look = look_at_log(plain.settings.sources)
    assert [kmsg.sequence(raw) for raw in look.records] == [5, 6, 8]
    assert look.last == 8


def test_no_hook_takes_a_record_out_of_the_watchers_pipe(
    plain: Node,  # noqa: F811
    watch: Path,
) -> None:
    plain.log.unlink()
    os.mkfifo(plain.log)
    write_caught(str(watch), Caught(boot_of(plain), 7, ()))
    pipe = os.open(plain.log, os.O_RDWR | os.O_NONBLOCK)
    os.write(pipe, record(8, LOST))
    assert not plain.checks().check_health()
    assert b"Xid" in os.read(pipe, 4096)
    os.close(pipe)


def test_a_record_that_was_judged_is_not_judged_again_for_standing_in_both(
    plain: Node,  # noqa: F811
    alive: Path,
) -> None:
    lost = record(5, LOST)
    plain.log.write_bytes(lost)
    write_caught(str(alive), Caught(boot_of(plain), 5, (lost,)))
    assert plain.checks().check_faults()
    plain.slurm.update_node("n1", NodeChange(resume=True))
    assert not plain.checks().check_faults()
    assert not plain.checks().check_health()
    assert "DRAIN" not in plain.slurm.nodes("n1")[0].states


def test_a_log_that_is_gone_is_no_matter_beside_a_live_watcher(
    plain: Node,  # noqa: F811
    alive: Path,
) -> None:
    plain.log.unlink()
    write_caught(str(alive), Caught(boot_of(plain), 5, (record(5, LOST),)))
    assert plain.checks().check_faults()


def test_a_mute_watcher_is_said_once_and_once_more_when_it_answers(
    plain: Node,  # noqa: F811
    watch: Path,
) -> None:
    os.mkfifo(watch / "ask")  # which nobody reads
    for _ in range(2):
        plain.checks().check_health()
    assert [line for line in plain.said if "watcher" in line] == [
        "can not see the watcher: it was started and does not answer, so the hooks do its work"
    ]
    (watch / "ask").unlink()
    for _ in range(2):
        plain.checks().check_health()
    assert plain.said[1:] == ["can see again what watcher shows"]


# --- NVML's events --------------------------------------------------------------------------------


def heard(watch: Path, xid: int, pci: str = "0000:3b:00") -> None:
    known = gpu_events.read_xids(str(watch))
    gpu_events.write_xids(str(watch), [*known, XidEvent(time.time(), pci, xid)])


def test_an_xid_that_only_nvml_tells_of_drains_and_stops_the_job(
    gpus: GpuNode,  # noqa: F811
    watch: Path,
) -> None:
    label = gpus.run_job()
    gpus.checks().check_health()
    heard(watch, 79)
    assert gpus.checks().check_faults()
    assert gpus.reason.startswith("slurm-failover: Xid 79 on GPU 0000:3b:00")
    assert gpus.slurm.job(label).held
    assert not gpus.checks().check_faults()
    assert not gpus.checks().check_health()


def test_a_programs_xid_from_nvml_drains_nothing(gpus: GpuNode, watch: Path) -> None:  # noqa: F811
    gpus.run_job()
    heard(watch, 31)
    assert not gpus.checks().check_faults()
    assert gpus.reason == ""


def test_an_xid_in_both_is_judged_once_and_by_the_log(
    gpus: GpuNode,  # noqa: F811
    watch: Path,
) -> None:
    gpus.run_job()
    gpus.record(LOST)
    heard(watch, 79)
    assert gpus.checks().check_faults()
    assert gpus.reason.count("79") == 1
    ledger = gpus.checks().read_ledger()
    assert (len(ledger.faults), ledger.events) == (1, ())


def test_the_watchers_check_waits_for_no_nvml_where_the_gpus_are_known(
    gpus: GpuNode,  # noqa: F811
    watch: Path,
) -> None:
    gpus.run_job()
    gpus.checks().check_health()
    gpus.gpus(hang__nvmlInitWithFlags=1)
    gpus.sources(nvml_timeout=20)
    gpus.record(LOST)
    begun = time.monotonic()
    assert gpus.checks().check_faults()
    assert time.monotonic() - begun < gpus.settings.sources.nvml_timeout / 2
    entries = read_evidence("n1", gpus.slurm.peek_node("n1").extra)
    assert [entry.cause for entry in entries] == [JobCause.HARDWARE]


def test_the_ended_jobs_xid_is_told_by_nvml_as_well(gpus: GpuNode, watch: Path) -> None:  # noqa: F811
    label = gpus.run_job()
    heard(watch, 79)
    assert gpus.end_job(label)
    assert [cause for cause, _ in gpus.evidence()] == [JobCause.HARDWARE]


def test_settings_may_name_the_journal_alone(plain: Node, tmp_path: Path) -> None:  # noqa: F811
    program = tmp_path / "journalctl"
    entry = (
        '{"_TRANSPORT":"kernel","SYSLOG_FACILITY":"0","PRIORITY":"3",'
        f'"_SOURCE_MONOTONIC_TIMESTAMP":"{now()}","MESSAGE":"{LOST}"}}'
    )
    (tmp_path / "journal").write_text(entry + "\n")
    program.write_text(f"#!/bin/sh\nexec cat {tmp_path}/journal\n")
    program.chmod(0o755)
    sources = replace(plain.settings.sources, kmsg="", journalctl=str(program))
    plain.settings = replace(plain.settings, sources=sources)
    assert plain.checks().check_health()
    assert "Xid 79" in plain.reason
    assert not plain.checks().check_health()
