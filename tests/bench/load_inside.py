"""Runs beside slurmctld while many jobs end: what our hooks and the decider cost there, as JSON.

It ends when nothing of ours has been at work for a while after something was.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

EVERY, QUIET = 0.25, 3.0
REQUESTS = (b"/usr/bin/scontrol", b"/usr/bin/squeue")
OURS = (b"slurm-failover", b"/slurm_failover/")


@dataclass
class Peak:
    """The most that was there at once, and when all was over, in seconds since the epoch."""

    processes: int = 0
    interpreters: int = 0
    pss_mib: float = 0.0
    rss_mib: float = 0.0
    began: float = 0.0
    ended: float = 0.0


def main(longest: float, ready: str) -> None:
    """Watch until all is quiet, or for ``longest`` seconds; ``ready`` is made when it begins."""
    peak, deadline = Peak(), time.time() + longest
    Path(ready).touch()
    while time.time() < deadline:
        busy = look(peak)
        now = time.time()
        if busy:
            peak.began, peak.ended = peak.began or now, now
        elif peak.ended and now - peak.ended > QUIET:
            break
        time.sleep(EVERY)
    print(json.dumps(asdict(peak)))


def look(peak: Peak) -> bool:
    """One look at all processes; whether any of ours was there or anything waits for one."""
    ours = [process for process in Path("/proc").glob("[0-9]*") if is_ours(process)]
    lines = [read(process / "cmdline").split(b"\0") for process in ours]
    peak.processes = max(peak.processes, len(ours))
    peak.interpreters = max(peak.interpreters, sum(w[0].endswith(b"/python3") for w in lines))
    peak.pss_mib = max(peak.pss_mib, sum(memory(p, b"Pss:") for p in ours) / 1024)
    peak.rss_mib = max(peak.rss_mib, sum(memory(p, b"Rss:") for p in ours) / 1024)
    waiting = Path("/var/lib/slurm-failover/controller/waiting")
    return bool(ours) or (waiting.is_dir() and any(waiting.iterdir()))


def is_ours(process: Path) -> bool:
    """A hook, the decider, or a request that one of them makes just now."""
    line = read(process / "cmdline")
    if not line or b"smaps_rollup" in line:  # that is this script
        return False
    return line.startswith(REQUESTS) or any(sign in line for sign in OURS)


def memory(process: Path, field: bytes) -> int:
    """KiB of a process: Pss shares out what several have in common, Rss counts it for each."""
    for line in read(process / "smaps_rollup").splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    return 0


def read(path: Path) -> bytes:
    """A file of /proc; empty where the process is gone."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


main(float(sys.argv[1]), sys.argv[2])
