"""Whether what a fault asked for was done, as far as its node can see. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slurm_failover.evidence import REBOOT_NEEDED
from slurm_failover.model import NodeAction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurm_failover.model import Event, Judgement
    from slurm_failover.node.ledger import JudgedFault

REBOOT, RESET = "reboot", "reset"

_DRAIN_FIRST = re.compile(r"^drain(?: the node)?[;,] ")
_GONE_AFTER_RESET = frozenset({"gpu-reset-required", "gpu-recovery-reset"})
"""Rules on a state that ends by a reset and by nothing else; a clean look proves the reset."""


def repair_of(fault: Judgement, fresh: Iterable[Event] = ()) -> str:
    """What a fault's recommended action asks for: "reboot", "reset", or empty for anything else.

    ``fresh`` are the events that it was judged by: where one of them needs something else, that is
    not done by a reboot or a reset.
    """
    events = [event for event in fresh if event.node_action is not NodeAction.NONE]
    repairs = {_repair_of(event.action, event.node_action) for event in events}
    root = _repair_of(fault.root.action if fault.root else "", fault.node)
    if "" in repairs or not root:
        return ""
    return REBOOT if REBOOT in repairs else root


def _repair_of(action: str, need: NodeAction) -> str:
    """What comes first counts: "replace it if it happens again" is no part of this repair. A reboot
    mends nothing that has to be replaced or diagnosed.
    """
    first = _DRAIN_FIRST.sub("", action).partition(";")[0]
    if re.search(r"\b(replace|reseat|diagnos)", first):
        return ""
    if need is NodeAction.REBOOT:
        return REBOOT
    return RESET if re.search(r"\breset\b", first) else ""


def missing_reboot(faults: Iterable[JudgedFault], boot: str) -> str:
    """The first fault that asked for a reboot of which there was none since, as a sentence; empty
    if there is no such fault. ``boot`` is the kernel's id of this boot.
    """
    asked = (f for f in faults if f.repair == REBOOT or REBOOT_NEEDED in f.reason)
    waiting = (f for f in asked if f.boot == boot)
    fault = next(waiting, None)
    return f"{fault.because}; that needs a reboot, and there was none since" if fault else ""


def is_repaired(fault: JudgedFault, boot: str) -> bool:
    """Whether the node was rebooted or its GPU was reset, where the fault asked for that.

    A reboot resets every GPU as well.
    """
    if fault.repair in (REBOOT, RESET) and fault.boot != boot:
        return True
    return fault.repair == RESET and fault.rule in _GONE_AFTER_RESET
