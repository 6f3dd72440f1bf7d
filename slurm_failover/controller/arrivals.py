"""What the controller's hooks hand in: attempts that start or end, as files that outlive the hook.

hand_in.sh writes an entry and waits for its turn; whoever is first in line serves all that wait.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from slurm_failover import files
from slurm_failover.errors import RecordError
from slurm_failover.lifecycle import expand

AGAIN = ".again"
"""Marks an entry whose turn began and did not end; serve.sh knows it too."""


class Kind(StrEnum):
    """What happened to the attempt: the hook that Slurm calls for it."""

    START = "prolog_slurmctld"
    END = "epilog_slurmctld"


@dataclass(frozen=True, slots=True)
class Arrival:
    """An attempt that starts or ends, as Slurm told the hook.

    ``nodes`` and ``start`` (seconds since the epoch) are the attempt's own: of a completing job
    Slurm shows only the nodes that have not finished, and of a requeued array task another start
    (seen on 24.11.5). ``option`` is the value of ``sbatch --failover`` where that was used.
    """

    kind: Kind
    job_id: str
    start: float = 0.0
    nodes: str = ""
    option: str | None = None

    @property
    def name(self) -> str:
        """The entry's file name."""
        return f"{self.kind}.{self.job_id}.{self.start:.0f}"


def from_environment(kind: Kind, environment: Mapping[str, str]) -> Arrival:
    """The arrival that a hook was started for; ``nodes`` are those of all components of a
    heterogeneous job.
    """
    alone = environment.get("SLURM_JOB_NODELIST", "")
    return Arrival(
        kind,
        environment["SLURM_JOB_ID"],
        float(environment.get("SLURM_JOB_START_TIME", 0)),
        environment.get("SLURM_HET_JOB_NODELIST") or alone,
        environment.get("SPANK_FAILOVER"),
    )


class Queue:
    """The folder of entries. One process at a time serves it: the holder of ``lock``."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.lock = f"{folder}.lock"

    def read(self) -> list[Arrival]:
        """All entries, those of one job in the order of start and end. One that can not be
        understood is taken away.
        """
        try:
            names = sorted(entry.name for entry in os.scandir(self._folder))
        except FileNotFoundError:
            return []
        whole = [name for name in names if not name.endswith(".new")]
        found = [self._read(name) for name in whole]
        known = {arrival for arrival in found if arrival is not None}
        return sorted(known, key=lambda one: (one.start, one.kind is Kind.END, one.job_id))

    def add(self, arrival: Arrival) -> None:
        """Hand in an arrival; the same one twice is one. hand_in.sh writes the same text."""
        wish = "" if arrival.option is None else f"={arrival.option}"
        path = f"{self._folder}/{arrival.name}"
        files.make_folder(self._folder)
        files.write_whole(path, f"{arrival.nodes}\n{wish}\n")
        files.remove(path + AGAIN)

    def handed_in(self, arrival: Arrival) -> float:
        """When an arrival was handed in, in seconds since the epoch; 0 where it is gone."""
        for path in (arrival.name, arrival.name + AGAIN):
            with contextlib.suppress(OSError):
                return os.stat(f"{self._folder}/{path}").st_mtime  # noqa: PTH116 - as files.py
        return 0.0

    def begin(self, arrival: Arrival) -> None:
        """Its turn begins. One that dies in it gets one more, so that an entry which is its death
        keeps the others back twice at most; reconcile finds the job all the same.
        """
        path = f"{self._folder}/{arrival.name}"
        try:
            os.rename(path, path + AGAIN)  # noqa: PTH104 - no pathlib on a hook's path
        except FileNotFoundError:
            files.remove(path + AGAIN)

    def remove(self, arrival: Arrival) -> None:
        """Take an entry away; it may be gone already, or never have been there."""
        for path in (arrival.name, arrival.name + AGAIN):
            files.remove(f"{self._folder}/{path}")

    def _read(self, name: str) -> Arrival | None:
        """An entry: the attempt's nodes, and after ``=`` what the option says, if it was used."""
        path = f"{self._folder}/{name}"
        try:
            text = files.read_whole(path)
            if text is None:
                return None
            nodes, _, option = text.removesuffix("\n").partition("\n")
            expand(nodes)
            kind, job_id, start = name.removesuffix(AGAIN).split(".")
            wish = option[1:] if option.startswith("=") else None
            return Arrival(Kind(kind), job_id, float(start), nodes, wish)
        except (ValueError, RecordError):
            files.remove(path)
            return None
