"""One record and the catalogue → one event, or none.

Xid and SXid lines are found by the number after the bracket, never by a later one: what follows
holds the name of a process, which its owner chooses. All other lines are found by their text.
"""

from __future__ import annotations

import re
from dataclasses import replace

from slurm_failover import nvlink5
from slurm_failover.catalogue import Catalogue, Rule
from slurm_failover.model import Event, FaultClass, NodeAction, Record, Role, Scope

LONGEST = 160
KERNEL = "kernel"

_PCI = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2,4}:[0-9a-fA-F]{2}"
_DEVICE = re.compile(r"\b([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?(?![\w:])")
_GPU_DEVICE = re.compile(r"GPU([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?\b")
_NAMED = re.compile(
    r"\b(?:nvme\d{1,3}(?:n\d{1,3})?|sd[a-z]{1,3}|dm-\d{1,4}|md\d{1,4}|mlx5_\d{1,3})\b"
)
_XID = re.compile(
    r"NVRM: (?:GPU\d{1,2} )?Xid \((?:PCI:)?(?P<pci>[^)]{1,40})\): (?P<code>\d{1,5})\b(?P<rest>.*)",
    re.S,
)
_SXID = re.compile(
    r"nvidia-nvswitch\d+: SXid \(PCI:(?P<pci>[^)]{1,40})\): (?P<code>\d{1,6})\b(?P<rest>.*)", re.S
)
_PLUGIN = re.compile(r"XidCriticalError: Xid=(?P<code>\d{1,5}) on Device=(?P<rest>)(?P<pci>)")
_SEVERITY = re.compile(
    r"^,\s*(?:Severity (?P<level>[01])\b|(?P<word>Fatal|Non-fatal|Correctable),)"
)
_CAUSED_BY = re.compile(r" caused by previous Xid (\d{1,5})\s*$")
_DATA = re.compile(r"^,\s*Data \{")
# Printed for a MIG instance as " GPU-I:%02u" (kernel_rc.c of NVIDIA's open kernel modules).
_INSTANCE = re.compile(r" GPU-I:(\d{1,3})\b")


Claim = tuple[Rule, Event | None]


def match(record: Record, catalogue: Catalogue) -> Event | None:
    """The event that the record stands for by itself, or None where no rule gives it a meaning."""
    found = claim(record, catalogue)
    return found[1] if found else None


def claim(record: Record, catalogue: Catalogue) -> Claim | None:
    """The rule that speaks for the record, and its event; a rule may say that there is none."""
    text = record.text
    if "Xid" in text and (coded := _claim_by_code(record, catalogue)) is not None:
        return coded
    for rule in catalogue.by_text:
        if _applies(rule, record) and (found := rule.pattern and rule.pattern.search(text)):
            if rule.unless is not None and rule.unless.search(text):
                continue
            return rule, _event(rule, record, _group(found, "code"), _group(found, "pci"))
    return None


def _applies(rule: Rule, record: Record) -> bool:
    if rule.anchors and not any(anchor in record.text for anchor in rule.anchors):
        return False
    if rule.origin == "any" or not record.origin:
        return True
    return (record.origin == KERNEL) == (rule.origin == KERNEL)


def _group(found: re.Match[str], name: str) -> str | None:
    return found.groupdict().get(name)


def _claim_by_code(record: Record, catalogue: Catalogue) -> Claim | None:
    """The rule and event of a line that carries a code; None where the line carries none."""
    if record.origin in ("", KERNEL):
        if found := _XID.match(record.text):
            return _coded("xid", record, found, catalogue)
        if found := _SXID.match(record.text):
            return _coded("sxid", record, found, catalogue)
    if record.origin != KERNEL and (found := _PLUGIN.search(record.text)):
        return _coded("xid", record, found, catalogue)
    return None


def _coded(kind: str, record: Record, found: re.Match[str], catalogue: Catalogue) -> Claim:
    rule = _by_code(kind, int(found["code"]), found["rest"], catalogue)
    event = _event(rule, record, found["code"], found["pci"])
    if event is None:
        return rule, None
    if kind == "sxid":
        return rule, _with_severity(event, found["rest"], rule)
    if instance := _INSTANCE.search(found["pci"]):
        event = replace(event, gpu_instance=int(instance[1]))
    return rule, _with_details(event, found["rest"], catalogue)


def _with_details(event: Event, rest: str, catalogue: Catalogue) -> Event:
    """The event of an Xid with what the text after the code adds to it."""
    code = event.code or 0
    if code in range(144, 151) and (report := nvlink5.read_report(rest)) is not None:
        return _with_link_report(event, report, catalogue)
    if cause := _CAUSED_BY.search(rest):
        implied = _by_code("xid", int(cause[1]), "", catalogue)
        return event if implied.role is Role.ECHO else _caused_by(event, implied, cause[1])
    return event


def _caused_by(event: Event, cause: Rule, code: str) -> Event:
    """The event of a consequence whose line names its cause, of another code."""
    where = f" on GPU {event.pci}" if event.pci else ""
    because = f"Xid {event.code}{where} is caused by Xid {code}: {cause.meaning}"
    return replace(event, implied=cause.klass, because=_short(because))


def _with_link_report(event: Event, report: nvlink5.LinkReport, catalogue: Catalogue) -> Event:
    """The event with the class that the decoded registers give it.

    A row that NVIDIA says to ignore clears nothing for a unit whose errors are ambiguous as such;
    a line that says Nonfatal is never hardware.
    """
    row = nvlink5.decode(event.code or 0, report, catalogue.decode)
    if row is None:
        klass = FaultClass.HARDWARE if report.fatal else FaultClass.AMBIGUOUS
    elif row.klass is FaultClass.INFORMATIONAL:
        own = event.klass is FaultClass.AMBIGUOUS
        klass = FaultClass.AMBIGUOUS if own else FaultClass.INFORMATIONAL
    else:
        klass = row.klass if report.fatal else FaultClass.AMBIGUOUS
    return _as(event, klass, NodeAction.DRAIN)


def _with_severity(event: Event, rest: str, rule: Rule) -> Event:
    """The event of an SXid under the severity that the driver printed."""
    if _DATA.match(rest):
        return _as(event, FaultClass.INFORMATIONAL, NodeAction.NONE)
    severity = _SEVERITY.match(rest)
    if severity is None:
        return event
    if "1" in (severity["level"] or "") or severity["word"] == "Fatal":
        return _as(event, FaultClass.HARDWARE, NodeAction.REBOOT)
    return _as(event, _nonfatal(rule), NodeAction.REBOOT)


def _nonfatal(rule: Rule) -> FaultClass:
    if rule.nonfatal is not None:
        return rule.nonfatal
    return (
        FaultClass.INFORMATIONAL if rule.klass is FaultClass.INFORMATIONAL else FaultClass.AMBIGUOUS
    )


def _as(event: Event, klass: FaultClass, if_hardware: NodeAction) -> Event:
    """The event under another class; hardware stands on its own and asks something of the node."""
    if klass is FaultClass.HARDWARE:
        return replace(event, klass=klass, node_action=if_hardware, role=Role.ROOT)
    role = event.role if event.klass is not FaultClass.HARDWARE else Role.ECHO
    if klass is FaultClass.INFORMATIONAL:
        role = Role.ROOT
    return replace(event, klass=klass, node_action=NodeAction.NONE, role=role)


def _by_code(kind: str, code: int, rest: str, catalogue: Catalogue) -> Rule:
    for rule in catalogue.by_code.get((kind, code), ()):
        if rule.pattern is None or rule.pattern.search(rest):
            return rule
    for rule in catalogue.by_text:
        if rule.kind == kind and rule.pattern is not None and rule.pattern.search(rest):
            return rule
    return catalogue.rule(f"{kind}-unknown")


def _event(rule: Rule, record: Record, code: str | None, pci: str | None) -> Event | None:
    if rule.klass is None:
        return None
    number = int(code) if code and code.isdecimal() else None
    device = pci_id(pci) if pci is not None else _first_device(record.text)
    named = device or (_named_device(record.text) if rule.origin == KERNEL else None)
    return Event(
        kind=rule.kind,
        klass=rule.klass,
        scope=rule.scope,
        rule=rule.name,
        because=_because(rule, number, named),
        code=number,
        pci=device,
        meaning=rule.meaning,
        action=rule.action,
        node_action=rule.node_action,
        role=rule.role,
        time=record.time,
        last_time=record.time,
        time_certain=record.time_certain,
        line=record.line,
        lines=record.repeats,
        sequence=record.sequence,
        trusted=record.trusted and (record.origin != "" or rule.origin == KERNEL),
        source=record.source,
        text=record.text,
    )


def _because(rule: Rule, code: int | None, device: str | None) -> str:
    names = {"xid": ("Xid", "GPU"), "sxid": ("SXid", "NVSwitch")}
    if rule.kind in names and code is not None:
        number, owner = names[rule.kind]
        where = f" on {owner} {device}" if device else ""
        sentence = f"{number} {code}{where}: {rule.meaning}"
    else:
        on = "GPU " if rule.scope is Scope.GPU else ""
        sentence = f"{rule.meaning} ({on}{device})" if device else rule.meaning
    return _short(sentence)


def _short(sentence: str) -> str:
    return sentence if len(sentence) <= LONGEST else sentence[: LONGEST - 1] + "…"


def pci_id(text: str) -> str | None:
    """A PCI address in any of its forms as ``0000:3b:00``, or None where it is none.

    Seen: with and without domain, 8-digit domains, a function digit, a MIG suffix, upper case.
    """
    words = text.split()
    bare = words[0].partition(".")[0] if words else ""
    if re.fullmatch(_PCI, bare) is None:
        return None
    parts = bare.lower().split(":")
    domain = int(parts[0], 16) if len(parts) == 3 else 0
    return f"{domain:04x}:{int(parts[-2], 16):02x}:{parts[-1]}"


def _named_device(text: str) -> str | None:
    """The kernel's name of a disk, array or port; none of them is chosen by a user."""
    found = _NAMED.search(text)
    return found[0] if found else None


def _first_device(text: str) -> str | None:
    found = _GPU_DEVICE.search(text) or _DEVICE.search(text)
    return pci_id(found[0].removeprefix("GPU")) if found else None
