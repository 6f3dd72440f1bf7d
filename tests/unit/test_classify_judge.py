"""Whose fault, and what the node needs: the order of precedence, one step at a time."""

from __future__ import annotations

import pytest

from slurm_failover.catalogue import load_rules
from slurm_failover.classify import concerns, judge, read_events, weigh
from slurm_failover.model import Event, JobCause, NodeAction, Window
from slurm_failover.parse import parse_kmsg, parse_lines

BOOT = 1_700_000_000.0
CATALOGUE = load_rules()
RESET = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
FATAL = "NETIR_LINK_EVT Fatal XC0 i0 Link 01 (0x021425c6 0x00000000)"


def xid(
    code: int, pci: str = "0000:3b:00", text: str = "x", at: float = 100.0
) -> tuple[float, str]:
    return at, f"NVRM: Xid (PCI:{pci}): {code}, {text}"


def events(*told: tuple[float, str], priority: int = 3) -> list[Event]:
    return read_events(
        [
            parse_kmsg(f"{priority},{i},{int(at * 1e6)},-;{text}".encode(), BOOT)
            for i, (at, text) in enumerate(told)
        ],
        CATALOGUE,
    )


def verdict(*told: tuple[float, str], **how) -> tuple[JobCause, NodeAction]:
    judgement = judge(events(*told), **how)
    return judgement.cause, judgement.node


def test_nothing_is_unknown_and_never_healthy():
    assert verdict() == (JobCause.UNKNOWN, NodeAction.NONE)


def test_the_earliest_root_is_named():
    judgement = judge(events(xid(94, at=100), xid(48, at=90), xid(43, at=95)))
    assert judgement.root is not None
    assert judgement.root.code == 48


def test_a_consequence_inherits_from_what_came_before_on_its_device():
    assert verdict(xid(31), xid(154, text=RESET)) == (JobCause.INTERNAL, NodeAction.DRAIN)
    assert verdict(xid(154, text=RESET)) == (JobCause.HARDWARE, NodeAction.DRAIN)
    other = xid(154, "0000:5e:00", RESET)
    assert verdict(xid(31), other) == (JobCause.HARDWARE, NodeAction.DRAIN)


def test_a_consequence_inherits_nothing_from_an_hour_ago():
    assert verdict(xid(31, at=100), xid(109, at=200))[0] is JobCause.INTERNAL
    late = judge(events(xid(31, at=100), xid(154, text=RESET, at=3700)))
    assert late.cause is JobCause.HARDWARE


def test_a_code_that_the_line_names_as_its_cause_counts():
    suffix = "pid=1, name=a, Ch 00000001 caused by previous Xid"
    assert verdict(xid(45, text=f"{suffix} 79")) == (JobCause.HARDWARE, NodeAction.DRAIN)
    assert verdict(xid(45, text=f"{suffix} 13")) == (JobCause.INTERNAL, NodeAction.NONE)
    assert verdict(xid(45, text=f"{suffix} 45")) == (JobCause.UNKNOWN, NodeAction.NONE)
    assert verdict(xid(45, text=f"{suffix} 145")) == (JobCause.UNKNOWN, NodeAction.NONE)


def test_an_ambiguous_code_is_raised_by_a_hint_on_its_device():
    hint = "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=x"
    assert verdict((99, hint), xid(109)) == (JobCause.HARDWARE, NodeAction.DRAIN)
    assert verdict((99, hint)) == (JobCause.UNKNOWN, NodeAction.NONE)
    assert verdict(xid(109)) == (JobCause.UNKNOWN, NodeAction.NONE)
    assert verdict((9, hint.replace("3b", "5e")), xid(109)) == (JobCause.UNKNOWN, NodeAction.NONE)


def test_a_corrected_error_raises_nothing():
    corrected = "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Correctable, type=x"
    assert verdict((99, corrected), xid(109)) == (JobCause.UNKNOWN, NodeAction.NONE)


def test_a_cancelled_request_asks_nothing():
    done = xid(154, text="GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)")
    assert verdict(xid(154, text=RESET), done) == (JobCause.UNKNOWN, NodeAction.NONE)
    assert verdict(xid(62), xid(154, text=RESET), done) == (JobCause.HARDWARE, NodeAction.DRAIN)


def test_only_the_window_of_the_job_counts():
    window = Window(BOOT + 50, BOOT + 200)
    assert verdict(xid(79, at=10), window=window) == (JobCause.UNKNOWN, NodeAction.NONE)
    assert verdict(xid(79, at=220), window=window)[0] is JobCause.HARDWARE
    assert verdict(xid(79, at=300), window=window) == (JobCause.UNKNOWN, NodeAction.NONE)


def test_a_storm_that_began_before_the_job_and_goes_on_counts():
    storm = [xid(119, at=10.0 * i) for i in range(60)]
    window = Window(BOOT + 300, BOOT + 400)
    assert verdict(*storm, window=window)[0] is JobCause.HARDWARE
    assert verdict(*storm[:33], window=window)[0] is JobCause.HARDWARE
    assert verdict(*storm[:20], window=window)[0] is JobCause.UNKNOWN


def test_only_the_gpus_of_the_job_count_for_its_cause_and_all_for_the_node():
    told = (xid(79, "0000:5e:00"), xid(43))
    ours = frozenset({"0000:3B:00.0"})
    assert verdict(*told, gpus=ours) == (JobCause.INTERNAL, NodeAction.REBOOT)
    assert verdict(*told) == (JobCause.HARDWARE, NodeAction.REBOOT)


def test_a_switch_concerns_every_gpu():
    (event,) = events((1, "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 28 x"))
    assert concerns(event, frozenset({"0000:3b:00"}))


def test_a_lost_gpu_is_blamed_before_the_switch_that_lost_sight_of_it():
    switch = (
        99.0,
        "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 28 LTSSM Fault Up",
    )
    judgement = judge(events(switch, xid(79)))
    assert judgement.root is not None
    assert judgement.root.code == 79


def test_a_record_that_user_space_wrote_is_no_event():
    assert events(xid(79), priority=11) == []


def text_events(line: str) -> list[Event]:
    return read_events(parse_lines([line.encode()], "syslog", now=BOOT), CATALOGUE)


def test_a_line_of_a_text_log_names_a_cause_for_a_reader_and_asks_nothing():
    forged = text_events("Mar  3 11:22:33 node01 kernel: NVRM: Xid (PCI:0000:3b:00): 79, x")
    assert judge(forged).cause is JobCause.UNKNOWN
    assert judge(forged).node is NodeAction.NONE
    assert judge(forged, untrusted_counts=True).node is NodeAction.REBOOT
    shown = weigh(forged)
    assert (shown.cause, shown.node) == (JobCause.HARDWARE, NodeAction.NONE)
    assert shown.because.endswith("in text that a user could have written")


def test_what_the_program_did_may_be_told_by_text():
    told = text_events("Mar  3 11:22:33 node01 kernel: NVRM: Xid (PCI:0000:3b:00): 13, x")
    assert judge(told).cause is JobCause.INTERNAL


def test_a_failed_image_counts_only_where_no_step_ran():
    image = text_events("Mar  3 11:22:33 n slurmd[1]: error: pyxis: failed to import docker image")
    assert judge(image).cause is JobCause.IMAGE_PULL
    assert judge([*image, *events(xid(45))]).cause is JobCause.UNKNOWN
    assert judge([*image, *events(xid(79))]).cause is JobCause.HARDWARE


@pytest.mark.parametrize(
    ("payload", "klass"),
    [
        ("RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008)", "ambiguous"),
        ("RLW_SRC_TRACK Fatal XC0 i0 Link 13 (0x000000e2 0x00000001)", "hardware"),
        ("RLW_SRC_TRACK Fatal XC0 i0 Link 13 (0x00000007 0x00000001)", "hardware"),
        ("RLW_SRC_TRACK Nonfatal XC0 i0 Link 13 (0x000000e2 0x00000001)", "ambiguous"),
        ("RLW_SRC_TRACK Fatal XC0 i0 Link 13", "hardware"),
        ("NOBODY Fatal XC0 i0 Link 13 (0x000000e2 0x00000001)", "hardware"),
        ("Fatal XC0 i0 Link 13 (0x000000e2 0x00000004)", "ambiguous"),
        ("Fatal XC0 i0 Link 13 (0x00000007 0x00000004)", "ambiguous"),
    ],
)
def test_the_registers_of_an_nvlink5_error_are_decoded_in_both_layouts(payload, klass):
    (event,) = events(xid(145, text=payload))
    assert event.klass == klass


@pytest.mark.parametrize(
    ("subcode", "klass"),
    [
        (0, "hardware"),
        (1, "hardware"),
        (15, "ambiguous"),
        (33, "hardware"),
        (37, "ambiguous"),
        (38, "informational"),
        (63, "hardware"),
    ],
)
def test_a_link_that_went_down_on_purpose_is_no_fault_of_hardware(subcode, klass):
    info = subcode << 20 | 0x1C6
    (event,) = events(xid(149, text=f"NETIR_LINK_EVT Fatal XC0 i0 Link 01 (0x{info:08x} 0x0)"))
    assert event.klass == klass


def test_a_gpu_lost_in_three_lines_is_one_event_on_its_device():
    head = b"Jan  3 07:39:45 u kernel: [17257.3] NVRM: "
    parts = (
        b"The NVIDIA GPU 0000:5d:00.0",
        b"(PCI ID: 10de:2330) installed in this system has",
        b"fallen off the bus and is not responding to commands.",
    )
    (event,) = read_events(parse_lines([head + part for part in parts], now=BOOT), CATALOGUE)
    assert (event.klass, event.pci, event.lines) == ("hardware", "0000:5d:00", 3)
    assert event.because == "GPU has fallen off the bus (0000:5d:00)"
