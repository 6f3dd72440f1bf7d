"""A fault that a reading shows, before its rule says what it means; and the Event it becomes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurm_failover.model import Event, FaultClass

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurm_failover.catalogue import Rule


@dataclass(frozen=True, slots=True)
class Finding:
    """``rule`` names the rule, ``because`` is the reading in words, ``pci`` the device if known."""

    rule: str
    because: str
    pci: str | None = None


def to_events(
    findings: Iterable[Finding], rule: Callable[[str], Rule], *, time: float, source: str
) -> list[Event]:
    """The findings as events of the time of the look, in the words of their rules.

    ``rule`` finds a rule by name and is called for findings only, so that it may load the rules
    when the first is needed. A site may silence a rule; its findings give no event.
    """
    found = ((finding, rule(finding.rule)) for finding in findings)
    return [
        _event(finding, its_rule, its_rule.klass, time, source)
        for finding, its_rule in found
        if its_rule.klass is not None
    ]


def _event(finding: Finding, rule: Rule, klass: FaultClass, time: float, source: str) -> Event:
    return Event(
        kind=rule.kind,
        klass=klass,
        scope=rule.scope,
        rule=rule.name,
        because=finding.because,
        pci=finding.pci,
        meaning=rule.meaning,
        action=rule.action,
        node_action=rule.node_action,
        role=rule.role,
        time=time,
        last_time=time,
        time_certain=True,
        trusted=True,
        source=source,
        text=finding.because,
    )
