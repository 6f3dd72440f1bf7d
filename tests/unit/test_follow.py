"""The kernel's log as it grows: files, pipes, the device, and the journal."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
import time
from pathlib import Path

import pytest

from slurm_failover.errors import SourceUnreadable
from slurm_failover.sources import follow as following
from slurm_failover.sources.follow import DeviceFollower, follow
from slurm_failover.sources.journal import Numbered, read_journal

RECORD = b"6,%d,102,-;usb 1-1: new device\n"


def entry(text: object, micros: int = 5, **fields: object) -> str:
    """One line of journalctl's JSON."""
    known = {"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0", "PRIORITY": "3", "MESSAGE": text}
    return json.dumps({**known, "_SOURCE_MONOTONIC_TIMESTAMP": str(micros), **fields})


def journalctl(folder: Path, *lines: str, follows: str = "") -> str:
    """A stand-in for journalctl that has these lines."""
    (folder / "journal").write_text("".join(f"{line}\n" for line in lines))
    program = folder / "journalctl"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *--follow*) cat {folder}/journal; {follows or "exit 3"} ;; esac\n'
        f"exec cat {folder}/journal\n"
    )
    program.chmod(0o755)
    return str(program)


def test_a_log_is_read_from_its_oldest_record_on(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_bytes(RECORD % 1)
    log = follow(str(path), "")
    assert log.read() == [RECORD % 1]
    with path.open("ab") as file:
        file.write(RECORD % 2 + (RECORD % 3)[:9])
    assert log.read() == [RECORD % 2]
    assert log.read() == []
    log.close()


def test_a_log_that_is_gone_is_said_to_be_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.touch()
    log = follow(str(path), "")
    path.unlink()
    with pytest.raises(SourceUnreadable, match="kmsg"):
        log.read()
    log.close()


def test_a_pipe_outlives_its_writers(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    log = follow(str(path), "")
    for number in range(3):
        with path.open("wb") as writer:
            writer.write(RECORD % number)
        assert log.read() == [RECORD % number]
    assert log.read() == []
    log.close()


def test_records_that_the_kernel_overwrote_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[bytes | OSError] = [
        *(RECORD % 7, RECORD % 8, BlockingIOError()),
        *(OSError(errno.EPIPE, "overwritten"), RECORD % 20, RECORD % 21, BlockingIOError()),
        *(RECORD % 22, OSError(errno.EPIPE, "overwritten"), RECORD % 30, BlockingIOError()),
    ]

    def read(handle: int, size: int) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr("slurm_failover.sources.kmsg.os.read", read)
    log = DeviceFollower(-1)
    assert (log.read(), log.lost) == ([RECORD % 7, RECORD % 8], 0)
    assert (log.read(), log.lost) == ([RECORD % 20, RECORD % 21], 11)
    assert (log.read(), log.lost) == ([RECORD % 22, RECORD % 30], 18)


def is_readable_device(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return stat.S_ISCHR(Path(path).stat().st_mode)


@pytest.mark.skipif(not is_readable_device("/dev/kmsg"), reason="no /dev/kmsg that can be read")
def test_the_kernels_own_device_is_followed() -> None:
    log = follow("/dev/kmsg", "")
    handle = log.fileno()
    records = log.read()
    assert handle is not None
    assert records
    assert log.lost == 0
    log.close()


# --- the journal ----------------------------------------------------------------------------------


def test_the_journals_kernel_messages_become_records_of_kmsg(tmp_path: Path) -> None:
    lines = [entry("NVRM: a\nb\\c", 1500), entry("next", 1500), entry([78, 86, 255], 1501)]
    assert read_journal(journalctl(tmp_path, *lines)) == [
        b"3,1500000,1500,-;NVRM: a\\x0ab\\x5cc\n",
        b"3,1500001,1500,-;next\n",
        b"3,1501000,1501,-;NV\xff\n",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "nonsense",
        entry("forged", _TRANSPORT="syslog"),
        entry("no level", PRIORITY=None),
        entry("no time", _SOURCE_MONOTONIC_TIMESTAMP=None),
        '{"_TRANSPORT":"kernel"}',
        "[" * 100_000,
    ],
    ids=range(8),
)
def test_what_the_kernel_did_not_write_is_no_record(line: str) -> None:
    assert Numbered().records([line.encode()]) == []


def test_a_message_that_user_space_wrote_into_the_kernels_log_is_not_the_kernels() -> None:
    for fields in ({"SYSLOG_FACILITY": "1"}, {"SYSLOG_FACILITY": "3"}):
        (record,) = Numbered().records([entry("NVRM: Xid", **fields).encode()])
        assert int(record.split(b",")[0]) >> 3 != 0
    without = json.loads(entry("NVRM: Xid"))
    del without["SYSLOG_FACILITY"]
    (record,) = Numbered().records([json.dumps(without).encode()])
    assert int(record.split(b",")[0]) >> 3 != 0


def test_a_journal_without_a_message_of_the_kernel_is_unreadable_not_healthy(
    tmp_path: Path,
) -> None:
    with pytest.raises(SourceUnreadable, match="no message of the kernel"):
        read_journal(journalctl(tmp_path))
    with pytest.raises(SourceUnreadable, match="journal"):
        read_journal(str(tmp_path / "none"))


def test_the_journal_is_followed_where_there_is_no_kernel_log(tmp_path: Path) -> None:
    program = journalctl(tmp_path, entry("Linux version", 1), follows="exec sleep 60")
    for path in ("", str(tmp_path / "none")):
        log = follow(path, program)
        records: list[bytes] = []
        deadline = time.monotonic() + 20
        while not records:
            assert time.monotonic() < deadline
            threading.Event().wait(0.01)
            records = log.read()
        assert records == [b"3,1000,1,-;Linux version\n"]
        log.close()


def test_a_journalctl_that_ends_is_unreadable(tmp_path: Path) -> None:
    log = follow("", journalctl(tmp_path, entry("Linux version", 1)))
    deadline = time.monotonic() + 20
    with pytest.raises(SourceUnreadable, match="status 3"):
        while time.monotonic() < deadline:
            log.read()
    log.close()


def test_without_log_and_journal_both_are_named(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match=r"nolog.*nojournal"):
        following.follow(str(tmp_path / "nolog"), str(tmp_path / "nojournal"))
