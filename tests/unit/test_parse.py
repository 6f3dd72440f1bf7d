"""One message in every form in which logs carry it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from slurm_failover.parse import known_format, parse_journal, parse_kmsg, parse_lines, sniff

MESSAGE = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1173, GPU has fallen off the bus."
NOW = datetime(2026, 6, 1, tzinfo=UTC).timestamp()
BOOT = 1_700_000_000.0


def local(*parts: int) -> float:
    return datetime(*parts).timestamp()


def utc(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()


def one(raw: bytes, format: str = "auto"):
    (record,) = parse_lines([raw], format, now=NOW, boot_time=BOOT)
    return record


FORMS = [
    ("dmesg", f"[ 4254.197860] {MESSAGE}", BOOT + 4254.19786, True),
    ("dmesg with its caller", f"[ 4254.197860] [ T1946] {MESSAGE}", BOOT + 4254.19786, True),
    ("dmesg, caller glued", f"[ 4254.197860][T1946] {MESSAGE}", BOOT + 4254.19786, True),
    ("dmesg -d", f"[ 4254.197860 <    0.000010>] {MESSAGE}", BOOT + 4254.19786, True),
    ("dmesg -T", f"[Fri Oct 14 14:56:49 2022] {MESSAGE}", local(2022, 10, 14, 14, 56, 49), True),
    ("dmesg -H", f"[Oct14 14:56] {MESSAGE}", local(2025, 10, 14, 14, 56), True),
    ("dmesg -H, a delta", f"[  +0.000004] {MESSAGE}", None, True),
    ("dmesg -x", f"kern  :err   : [ 4254.197860] {MESSAGE}", BOOT + 4254.19786, True),
    (
        "dmesg -x iso",
        f"kern  :warn  : 2025-01-21T04:41:44,283302+00:00 {MESSAGE}",
        utc(2025, 1, 21, 4, 41, 44, 283302),
        True,
    ),
    (
        "dmesg iso",
        f"2025-01-21T04:41:44,283302+00:00 {MESSAGE}",
        utc(2025, 1, 21, 4, 41, 44, 283302),
        True,
    ),
    ("dmesg -t", MESSAGE, None, True),
    (
        "talos",
        f"192.0.2.9: kern: warning: [2026-04-22T21:25:20.5Z]: {MESSAGE}",
        utc(2026, 4, 22, 21, 25, 20, 500000),
        True,
    ),
    (
        "console",
        f"[2023-06-22 21:55:33.5][5975156.361284] {MESSAGE}",
        local(2023, 6, 22, 21, 55, 33, 500000),
        True,
    ),
    ("syslog", f"Jan 16 14:04:39 node01 kernel: {MESSAGE}", local(2026, 1, 16, 14, 4, 39), False),
    (
        "syslog with a second stamp",
        f"Jan 16 14:04:39 node01 kernel: [44643.002804] {MESSAGE}",
        local(2026, 1, 16, 14, 4, 39),
        False,
    ),
    (
        "syslog of last year",
        f"Jul 16 14:04:39 n kernel: {MESSAGE}",
        local(2025, 7, 16, 14, 4, 39),
        False,
    ),
    (
        "syslog without a host",
        f"Jan 16 14:04:39 kernel: {MESSAGE}",
        local(2026, 1, 16, 14, 4, 39),
        False,
    ),
    ("syslog, month in Czech", f"kvě 16 14:04:39 node01 kernel: {MESSAGE}", None, False),
    (
        "rsyslog iso",
        f"2025-10-05T08:08:16.5-05:00 node01 kernel: {MESSAGE}",
        utc(2025, 10, 5, 13, 8, 16, 500000),
        False,
    ),
    (
        "rfc 5424",
        f"<3>1 2025-10-05T08:08:16Z node01 kernel - - - {MESSAGE}",
        utc(2025, 10, 5, 8, 8, 16),
        False,
    ),
    (
        "journalctl -o short-full",
        f"Sun 2025-10-05 08:08:16 UTC node01 kernel: {MESSAGE}",
        utc(2025, 10, 5, 8, 8, 16),
        False,
    ),
    ("journalctl -o short-unix", f"1759651696.5 node01 kernel: {MESSAGE}", 1759651696.5, False),
    ("a tag and nothing else", f"kernel: {MESSAGE}", None, False),
    ("colours", f"\x1b[32m[ 4254.197860] \x1b[0m\x1b[31m{MESSAGE}\x1b[0m", BOOT + 4254.19786, True),
    ("padding", f"[ 4254.197860] {MESSAGE}\0\0\0\0", BOOT + 4254.19786, True),
    ("line ends of windows", f"[ 4254.197860] {MESSAGE}\r\n", BOOT + 4254.19786, True),
    (
        "repeats",
        f"Jan 16 14:04:39 n kernel: message repeated 9 times: [ {MESSAGE}]",
        local(2026, 1, 16, 14, 4, 39),
        False,
    ),
]


@pytest.mark.parametrize(("form", "line", "time", "trusted"), FORMS, ids=[f[0] for f in FORMS])
def test_a_message_is_the_same_in_every_form(form, line, time, trusted):
    record = one(line.encode())
    assert record.text == MESSAGE
    assert record.origin in ("kernel", "")
    assert record.time == (None if time is None else pytest.approx(time))
    assert record.trusted is trusted
    assert record.repeats == (9 if form == "repeats" else 1)


def test_a_stamp_is_certain_only_with_its_year_and_zone():
    assert one(f"2025-10-05T08:08:16Z node01 kernel: {MESSAGE}".encode()).time_certain
    assert not one(f"2025-10-05T08:08:16 node01 kernel: {MESSAGE}".encode()).time_certain
    assert not one(f"[Fri Oct 14 14:56:49 2022] {MESSAGE}".encode()).time_certain
    assert not one(f"Jan 16 14:04:39 node01 kernel: {MESSAGE}".encode()).time_certain


def test_seconds_since_an_unknown_boot_are_no_time():
    (record,) = parse_lines([f"[ 4254.197860] {MESSAGE}".encode()], now=NOW)
    assert record.time is None
    assert not record.time_certain


def test_a_record_of_kmsg_is_trusted_by_its_facility_alone():
    real = parse_kmsg(f"3,500,1500000,-;{MESSAGE}\n SUBSYSTEM=pci\n".encode(), BOOT)
    forged = parse_kmsg(f"11,501,1500000,-;{MESSAGE}".encode(), BOOT)
    assert (real.text, real.trusted, real.origin, real.sequence) == (MESSAGE, True, "kernel", 500)
    assert real.time == BOOT + 1.5
    assert (forged.trusted, forged.origin) == (False, "user")


def test_escapes_of_kmsg_are_undone():
    record = parse_kmsg(b"3,1,1,-,caller=T42;one\\x0atwo \\xc3\\xa4", BOOT)
    assert record.text == "one\ntwo ä"


@pytest.mark.parametrize("raw", [b"", b";", b"3,1", b"x,y,z,-;text", b"3,1,1,-"])
def test_what_is_no_record_of_kmsg_is_not_trusted(raw):
    record = parse_kmsg(raw, BOOT)
    assert not record.trusted
    assert record.time is None


def entry(**fields: object) -> bytes:
    base = {"MESSAGE": MESSAGE, "_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0"}
    return json.dumps({**base, "__REALTIME_TIMESTAMP": "1759651696500000", **fields}).encode()


def test_an_entry_of_the_journal_is_trusted_by_transport_and_facility():
    assert one(entry()).trusted
    assert one(entry()).time == 1759651696.5
    assert not one(entry(SYSLOG_FACILITY="1")).trusted
    assert one(entry(SYSLOG_FACILITY="1", SYSLOG_IDENTIFIER="kernel")).origin == "user"
    assert not one(entry(_TRANSPORT="syslog", SYSLOG_IDENTIFIER="kernel")).trusted


def test_an_entry_from_the_journals_library_has_its_time():
    moment = datetime(2025, 10, 5, tzinfo=UTC)
    fields = {"MESSAGE": MESSAGE, "_TRANSPORT": "kernel", "SYSLOG_FACILITY": 0}
    record = parse_journal({**fields, "__REALTIME_TIMESTAMP": moment})
    assert (record.time, record.trusted) == (moment.timestamp(), True)


def test_an_entry_of_the_journal_may_hold_bytes():
    assert one(entry(MESSAGE=list(MESSAGE.encode()))).text == MESSAGE
    assert parse_journal({"MESSAGE": MESSAGE.encode()}).text == MESSAGE


def test_the_output_of_a_job_is_never_trusted_whatever_it_looks_like():
    for line in (f"[ 12.5] {MESSAGE}", f"3,1,1,-;{MESSAGE}", entry().decode(), MESSAGE):
        record = one(line.encode(), "stderr")
        assert not record.trusted
        assert record.origin == "job"


def test_text_behind_the_tag_of_a_program_is_not_the_kernels():
    for line in (
        f"Mar  3 11:22:33 node01 user01: {MESSAGE}",
        f"Mar  3 11:22:33 node01 user01: kernel: {MESSAGE}",
        f"Mar  3 11:22:33 node01 user01: [ 12.5] {MESSAGE}",
        f"user  :err   : [ 12.5] {MESSAGE}",
    ):
        record = one(line.encode())
        assert record.origin not in ("kernel", "")
        assert not record.trusted


def test_slurmds_log_loses_its_stamp_and_step():
    record = one(b"[2025-11-06T20:36:19.163] [19.0] error: pyxis: failed to import docker image")
    assert record.text == "error: pyxis: failed to import docker image"
    assert record.origin == "slurmd"


def test_lines_that_are_not_utf8_are_read():
    record = one(b"[ 12.5] NVRM: Xid (PCI:0000:3b:00): 13, pid=777, name=tr\xe4in\xff, text")
    assert "name=tr\ufffdin\ufffd" in record.text


def test_a_long_line_is_cut():
    assert len(one(b"[ 12.5] " + b"x" * 10_000_000).text) <= 2048


@pytest.mark.parametrize(
    ("head", "format"),
    [
        (b"<4>[ 1.0] a\n<4>[ 2.0] b\n", "pstore"),
        (b"Panic#1 Part1\n<4>[ 1.0] a\n", "pstore"),
        (b"<3>[ 1.0] a\n", "auto"),
        (b"srun: error: node01: task 0: Killed\n", "stderr"),
        (b"[rank0]:[E810] x\n", "stderr"),
        (b"[ 1.0] a\nsrun: error: x\n", "auto"),
        (b"", "auto"),
    ],
)
def test_the_head_of_a_file_tells_its_format(head, format):
    assert sniff(head) == format


def test_formats_go_by_the_names_of_their_tools():
    assert known_format("dmesg -x --time-format iso") == "dmesg"
    assert known_format("kmsg") == "kmsg"
    assert known_format("nonsense") is None


@pytest.mark.parametrize(
    ("line", "time"),
    [
        (b"  6a | 04/12/2024 | 03:27:29 PM UTC | Bus | x | Asserted", utc(2024, 4, 12, 15, 27, 29)),
        (b"1ff,08/15/26,23:45:40 UTC,Power Supply Status,x,Asserted", utc(2026, 8, 15, 23, 45, 40)),
        (b"2    | Dec-09-2024 | 20:45:38 | x | y | z", local(2024, 12, 9, 20, 45, 38)),
    ],
)
def test_the_log_of_a_bmc_has_times(line, time):
    record = one(line)
    assert record.time == time
    assert record.origin == "bmc"
