"""Metrics between short-lived processes: kept beside our state, published for node exporter."""

from __future__ import annotations

import json
from collections.abc import Callable

from slurm_failover import exposition, files
from slurm_failover.exposition import Values
from slurm_failover.happening import Happening, Kind
from slurm_failover.settings.tables import Settings

Say = Callable[[str], None]

LOCK_PATIENCE = 2.0
"""Seconds to wait for another process of ours that counts; a count is worth no more."""

_COUNTED = {
    Kind.FAILOVER: "failovers_total",
    Kind.PUT_OFF: "failovers_put_off_total",
    Kind.EXCEEDED: "exceeded_total",
    Kind.RETRIED: "image_retries_total",
}
_GAUGES = {
    Kind.BREAKER_OPEN: ("breaker_open", 1),
    Kind.BREAKER_CLOSED: ("breaker_open", 0),
    Kind.DRAIN_PUT_OFF: ("drains_waiting", 1),
    Kind.DRAIN: ("drains_waiting", 0),
    Kind.FAULT: ("drains_waiting", 0),
}


class Metrics:
    """The metrics of this host as ``role``, "node" or "controller". Never raises for a file."""

    def __init__(self, settings: Settings, role: str, say: Say) -> None:
        self._directory = settings.metrics.directory
        self._folder = f"{settings.state.directory}/{role}"
        self._acts = settings.failover.mode == "act"
        self._role = role
        self._say = say

    def count(self, what: Happening) -> None:
        """Count something that happened."""
        self._change(lambda values: self._take(values, what))

    def set_to(self, name: str, value: float) -> None:
        """Set a gauge."""
        self._change(lambda values: exposition.set_to(values, name, value))

    def _take(self, values: Values, what: Happening) -> None:
        if what.kind in (Kind.DRAIN, Kind.FAULT):
            exposition.add(values, "faults_total", 1, exposition.label("code", what.code))
        if what.kind in _GAUGES:
            exposition.set_to(values, *_GAUGES[what.kind])
        if not self._acts:
            return
        if what.kind is Kind.DRAIN:
            exposition.add(values, "drains_total")
        elif what.kind is Kind.DENIED:
            exposition.add(values, "denials_total", 1, exposition.label("state", what.state))
        elif what.kind in _COUNTED:
            exposition.add(values, _COUNTED[what.kind])
        elif what.kind is Kind.RESUMED and what.seconds is not None:
            exposition.observe(values, "restart_latency_seconds", what.seconds)

    def _change(self, change: Callable[[Values], None]) -> None:
        if not self._directory:
            return
        try:
            files.make_folder(self._folder)
            with files.locked(f"{self._folder}/metrics.lock", LOCK_PATIENCE) as held:
                if held:
                    self._write(change)
        except OSError as error:
            self._say(f"metrics are not written: {error}")

    def _write(self, change: Callable[[Values], None]) -> None:
        kept = f"{self._folder}/metrics.json"
        try:
            values = exposition.read_values(json.loads(files.read_whole(kept) or "{}"))
        except (ValueError, RecursionError) as error:
            self._say(f"{kept} is damaged, and all is counted anew: {error}")
            values = {}
        change(values)
        files.write_whole(kept, json.dumps(values))
        path = f"{self._directory}/slurm_failover_{self._role}.prom"
        files.write_whole(path, exposition.render(values, self._role), mode=0o644)
