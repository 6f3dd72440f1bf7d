"""What a wave of ends must be, and how the figures of ``load`` are printed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

SLURMS_OWN = {
    "MESSAGE_EPILOG_COMPLETE",
    "MESSAGE_NODE_REGISTRATION_STATUS",
    "REQUEST_COMPLETE_BATCH_SCRIPT",
    "REQUEST_COMPLETE_PROLOG",
    "REQUEST_STATS_INFO",
    "REQUEST_STEP_COMPLETE",
}
"""What slurmd sends for every job, flagged or not, and the bench's own question."""
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


def find_misjudged(ended: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The jobs whose partition and verdict do not go together."""
    return [
        job for job in ended if (job["partition"] == "bad") is ("internalerror" in job["comment"])
    ]


def report(floor: Wave, waves: list[Wave], big: list[Wave]) -> list[str]:
    """Print the tables; what does not hold."""
    everything = [floor, *waves, *big]
    print(
        f"{'wave':26}{'jobs':>6}{'all decided':>13}{'hooks':>7}{'Python':>8}{'deciders':>10}",
        end="",
    )
    print(f"{'PSS MiB':>9}{'RSS MiB':>9}{'requests':>10}{'slowest':>10}")
    for wave in everything:
        print(_line(wave))
    per_denied, per_moved = (wave.ours / (wave.denied + wave.moved) for wave in waves[:2])
    print(f"requests per denied job: {per_denied:.1f}, per failed-over job: {per_moved:.1f}")
    times = waves[-1].seconds / floor.seconds
    print(f"all decided in {times:.1f} times what as many ends take that are not flagged")
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
