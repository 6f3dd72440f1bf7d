"""Events → a judgement: whose fault the end of a job was, and what the node needs.

In this order: trusted events before what a user could have written; only the job's window and GPUs;
a hardware fault that stands on its own; an ambiguous event that a hint on the same device raises;
then what the program did; and a failed image only where no step ever ran. Consequences take over
the cause of what came before them on the same device, so that a storm of channel removals, or a
recovery action after a bad kernel, blames nobody wrongly. What remains is unknown, and unknown is a
value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slurm_failover.classify.match import pci_id
from slurm_failover.model import (
    Event,
    FaultClass,
    JobCause,
    Judgement,
    NodeAction,
    Role,
    Scope,
    Window,
)

INHERIT = 600.0
NEAR = 10.0
ECHO_OF_LOST = 60.0
_NEEDS = (NodeAction.NONE, NodeAction.DRAIN, NodeAction.REBOOT)
_PROGRAM_SAYS = ("nccl", "cuda_error", "cuda_ecc", "cuda_oom", "cuda_contained", "cuda_nvlink")
_STEP_RAN = frozenset(("xid", "bus_error", "segfault", "oom", *_PROGRAM_SAYS))


@dataclass(frozen=True, slots=True)
class _Fault:
    """An event and the class that it has beside the others."""

    event: Event
    klass: FaultClass


def judge(
    events: Sequence[Event],
    window: Window | None = None,
    gpus: frozenset[str] | None = None,
    untrusted_counts: bool = False,
    earlier: Sequence[Event] = (),
) -> Judgement:
    """Whose fault the end of a job was, as far as these events can tell, and the node's need.

    What was judged before goes into ``earlier``: it explains the consequences among the events,
    and is neither a cause nor a need anew.

    ``window`` None counts every event, ``gpus`` None takes all GPUs of the node for the job's. The
    node's need comes from all its GPUs. What a user could have written may explain an internal
    fault; it is hardware, or a need of the node, only with ``untrusted_counts``.
    """
    known = _in_order([*earlier, *events])
    inside = _not_cancelled([e for e in known if is_inside(e, window)])
    evident = [e for e in inside if e.trusted or untrusted_counts]
    faults = _without(earlier, _resolve(evident))
    need, needing = _need(faults)
    cause, root = _cause([f for f in faults if concerns(f.event, gpus)])
    if cause is JobCause.UNKNOWN and len(evident) < len(inside):
        told = [f for f in _without(earlier, _resolve(inside)) if concerns(f.event, gpus)]
        cause, explained = _cause([f for f in told if f.klass is not FaultClass.HARDWARE])
        root = explained or root
    because = _sentence(cause, root, need, needing)
    return Judgement(cause, need, because, root if root else needing, tuple(inside))


def weigh(
    events: Sequence[Event],
    window: Window | None = None,
    gpus: frozenset[str] | None = None,
    trust_text: bool = False,
) -> Judgement:
    """The judgement on logs that a person looks at: nothing acts on it.

    What a user could have written may name the cause here, and still asks nothing of the node,
    except with ``trust_text``.
    """
    strict = judge(events, window, gpus, untrusted_counts=trust_text)
    if strict.cause is not JobCause.UNKNOWN:
        return strict
    loose = judge(events, window, gpus, untrusted_counts=True)
    if loose.cause is JobCause.UNKNOWN:
        return strict
    told = loose.root.because if loose.root else loose.because
    because = f"{told}, in text that a user could have written"
    return replace(strict, cause=loose.cause, because=because, root=loose.root)


def _in_order(events: Sequence[Event]) -> list[Event]:
    if all(event.time is not None for event in events):
        return sorted(events, key=lambda event: event.time or 0.0)
    return list(events)


def is_inside(event: Event, window: Window | None) -> bool:
    """Whether an event can belong to a job's window; to None all do."""
    if window is None or window.holds(event.time) or window.holds(event.last_time):
        return True
    if event.time is None or event.last_time is None:
        return False
    return event.time < window.start and window.end < event.last_time


def _not_cancelled(events: list[Event]) -> list[Event]:
    """Without the echoes of a device that a later event on the same device takes back."""
    kept: list[Event] = []
    for event in events:
        if event.role is Role.CANCEL:
            kept = [e for e in kept if not _taken_back(e, event)]
        kept.append(event)
    return kept


def _taken_back(event: Event, by: Event) -> bool:
    return (
        event.role is Role.ECHO
        and (event.kind, event.code, event.pci) == (by.kind, by.code, by.pci)
        and (by.trusted or not event.trusted)
    )


def _without(earlier: Sequence[Event], faults: list[_Fault]) -> list[_Fault]:
    judged = {id(event) for event in earlier}
    return [fault for fault in faults if id(fault.event) not in judged]


def _resolve(events: list[Event]) -> list[_Fault]:
    return [_Fault(event, _class_beside(event, i, events)) for i, event in enumerate(events)]


def _class_beside(event: Event, index: int, events: list[Event]) -> FaultClass:
    if event.role is not Role.ECHO:
        return event.klass
    before = {e.klass for e in events[:index] if _explains(e, event)}
    for klass in (FaultClass.HARDWARE, FaultClass.INTERNAL):
        if klass in before:
            return klass
    if event.implied is not None:
        return event.implied
    if event.klass is FaultClass.AMBIGUOUS and any(_raises(e, event) for e in events):
        return FaultClass.HARDWARE
    return event.klass


def _explains(earlier: Event, later: Event) -> bool:
    return (
        earlier.role is Role.ROOT
        and earlier.pci is not None
        and earlier.pci == later.pci
        and _within(earlier, later, INHERIT)
    )


def _raises(hint: Event, event: Event) -> bool:
    if hint.role is not Role.HINT or event.scope not in (Scope.GPU, Scope.FABRIC):
        return False
    if hint.pci == event.pci or hint.pci is None or hint.scope is not Scope.GPU:
        return _within(hint, event, NEAR if hint.pci != event.pci else INHERIT)
    return False


def _within(one: Event, other: Event, seconds: float) -> bool:
    if one.time is None or other.time is None:
        return True
    ends = [t for t in (one.last_time, one.time) if t is not None]
    return min(abs(other.time - end) for end in ends) <= seconds


def _need(faults: Iterable[_Fault]) -> tuple[NodeAction, Event | None]:
    need, needing = NodeAction.NONE, None
    for fault in faults:
        own = fault.event.node_action
        raised = fault.event.klass is not FaultClass.HARDWARE
        if own is NodeAction.NONE and raised and fault.klass is FaultClass.HARDWARE:
            own = NodeAction.DRAIN
        if _NEEDS.index(own) > _NEEDS.index(need):
            need, needing = own, fault.event
    return need, needing


def concerns(event: Event, gpus: frozenset[str] | None) -> bool:
    """Whether an event can concern a job on these GPUs; None is all GPUs of the node.

    An event of another GPU can not; one of the node, of a switch or of no named device can.
    """
    return gpus is None or event.gpu is None or event.gpu in {pci_id(g) for g in gpus}


def _cause(faults: list[_Fault]) -> tuple[JobCause, Event | None]:
    by_class = {
        klass: [f.event for f in faults if f.klass is klass and _may_cause(f.event)]
        for klass in FaultClass
    }
    if by_class[FaultClass.HARDWARE]:
        return JobCause.HARDWARE, _first_cause(by_class[FaultClass.HARDWARE])
    if by_class[FaultClass.INTERNAL]:
        return JobCause.INTERNAL, _first_cause(by_class[FaultClass.INTERNAL])
    ran = any(fault.event.kind in _STEP_RAN for fault in faults)
    if by_class[FaultClass.IMAGE_PULL] and not ran:
        return JobCause.IMAGE_PULL, by_class[FaultClass.IMAGE_PULL][0]
    doubtful = by_class[FaultClass.AMBIGUOUS]
    return JobCause.UNKNOWN, doubtful[0] if doubtful else None


def _may_cause(event: Event) -> bool:
    return event.role not in (Role.CONDITION, Role.CANCEL)


def _first_cause(events: list[Event]) -> Event:
    """The earliest root, or a lost GPU where the earliest is a switch that lost sight of it."""
    roots = [e for e in events if e.role is Role.ROOT] or events
    first = roots[0]
    if first.kind == "sxid":
        lost = (e for e in roots if _is_lost(e) and _within(first, e, ECHO_OF_LOST))
        return next(lost, first)
    return first


def _is_lost(event: Event) -> bool:
    return event.kind == "gpu_lost" or (event.kind == "xid" and event.code == 79)


def _sentence(cause: JobCause, root: Event | None, need: NodeAction, needing: Event | None) -> str:
    if root is None:
        said = "no fault was found that explains the end of a job"
    elif cause is JobCause.UNKNOWN:
        said = f"{root.because}; that alone proves nothing"
    else:
        said = root.because
    if needing is None or (root is needing) or (root and root.node_action is need):
        return said
    return f"{said}; the node needs a {need}: {needing.because}"
