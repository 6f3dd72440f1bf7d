"""What the words beside a code change of its meaning, and what several messages come to."""

from __future__ import annotations

import pytest

from slurm_failover.catalogue import load_rules
from slurm_failover.classify import read_events
from slurm_failover.model import Event, FaultClass, NodeAction, Record, Role

CATALOGUE = load_rules()
SXIDS = [
    (code, rules[0])
    for (kind, code), rules in CATALOGUE.by_code.items()
    if kind == "sxid" and len(rules) == 1 and rules[0].pattern is None
]


def kernel(*texts: str) -> list[Event]:
    return read_events(
        [
            Record(text, line, 100.0 + line, time_certain=True, trusted=True, origin="kernel")
            for line, text in enumerate(texts, 1)
        ],
        CATALOGUE,
    )


def sxid(code: int, words: str) -> Event:
    (event,) = kernel(f"nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): {code}, {words}")
    return event


def xid(code: int, words: str, pci: str = "0000:3b:00") -> str:
    return f"NVRM: Xid (PCI:{pci}): {code}, {words}"


# --- switches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["Fatal, Link 28 x", "Severity 1 Engine instance 28 x"])
def test_a_fatal_error_of_a_switch_is_hardware_whatever_its_code(words: str) -> None:
    for code, _ in SXIDS:
        event = sxid(code, words)
        assert (event.klass, event.role) == (FaultClass.HARDWARE, Role.ROOT)
        assert event.node_action is NodeAction.REBOOT


@pytest.mark.parametrize("words", ["Non-fatal, Link 28 x", "Severity 0 Engine instance 28 x"])
def test_an_error_of_a_switch_that_is_not_fatal_has_the_class_that_its_rule_says(
    words: str,
) -> None:
    for code, rule in SXIDS:
        event = sxid(code, words)
        harmless = rule.klass is FaultClass.INFORMATIONAL
        milder = FaultClass.INFORMATIONAL if harmless else FaultClass.AMBIGUOUS
        own = Role.ECHO if rule.klass is FaultClass.HARDWARE else rule.role
        assert event.klass is (rule.nonfatal or milder)
        assert (event.role, event.node_action) == {
            FaultClass.HARDWARE: (Role.ROOT, NodeAction.REBOOT),
            FaultClass.INFORMATIONAL: (Role.ROOT, NodeAction.NONE),
        }.get(event.klass, (own, NodeAction.NONE))


def test_the_data_of_an_error_of_a_switch_say_nothing_by_themselves() -> None:
    for code, _ in SXIDS:
        event = sxid(code, "Data {0x00000001, 0x00000000}")
        assert (event.klass, event.role) == (FaultClass.INFORMATIONAL, Role.ROOT)
        assert event.node_action is NodeAction.NONE


def test_an_error_of_a_switch_without_a_severity_has_its_rules_class() -> None:
    for code, rule in SXIDS:
        event = sxid(code, "something happened")
        assert (event.klass, event.role, event.node_action) == (
            rule.klass,
            rule.role,
            rule.node_action,
        )


# --- links ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "klass"),
    [
        ("NOBODY Fatal XC0 i0 Link 13 (0x000000e2 0x00000001)", FaultClass.HARDWARE),
        ("NOBODY Nonfatal XC0 i0 Link 13 (0x000000e2 0x00000001)", FaultClass.AMBIGUOUS),
    ],
)
def test_registers_that_no_table_knows_are_judged_by_their_severity(
    payload: str, klass: FaultClass
) -> None:
    (event,) = kernel(xid(145, payload))
    assert event.klass is klass


# --- a cause that the line names ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pci", "where"), [("0000:3b:00", " on GPU 0000:3b:00"), ("no address", "")]
)
def test_a_line_that_names_its_cause_says_on_which_gpu_if_it_tells(pci: str, where: str) -> None:
    (event,) = kernel(xid(45, "pid=1, Ch 00000001 caused by previous Xid 79", pci))
    assert event.because == (
        f"Xid 45{where} is caused by Xid 79: {CATALOGUE.rule('xid-79').meaning}"
    )
    assert event.implied is FaultClass.HARDWARE


# --- several messages -----------------------------------------------------------------------------


def test_a_cause_that_one_of_many_messages_names_is_that_of_all() -> None:
    plain, named = xid(45, "pid=1, Ch 01"), xid(45, "pid=1, Ch 02 caused by previous Xid 79")
    for texts in ((plain, named), (named, plain), (plain, named, plain)):
        (event,) = kernel(*texts)
        assert (event.implied, event.lines) == (FaultClass.HARDWARE, len(texts))


NO_NEED = xid(154, "GPU recovery action changed from 0x0 (None) to 0x4 (Drain P2P)")
RESET = xid(154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")
REBOOT = xid(154, "GPU recovery action changed from 0x1 (x) to 0x2 (Node Reboot Required)")


def test_of_equal_messages_the_first_is_told_and_the_greatest_need_counts() -> None:
    first, second = kernel(RESET)[0], kernel(REBOOT)[0]
    assert first.klass is second.klass
    assert (first.node_action, second.node_action) == (NodeAction.DRAIN, NodeAction.REBOOT)
    for texts, told in (((RESET, REBOOT), first), ((REBOOT, RESET), second)):
        (event,) = kernel(*texts)
        assert (event.because, event.node_action) == (told.because, NodeAction.REBOOT)


def test_the_need_of_one_message_is_the_need_of_all() -> None:
    mild, bad = (xid(145, f"NOBODY {w} XC0 i0 Link 13 (0x0 0x1)") for w in ("Nonfatal", "Fatal"))
    assert [kernel(text)[0].node_action for text in (mild, bad)] == [
        NodeAction.NONE,
        NodeAction.DRAIN,
    ]
    for texts in ((mild, bad), (bad, mild)):
        (event,) = kernel(*texts)
        assert event.node_action is NodeAction.DRAIN


def test_a_worse_message_takes_the_place_of_a_milder_one_with_its_need() -> None:
    mild, bad = (
        "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034, Non-fatal, Link 28 x",
        "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 28 x",
    )
    worse = kernel(bad)[0]
    for texts in ((mild, bad), (bad, mild)):
        (event,) = kernel(*texts)
        assert (event.klass, event.role) == (FaultClass.HARDWARE, Role.ROOT)
        assert (event.because, event.node_action) == (worse.because, NodeAction.REBOOT)
        assert event.because.count("0000:c3:00") == 1


def test_an_event_has_the_place_of_its_first_message_whichever_is_the_worst() -> None:
    texts = ("Non-fatal, Link 28 x", "Fatal, Link 28 x", "Non-fatal, Link 28 x")
    (event,) = read_events(
        [
            Record(
                f"nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034, {text}",
                line,
                100.0 + line,
                sequence=line,
                trusted=True,
                source=f"log {line}",
                origin="kernel",
            )
            for line, text in enumerate(texts, 1)
        ],
        CATALOGUE,
    )
    assert (event.time, event.last_time, event.line, event.source) == (101.0, 103.0, 1, "log 1")
    assert (event.sequence, event.lines, event.klass) == (3, 3, FaultClass.HARDWARE)


# --- one print in several lines -------------------------------------------------------------------

HEAD = "NVRM: The NVIDIA GPU 0000:5d:00.0"
TAIL = "NVRM: fallen off the bus and is not responding to commands."


def printed(apart: int, seconds: float = 0.0, trusted: bool = True) -> list[Event]:
    """The first and the last line of a print, so many lines and seconds apart."""
    known = {"time_certain": True, "origin": "kernel"}
    lines = [
        Record(HEAD, 7, 100.0, trusted=True, **known),
        Record(TAIL, 7 + apart, 100.0 + seconds, trusted=trusted, **known),
    ]
    return read_events(lines, CATALOGUE)


@pytest.mark.parametrize("apart", [0, 1, 3])
def test_the_lines_of_a_print_are_one_event_on_the_device_that_the_first_one_names(
    apart: int,
) -> None:
    (event,) = printed(apart, 1.0)
    assert (event.pci, event.lines, event.klass) == ("0000:5d:00", 2, FaultClass.HARDWARE)
    assert event.because.endswith(" (0000:5d:00)")


@pytest.mark.parametrize(
    "far",
    [{"apart": 4}, {"apart": -1}, {"apart": 1, "seconds": 1.5}, {"apart": 1, "trusted": False}],
)
def test_what_is_far_apart_or_of_another_writer_is_not_one_print(far: dict[str, int]) -> None:
    assert "0000:5d:00" not in [e.pci for e in printed(**far) if e.klass is FaultClass.HARDWARE]


# --- floods ---------------------------------------------------------------------------------------


def test_after_many_events_the_others_are_one_for_each_rule_and_trust(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("slurm_failover.classify.events.MOST", 3)
    told = [
        Record(xid(code, "x", f"0000:{bus:02x}:00"), bus, 100.0, trusted=trusted, origin="kernel")
        for bus in range(1, 9)
        for code, trusted in ((79, True), (48, True), (79, False))
    ]
    events = read_events(told, CATALOGUE)
    kept, more = events[:3], events[3:]
    assert [(event.code, event.trusted, event.lines) for event in kept] == [
        (79, True, 1),
        (48, True, 1),
        (79, False, 1),
    ]
    assert [(event.code, event.trusted, event.lines) for event in more] == [
        (79, True, 7),
        (48, True, 7),
        (79, False, 7),
    ]
