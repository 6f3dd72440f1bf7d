"""What the fake slurmctld knows of one job and of one node, and how Slurm would show it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ClusterShell.NodeSet import NodeSet

from slurm_failover.model import JobFacts, NodeFacts

DEFAULT_PRIORITY = 1000


@dataclass
class FakeJob:
    """One job. ``busy``: the nodes whose Epilog runs; ``hook``: whether EpilogSlurmctld does."""

    job_id: int
    label: str
    comment: str = ""
    admin_comment: str = ""
    size: int = 1
    batch: bool = True
    requeue: bool = True
    state: str = "PENDING"
    requeued_held: bool = False
    hold: str = ""
    nodes: list[str] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)
    hook: bool = False
    excluded: str = ""
    failed_node: str = ""
    priority: int = DEFAULT_PRIORITY
    nice: int = 0
    qos: str = "normal"
    restarts: int = 0
    uncounted: bool = False
    begin: int = 0
    start: int = 0
    end: int = 0
    exit_code: int = 0
    exit_signal: int = 0
    signals: list[tuple[str, bool]] = field(default_factory=list)
    script: str = "#!/bin/bash\nsrun train\n"

    @property
    def completing(self) -> bool:
        """Whether an Epilog of the job has not ended."""
        return bool(self.busy) or self.hook

    def facts(self, now: int) -> JobFacts:
        """The job as Slurm shows it: while it completes, only the nodes that do.

        What is shown as the start of a job that waits is when it could start at the earliest.
        """
        shown = sorted(self.busy) if self.completing else self.nodes
        start = max(self.start, self.begin, now) if self.state == "PENDING" else self.start
        return JobFacts(
            job_id=self.job_id,
            label=self.label,
            user="alice",
            name="train",
            states=frozenset({self.state} | ({"COMPLETING"} if self.completing else set())),
            reason=self.hold or ("NonZeroExitCode" if self.state == "FAILED" else "None"),
            comment=self.comment,
            admin_comment=self.admin_comment,
            nodes=str(NodeSet.fromlist(shown)),
            excluded=self.excluded,
            failed_node=self.failed_node,
            restarts=self.restarts,
            start=float(start),
            end=float(self.end),
            eligible=float(self.begin),
            exit_code=self.exit_code,
            exit_signal=self.exit_signal,
            batch=self.batch,
            requeue=self.requeue,
            held=bool(self.hold),
            held_by_requeue=self.requeued_held,
            priority=0 if self.hold else self.priority,
            qos=self.qos,
        )


@dataclass
class FakeNode:
    """One node."""

    name: str
    flags: set[str] = field(default_factory=set)
    reason: str = ""
    reason_time: int = 0
    extra: str = ""
    comment: str = ""
    gpus: int | None = None

    def facts(self) -> NodeFacts:
        """The node as Slurm shows it."""
        states = frozenset(self.flags or {"IDLE"})
        since = float(self.reason_time)
        return NodeFacts(
            self.name, states, self.reason, since, self.extra, self.comment, gpus=self.gpus
        )
