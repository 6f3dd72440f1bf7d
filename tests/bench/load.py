"""Many flagged jobs end in the same second, on a cluster of hundreds of nodes; see ``load``."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "slurm"))

from cluster import CONTROLLER, HOOK_LOG, SHARED  # noqa: E402
from farm import FEW, Farm  # noqa: E402

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
SLURMS_OWN = {
    "MESSAGE_EPILOG_COMPLETE",
    "MESSAGE_NODE_REGISTRATION_STATUS",
    "REQUEST_COMPLETE_BATCH_SCRIPT",
    "REQUEST_COMPLETE_PROLOG",
    "REQUEST_STATS_INFO",
    "REQUEST_STEP_COMPLETE",
}
"""What slurmd sends for every job, flagged or not, and the bench's own question."""
LOG = "/var/log/slurm/slurmctld.log"
DECIDED = re.compile(r"slurm-failover\[(\d+)\] decide: job \S+: (?:deny|failover|exceed)")
HANDLED = re.compile(r"\b(_?_?slurm_rpc_\w+).*?usec=(\d+)")
IN_TIME, MEMORY, PER_DENIED, PER_MOVED, LONGEST_RPC = 60.0, 512.0, 8.0, 12.0, 1.0
"""What must hold: seconds, MiB, requests, requests, seconds."""
SLACK = 12
"""Looks at a job whose nodes are not done yet: how many depends on the clock."""


@dataclass
class Wave:
    """What came of one wave of ends."""

    name: str
    denied: int
    moved: int
    peak: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    requests: dict[str, int] = field(default_factory=dict)
    slowest: tuple[float, str] = (0.0, "")
    deciders: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def ours(self) -> int:
        """The requests of our hooks, of the decider and of the nodes."""
        return sum(n for name, n in self.requests.items() if name not in SLURMS_OWN)


class Bench:
    """Runs waves on one farm."""

    def __init__(self, farm: Farm) -> None:
        self._farm = farm

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

    def _submit(self, partition: str, count: int, *options: str) -> list[int]:
        line = (
            'script=$1; count=$2; shift 2; for i in $(seq "$count"); do printf "%s" "$script" | '
            'sbatch --parsable --export=NIL --output=/dev/null --comment=failover "$@"; done'
        )
        argv = ["bash", "-c", line, "sbatch", WAITS, str(count), f"--partition={partition}"]
        told = self._farm.check(CONTROLLER, [*argv, *options], user="alice", timeout=300)
        return [int(number) for number in told.split()]

    def _close_gate(self) -> None:
        """Shut the gate at which all jobs wait: a lock that one process holds."""
        begun = f"rm -rf {SHARED}/begun; install -d -m 1777 {SHARED}/begun"
        self._farm.check(CONTROLLER, begun)
        hold = f"touch {SHARED}/gate; chmod 666 {SHARED}/gate; setsid flock -x {SHARED}/gate"
        self._farm.check(CONTROLLER, f"{hold} {GATE} >/dev/null 2>&1 </dev/null &")

    def _end_all(self, wave: Wave, jobs: list[int], faulty: list[str]) -> Wave:
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
        wave.peak = watcher.wait()
        wave.seconds = wave.peak["ended"] - released
        wave.requests = self._count_requests()
        wave.slowest = self._find_slowest(told)
        wave.deciders = self._find_deciders(said)
        wave.wrong = find_wrong([job for job in farm.jobs() if job["job_id"] in set(jobs)], wave)
        if wave.wrong:
            say(farm.check(CONTROLLER, f"tail -n 40 {HOOK_LOG}"))
        farm.clean()
        return wave

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


def find_wrong(ended: list[dict[str, Any]], wave: Wave) -> list[str]:
    """What is not as it should be: jobs that were lost, counted twice, or judged wrongly."""
    waiting = [job for job in ended if job["job_state"][0] == "PENDING"]
    denied = [job for job in waiting if "internalerror, retries 0/3" in job["comment"]]
    moved = [
        job for job in ended if re.search(r"(inprogress|resumed), retries 1/3", job["comment"])
    ]
    again = [job["job_id"] for job in (*denied, *moved) if job["restart_cnt"] != 1]
    held = [job["job_id"] for job in moved if job["hold"]]
    wrong = [f"jobs requeued other than once: {again}"] if again else []
    wrong += [f"failed over and still held: {held}"] if held else []
    if (len(denied), len(moved)) != (wave.denied, wave.moved):
        others = [job for job in ended if job not in denied and job not in moved]
        seen = f"{len(denied)} denied and {len(moved)} failed over"
        wrong += [f"{seen}, not {wave.denied} and {wave.moved}"]
        wrong += [f"{job['job_id']} {job['job_state']} {job['comment']}" for job in others[:5]]
    return wrong


def report(waves: list[Wave], big: list[Wave]) -> list[str]:
    """Print the tables; what does not hold."""
    everything = [*waves, *big]
    print(
        f"{'wave':26}{'jobs':>6}{'all decided':>13}{'hooks':>7}{'Python':>8}{'deciders':>10}",
        end="",
    )
    print(f"{'PSS MiB':>9}{'RSS MiB':>9}{'requests':>10}{'slowest':>10}")
    for wave in everything:
        print(_line(wave))
    per_denied, per_moved = (wave.ours / (wave.denied + wave.moved) for wave in waves[:2])
    print(f"requests per denied job: {per_denied:.1f}, per failed-over job: {per_moved:.1f}")
    print("requests by type, in the order of the waves:")
    for name in sorted({name for wave in everything for name in wave.requests}):
        counts = "".join(f"{wave.requests.get(name, 0):8}" for wave in everything)
        print(f"  {name:34}{counts}{'   (Slurm itself)' if name in SLURMS_OWN else ''}")
    broken = [f"{wave.name}: {words}" for wave in everything for words in wave.wrong]
    broken += [words for wave in waves for words in _judge(wave)]
    broken += ["requests per denied job"] if per_denied > PER_DENIED else []
    broken += ["requests per failed-over job"] if per_moved > PER_MOVED else []
    few, many = big
    broken += ["requests grow with healthy nodes"] if many.ours > few.ours + SLACK else []
    return broken


def _line(wave: Wave) -> str:
    peak = wave.peak
    return (
        f"{wave.name:26}{wave.denied + wave.moved:6}{wave.seconds:11.1f} s"
        f"{peak['processes']:7.0f}{peak['interpreters']:8.0f}{len(set(wave.deciders)):10}"
        f"{peak['pss_mib']:9.0f}{peak['rss_mib']:9.0f}{wave.ours:10}{wave.slowest[0]:8.3f} s"
    )


def _judge(wave: Wave) -> list[str]:
    """What must hold of a wave, and does not."""
    seconds, name = wave.slowest
    found = {
        f"{wave.seconds:.0f} s until all are decided": wave.seconds > IN_TIME,
        f"{wave.peak['pss_mib']:.0f} MiB": wave.peak["pss_mib"] > MEMORY,
        "two deciders at once": len(wave.deciders) != len(set(wave.deciders)),
        f"{name} took {seconds:.1f} s": seconds > LONGEST_RPC,
    }
    return [f"{wave.name}: {words}" for words, is_broken in found.items() if is_broken]


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
    build = [sys.executable, ROOT / "docker" / "image.py"]
    image = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    farm = Farm(image, options.nodes, bad=min(half, options.nodes - options.nodes // 3))
    try:
        farm.start()
        bench = Bench(farm)
        waves = [
            bench.run_wave("fail by themselves", denied=half),
            bench.run_wave("fail on a bad node", moved=half),
            bench.run_wave("both at once", denied=half, moved=half),
        ]
        big = [bench.run_big("few", FEW), bench.run_big("all", options.nodes)]
        broken = report(waves, big)
    finally:
        farm.stop()
    for words in broken:
        print(f"does not hold: {words}")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
