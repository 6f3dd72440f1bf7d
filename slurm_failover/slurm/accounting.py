"""Slurm's accounting through sacct and sacctmgr; times of a span are for them to understand."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from slurm_failover.errors import NoSuchTime, SlurmError, SlurmUnavailable
from slurm_failover.history import Outage, Run
from slurm_failover.slurm.accounting_facts import OUTAGE_FIELDS, read_outage, read_run
from slurm_failover.slurm.scontrol import JSON, explain

TIMEOUT = 600.0
"""Seconds: slurmdbd may have to read months of a large site."""
_BY_THEIR_END = "NODE_FAIL,REQUEUED"
"""Runs that Slurm requeued. After it lost a node it forgets when the run became eligible, and sacct
leaves such a run out of a span unless it is asked for it by how it ended, with both ends of the
span (seen on 24.11.5).
"""
_NO_TIME = re.compile(r"Invalid time specification \(pos=\d+\): (.*)")
"""What sacct says, before it asks slurmdbd for anything (seen on 24.11.5)."""


@dataclass(frozen=True, slots=True)
class Span:
    """From when until when, as a person writes it for sacct: ``now-7days``, ``2026-01-31``. Empty
    leaves it to sacct.
    """

    since: str = ""
    until: str = ""


class Accounting:
    """What the asking user may see of it; the commands are in ``folder``. Both methods raise
    SlurmError with Slurm's own words, SlurmUnavailable where slurmdbd does not answer, NoSuchTime
    with the end of the span that is none.
    """

    def __init__(self, folder: str = "/usr/bin", timeout: float = TIMEOUT) -> None:
        self._folder = folder
        self._timeout = timeout

    def runs(self, span: Span, jobs: Collection[str] = (), user: str = "") -> list[Run]:
        """All runs in the span, each requeue's by itself: of all jobs, of these, or of a user's."""
        chosen = [f"--user={user}"] if user else ["--allusers"]
        chosen += [f"--jobs={','.join(jobs)}"] if jobs else []
        chosen += [f"--starttime={span.since}"] if span.since else []
        chosen += [f"--endtime={span.until}"] if span.until else []
        rows = self._rows(*chosen)
        if not jobs:
            known = {_name_run(row) for row in rows}
            until = [] if span.until else ["--endtime=now"]
            more = self._rows(*chosen, *until, f"--state={_BY_THEIR_END}")
            rows += [row for row in more if _name_run(row) not in known]
        return [run for row in rows if (run := read_run(row)) is not None]

    def outages(self, span: Span) -> list[Outage]:
        """The times in which nodes were out of service that reach into the span. sacctmgr takes a
        span that it does not understand for none (seen on 26.05.5): ask for the runs first.
        """
        times = {"start": span.since, "end": span.until}
        chosen = [f"{key}={value}" for key, value in times.items() if value]
        form = f"format={OUTAGE_FIELDS}"
        options = ("--readonly", "--parsable2", "--noheader")
        answer = self._ask("sacctmgr", *options, "show", "event", *chosen, form)
        return [out for line in answer.splitlines() if (out := read_outage(line)) is not None]

    def _rows(self, *chosen: str) -> list[Any]:
        answer = self._ask("sacct", "--duplicates", "--allocations", JSON, *chosen)
        try:
            return list(json.loads(answer)["jobs"])
        except (ValueError, LookupError, TypeError) as error:
            raise SlurmError(f"sacct gave no JSON, is it older than 24.11? {error!r}") from error

    def _ask(self, program: str, *arguments: str) -> str:
        command = [f"{self._folder}/{program}", *arguments]
        try:
            done = subprocess.run(
                [os.fsencode(word) for word in command],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self._timeout,
                check=False,
                env={**os.environ, "SLURM_TIME_FORMAT": "%s"},
            )
        except subprocess.TimeoutExpired as error:
            raise SlurmUnavailable(f"{program} did not answer in {self._timeout} s") from error
        except OSError as error:
            raise SlurmError(
                f"{command[0]} can not be run: {error.strerror}; set [slurm] bin to its folder"
            ) from error
        if done.returncode != 0:
            words = os.fsdecode(done.stderr) + os.fsdecode(done.stdout)
            no_time = _NO_TIME.search(words)
            raise NoSuchTime(no_time[1]) if no_time else explain(program, words)
        return os.fsdecode(done.stdout)


def _name_run(row: Any) -> str:
    """What tells one run from all others, whatever else becomes of it between two questions; rows
    that are no runs have no name of their own.
    """
    clock = row.get("time") if isinstance(row, dict) else None
    if not isinstance(clock, dict):
        return ""
    return json.dumps([row.get("job_id"), clock.get("start"), clock.get("submission")])
