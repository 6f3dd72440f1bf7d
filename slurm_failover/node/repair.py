"""Whether what a fault asked for was done, as far as its node can see. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from slurm_failover.model import NodeAction

if TYPE_CHECKING:
    from slurm_failover.model import Judgement
    from slurm_failover.node.ledger import JudgedFault

REBOOT, RESET = "reboot", "reset"

_GONE_AFTER_RESET = frozenset({"gpu-reset-required", "gpu-recovery-reset"})
"""Rules on a state that ends by a reset and by nothing else; a clean look proves the reset."""


def repair_of(fault: Judgement) -> str:
    """What the fault's recommended action asks for: "reboot", "reset", or empty for anything else.

    What comes first counts: "replace it if it happens again" is no part of this repair. A reboot
    mends nothing that has to be replaced or diagnosed.
    """
    action = fault.root.action.partition(";")[0] if fault.root else ""
    if re.search(r"\b(replace|reseat|diagnos)", action):
        return ""
    if fault.node is NodeAction.REBOOT:
        return REBOOT
    return RESET if re.search(r"\breset\b", action) else ""


def is_repaired(fault: JudgedFault, boot: str) -> bool:
    """Whether the node was rebooted or its GPU was reset, where the fault asked for that.

    A reboot resets every GPU as well.
    """
    if fault.repair in (REBOOT, RESET) and fault.boot != boot:
        return True
    return fault.repair == RESET and fault.rule in _GONE_AFTER_RESET
