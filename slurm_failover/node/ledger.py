"""A node's ledger: how far its kernel log has been judged, and what came of it.

It keeps a node that an admin resumed from being drained again for an old record. The ledger knows
its boot: after a reboot every record since boot is new.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

KEEP_FAULTS = 100


@dataclass(frozen=True, slots=True)
class JudgedFault:
    """One fault that was judged on this node."""

    time: float
    rule: str
    because: str
    jobs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ledger:
    """``cursor`` is the sequence number of the last record that was judged in boot ``boot``."""

    boot: str = ""
    cursor: int = -1
    faults: tuple[JudgedFault, ...] = field(default_factory=tuple)

    def at_boot(self, boot: str) -> Ledger:
        """The ledger as it stands in this boot: after a reboot the cursor starts anew."""
        return self if self.boot == boot else replace(self, boot=boot, cursor=-1)

    def since(self, now: float, first_look: float) -> float:
        """From when on records are new: on a node's very first look only the latest are."""
        return 0.0 if self.boot else now - first_look

    def judged(self, cursor: int, fault: JudgedFault | None = None) -> Ledger:
        """The ledger with the log judged up to ``cursor``, and what was found."""
        faults = self.faults if fault is None else (*self.faults, fault)[-KEEP_FAULTS:]
        return replace(self, cursor=max(cursor, self.cursor), faults=faults)


def read_ledger(text: str) -> Ledger:
    """The ledger in a file's text. Raises ValueError if it is damaged."""
    raw: Any = json.loads(text)
    try:
        return Ledger(
            boot=str(raw["boot"]),
            cursor=int(raw["cursor"]),
            faults=tuple(
                JudgedFault(
                    time=float(fault["time"]),
                    rule=str(fault["rule"]),
                    because=str(fault["because"]),
                    jobs=tuple(int(job) for job in fault["jobs"]),
                )
                for fault in raw["faults"]
            ),
        )
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"not a ledger: {error!r}") from error


def write_ledger(ledger: Ledger) -> str:
    """The ledger as a file's text."""
    return json.dumps(asdict(ledger), indent=1) + "\n"
