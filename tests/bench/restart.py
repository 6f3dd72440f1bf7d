"""From a job's end to its script running elsewhere: ours and stock requeue, in one run.

Both ends are stamped by the job's own script with the host's clock. Ours: a two-node job, a fault
on its first node, idle nodes present; one after the other, with the cluster reset between. Stock:
one-CPU jobs that fail and are requeued with `scontrol requeue` at once; all side by side, since
each waits for two minutes and none for another.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "slurm"))

from cluster import CONTROLLER, SHARED, Cluster  # noqa: E402
from story import LOST, Story  # noqa: E402

STAMPED = f"""#!/bin/bash
stamp() {{ date +%s.%N >{SHARED}/$1.$SLURM_JOB_ID.${{SLURM_RESTART_COUNT:-0}}; }}
echo "attempt ${{SLURM_RESTART_COUNT:-0}} on $SLURM_JOB_NODELIST"
stamp start
gate={SHARED}/gate.$SLURM_JOB_ID
[ -p "$gate" ] || mkfifo -m 666 "$gate"
read -r status <"$gate"
stamp end
exit "$status"
"""


def main() -> None:
    """Run the bench and print its table."""
    options = argparse.ArgumentParser(description="restart latency, ours and stock")
    options.add_argument("--runs", type=int, default=10, help="runs of each (default: 10)")
    runs = options.parse_args().runs
    build = [sys.executable, ROOT / "docker" / "image.py"]
    image = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    cluster = Cluster(image)
    try:
        cluster.start()
        report(measure_ours(cluster, runs), measure_stock(cluster, runs))
    finally:
        cluster.stop()


def measure_ours(cluster: Cluster, runs: int) -> list[float]:
    """Seconds from end to restart of failed-over jobs."""
    taken = []
    for run in range(runs):
        cluster.reset()
        story = Story(cluster)
        flags = ("--nodes=2", "--gres=gpu:2", "--comment=failover")
        job = cluster.sbatch(STAMPED, *flags)
        first = story.wait_running(job)
        cluster.inject(first[0], LOST)
        story.end(job, 1)
        second = story.wait_running(job, restarts=1)
        if first[0] in second:
            raise SystemExit(f"job {job} came back to the faulty node {first[0]}")
        taken.append(seconds_between(cluster, job))
        say(f"ours {run + 1}/{runs}: {taken[-1]:.2f} s")
    return taken


def measure_stock(cluster: Cluster, runs: int) -> list[float]:
    """Seconds from end to restart of jobs requeued by Slurm's own command."""
    cluster.reset()
    story = Story(cluster)
    jobs = [cluster.sbatch(STAMPED, "--ntasks=1") for _ in range(runs)]
    for job in jobs:
        story.wait_running(job)
        story.end(job, 1)
        cluster.wait(lambda job=job: "FAILED" in cluster.job_state(job), 30, "a failed job")
        cluster.check(CONTROLLER, ["scontrol", "requeue", str(job)])
    say(f"stock: {runs} jobs are requeued and wait")
    for job in jobs:
        story.wait_running(job, restarts=1, seconds=200)
    return [seconds_between(cluster, job) for job in jobs]


def seconds_between(cluster: Cluster, job: int) -> float:
    """From the end of a job's first run to the start of its second."""
    end = float(cluster.read(CONTROLLER, f"{SHARED}/end.{job}.0"))
    start = float(cluster.read(CONTROLLER, f"{SHARED}/start.{job}.1"))
    return start - end


def report(ours: list[float], stock: list[float]) -> None:
    """Print both side by side."""
    print(f"{'':22}{'runs':>6}{'median s':>10}{'min s':>8}{'max s':>8}")
    for name, taken in (("slurm-failover", ours), ("scontrol requeue", stock)):
        middle = statistics.median(taken)
        print(f"{name:22}{len(taken):6}{middle:10.2f}{min(taken):8.2f}{max(taken):8.2f}")
    print(f"stock / ours, medians: {statistics.median(stock) / statistics.median(ours):.0f} x")


def say(text: str) -> None:
    """One line of progress."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
