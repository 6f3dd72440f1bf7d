"""What the report counts: charts over days, nodes and lengths of time, and the sums above them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from statistics import median

from slurm_failover.happening import Kind
from slurm_failover.history import STOCK_DELAY, Entry, Run, kept_going, lost, saved
from slurm_failover.report.span import say_seconds

HOUR = 3600.0
MOST_DAYS = 92
"""More days than this are shown by month."""
MOST_KINDS = 6
MOST_PLACES = 15

FAULTS = (Kind.DRAIN, Kind.DRAIN_PUT_OFF, Kind.FAULT)
_OUTCOMES = {
    Kind.FAILOVER: "failed over",
    Kind.DENIED: "denied",
    Kind.EXCEEDED: "retries used up",
    Kind.RETRIED: "image fetched again",
}
_BINS = (1.0, 2.0, 5.0, 10.0, 30.0, STOCK_DELAY, 600.0)
_ON_DEVICE = re.compile(r"(?P<kind>.{1,60}?) on (?:GPU|NVSwitch) [0-9a-fA-F]{4,8}:")
_GPU = re.compile(r"GPU (?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})")


@dataclass(frozen=True, slots=True)
class Series:
    """One row of values under a name, one for each label of its chart."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """What one plot and its table show. The series of a label add up; ``across`` says that the
    labels are long, so that the bars lie.
    """

    title: str
    about: str
    head: str
    labels: tuple[str, ...]
    series: tuple[Series, ...]
    across: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(any(series.values) for series in self.series)


@dataclass(frozen=True, slots=True)
class Summary:
    """The sums of a span; times of GPUs in seconds, restarts in seconds or None without any."""

    faults: int
    nodes: int
    failovers: int
    jobs: int
    denied: int
    exceeded: int
    lost: float
    saved: float
    kept: float
    typical: float | None
    longest: float | None


def sum_up(entries: Sequence[Entry], runs: Iterable[Run], now: float) -> Summary:
    """The sums over all entries."""
    kinds = Counter(entry.kind for entry in entries)
    faults = [entry for entry in entries if entry.kind in FAULTS]
    moved = [entry for entry in entries if entry.kind is Kind.FAILOVER]
    waits = [entry.waited for entry in moved if entry.waited is not None]
    return Summary(
        faults=len(faults),
        nodes=len({entry.nodes for entry in faults}),
        failovers=len(moved),
        jobs=len({entry.job for entry in moved}),
        denied=kinds[Kind.DENIED],
        exceeded=kinds[Kind.EXCEEDED],
        lost=sum(map(lost, entries)),
        saved=sum(map(saved, entries)),
        kept=kept_going(runs, entries, now),
        typical=median(waits) if waits else None,
        longest=max(waits, default=None),
    )


def draw_up(entries: Sequence[Entry]) -> list[Chart]:
    """All charts of the report."""
    faults = [entry for entry in entries if entry.kind in FAULTS]
    return [
        _by_day(
            "Faults by day and kind",
            "Drains by slurm-failover, and faults that nodes noted without a drain.",
            faults,
            _kinds_of(faults),
        ),
        _by_place(faults),
        _by_day(
            "Failovers and denials by day",
            "What became of jobs with failover on that failed.",
            entries,
            [(name, _is(kind)) for kind, name in _OUTCOMES.items()],
        ),
        _by_day(
            "GPU hours lost by day",
            "The most that hardware faults can have cost; see the definitions below.",
            entries,
            [("lost, at most", _hours(lost))],
        ),
        _by_day(
            "GPU hours saved by day",
            "What Slurm's own delay of a requeued job would have cost on top; see below.",
            entries,
            [("saved", _hours(saved))],
        ),
        _latency([entry for entry in entries if entry.kind is Kind.FAILOVER]),
    ]


Measure = Callable[[Entry], float]


def kind_of(entry: Entry) -> str:
    """The kind of a fault, from the sentence that tells of it."""
    found = _ON_DEVICE.match(entry.because)
    if found:
        return found["kind"]
    return re.split(r": |; | \(", entry.because, maxsplit=1)[0][:60]


def place_of(entry: Entry) -> str:
    """Where a fault was: the node, and the GPU if the sentence names one."""
    found = _GPU.search(entry.because)
    return f"{entry.nodes} GPU {found['pci']}" if found else entry.nodes


def _by_day(
    title: str,
    about: str,
    entries: Sequence[Entry],
    measures: Sequence[tuple[str, Measure]],
) -> Chart:
    days = _days(entries)
    name = _namer(days)
    labels = tuple(dict.fromkeys(name(day) for day in days))
    series = []
    for measure_name, measure in measures:
        sums = dict.fromkeys(labels, 0.0)
        for entry in entries:
            sums[name(_day(entry))] += measure(entry)
        series.append(Series(measure_name, tuple(sums.values())))
    head = "Month" if name is _month else "Day"
    return Chart(title, about, head, labels, tuple(series))


def _by_place(faults: Iterable[Entry]) -> Chart:
    counted = Counter(map(place_of, faults)).most_common()
    shown, rest = counted[:MOST_PLACES], counted[MOST_PLACES:]
    if rest:
        shown.append((f"{len(rest)} more", sum(count for _, count in rest)))
    values = tuple(float(count) for _, count in shown)
    return Chart(
        "Faults by node and GPU",
        "The same faults, by where they were; those with the most come first.",
        "Node and GPU",
        tuple(place for place, _ in shown),
        (Series("faults", values),),
        across=True,
    )


def _latency(moved: Iterable[Entry]) -> Chart:
    lows = (0.0, *_BINS)
    names = [f"under {say_seconds(_BINS[0])}"]
    names += [f"{say_seconds(low)} to {say_seconds(up)}" for low, up in pairwise(_BINS)]
    names += [f"{say_seconds(_BINS[-1])} or more", "not started again"]
    counts = [0] * len(names)
    for entry in moved:
        at = -1 if entry.waited is None else sum(entry.waited >= low for low in lows) - 1
        counts[at] += 1
    return Chart(
        "Restart latency",
        "From the end of a run to the start of the next one, after a failover. "
        f"Slurm alone waits {STOCK_DELAY:g} s or more.",
        "Time to restart",
        tuple(names),
        (Series("failovers", tuple(map(float, counts))),),
        across=True,
    )


def _kinds_of(faults: Sequence[Entry]) -> list[tuple[str, Measure]]:
    """A measure for each of the most frequent kinds, and one for the others."""
    common = [kind for kind, _ in Counter(map(kind_of, faults)).most_common()]
    first, rest = common[:MOST_KINDS], common[MOST_KINDS:]
    measures = [(kind, _among((kind,))) for kind in first]
    return [*measures, ("other kinds", _among(rest))] if rest else measures


def _among(kinds: Sequence[str]) -> Measure:
    return lambda entry: float(kind_of(entry) in kinds)


def _is(kind: Kind) -> Measure:
    return lambda entry: float(entry.kind is kind)


def _hours(measure: Measure) -> Measure:
    return lambda entry: measure(entry) / HOUR


def _day(entry: Entry) -> date:
    """The day on which it happened, by the clock of the place."""
    return datetime.fromtimestamp(entry.time).date()


def _days(entries: Iterable[Entry]) -> list[date]:
    """All days from the first entry's to the last one's."""
    days = sorted(map(_day, entries))
    if not days:
        return []
    return [days[0] + timedelta(number) for number in range((days[-1] - days[0]).days + 1)]


def _namer(days: Sequence[date]) -> Callable[[date], str]:
    """How a day is called on the axis: by itself, or by its month where there are many."""
    return date.isoformat if len(days) <= MOST_DAYS else _month


def _month(day: date) -> str:
    return f"{day.year}-{day.month:02}"
