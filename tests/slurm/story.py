"""The words in which the live tests tell their stories: a gated job, faults, and what is shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from cluster import CONTROLLER, SHARED, Cluster

LOST = (
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)
DOUBLE_BIT = "NVRM: Xid (PCI:0000:86:00): 48, pid=4711, name=python3, DBE (double bit error)"
PAGE_FAULT = (
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, Ch 00000010, intr 10000000. MMU Fault"
)
GATED = """#!/bin/bash
echo "attempt ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NODELIST"
gate=/shared/gate.$SLURM_JOB_ID
[ -p "$gate" ] || mkfifo -m 666 "$gate"
read -r status <"$gate"
exit "$status"
"""
"""A job that runs until the test says with which status it ends."""


def write_gate(path: str, word: str) -> str:
    """The command line by which root writes to another user's pipe: hosts with fs.protected_fifos,
    which is Debian's default, refuse to open one as a shell's ``>`` would, ready to create it.
    """
    return f"echo {word} | dd of={path} conv=nocreat,notrunc status=none"


class Story:
    """One test's view of the live cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def submit(self, *options: str, comment: str | None = "failover", nodes: int = 1) -> int:
        """Submit the gated job."""
        flags = [f"--nodes={nodes}", "--gres=gpu:2", *options]
        if comment is not None:
            flags.append(f"--comment={comment}")
        return self.cluster.sbatch(GATED, *flags)

    def start(self, *options: str, comment: str | None = "failover", nodes: int = 1) -> int:
        """Submit the gated job and wait until it runs."""
        job = self.submit(*options, comment=comment, nodes=nodes)
        self.wait_running(job)
        return job

    def wait_running(self, job: int | str, restarts: int = 0, seconds: float = 30) -> list[str]:
        """Wait until the script of this restart runs; the names of its nodes."""
        line = f"attempt {restarts} on"
        self.cluster.wait(
            lambda: "RUNNING" in self.cluster.job_state(job) and line in self.cluster.output(job),
            seconds,
            f"attempt {restarts} of job {job}",
        )
        return self.nodes(job)

    def end(self, job: int, status: int = 1) -> None:
        """Let the gated job end with this status."""
        self.cluster.check(CONTROLLER, write_gate(f"{SHARED}/gate.{job}", str(status)), timeout=10)

    def nodes(self, job: int | str) -> list[str]:
        """The names of the nodes that a job runs on."""
        return list(self.show(job)["nodes"])

    def show(self, job: int | str, user: str = "alice") -> dict[str, Any]:
        """The job as ``slurm-failover status --json`` shows it to an ordinary user."""
        argv = ["slurm-failover", "status", "--json", str(job)]
        return dict(json.loads(self.cluster.check(CONTROLLER, argv, user))[0])

    def wait_shown(self, job: int | str, display: str, seconds: float = 30) -> dict[str, Any]:
        """Wait until ``status`` shows the job so."""
        return self.cluster.wait(
            lambda: view if (view := self.show(job))["display"] == display else None,
            seconds,
            f"status {display!r} of job {job}",
        )

    def wait_drained(self, node: str, seconds: float = 30) -> str:
        """Wait until a node is drained; its reason."""
        return self.cluster.wait(
            lambda: self.reason(node) if self.is_drained(node) else "", seconds, f"drain of {node}"
        )

    def is_drained(self, node: str) -> bool:
        """Whether a node is drained or draining."""
        return "DRAIN" in self.cluster.node(node)["state"]

    def reason(self, node: str) -> str:
        """A node's reason."""
        return str(self.cluster.node(node)["reason"])

    def drained(self) -> list[str]:
        """The names of all drained nodes."""
        return [node for node in ("n1", "n2", "n3", "n4") if self.is_drained(node)]

    def comment(self, job: int | str) -> str:
        """The job's comment, as ``squeue -o %k`` prints it."""
        return self.cluster.check(CONTROLLER, ["squeue", "-h", "-j", str(job), "-o", "%k"]).rstrip()

    def occupy(self, nodes: Sequence[str]) -> int:
        """Fill nodes with an unflagged job of another user."""
        options = [f"--nodelist={','.join(nodes)}", f"--nodes={len(nodes)}", "--exclusive"]
        job = self.cluster.sbatch(GATED, *options, user="bob")
        self.wait_running(job)
        return job
