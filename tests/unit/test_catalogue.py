"""Rule files: what a site can add, change and silence, and what it is told when a file is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_failover.anchors import read_anchors
from slurm_failover.catalogue import load_rules
from slurm_failover.classify import judge, read_events
from slurm_failover.errors import RuleError
from slurm_failover.model import FaultClass, NodeAction
from slurm_failover.parse import parse_lines

NOW = 1_790_000_000.0
LOST = b"[ 12.5] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
FAN = b"[ 12.5] acme_fan 0000:07:00.0: rotor stuck"
FAN_RULE = """
[acme-fan]
kind = "thermal"
class = "hardware"
node_action = "drain"
origin = "kernel"
anchor = "rotor stuck"
pattern = '^acme_fan .{0,40}: rotor stuck'
meaning = "a fan of the chassis stands still"
action = "drain the node; replace the fan"
"""


def overlay(folder: Path, text: str) -> Path:
    (folder / "site.toml").write_text(text, "utf-8")
    return folder


def events(line: bytes, folder: Path | None = None):
    return read_events(parse_lines([line], now=NOW), load_rules(folder))


def test_the_customers_codes_have_their_classes():
    rules = load_rules()
    for code in (48, 79, 94, 95):
        assert rules.rule(f"xid-{code}").klass is FaultClass.HARDWARE
    for code in (13, 31, 43):
        assert rules.rule(f"xid-{code}").klass is FaultClass.INTERNAL


def test_all_codes_of_the_catalogues_are_there():
    rules = load_rules()
    assert sum(kind == "xid" for kind, _ in rules.by_code) == 176
    assert sum(kind == "sxid" for kind, _ in rules.by_code) >= 420
    assert len(rules.decode) == 95


def test_a_site_adds_a_rule(tmp_path):
    assert events(FAN) == []
    (event,) = events(FAN, overlay(tmp_path, FAN_RULE))
    assert (event.klass, event.rule) == (FaultClass.HARDWARE, "acme-fan")
    assert judge([event]).node is NodeAction.DRAIN
    assert b"rotor stuck" in read_anchors(tmp_path)


def test_a_site_changes_one_key_of_a_shipped_rule(tmp_path):
    (event,) = events(LOST, overlay(tmp_path, '[xid-79]\nnode_action = "drain"\n'))
    assert (event.klass, event.node_action) == (FaultClass.HARDWARE, NodeAction.DRAIN)


def test_a_site_silences_a_shipped_rule(tmp_path):
    assert events(LOST, overlay(tmp_path, '[xid-79]\nclass = "not_relevant"\n')) == []


def test_a_sites_own_rule_is_tried_before_the_shipped_ones(tmp_path):
    text = FAN_RULE.replace("rotor stuck", "Link Down").replace("acme_fan", "pcieport")
    (event,) = events(
        b"[ 1.5] pcieport 0000:89:02.0: pciehp: Slot(400): Link Down", overlay(tmp_path, text)
    )
    assert event.rule == "acme-fan"


def test_a_missing_overlay_is_an_empty_one(tmp_path):
    assert load_rules(tmp_path / "none").rules.keys() == load_rules().rules.keys()
    assert read_anchors(tmp_path / "none") == read_anchors()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FAN_RULE.replace("meaning =", "meening ="), "site.toml:acme-fan:meening: unknown key"),
        (FAN_RULE.replace('"hardware"', '"bad"'), "site.toml:acme-fan:class: 'bad' is not one of"),
        (FAN_RULE.replace('anchor = "rotor stuck"', ""), "site.toml:acme-fan:anchor: missing"),
        (FAN_RULE.replace("'^acme", "'^(acme"), "site.toml:acme-fan:pattern: not a regular"),
        (FAN_RULE.replace('kind = "thermal"', ""), "site.toml:acme-fan:kind: must be given"),
        (FAN_RULE.replace('"kernel"', '"kernal"'), "site.toml:acme-fan:origin: must be one of"),
        (FAN_RULE.replace('class = "hardware"', ""), "site.toml:acme-fan:class: must be given"),
        (FAN_RULE + "unless = 3\n", "site.toml:acme-fan:unless: must be a text"),
        (FAN_RULE + 'code = "79"\n', "site.toml:acme-fan:code: must be a number"),
        (FAN_RULE.replace('"rotor stuck"', '"x"'), "site.toml:acme-fan:anchor: must be a text"),
        ("[acme-fan\n", "site.toml: not valid TOML"),
        ("kind = 1\n", "site.toml: kind stands outside a table"),
        ('[acme-fan]\nclass = "hardware"\n', "site.toml:acme-fan:kind: must be given"),
    ],
)
def test_a_wrong_rule_file_is_told_by_file_table_and_key(text, said, tmp_path):
    with pytest.raises(RuleError) as caught:
        load_rules(overlay(tmp_path, text))
    assert said in str(caught.value)


def test_a_rule_file_that_can_not_be_read_is_told(tmp_path):
    (tmp_path / "site.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(RuleError, match=r"site\.toml: can not be read"):
        load_rules(tmp_path)


def test_a_group_that_holds_no_number_gives_no_code(tmp_path):
    text = FAN_RULE.replace(": rotor stuck'", ": rotor (?P<code>stuck)'")
    (event,) = events(FAN, overlay(tmp_path, text))
    assert (event.rule, event.code) == ("acme-fan", None)


def test_a_rule_that_is_not_there_is_told():
    with pytest.raises(RuleError, match="there is no rule 'nonsense'"):
        load_rules().rule("nonsense")


def test_anchors_are_few_and_need_nothing_heavy_to_read():
    assert len(read_anchors()) < 80
    program = (
        "import sys; from slurm_failover.anchors import read_anchors; read_anchors();"
        "print(*{'re', 'tomllib', 'dataclasses', 'pathlib', 'logging'} & sys.modules.keys())"
    )
    root = str(Path(__file__).parents[2])
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.insert(0, {root!r}); {program}",
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""


def test_an_ordinary_boot_hardly_holds_an_anchor():
    ordinary = [
        b"Linux version 6.12.0 (gcc 14.2.0) #1 SMP PREEMPT_DYNAMIC",
        b"ACPI: PCI: Interrupt link LNKA configured for IRQ 0",
        b"pci 0000:00:02.0: BAR 0 [mem 0xfd000000-0xfdffffff]",
        b"usb 1-1: new high-speed USB device number 2 using xhci_hcd",
        b"EXT4-fs (sda2): mounted filesystem with ordered data mode. Quota mode: none.",
        b"systemd[1]: Detected architecture x86-64.",
        b"IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
        b"ERST: Error Record Serialization Table (ERST) support is initialized.",
    ]
    assert [line for line in ordinary if any(a in line for a in read_anchors())] == []


def test_a_pipe_among_the_rules_is_named_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "site.toml")
    with pytest.raises(RuleError, match=r"site\.toml: is no file; remove it"):
        load_rules(tmp_path)
