"""The kernel's log as a source: what is new, what is suspicious, and how far it reaches."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from slurm_failover.errors import SourceUnreadable
from slurm_failover.sources import kmsg

ANCHORS = (b"NVRM:", b"Xid")
LOG = (
    b"6,10,100,-;usb 1-1: new device\n"
    b"3,11,200,-;NVRM: Xid (PCI:0000:3b:00): 79\n"
    b" SUBSYSTEM=pci\n"
    b" DEVICE=+pci:0000:3b:00.0\n"
    b"6,12,300,-;eth0: up\n"
)


def test_a_look_finds_the_suspicious_records_and_the_last_number(tmp_path: Path) -> None:
    (tmp_path / "kmsg").write_bytes(LOG)
    found = kmsg.glance(str(tmp_path / "kmsg"), ANCHORS)
    assert found.last == 12
    assert [kmsg.sequence(raw) for raw in found.suspicious] == [11]
    assert found.suspicious[0].endswith(b" DEVICE=+pci:0000:3b:00.0\n")


def test_what_was_looked_at_is_not_looked_at_again(tmp_path: Path) -> None:
    (tmp_path / "kmsg").write_bytes(LOG)
    assert kmsg.glance(str(tmp_path / "kmsg"), ANCHORS, after=11) == kmsg.Glance([], 12)
    assert kmsg.glance(str(tmp_path / "kmsg"), ANCHORS, after=12) == kmsg.Glance([], 12)


def test_an_empty_log_reaches_nowhere(tmp_path: Path) -> None:
    (tmp_path / "kmsg").touch()
    assert kmsg.glance(str(tmp_path / "kmsg"), ANCHORS) == kmsg.Glance([], -1)


def test_a_fifo_without_a_writer_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "kmsg")
    assert kmsg.glance(str(tmp_path / "kmsg"), ANCHORS) == kmsg.Glance([], -1)


def test_a_fifo_gives_what_is_in_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "kmsg")
    handle = os.open(tmp_path / "kmsg", os.O_RDWR | os.O_NONBLOCK)
    os.write(handle, LOG)
    assert kmsg.glance(str(tmp_path / "kmsg"), ANCHORS).last == 12
    os.close(handle)


def test_a_log_that_can_not_be_opened_is_unreadable_and_not_clean(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match="can not be read"):
        kmsg.glance(str(tmp_path / "none"), ANCHORS)


def test_a_log_that_can_not_be_read_is_unreadable_and_not_clean(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable):
        kmsg.glance(str(tmp_path), ANCHORS)


@pytest.mark.parametrize("raw", [b"", b"words", b"6,x,1,-;t", b"6,1", b"," * 100])
def test_what_is_no_record_has_no_number(raw: bytes) -> None:
    assert kmsg.sequence(raw) == -1


def test_a_look_at_the_clock_of_the_kernel_is_in_the_past() -> None:
    assert kmsg.boot_id()
    assert 0 < kmsg.boot_time() <= time.time()
