"""Many flagged jobs end in the same second, on a cluster of hundreds of nodes; see ``load``."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "slurm"))

from cluster import CONTROLLER, HOOK_LOG, SHARED  # noqa: E402
from farm import FEW, Farm  # noqa: E402
from load_report import Wave, find_misjudged, find_wrong, report  # noqa: E402

LOST = (
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)
WAITS = f"""#!/bin/bash
[ "${{SLURM_RESTART_COUNT:-0}}" = 0 ] || exec sleep infinity
touch {SHARED}/begun/$SLURM_JOB_ID
flock -s {SHARED}/gate true
exit 1
"""
GATE = "sleep 86399"
LOG = "/var/log/slurm/slurmctld.log"
DECIDED = re.compile(r"slurm-failover\[(\d+)\] decide: job \S+: (?:deny|failover|exceed)")
HANDLED = re.compile(r"\b(_?_?slurm_rpc_\w+).*?usec=(\d+)")
FLAGGED = ("--comment=failover",)
TROUBLE = "grep -hE 'no verdict|can not be told|still to be told' /var/log/slurm/*.log | tail -n 20"
"""What nodes say that could not do all."""


class Bench:
    """Runs waves on one farm."""

    def __init__(self, farm: Farm) -> None:
        self._farm = farm

    def run_floor(self, good: int, bad: int) -> Wave:
        """As many jobs that nobody flagged end: what Slurm, its hooks' shells and this host need
        for that alone.
        """
        say(f"floor: {good + bad} jobs that are not flagged")
        self._close_gate()
        jobs = self._submit("good", good, "--ntasks=1", flags=())
        jobs += self._submit("bad", bad, "--nodes=1", "--exclusive", flags=())
        return self._end_all(Wave("floor: not flagged", good, bad), jobs, [], judges=False)

    def run_wave(self, name: str, *, denied: int = 0, moved: int = 0) -> Wave:
        """``denied`` jobs that fail by themselves, and ``moved`` ones on a node with a fault."""
        say(f"{name}: {denied} jobs that fail, {moved} on nodes with a fault")
        self._close_gate()
        jobs = self._submit("good", denied, "--ntasks=1")
        jobs += self._submit("bad", moved, "--nodes=1", "--exclusive")
        return self._end_all(Wave(name, denied, moved), jobs, self._farm.nodes[:moved])

    def run_big(self, partition: str, nodes: int) -> Wave:
        """One job on all nodes of a partition, of which the last has a fault. It is failed over,
        and waits for a node more.
        """
        say(f"one job on {nodes} nodes, one with a fault")
        self._close_gate()
        jobs = self._submit(partition, 1, f"--nodes={nodes}", "--exclusive")
        return self._end_all(Wave(f"one job on {nodes} nodes", 0, 1), jobs, self._farm.nodes[-1:])

    def _submit(
        self, partition: str, count: int, *options: str, flags: Sequence[str] = FLAGGED
    ) -> list[int]:
        line = (
            'script=$1; count=$2; shift 2; for i in $(seq "$count"); do printf "%s" "$script" | '
            'sbatch --parsable --export=NIL --output=/dev/null "$@"; done'
        )
        argv = ["bash", "-c", line, "sbatch", WAITS, str(count), f"--partition={partition}"]
        told = self._farm.check(CONTROLLER, [*argv, *flags, *options], user="alice", timeout=300)
        return [int(number) for number in told.split()]

    def _close_gate(self) -> None:
        """Shut the gate at which all jobs wait: a lock that one process holds."""
        begun = f"rm -rf {SHARED}/begun; install -d -m 1777 {SHARED}/begun"
        self._farm.check(CONTROLLER, begun)
        hold = f"touch {SHARED}/gate; chmod 666 {SHARED}/gate; setsid flock -x {SHARED}/gate"
        self._farm.check(CONTROLLER, f"{hold} {GATE} >/dev/null 2>&1 </dev/null &")

    def _end_all(
        self,
        wave: Wave,
        jobs: list[int],
        faulty: list[str],
        *,
        judges: bool = True,
    ) -> Wave:
        """Open the gate, and see what comes of it; where the hooks have nothing to do there is
        nothing to judge.
        """
        farm = self._farm
        begun = ["ls", f"{SHARED}/begun"]
        ids = set(map(str, jobs))
        farm.wait(lambda: ids == set(farm.check(CONTROLLER, begun).split()), 400, "running jobs")
        farm.inject_all(faulty, LOST)
        say(f"{wave.name}: all run; now they end")
        farm.check(CONTROLLER, ["sdiag", "--reset"])
        told, said = (int(farm.check(CONTROLLER, f"wc -c <{log}")) for log in (LOG, HOOK_LOG))
        watcher = Watcher(farm)
        released = time.time()
        farm.check(CONTROLLER, ["pkill", "-f", "[s]leep" + GATE.removeprefix("sleep")])
        through = 0.0 if judges else self._wait_until_completed()
        wave.peak = watcher.wait()
        wave.seconds = max(wave.peak["ended"], through) - released
        wave.requests = self._count_requests()
        wave.slowest = self._find_slowest(told)
        wave.deciders = self._find_deciders(said)
        if judges:
            ended = [job for job in farm.jobs() if job["job_id"] in set(jobs)]
            wave.wrong = find_wrong(ended, wave)
        if wave.wrong:
            self._tell_wrong(ended)
        farm.clean()
        return wave

    def _tell_wrong(self, ended: list[dict[str, Any]]) -> None:
        """All that the logs say of a few jobs that were judged wrongly."""
        for job in find_misjudged(ended)[:3]:
            number = job["job_id"]
            logs = f"grep -hE '[= ]{number}[: ]' {LOG} {HOOK_LOG} | cut -c1-300"
            say(f"{job['partition']}: {job['comment']} {job['admin_comment']}")
            say(self._farm.check(CONTROLLER, logs))
            node = re.search(r'"attempt":\[\d+,"(\w+)"', job["admin_comment"])
            for host, nodes in self._farm.hosts.items() if node else ():
                if node[1] in nodes:
                    said = f"grep -hE '{number}|{node[1]}' /var/log/slurm/*.log | cut -c1-300"
                    say(f"{host}: {self._farm.run(host, said).stdout}")
                    say(self._farm.check(CONTROLLER, ["scontrol", "show", "node", node[1]]))
        for host in self._farm.hosts:
            say(f"{host}: {self._farm.check(host, TROUBLE)}")

    def _wait_until_completed(self) -> float:
        """When the last Epilog of jobs that nobody holds has ended, in seconds since the epoch."""
        ask = ["squeue", "-h", "-t", "CG", "-o", "%A"]
        self._farm.wait(
            lambda: not self._farm.check(CONTROLLER, ask), 300, "the end of all Epilogs"
        )
        return time.time()

    def _count_requests(self) -> dict[str, int]:
        told = json.loads(self._farm.check(CONTROLLER, ["sdiag", "--json=v0.0.42"]))
        types = told["statistics"]["rpcs_by_message_type"]
        return {str(one["message_type"]): int(one["count"]) for one in types}

    def _find_slowest(self, since: int) -> tuple[float, str]:
        """The request at which slurmctld was longest, in seconds, by its own log."""
        lines = self._farm.check(CONTROLLER, f"tail -c +{since} {LOG} | grep usec= || :")
        found = [(int(usec) / 1e6, name) for name, usec in HANDLED.findall(lines)]
        return max(found, default=(0.0, "none"))

    def _find_deciders(self, since: int) -> list[str]:
        """Who decided, in the order of the decisions: each once where no two did so at once."""
        lines = self._farm.check(CONTROLLER, f"tail -c +{since} {HOOK_LOG}")
        return [number for number, _ in groupby(DECIDED.findall(lines))]


class Watcher:
    """load_inside.py at work on the controller."""

    def __init__(self, farm: Farm) -> None:
        script = (ROOT / "tests" / "bench" / "load_inside.py").read_text()
        self._answer: list[str] = []
        ready = f"{SHARED}/watching"
        farm.check(CONTROLLER, ["rm", "-f", ready])
        argv = ["python3", "-c", script, "400", ready]
        self._thread = threading.Thread(
            # As SlurmUser, whose processes it looks into.
            target=lambda: self._answer.append(farm.check(CONTROLLER, argv, "slurm", 450))
        )
        self._thread.start()
        farm.wait(lambda: farm.run(CONTROLLER, ["test", "-e", ready]).rc == 0, 30, "the watcher")

    def wait(self) -> dict[str, float]:
        """What it saw, once all is quiet."""
        self._thread.join()
        return dict(json.loads(self._answer[0]))


def say(text: str) -> None:
    """One line of progress."""
    print(f"load: {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Run the waves, print, and end with 1 where something does not hold."""
    parser = argparse.ArgumentParser(description="many ends at once")
    parser.add_argument("--nodes", type=int, default=256)
    parser.add_argument("--jobs", type=int, default=300)
    options = parser.parse_args()
    half = options.jobs // 2
    if half > options.nodes - options.nodes // 3:
        parser.error("half of the jobs need a node each, on two thirds of the nodes")
    build = [sys.executable, ROOT / "docker" / "image.py"]
    image = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    farm = Farm(image, options.nodes, bad=half)
    try:
        farm.start()
        bench = Bench(farm)
        floor = bench.run_floor(half, half)
        waves = [
            bench.run_wave("fail by themselves", denied=half),
            bench.run_wave("fail on a bad node", moved=half),
            bench.run_wave("both at once", denied=half, moved=half),
        ]
        big = [bench.run_big("few", FEW), bench.run_big("all", options.nodes)]
        broken = report(floor, waves, big)
    finally:
        farm.stop()
    for words in broken:
        print(f"does not hold: {words}")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
