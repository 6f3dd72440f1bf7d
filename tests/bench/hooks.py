"""Measure healthy hooks inside the test cluster's image, beside a peer; see tests/bench/hooks."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
BUILDER = HERE.parent.parent / "docker" / "image.py"
BARE = "bare python3 -I -S"
PEER = "gpucm's check for Xids"
LIMITS = {
    "epilog without NVML": 60.0,
    "epilog with NVML": 250.0,
    "epilog with a watcher": 20.0,
    "healthcheck with a watcher": 20.0,
}
"""Milliseconds on a quiet machine, by the requirement."""
LEAD, MEMORY = 10.0, 20.0
"""The peer's time against an Epilog's without NVML, and the MiB of that Epilog."""
Cost = tuple[float, float, float]


def main() -> None:
    """Build the image, measure in a container of it, print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    image = subprocess.run([sys.executable, BUILDER], stdout=subprocess.PIPE, text=True, check=True)
    command = ["docker", "run", "--rm", "-i", "--hostname=n1", "--entrypoint=python3"]
    inside = [*command, image.stdout.strip(), "-", str(runs)]
    script = (HERE / "hooks_inside.py").read_text()
    done = subprocess.run(inside, input=script, stdout=subprocess.PIPE, text=True, check=True)
    medians: dict[str, Cost] = {name: tuple(cost) for name, cost in json.loads(done.stdout).items()}
    peer = measure_peer(runs)
    if peer is not None:
        medians[PEER] = peer
    report(medians, runs)
    sys.exit(not holds(medians))


def measure_peer(runs: int) -> Cost | None:
    """gpucm in an environment of its own, on this host; None where it can not be installed."""
    home = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    folder = home / "slurm-failover" / "gpucm"
    program = folder / "bin" / "health_checks"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [folder / "bin" / "pip", "install", "--quiet", "gpucm"]
        if subprocess.run(install, check=False).returncode:
            return None
    with tempfile.TemporaryDirectory() as logs:
        check = [str(program), "check-syslogs", "xid", "--log-folder", logs, "bench", "epilog"]
        costs = [clock(check) for _ in range(max(runs // 3, 3))]
    wall, processor, memory = zip(*costs, strict=True)
    return statistics.median(wall), statistics.median(processor), statistics.median(memory)


def clock(command: list[str]) -> Cost:
    """Milliseconds of wall and processor time and MiB of one run. The peer's exit status is that
    of the host's own log.
    """
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = (time.perf_counter() - start) * 1000
    return wall, (usage.ru_utime + usage.ru_stime) * 1000, usage.ru_maxrss / 1024


def report(medians: dict[str, Cost], runs: int) -> None:
    """Print all, each against an interpreter that does nothing."""
    bare = medians[BARE][0]
    print(f"medians of {runs} runs each, in turns: wall time, processor time, memory at the peak")
    for name, (wall, processor, memory) in medians.items():
        limit = f"   limit {LIMITS[name]:.0f} ms" if name in LIMITS else ""
        row = f"{wall:7.1f} ms {processor:7.1f} ms {memory:6.1f} MiB   {wall / bare:5.1f} x bare"
        print(f"{name:28}{row}{limit}")
    ours = medians["epilog without NVML"]
    if PEER in medians:
        lead = medians[PEER][0] / ours[0]
        print(f"{PEER} / our Epilog: {lead:.0f} x in time, limit {LEAD:.0f}")
    print(f"our Epilog without NVML: {ours[2]:.1f} MiB, limit {MEMORY:.0f}")


def holds(medians: dict[str, Cost]) -> bool:
    """Whether what does not depend on the host's load holds."""
    wall, _, memory = medians["epilog without NVML"]
    ahead = PEER not in medians or medians[PEER][0] >= LEAD * wall
    return ahead and memory <= MEMORY


if __name__ == "__main__":
    main()
