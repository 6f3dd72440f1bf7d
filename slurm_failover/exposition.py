"""Our metrics: what there is to measure, and Prometheus' text format of it. Pure.

The processes that measure are short-lived, so values are kept as JSON between them; a library that
keeps its metrics in a living process has no place here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PREFIX = "slurm_failover_"

Series = dict[str, float]
Values = dict[str, Series]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: ``kind`` is counter, gauge or histogram, in Prometheus' words. ``always`` has it
    shown as 0 where nothing was counted.
    """

    kind: str
    help: str
    always: bool = True


METRICS: Mapping[str, Metric] = {
    "faults_total": Metric("counter", "Faults that were judged, by code (rule).", always=False),
    "drains_total": Metric("counter", "Drains of this node."),
    "drains_waiting": Metric("gauge", "Whether a drain of this node waits: 1 or 0."),
    "suspected_hangs": Metric("gauge", "Jobs on this node that are suspected to hang."),
    "failovers_total": Metric("counter", "Jobs moved to other nodes."),
    "failovers_put_off_total": Metric("counter", "Failovers that wait for the circuit breaker."),
    "denials_total": Metric("counter", "Failovers denied, by the job's state.", always=False),
    "exceeded_total": Metric("counter", "Jobs that had used all their retries."),
    "image_retries_total": Metric("counter", "New tries after an image that was not fetched."),
    "breaker_open": Metric("gauge", "Whether the circuit breaker is open: 1 or 0."),
    "last_reconcile_timestamp_seconds": Metric(
        "gauge", "When reconcile last ended, in seconds since the epoch.", always=False
    ),
    "restart_latency_seconds": Metric(
        "histogram", "From the end of an attempt that was failed over to the start of the next."
    ),
}

ROLES: Mapping[str, tuple[str, ...]] = {
    "node": ("faults_total", "drains_total", "drains_waiting", "suspected_hangs"),
    "controller": (
        "failovers_total",
        "failovers_put_off_total",
        "denials_total",
        "exceeded_total",
        "image_retries_total",
        "breaker_open",
        "last_reconcile_timestamp_seconds",
        "restart_latency_seconds",
    ),
}
"""Which metrics a node has, and which the controller."""

BUCKETS = (1, 2, 4, 8, 15, 30, 60, 120, 300, 600, 1800, 3600)
"""Upper bounds of the restart latency's histogram, in seconds."""


def add(values: Values, name: str, amount: float = 1, label: str = "") -> None:
    """Raise a counter. ``label`` is a whole label pair such as ``code="xid-79"``."""
    series = values.setdefault(name, {})
    series[label] = series.get(label, 0) + amount


def set_to(values: Values, name: str, value: float) -> None:
    """Set a gauge."""
    values[name] = {"": value}


def observe(values: Values, name: str, seconds: float) -> None:
    """Add one observation to a histogram."""
    for bound in BUCKETS:
        add(values, f"{name}_bucket", float(seconds <= bound), f'le="{bound}"')
    add(values, f"{name}_bucket", 1, 'le="+Inf"')
    add(values, f"{name}_sum", seconds)
    add(values, f"{name}_count")


def label(name: str, value: str) -> str:
    """A label pair, its value escaped as the text format wants it."""
    escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{name}="{escaped}"'


def render(values: Values, role: str) -> str:
    """All metrics of a role in the text format."""
    return "".join(_render(name, values) for name in ROLES[role])


def _render(name: str, values: Values) -> str:
    metric = METRICS[name]
    whole = PREFIX + name
    histogram = metric.kind == "histogram"
    names = [name + end for end in ("_bucket", "_sum", "_count")] if histogram else [name]
    lines = [
        f"{PREFIX}{one}{f'{{{pair}}}' if pair else ''} {value:.15g}"
        for one in names
        for pair, value in values.get(one, {}).items()
    ]
    if not lines and metric.always and not histogram:
        lines = [f"{whole} 0"]
    head = [f"# HELP {whole} {metric.help}", f"# TYPE {whole} {metric.kind}"]
    return "\n".join([*head, *lines]) + "\n" if lines else ""


def read_values(raw: Any) -> Values:
    """The values in what was kept as JSON; raises ValueError if it makes no sense."""
    try:
        return {str(n): {str(k): float(v) for k, v in s.items()} for n, s in raw.items()}
    except (AttributeError, TypeError, OverflowError) as error:
        raise ValueError(f"not metrics: {error}") from error
