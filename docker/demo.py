"""The success flow on a live cluster, told step by step; run by ``docker/demo``."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

import docker

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "slurm"))

# The tests' own harness.
from cluster import CONTROLLER, NODES, Cluster  # noqa: E402
from ownership import exists, remove_cluster  # noqa: E402

KEPT_NAME = "slurm-failover-demo"
FAULT = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python3, GPU has fallen off the bus."
HOME = "/shared/home/alice"
# Empty, as on a node without the hardware; doctor would warn of a folder that is not there.
SYSFS = "/var/lib/slurm-failover-test/sys"
# A training run that counts its steps, and goes on from its last checkpoint after a restart.
TRAINING = """#!/bin/bash
touch checkpoint
echo "run $((${SLURM_RESTART_COUNT:-0} + 1)) on $SLURM_JOB_NODELIST from step $(wc -l <checkpoint)"
srun --kill-on-bad-exit=1 bash -c '
    while [ "$(wc -l <checkpoint)" -lt 12 ]; do
        sleep 1
        [ "$SLURM_PROCID" -gt 0 ] || echo step >>checkpoint
    done' training-worker || exit 1
echo "training done"
"""

KEPT = f"""
The cluster is still up. Enter it as a user, submit a job, and see where it runs:
    docker exec -it -u alice -w {HOME} {KEPT_NAME}-ctl bash
    sbatch -N1 --gres=gpu:3 --comment=failover --wrap 'srun sleep 600'
    slurm-failover status
Break a GPU of the node that it runs on, instead of NODE. The health check sees it within five
seconds, drains the node and moves the job:
    docker exec {KEPT_NAME}-NODE cluster-inject 3 '{FAULT}'
Enter it as an admin, and see what is known against nodes, and whether the installation is right:
    docker exec -it {KEPT_NAME}-ctl bash
    slurm-failover nodes
    slurm-failover doctor
Remove it:
    docker/demo --down
"""


OPTIONS = ("--job-name=llm", "-N2", "--gres=gpu:2", "--comment=failover", f"--chdir={HOME}")


class Story:
    """Prints numbered steps with the time since the start, and what an admin would type."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._started = time.monotonic()
        self._step = 0

    def tell(self, text: str) -> None:
        """One line of progress."""
        self._step += 1
        print(f"\n[{self._step}] {time.monotonic() - self._started:5.1f} s  {text}", flush=True)

    def show(self, command: str, user: str = "alice") -> None:
        """A command on the controller and what it answers."""
        answer = self._cluster.check(CONTROLLER, command, user)
        print(f"    $ {command}", *answer.rstrip().splitlines(), sep="\n    ", flush=True)

    def show_all(self) -> None:
        """The three views between the steps."""
        self.show("squeue -o '%i %j %T %N %r %k'")
        self.show("sinfo -N -p gpu -o '%N %T %E'")
        self.show("slurm-failover status")


def play(cluster: Cluster) -> None:
    """Start, submit, break a GPU, and follow the job to its end. AssertionError if it strays."""
    story = Story(cluster)
    story.tell("starting slurmctld, slurmdbd and four nodes with three GPUs each")
    cluster.start()
    for node in NODES:
        cluster.check(node, f"install -d {SYSFS}")
    story.tell("alice submits a training run on two nodes, with failover on")
    job = cluster.sbatch(TRAINING, *OPTIONS)
    cluster.wait(lambda: cluster.job_state(job) == ["RUNNING"], 30, "running job")
    nodes = running_nodes(cluster, job)
    cluster.wait(lambda: "step" in checkpoint(cluster), 30, "first training step")
    story.show_all()

    story.tell(f"a GPU of {nodes[-1]} falls off the bus, and the training process dies with it")
    cluster.inject(nodes[-1], FAULT)
    broken = time.monotonic()
    cluster.check(nodes[-1], ["pkill", "-KILL", "-f", "[t]raining-worker"])
    follow(cluster, job, nodes[-1])
    seconds = time.monotonic() - broken
    now = ", ".join(running_nodes(cluster, job))
    story.tell(f"{seconds:.1f} s later it runs on {now}; {nodes[-1]} is drained and says why")
    story.show_all()
    story.tell("the whole story of the job")
    story.show(f"slurm-failover status {job}")

    cluster.wait(lambda: cluster.job_state(job) == ["COMPLETED"], 60, "end of the training")
    story.tell("the training is done: one log, and an accounting row for each run")
    story.show(f"cat {HOME}/slurm-{job}.out")
    story.show(f"sacct -D -X -j {job} -o JobID,State,NodeList,Comment%55")


def checkpoint(cluster: Cluster) -> str:
    """The training's progress so far."""
    return cluster.read(CONTROLLER, f"{HOME}/checkpoint")


def running_nodes(cluster: Cluster, job: int) -> list[str]:
    """The names of the nodes that the job has now."""
    listing = cluster.job(job)["nodes"]
    return cluster.check(CONTROLLER, ["scontrol", "show", "hostnames", listing]).split()


def follow(cluster: Cluster, job: int, faulty: str) -> None:
    """Print each new view of the job in the queue until it runs again without the faulty node."""
    seen: list[str] = []

    def moved() -> bool:
        line = cluster.check(CONTROLLER, f"squeue -h -j {job} -o '%T %N %k'").strip()
        if line not in seen:
            seen.append(line)
            print(f"    {line}", flush=True)
        running = cluster.job_state(job) == ["RUNNING"]
        return running and faulty not in running_nodes(cluster, job)

    cluster.wait(moved, 60, f"job running without {faulty}")


def image(suite: str) -> str:
    """The image of a suite; ``docker/setup.sh`` has built that of trixie."""
    command = [sys.executable, str(HERE / "image.py"), "--suite", suite]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def on_terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    """A polite kill cleans up as Ctrl-C does."""
    raise SystemExit(143)


def main() -> int:
    """Play, and leave nothing behind unless asked to; the exit status."""
    parser = argparse.ArgumentParser(prog="demo")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--down", action="store_true")
    parser.add_argument("--suite", default="trixie")
    options = parser.parse_args()
    if options.down:
        remove_cluster(docker.from_env(), KEPT_NAME)
        return 0
    signal.signal(signal.SIGTERM, on_terminate)
    keep = options.keep
    if keep and exists(docker.from_env(), KEPT_NAME):
        raise SystemExit("demo: an earlier one is still up; remove it with docker/demo --down")
    cluster = Cluster(image(options.suite), name=KEPT_NAME if keep else None, keep=keep)
    try:
        play(cluster)
    finally:
        if keep:
            print(KEPT)
        else:
            cluster.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
