"""What happens that someone outside may want to know, for notifications and metrics. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

VERSION = 1


class Kind(StrEnum):
    """What happened. ``FAULT`` is one of a node that is out of service already, ``PUT_OFF`` a
    failover that waits for the circuit breaker, ``RETRIED`` a new try after an image that could not
    be fetched, ``RESUMED`` the start after a failover.
    """

    DRAIN = "drain"
    FAULT = "fault"
    DRAIN_PUT_OFF = "drain-put-off"
    FAILOVER = "failover"
    PUT_OFF = "failover-put-off"
    DENIED = "denied"
    EXCEEDED = "exceeded"
    RETRIED = "retried"
    RESUMED = "resumed"
    BREAKER_OPEN = "breaker-open"
    BREAKER_CLOSED = "breaker-closed"
    SUSPICION = "suspicion"


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened, and one sentence why.

    ``code`` is the rule of a fault, ``state`` that of a job as users read it, ``nodes`` are those
    at fault, ``jobs`` the ids of those that were hit; ``seconds`` is how long a restart took, from
    the end of the one attempt to the start of the next.
    """

    kind: Kind
    because: str
    node: str = ""
    code: str = ""
    job: str = ""
    user: str = ""
    state: str = ""
    retries: int = 0
    nodes: tuple[str, ...] = ()
    jobs: tuple[int, ...] = ()
    seconds: float | None = None

    def as_json(self, *, time: float, host: str, mode: str) -> dict[str, Any]:
        """The event as a notification program gets it; members without a value are left out."""
        told = asdict(self)
        kind = told.pop("kind")
        seconds = told.pop("seconds")
        given = {key: value for key, value in told.items() if value}
        given |= {} if seconds is None else {"seconds": seconds}
        head = {"version": VERSION, "event": str(kind), "time": round(time, 3)}
        return {**head, "host": host, "mode": mode, **given}
