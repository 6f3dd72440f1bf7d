"""When the watcher has which check made. Pure: the caller brings the clock.

A record that could be a fault is judged at once. A storm of one kind of record is worth a check at
once and then one every now and then; many kinds within seconds are judged together, so that noise
costs little and hides nothing. The slow look at everything else has a cadence of its own, and
follows soon upon a record.
"""

from __future__ import annotations

from dataclasses import dataclass, field

STORM_INTERVAL = 10.0
"""Seconds between two checks for records of a kind that a check has just seen."""
BURST = 5
"""Checks within STORM_INTERVAL that begin at once; further ones keep a distance of PACE seconds."""
PACE = 2.0
FIRST_RETRY, LONGEST_RETRY = 1.0, 60.0
"""Seconds after a check that judged nothing, for example since Slurm did not answer."""
_NEVER, _ALWAYS = float("inf"), float("-inf")


@dataclass(slots=True)
class Schedule:
    """``interval`` is the cadence of the slow look in seconds."""

    interval: float
    failures: int = 0
    _slow: float = _ALWAYS
    _last_slow: float = _ALWAYS
    _retry: float = _ALWAYS
    _begun: list[float] = field(default_factory=list)
    _checked: dict[bytes, float] = field(default_factory=dict)
    _waiting: set[bytes] = field(default_factory=set)

    @property
    def is_waiting(self) -> bool:
        """Whether there is something that no check has begun to judge."""
        return bool(self._waiting)

    def notice(self, kind: bytes) -> None:
        """Something of this kind, which could be a fault, was seen."""
        self._waiting.add(kind)

    def hurry(self, now: float) -> None:
        """Let a slow look follow soon."""
        self._slow = min(self._slow, max(now, self._last_slow + STORM_INTERVAL))

    def judge_in(self, now: float) -> float:
        """Seconds until a check of what was noticed is due; 0 or less says now."""
        if not self._waiting:
            return _NEVER
        kind = min(self._checked.get(kind, _ALWAYS) for kind in self._waiting) + STORM_INTERVAL
        burst = len([at for at in self._begun if now - at < STORM_INTERVAL]) >= BURST
        pace = self._begun[-1] + PACE if burst else _ALWAYS
        return max(kind, pace, self._retry) - now

    def look_in(self, now: float) -> float:
        """Seconds until a slow look is due."""
        return self._slow - now

    def judge(self, now: float) -> None:
        """A check begins now: it sees all that is waiting."""
        self._begun = [*self._begun[1 - BURST :], now]
        self._checked = {k: at for k, at in self._checked.items() if now - at < STORM_INTERVAL}
        self._checked.update(dict.fromkeys(self._waiting, now))
        self._waiting.clear()
        self.hurry(now)

    def look(self, now: float) -> None:
        """A slow look begins now."""
        self._last_slow, self._slow = now, now + self.interval

    def judged(self) -> None:
        """All that was noticed until now has been judged."""
        self.failures, self._retry = 0, _ALWAYS
        self._waiting.clear()

    def failed(self, now: float) -> None:
        """The check that has ended left something unjudged: it comes back."""
        self.failures += 1
        self._retry = now + min(FIRST_RETRY * 2 ** (self.failures - 1), LONGEST_RETRY)
        self._waiting |= set(self._checked) or {b""}
        self._checked.clear()
