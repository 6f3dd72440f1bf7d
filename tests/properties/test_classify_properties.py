"""Whatever bytes a log holds, and in whatever order its records come."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_failover.catalogue import load_rules
from slurm_failover.classify import judge, read_events
from slurm_failover.classify.events import MOST
from slurm_failover.model import FaultClass, JobCause, NodeAction, Record
from slurm_failover.parse import FORMATS, parse_kmsg, parse_lines

CATALOGUE = load_rules()
NOW = 1_790_000_000.0
LIMIT = 0.010
RELAXED = settings(suppress_health_check=[HealthCheck.too_slow], max_examples=150)
PIECES = [
    *(b"NVRM: Xid (PCI:0000:3b:00): 79, ", b"SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 48 "),
    *(b"[Hardware Error]: ", b"Machine Check: 0 Bank 17: dc2040000000011b", b"EDAC MC0: 1 UE "),
    *(b"AER: Uncorrected (Fatal)", b":    [14] CmpltTO", b"pciehp: Slot(0): Link Down", b"\\x0a"),
    *(
        b"[ 12.345678] ",
        b"Mar  3 11:22:33 node01 kernel: ",
        b"<3>",
        b"kern  :err   : ",
        b"3,1,1,-;",
    ),
    *(b"FATAL:   While making image from docker://", b"pyxis: ", b"NCCL WARN NET/IB : Got async"),
    *(b"message repeated 9 times: [ ", b"2025-01-21T04:41:44,283302+00:00 ", b"nvme nvme0: I/O "),
    *(b'{"MESSAGE": ', b"{1}", b"[", b"]", b" ", b"(", b"\x00", b"\xff", b"0", b"a:", b"failed "),
    *(b"mlx5_core 0000:d2:00.0: ", b"amdgpu 0000:1c:00.0: ", b"Error response from daemon: "),
]
lines = st.one_of(
    st.binary(max_size=400),
    st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join),
    st.tuples(st.sampled_from(PIECES), st.integers(1, 2000)).map(lambda p: p[0] * p[1]),
)
texts = st.sampled_from(
    [
        "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:3b:00): 13, Graphics Exception: ESR 0x504648=0x1000e",
        "NVRM: Xid (PCI:0000:3b:00): 43, pid=4242, name=python3, Ch 00000008",
        "NVRM: Xid (PCI:0000:3b:00): 45, pid=4242, name=python3, Ch 00000008",
        "NVRM: Xid (PCI:0000:5e:00): 109, pid=4242, name=python3, Ch 00000008",
        "NVRM: Xid (PCI:0000:5e:00): 94, Contained: SM (0x1). RST: No, D-RST: No",
        "nvidia 0000:5e:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=x",
        "Out of memory: Killed process 4242 (python3)",
        "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (R)",
    ]
)
SAFE = ("13", "43", "45", "109")


def records_of(chosen: list[str], *, trusted: bool = True) -> list[Record]:
    priority = 3 if trusted else 11
    return [
        parse_kmsg(f"{priority},{i},{i * 1000},-;{text}".encode(), NOW)
        for i, text in enumerate(chosen)
    ]


def seconds(raw: bytes, format: str) -> float:
    start = time.perf_counter()
    read_events(parse_lines([raw], format, now=NOW), CATALOGUE)
    return time.perf_counter() - start


@given(raw=lines, format=st.sampled_from(sorted(FORMATS)))
@RELAXED
def test_no_bytes_raise_or_take_long(raw, format):
    assert min(seconds(raw, format) for _ in range(3)) < LIMIT


@pytest.mark.parametrize("piece", PIECES)
def test_a_line_of_one_repeated_piece_takes_no_time(piece):
    raw = piece * (100_000 // len(piece))
    assert min(seconds(raw, "auto") for _ in range(3)) < LIMIT


@given(chosen=st.lists(texts, max_size=12))
@RELAXED
def test_what_a_user_could_have_written_asks_nothing_of_a_node(chosen):
    told = [record for record in records_of(chosen, trusted=False)]
    as_text = parse_lines(
        [f"Mar  3 11:22:33 node01 kernel: {text}".encode() for text in chosen], "syslog", now=NOW
    )
    judgement = judge(read_events([*told, *as_text], CATALOGUE))
    assert judgement.node is NodeAction.NONE
    assert judgement.cause is not JobCause.HARDWARE


@given(chosen=st.lists(texts, max_size=12), times=st.integers(2, 5))
@RELAXED
def test_repeats_change_no_judgement(chosen, times):
    once = judge(read_events(records_of(chosen), CATALOGUE))
    often = judge(read_events(records_of([t for t in chosen for _ in range(times)]), CATALOGUE))
    assert (once.cause, once.node) == (often.cause, often.node)


@given(chosen=st.lists(texts, max_size=12))
@RELAXED
def test_a_definite_hardware_fault_is_never_explained_away(chosen):
    events = read_events(records_of([*chosen, "NVRM: Xid (PCI:0000:3b:00): 79, x"]), CATALOGUE)
    judgement = judge(events)
    assert judgement.cause is JobCause.HARDWARE
    assert judgement.node is NodeAction.REBOOT


@given(chosen=st.lists(texts, max_size=12))
@RELAXED
def test_without_a_fault_of_hardware_no_job_is_failed_over(chosen):
    harmless = [text for text in chosen if any(f"): {code}," in text for code in SAFE)]
    judgement = judge(read_events(records_of(harmless), CATALOGUE))
    assert judgement.cause is not JobCause.HARDWARE
    assert judgement.node is NodeAction.NONE


@given(name=st.text(st.characters(codec="utf-8", exclude_characters="\n\0"), max_size=15))
@RELAXED
def test_the_name_of_a_process_changes_neither_code_nor_class(name):
    text = f"NVRM: Xid (PCI:0000:3b:00): 43, pid=4242, name={name}, Ch 00000008"
    (event,) = read_events([parse_kmsg(f"4,1,1,-;{text}".encode(), NOW)], CATALOGUE)
    plain = "Xid 43 on GPU 0000:3b:00: the program broke its own GPU channel; the GPU is healthy"
    assert (event.code, event.klass, event.pci) == (43, FaultClass.INTERNAL, "0000:3b:00")
    assert event.because == plain


def test_a_hundred_thousand_repeats_are_one_event():
    line = b"[ 12.5] NVRM: Xid (PCI:0000:3b:00): 45, pid=4242, name=python3, Ch 00000008"
    (event,) = read_events(parse_lines((line for _ in range(10**5)), now=NOW), CATALOGUE)
    assert event.lines == 10**5


def test_ever_new_devices_do_not_fill_the_memory():
    new = (
        f"[ 12.5] NVRM: Xid (PCI:{i >> 16:04x}:{(i >> 8) & 255:02x}:{i & 255:02x}): 45".encode()
        for i in range(3 * MOST)
    )
    events = read_events(parse_lines(new, now=NOW), CATALOGUE)
    assert len(events) == MOST + 1
    assert sum(event.lines for event in events) == 3 * MOST
