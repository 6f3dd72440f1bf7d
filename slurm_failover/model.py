"""The vocabulary: every noun that the rest of the house shares, and nothing that acts.

The flow is Record → Event → Judgement on a node, and Evidence + JobFacts → Verdict on the
controller. Times are seconds since the epoch, PCI ids are written ``0000:3b:00``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FaultClass(StrEnum):
    """Whose fault an event is."""

    HARDWARE = "hardware"
    INTERNAL = "internal"
    IMAGE_PULL = "image_pull"
    AMBIGUOUS = "ambiguous"
    INFORMATIONAL = "informational"


class Scope(StrEnum):
    """How far an event reaches: one job, one GPU, the fabric between GPUs, or the whole node."""

    JOB = "job"
    GPU = "gpu"
    FABRIC = "fabric"
    NODE = "node"


class NodeAction(StrEnum):
    """What a node needs after an event."""

    NONE = "none"
    DRAIN = "drain"
    REBOOT = "reboot"


class JobCause(StrEnum):
    """Whose fault the end of a job was, as far as one node can tell."""

    HARDWARE = "hardware"
    INTERNAL = "internal"
    IMAGE_PULL = "image_pull"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a log, freed of its transport: prefixes, colours and escapes are gone.

    ``time`` is None where the log gives none; ``time_certain`` is False where it had to be guessed
    (no year, no zone, a wall clock that was printed from a monotonic one). ``trusted`` says that an
    ordinary user could not have written the line.
    """

    text: str
    line: int = 0
    time: float | None = None
    time_certain: bool = False
    sequence: int | None = None
    trusted: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """What one or more records say, and which rule says so. Storms of one kind are one event."""

    kind: str
    klass: FaultClass
    scope: Scope
    rule: str
    because: str
    code: int | None = None
    pci: str | None = None
    meaning: str = ""
    action: str = ""
    node_action: NodeAction = NodeAction.NONE
    time: float | None = None
    last_time: float | None = None
    time_certain: bool = False
    line: int = 0
    lines: int = 1
    sequence: int | None = None
    trusted: bool = False
    source: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """The span in which an event can belong to a job: its start to its end, plus a grace."""

    start: float
    end: float
    grace: float = 30.0

    def holds(self, time: float | None) -> bool:
        """Whether an event at ``time`` can belong; an event without a time cannot."""
        return time is not None and self.start - 1.0 <= time <= self.end + self.grace


@dataclass(frozen=True, slots=True)
class Judgement:
    """Two decisions over the same events: whose fault the job's end was, and the node's need.

    An out-of-bounds kernel can deny the job *and* leave a node that needs a reboot.
    """

    cause: JobCause
    node: NodeAction
    because: str
    root: Event | None = None
    events: tuple[Event, ...] = ()
