"""Every real line gets its meaning, and every rule owns a line."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_failover.anchors import read_anchors
from slurm_failover.catalogue import Catalogue, load_rules
from slurm_failover.classify import read_events
from slurm_failover.classify.match import claim
from slurm_failover.model import Event, Record
from slurm_failover.parse import known_format, parse_lines

SAMPLES = Path(__file__).parents[1] / "samples"
NOW = 1_790_000_000.0
LINES = [json.loads(line) for line in (SAMPLES / "lines.jsonl").read_text("utf-8").splitlines()]
RULES = [
    line.split("\t")
    for line in (SAMPLES / "rules.tsv").read_text("utf-8").splitlines()
    if not line.startswith("# ")
]
QUIET = [
    line.split("\t")
    for line in (SAMPLES / "no-event.tsv").read_text("utf-8").splitlines()
    if not line.startswith("# ")
]
# A lone "<3>[…] NVRM: Xid" is what text injected into /dev/kmsg looks like; only the name of the
# format tells that it is no pstore file. Unnamed it is quoted, which proves nothing.
ONLY_BY_FORMAT = {"L104"}


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_rules()


def raw(sample: dict) -> bytes:
    return base64.b64decode(sample["line_b64"]) if "line_b64" in sample else sample["line"].encode()


def records(data: bytes, format: str) -> list[Record]:
    return list(parse_lines(data.split(b"\n"), format, now=NOW))


def described(events: list[Event]) -> list[tuple]:
    return [(e.kind, e.klass.value, e.code, e.pci) for e in events]


def expected(sample: dict, events: list[Event]) -> list[tuple]:
    if sample["class"] == "not_relevant":
        return []
    found = events[0] if events else None
    code = sample.get("code", found and found.code)
    pci = sample.get("pci", found and found.pci)
    return [(sample["kind"], sample["class"], code, pci)]


@pytest.mark.parametrize("sample", LINES, ids=lambda s: s["id"])
def test_a_real_line_gets_its_kind_class_code_and_device(sample, catalogue):
    format = known_format(sample["format"])
    assert format is not None
    events = read_events(records(raw(sample), format), catalogue)
    assert described(events) == expected(sample, events)


@pytest.mark.parametrize("sample", LINES, ids=lambda s: s["id"])
def test_a_real_line_gets_the_same_meaning_where_nobody_names_its_format(sample, catalogue):
    events = read_events(records(raw(sample), "auto"), catalogue)
    if sample["id"] in ONLY_BY_FORMAT:
        assert [e.klass.value for e in events] == ["ambiguous"]
    else:
        assert described(events) == expected(sample, events)


@pytest.mark.parametrize(("rule", "format", "line"), RULES, ids=lambda v: v[:20])
def test_a_sample_is_claimed_by_its_rule(rule, format, line, catalogue):
    found = [claim(record, catalogue) for record in records(line.encode(), format)]
    assert [pair and pair[0].name for pair in found] == [rule]


@pytest.mark.parametrize(("format", "line"), QUIET, ids=lambda v: v[:20])
def test_a_line_that_only_sounds_bad_is_no_event(format, line, catalogue):
    assert read_events(records(line.encode(), format), catalogue) == []


def claims(catalogue: Catalogue) -> Iterator[tuple[str, bytes]]:
    for sample in LINES:
        for record in records(raw(sample), known_format(sample["format"]) or ""):
            if (pair := claim(record, catalogue)) is not None:
                yield pair[0].name, raw(sample)
    for rule, _, line in RULES:
        yield rule, line.encode()


def test_every_rule_on_messages_owns_a_sample(catalogue):
    owned = {rule for rule, _ in claims(catalogue)}
    on_messages = {r.name for r in catalogue.rules.values() if r.pattern or r.kind in CODED}
    assert sorted(on_messages - owned) == []


CODED = {"xid", "sxid"}


def test_every_line_that_a_rule_claims_holds_an_anchor(catalogue):
    anchors = read_anchors(programs=True)
    silent = {rule.name for rule in catalogue.rules.values() if rule.klass is None}
    lost = [
        line for rule, line in claims(catalogue) if rule not in silent and not any_in(anchors, line)
    ]
    assert lost == []


def any_in(anchors: tuple[bytes, ...], line: bytes) -> bool:
    return any(anchor in line for anchor in anchors)


@pytest.mark.parametrize("programs", [False, True])
def test_an_anchor_of_a_rule_holds_an_anchor_of_the_prefilter(catalogue, programs):
    prefilter = [anchor.decode() for anchor in read_anchors(programs=programs)]
    origins = {"kernel", "any"} | ({"program"} if programs else set())
    for rule in catalogue.rules.values():
        if rule.klass is None or rule.origin not in origins or not (rule.pattern or rule.codes):
            continue
        assert rule.anchors, f"{rule.name} has no anchor"
        for anchor in rule.anchors:
            assert any(text in anchor for text in prefilter), f"{rule.name}: {anchor!r}"


def test_no_sentence_is_long_or_holds_control_characters(catalogue):
    for sample in LINES:
        for event in read_events(records(raw(sample), "auto"), catalogue):
            assert len(event.because) <= 160
            assert event.because.isprintable()


def test_no_sentence_repeats_what_a_user_chose(catalogue):
    line = b"[ 12.5] NVRM: Xid (PCI:0000:3b:00): 43, pid=4242, name=x): 79, GPU ha, Ch 00000008"
    (event,) = read_events(records(line, "dmesg"), catalogue)
    assert event.code == 43
    assert "79" not in event.because
    assert "GPU ha," not in event.because
