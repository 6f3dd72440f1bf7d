"""The part of hooks.py that runs in the container: medians of healthy hooks, as JSON."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

HOME = Path("/opt/slurm-failover")
HOOKS = next(HOME.glob("lib/python3*/site-packages/slurm_failover/hooks.py"))
PYTHON = [str(HOME / "bin/python3"), "-I", "-S"]
SHELL = {
    "epilog": HOME / "share/slurm-failover/epilog/epilog.sh",
    "prolog": HOME / "share/slurm-failover/prolog/prolog.sh",
    "healthcheck": HOME / "share/slurm-failover/prolog/healthcheck.sh",
}
SETTINGS = Path("/etc/slurm-failover/settings.toml")
KMSG = Path("/var/lib/slurm-failover-test/kmsg")
LOG = Path("/var/log/slurm/slurm-failover.log")
WATCH = Path("/run/slurm-failover/watch")
JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_START_TIME": "1", "SLURM_JOB_GPUS": "0,1"}
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SLURMD_NODENAME": "n1", **JOB}
RECORDS = 2000
NHC = "/usr/sbin/nhc"
NHC_CHECKS = "* || check_fs_mount_rw -f /\n* || check_ps_loadavg 100000\n" + (
    "* || check_hw_physmem_free 1k\n* || check_file_test -r /etc/passwd\n"
)
Cost = tuple[float, float, float]
"""Milliseconds of wall time and of processor time, and MiB at the peak."""


def main(runs: int) -> None:
    settings = SETTINGS.read_text().replace("bmc_interval = 2\n", "")
    # A healthy hook asks Slurm nothing: one that did would fail and say so.
    SETTINGS.write_text(settings + '\n[slurm]\nbin = "/nowhere"\n')
    subprocess.run(["cluster-gpus", "reset"], check=True)
    lines = (f"6,{n},{n}000,-;usb 1-1: new USB device number {n}" for n in range(RECORDS))
    KMSG.write_text("\n".join(lines) + "\n")
    floors = {"bare python3 -I -S": [*PYTHON, "-c", "pass"], **find_nhc()}
    medians: dict[str, Cost] = {}
    for kind, change in (("without NVML", "absent"), ("with NVML", "reset")):
        subprocess.run(["cluster-gpus", change], check=True)
        hooks = {f"{name} {kind}": ["/bin/sh", str(path)] for name, path in SHELL.items()}
        medians |= measure(floors | hooks, runs)
    with_watcher = {name: path for name, path in SHELL.items() if name != "prolog"}
    watcher = subprocess.Popen([*PYTHON, str(HOOKS), "watch"])
    try:
        wait_for_watcher()
        hooks = {f"{n} with a watcher": ["/bin/sh", str(p)] for n, p in with_watcher.items()}
        medians |= measure(floors | hooks, runs)
    finally:
        watcher.terminate()
        watcher.wait(20)
    json.dump(medians, sys.stdout)


def find_nhc() -> dict[str, list[str]]:
    """NHC with four trivial checks, where it is installed."""
    if not shutil.which(NHC):
        return {}
    conf = Path("/tmp/nhc.conf")
    conf.write_text(NHC_CHECKS)
    return {"NHC, four checks": [NHC, "-c", str(conf), "MARK_OFFLINE=0"]}


def wait_for_watcher() -> None:
    """Wait until the first looks are over."""
    sys.path.insert(0, str(HOOKS.parent.parent))
    from slurm_failover.node.ask import CLEAN, ask_watcher

    deadline = time.monotonic() + 60
    while ask_watcher(str(WATCH)) != CLEAN or is_looking():
        if time.monotonic() > deadline:
            raise SystemExit("the watcher does not answer")
        time.sleep(0.1)


def is_looking() -> bool:
    """Whether the watcher has a check running."""
    return any(
        path.exists() and path.read_bytes().endswith(b"healthcheck\0")
        for path in Path("/proc").glob("[0-9]*/cmdline")
    )


def measure(commands: dict[str, list[str]], runs: int) -> dict[str, Cost]:
    """The medians of commands that run in turns."""
    for command in commands.values():
        clock(command)
    said = LOG.read_text() if LOG.exists() else ""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            costs[name].append(clock(command))
    now = LOG.read_text() if LOG.exists() else ""
    if now != said:
        raise SystemExit(f"a healthy hook had something to say:\n{now}")
    return {name: median(values) for name, values in costs.items()}


def clock(command: list[str]) -> Cost:
    """What one run costs, its children included."""
    start = time.perf_counter()
    process = subprocess.Popen(command, env=ENVIRONMENT)
    _, status, usage = os.wait4(process.pid, 0)
    wall = (time.perf_counter() - start) * 1000
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return wall, (usage.ru_utime + usage.ru_stime) * 1000, usage.ru_maxrss / 1024


def median(costs: list[Cost]) -> Cost:
    """The medians of all three."""
    wall, processor, memory = zip(*costs, strict=True)
    return statistics.median(wall), statistics.median(processor), statistics.median(memory)


main(int(sys.argv[1]))
