"""Measure the watcher: idle and flooded in one container, and fault by fault on a live cluster.

A fault's moment is the stamp in its kernel record; the drain's and the requeue's are slurmctld's
own, by its log; the job's script stamps its new start. All are the host's one clock.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
sys.path.insert(0, str(ROOT / "tests" / "slurm"))

from cluster import CONTROLLER, NODES, SHARED, Cluster, each  # noqa: E402
from story import LOST, Story  # noqa: E402
from test_watch import start as start_watcher  # noqa: E402

KMSG = "/var/lib/slurm-failover-test/kmsg"
LOG = "/var/log/slurm/slurmctld.log"
SCRIPT = f"""#!/bin/bash
date +%s.%N >{SHARED}/start.$SLURM_JOB_ID.${{SLURM_RESTART_COUNT:-0}}
echo "attempt ${{SLURM_RESTART_COUNT:-0}} on $SLURM_JOB_NODELIST"
exec sleep 600
"""
STEPS = {
    "drained": (r"update_node: node {node} reason set to: slurm-failover", 1.0),
    "pending": (r"_job_requeue_op: JobId={job} state", 2.0),
    "running": ("", 4.0),
}
"""What follows from a fault: how slurmctld's log tells it, and the limit of its p95 in seconds."""
MEMORY_LIMIT, SHARE_LIMIT = 60.0, 0.1
RATE_WANTED = 100_000
CODES = (79, 110, 62, 140)
"""Xids of broken hardware in turns: repeats of one on one device are a storm, and wait."""


def main() -> None:
    """Run all parts and print their tables; ends with 1 where something does not hold."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--faults", type=int, default=50)
    options.add_argument("--idle", type=int, default=300, help="seconds of idleness to measure")
    given = options.parse_args()
    build = [sys.executable, ROOT / "docker" / "image.py"]
    image = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    holds = report_alone(measure_alone(image, given.idle))
    if given.faults:
        holds &= report_faults(measure_faults(image, given.faults))
    sys.exit(not holds)


def measure_alone(image: str, idle: int) -> dict[str, dict[str, float]]:
    """The figures of watch_inside.py, in a container of the image."""
    command = ["docker", "run", "--rm", "-i", "--hostname=n1", "--entrypoint=python3"]
    inside = [*command, image, "-", str(idle)]
    script = (HERE / "watch_inside.py").read_text()
    done = subprocess.run(inside, input=script, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def report_alone(figures: dict[str, dict[str, float]]) -> bool:
    """Print what the watcher costs by itself; whether all holds."""
    idle = figures.pop("idle")
    print(f"idle for {idle['seconds']:.0f} s, a look at everything included:")
    print(f"  {idle['share']:.3f} % of one core   limit {SHARE_LIMIT} %")
    print(f"  {idle['memory']:.1f} MiB resident, NVML's listener included   limit {MEMORY_LIMIT}")
    holds = idle["share"] <= SHARE_LIMIT and idle["memory"] <= MEMORY_LIMIT
    for name, flood in figures.items():
        print(f"flood of {name}: {flood['records']:.0f} records at {flood['rate']:.0f} a second")
        print(f"  {flood['processor']:.2f} s of one core for 100,000 records   limit 1")
        print(f"  faults among them {flood['faults']:.0f}, lost {flood['lost']:.0f}")
        print(f"  {flood['memory']:.1f} MiB at the peak, longest answer {flood['answer']:.2f} s")
        holds &= not flood["lost"] and flood["memory"] <= MEMORY_LIMIT and flood["processor"] <= 1
        if flood["rate"] < 0.99 * RATE_WANTED:
            print(f"  this host brings no more: {RATE_WANTED} were wanted")
    return bool(holds)


def measure_faults(image: str, faults: int) -> dict[str, list[float]]:
    """Seconds from each fault to what followed from it."""
    cluster = Cluster(image)
    taken: dict[str, list[float]] = {name: [] for name in STEPS}
    try:
        cluster.start()
        cluster.reset()
        each(lambda node: cluster.check(node, PREPARE), (CONTROLLER, *NODES))
        each(lambda node: start_watcher(cluster, node), NODES)
        story = Story(cluster)
        for number in range(faults):
            for name, seconds in measure_fault(story, number).items():
                taken[name].append(seconds)
            last = ", ".join(f"{name} {times[-1]:.2f} s" for name, times in taken.items())
            print(f"fault {number + 1}/{faults}: {last}", file=sys.stderr, flush=True)
    finally:
        cluster.stop()
    return taken


PREPARE = (
    "sed -i 's/^HealthCheckInterval=.*/HealthCheckInterval=3600/; "
    "s/^SlurmctldDebug=.*/SlurmctldDebug=debug/' /etc/slurm/slurm.conf && "
    "printf '[breaker]\\nenabled = false\\npace = 0\\n' >>/etc/slurm-failover/settings.toml && "
    "{ [ $(hostname) != ctl ] || scontrol reconfigure; }"
)
"""So that the watcher alone is measured, however many faults."""


def measure_fault(story: Story, number: int) -> dict[str, float]:
    """One job on one node, which loses a GPU; all is as before afterwards."""
    cluster = story.cluster
    job = cluster.sbatch(SCRIPT, "--gres=gpu:2", "--comment=failover")
    (node,) = story.wait_running(job)
    cluster.inject(node, LOST.replace(": 79,", f": {CODES[number % len(CODES)]},"))
    story.wait_running(job, restarts=1, seconds=60)
    fault = fault_time(cluster, node)
    times = {
        name: told(cluster, pattern.format(node=node, job=job), fault) - fault
        for name, (pattern, _) in STEPS.items()
        if pattern
    }
    times["running"] = float(cluster.read(CONTROLLER, f"{SHARED}/start.{job}.1")) - fault
    cluster.check(CONTROLLER, ["scancel", str(job)])
    cluster.check(CONTROLLER, ["scontrol", "update", f"NodeName={node}", "State=RESUME"])
    cluster.wait(lambda: cluster.node(node)["state"] == ["IDLE"], 30, f"{node} in service")
    return times


def fault_time(cluster: Cluster, node: str) -> float:
    """When the node's last record was written, in seconds since the epoch."""
    stamp = cluster.read(node, KMSG).splitlines()[-1].split(",")[2]
    return int(stamp) / 1e6 + time.time() - time.clock_gettime(time.CLOCK_MONOTONIC)


def told(cluster: Cluster, pattern: str, after: float) -> float:
    """When slurmctld's log first told something after a moment, in seconds since the epoch."""
    for line in cluster.check(CONTROLLER, ["tail", "-n", "2000", LOG]).splitlines():
        stamp = re.match(r"\[([^]]+)\]", line)
        if stamp and re.search(pattern, line):
            # slurmctld stamps whole milliseconds in the container's zone, which is UTC.
            at = datetime.fromisoformat(f"{stamp[1]}+00:00").timestamp()
            if at >= after - 0.002:
                return at
    raise SystemExit(f"slurmctld's log does not tell {pattern!r}")


def report_faults(taken: dict[str, list[float]]) -> bool:
    """Print p50 and p95; whether they hold."""
    holds = True
    print(f"{'from the record to':22}{'faults':>7}{'p50 s':>8}{'p95 s':>8}{'max s':>8}{'limit':>8}")
    for name, times in taken.items():
        limit = STEPS[name][1]
        p95 = statistics.quantiles(times, n=20)[-1] if len(times) > 1 else times[0]
        row = f"{statistics.median(times):8.2f}{p95:8.2f}{max(times):8.2f}{limit:8.0f}"
        print(f"{name:22}{len(times):7}{row}")
        holds &= p95 <= limit
    return holds


if __name__ == "__main__":
    main()
