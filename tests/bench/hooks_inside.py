"""The part of hooks.py that runs in the container: medians in milliseconds, as JSON."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

HOME = Path("/opt/slurm-failover")
HOOKS = next(HOME.glob("lib/python3*/site-packages/slurm_failover/hooks.py"))
PYTHON = [str(HOME / "bin/python3"), "-I", "-S"]
SETTINGS = Path("/etc/slurm-failover/settings.toml")
KMSG = Path("/var/lib/slurm-failover-test/kmsg")
LOG = Path("/var/log/slurm/slurm-failover.log")
JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_START_TIME": "1", "SLURM_JOB_GPUS": "0,1"}
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SLURMD_NODENAME": "n1", **JOB}
RECORDS = 2000
Cost = tuple[float, float]
"""Milliseconds of wall time, and of processor time."""


def main(runs: int) -> None:
    settings = SETTINGS.read_text().replace("bmc_interval = 2\n", "")
    # A healthy hook asks Slurm nothing: one that did would fail and say so.
    SETTINGS.write_text(settings + '\n[slurm]\nbin = "/nowhere"\n')
    subprocess.run(["cluster-gpus", "reset"], check=True)
    lines = (f"6,{n},{n}000,-;usb 1-1: new USB device number {n}" for n in range(RECORDS))
    KMSG.write_text("\n".join(lines) + "\n")
    medians: dict[str, Cost] = {}
    bare: list[Cost] = []
    for kind, change in (("without NVML", "absent"), ("with NVML", "reset")):
        subprocess.run(["cluster-gpus", change], check=True)
        medians |= measure(kind, runs, bare)
    json.dump({"bare python3 -I -S": median(bare), **medians}, sys.stdout)


def measure(kind: str, runs: int, bare: list[Cost]) -> dict[str, Cost]:
    names = ("epilog", "prolog", "healthcheck")
    for name in names:
        clock(name)
    said = LOG.read_text() if LOG.exists() else ""
    times: dict[str, list[Cost]] = {name: [] for name in names}
    for _ in range(runs):
        bare.append(clock(None))
        for name in names:
            times[name].append(clock(name))
    now = LOG.read_text() if LOG.exists() else ""
    if now != said:
        raise SystemExit(f"a healthy hook had something to say:\n{now}")
    return {f"{name} {kind}": median(values) for name, values in times.items()}


def clock(hook: str | None) -> Cost:
    """What one hook costs, or an interpreter that does nothing."""
    command = [*PYTHON, str(HOOKS), hook] if hook else [*PYTHON, "-c", "pass"]
    start, used = time.perf_counter(), cpu()
    subprocess.run(command, env=ENVIRONMENT, check=True)
    return (time.perf_counter() - start) * 1000, (cpu() - used) * 1000


def cpu() -> float:
    """Seconds of processor time that the children have used until now."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def median(costs: list[Cost]) -> Cost:
    """The medians of wall and of processor time."""
    wall, processor = zip(*costs, strict=True)
    return statistics.median(wall), statistics.median(processor)


main(int(sys.argv[1]))
