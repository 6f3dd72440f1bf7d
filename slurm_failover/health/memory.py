"""What the node's ledger keeps of a look, so that the next one can see growth and duration.

Counters and streaks are kept per device. Nothing here knows what a counter counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Streak:
    """For how many looks in a row, and since when, something has been so."""

    looks: int
    since: float

    def lasted(self, time: float) -> float:
        """Seconds from its first look to ``time``; never negative, since clocks step back."""
        return max(time - self.since, 0.0)


@dataclass(frozen=True, slots=True)
class Memo:
    """What is remembered of one device. ``uuid`` tells a replaced device from the old one."""

    uuid: str | None = None
    time: float = 0.0
    boot_id: str = ""
    counters: Mapping[str, int] = field(default_factory=dict)
    peaks: Mapping[str, int] = field(default_factory=dict)
    streaks: Mapping[str, Streak] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one look shows of a device, None where unknown: counters that only grow, values whose
    greatest counts, and conditions that must last."""

    counters: Mapping[str, int | None] = field(default_factory=dict)
    peaks: Mapping[str, int | None] = field(default_factory=dict)
    conditions: Mapping[str, bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Growth:
    """By how much a counter grew, and in how many seconds; None where its start is unknown."""

    count: int
    seconds: float | None

    def per_minute(self) -> float | None:
        """The rate, where the span is known and at least a second long."""
        return None if self.seconds is None or self.seconds < 1 else self.count * 60 / self.seconds


@dataclass(frozen=True, slots=True)
class Memory:
    """All devices of one source, by PCI id or by another name that lasts."""

    devices: Mapping[str, Memo] = field(default_factory=dict)

    def of(self, name: str | None, uuid: str | None = None) -> Memo | None:
        """The memo of a device, unless another device has taken its place."""
        memo = None if name is None else self.devices.get(name)
        replaced = memo is not None and None not in (memo.uuid, uuid) and memo.uuid != uuid
        return None if replaced else memo

    def shifted(self, seconds: float) -> Memory:
        """The memory by a clock that was set forward by ``seconds`` since it was written."""
        return Memory({name: _shifted(memo, seconds) for name, memo in self.devices.items()})

    def to_json(self) -> str:
        """The memory as one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Memory:
        """Read what ``to_json`` wrote. Raises ValueError, TypeError or KeyError otherwise."""
        raw = json.loads(text)
        return cls({name: _memo(memo) for name, memo in raw["devices"].items()})


def growth(memo: Memo | None, name: str, now: int | None, time: float, boot_id: str) -> Growth:
    """How much the counter ``name`` grew since ``memo`` was written.

    A counter that was never seen before has not grown: its errors may be weeks old. After a reboot,
    or where it is lower than it was (a reset, a driver reload), all of it is new.
    """
    before = None if memo is None else memo.counters.get(name)
    if memo is None or before is None or now is None:
        return Growth(0, None)
    if memo.boot_id != boot_id or now < before:
        return Growth(now, None)
    return Growth(now - before, max(time - memo.time, 0.0))


def next_memo(
    memo: Memo | None, reading: Reading, *, time: float, boot_id: str, uuid: str | None = None
) -> Memo:
    """The memo after one more look. What is unknown now stays as it was remembered."""
    old, peaks = memo or Memo(), _known(reading.peaks)
    return Memo(
        uuid=uuid or old.uuid,
        time=time,
        boot_id=boot_id,
        counters={**_same_boot(old, boot_id), **_known(reading.counters)},
        peaks={**old.peaks, **{k: max(v, old.peaks.get(k, v)) for k, v in peaks.items()}},
        streaks=dict(_streaks(old, time, reading.conditions)),
    )


def streak_of(memo: Memo | None, name: str) -> int:
    """At how many looks in a row the condition ``name`` has held."""
    streak = memo.streaks.get(name) if memo else None
    return streak.looks if streak else 0


def keep(memory: Memory | None, looked_at: Mapping[str, Memo]) -> Memory:
    """The memory with the given memos renewed; devices that were not seen are kept."""
    return replace(memory or Memory(), devices={**(memory.devices if memory else {}), **looked_at})


def _same_boot(memo: Memo, boot_id: str) -> dict[str, int]:
    """Counters to fall back on: after a reboot those not read yet start from nothing."""
    same = memo.boot_id == boot_id
    return {name: value if same else 0 for name, value in memo.counters.items()}


def _known(values: Mapping[str, int | None]) -> dict[str, int]:
    return {name: value for name, value in values.items() if value is not None}


def _streaks(
    old: Memo, time: float, conditions: Mapping[str, bool | None]
) -> Iterable[tuple[str, Streak]]:
    for name, holds in conditions.items():
        streak = old.streaks.get(name)
        if holds:
            yield name, Streak(streak.looks + 1, streak.since) if streak else Streak(1, time)
        elif holds is None and streak is not None:
            yield name, streak


def _shifted(memo: Memo, by: float) -> Memo:
    streaks = {name: replace(s, since=s.since + by) for name, s in memo.streaks.items()}
    return replace(memo, time=memo.time + by, streaks=streaks)


def _memo(raw: dict[str, Any]) -> Memo:
    streaks = {name: Streak(**streak) for name, streak in raw.pop("streaks").items()}
    return Memo(**raw, streaks=streaks)
