"""``slurm-failover explain``: a code, a rule or a line of a log in words."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from slurm_failover.catalogue import NOT_RELEVANT, Catalogue, Rule, load_rules
from slurm_failover.classify.match import claim
from slurm_failover.commands.complete import complete_rules
from slurm_failover.model import Event, FaultClass, NodeAction, Role, Scope
from slurm_failover.parse import parse_lines
from slurm_failover.render import print_json
from slurm_failover.settings.tables import Settings

_REMEDY = "give a code, a line of a log, or a rule's name"
_CODE = re.compile(r"(?i)(?:(?P<kind>s?xid)[ :=-]{0,2})?(?P<code>\d{1,6})")
_CLASSES = {
    FaultClass.HARDWARE: "the machine is at fault: a flagged job fails over to other nodes",
    FaultClass.INTERNAL: "the job is at fault: a failover would repeat it and is denied",
    FaultClass.IMAGE_PULL: "the container image could not be fetched: the job never ran",
    FaultClass.AMBIGUOUS: "proves nothing by itself: other evidence decides",
    FaultClass.INFORMATIONAL: "no fault: it never decides anything by itself",
}
_SCOPES = {
    Scope.JOB: "the job",
    Scope.GPU: "the GPU",
    Scope.FABRIC: "the links between GPUs",
    Scope.NODE: "the whole node",
}
_NEEDS = {
    NodeAction.NONE: "nothing",
    NodeAction.DRAIN: "a drain",
    NodeAction.REBOOT: "a drain and a reboot",
}
_ROLES = {
    Role.ECHO: "takes over the cause of what came before on the same device, if anything did",
    Role.HINT: "turns an ambiguous event on the same device into a hardware fault",
    Role.CONDITION: "is the node's need and never the cause of a job's end",
    Role.CANCEL: "takes the need of an earlier event on the same device back",
}


@dataclass(frozen=True, slots=True)
class Found:
    """A rule that speaks of what was asked. ``leaves`` says that some lines of its code have
    another; ``event`` is what a line is by it, where ``of_line`` says that a line was asked.
    """

    rule: Rule
    leaves: bool = False
    of_line: bool = False
    event: Event | None = None

    def in_words(self) -> str:
        """The paragraph to be read."""
        words = describe(self.rule, leaves=self.leaves)
        if not self.of_line:
            return words
        event = self.event
        sentence = f"{event.because}: {event.klass}." if event else "This line is no event."
        return f"{sentence}\n{words}"

    def as_json(self) -> dict[str, Any]:
        """All of it as a JSON object, in the words of the rules' files and of ``classify``."""
        rule, event = self.rule, self.event
        told = {"class": event.klass, "pci": event.pci, "because": event.because} if event else None
        return {
            "rule": rule.name,
            "kind": rule.kind,
            "codes": list(rule.codes),
            "meaning": rule.meaning,
            "class": rule.klass or NOT_RELEVANT,
            "scope": rule.scope,
            "node_action": rule.node_action,
            "role": rule.role,
            "pattern": rule.pattern.pattern if rule.pattern else None,
            "action": rule.action or None,
            "source": rule.source or None,
            "event": told,
        }


@click.command("explain")
@click.argument(
    "what", nargs=-1, required=True, metavar="CODE|LINE|RULE", shell_complete=complete_rules
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object for each rule.")
@click.pass_obj
def command(settings: Settings | None, what: tuple[str, ...], as_json: bool) -> None:
    """Explain a CODE of Xid or SXid, a RULE, or a LINE of a log.

    Examples: explain 79 · explain sxid 24007 · explain pcie-fatal · explain "NVRM: Xid (PCI:…): 94"
    """
    overlay = Path(settings.sources.rules) if settings is not None else None
    catalogue = load_rules(overlay)
    text = " ".join(what)
    found = _named(text, catalogue) or _coded(text, catalogue) or _told(text, catalogue)
    if not found:
        near = get_close_matches(text, catalogue.rules, n=3)
        remedy = f"did you mean {' or '.join(near)}?" if near else _REMEDY
        raise click.ClickException(f"no rule speaks of {text!r}; {remedy}")
    if as_json:
        print_json([one.as_json() for one in found])
    else:
        click.echo("\n\n".join(one.in_words() for one in found))


def _named(text: str, catalogue: Catalogue) -> list[Found]:
    rule = catalogue.rules.get(text)
    return [Found(rule)] if rule else []


def _coded(text: str, catalogue: Catalogue) -> list[Found]:
    found = _CODE.fullmatch(text)
    if found is None:
        return []
    kinds = (found["kind"].lower(),) if found["kind"] else ("xid", "sxid")
    rules = [r for kind in kinds for r in catalogue.by_code.get((kind, int(found["code"])), ())]
    if not rules and found["kind"]:
        rules = [catalogue.rule(f"{found['kind'].lower()}-unknown")]
    special = {rule.kind for rule in rules if rule.pattern is not None}
    # What a line of this code says by itself goes first, and after it what some lines alone say.
    rules.sort(key=lambda rule: rule.pattern is not None)
    return [Found(rule, leaves=rule.kind in special) for rule in rules]


def _told(text: str, catalogue: Catalogue) -> list[Found]:
    records = parse_lines([os.fsencode(text)], now=time.time())
    claims = filter(None, (claim(record, catalogue) for record in records))
    return [Found(rule, of_line=True, event=event) for rule, event in claims]


def describe(rule: Rule, *, leaves: bool = False) -> str:
    """All that a rule says, in words. ``leaves`` says that some lines of its code have another."""
    names = {"xid": "Xid", "sxid": "SXid"}
    codes = " or ".join(str(code) for code in rule.codes)
    title = f"{names.get(rule.kind, rule.kind)} {codes}".strip()
    lines = [f"{title}: {rule.meaning}"]
    lines.append(f"  class   {rule.klass}: {_CLASSES[rule.klass]}" if rule.klass else _SILENT)
    lines.append(f"  reaches {_SCOPES[rule.scope]}; the node needs {_NEEDS[rule.node_action]}")
    if rule.role in _ROLES:
        lines.append(f"  beside  other events it {_ROLES[rule.role]}")
    if rule.pattern is not None:
        only = "counts  only where the line has" if rule.codes else "text   "
        lines.append(f"  {only} {rule.pattern.pattern}")
    elif leaves:
        lines.append("  counts  but for the lines that have what is named below")
    if rule.action:
        lines.append(f"  do      {rule.action}")
    if rule.source:
        lines.append(f"  source  {rule.source}")
    return "\n".join([*lines, f"  rule    {rule.name}"])


_SILENT = "  class   not_relevant: such lines are passed over"
