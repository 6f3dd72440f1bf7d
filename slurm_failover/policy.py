"""The decision: what becomes of a flagged job that ended. Pure; the file to read first.

Theory of operation
-------------------
A job's end is handled in two steps, hold first and decide after.

1. ``read_ending`` looks at how Slurm says that the attempt ended, in the moment it ends. Only an
   end that nobody asked for is ours: the program failed, a node of ours stopped it, or Slurm lost a
   node under it. Such a job is held; every other end is left alone, whatever fault is nearby.

2. ``decide`` looks at what the attempt's nodes say once their Epilogs are done, and goes down the
   table ``DECISIONS``: the first row whose condition holds gives the verdict. The rows are ordered
   so that a worse fault never gets a milder verdict, and that what is unknown denies: it never
   requeues, and nothing in this file ever drains a node.

Which jobs are never failed over is a table of its own, ``REFUSALS`` in refusal.py: it is asked when
a job starts, when it ends, and once more here, since where a job may run can change in between. An
image that could not be fetched costs no retry: it is tried again after a pause, or denied.

A verdict is a value. Deciding again over the same facts gives the same value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ClusterShell.NodeSet import NodeSet

from slurm_failover.case import Case, gather, nodes_of
from slurm_failover.model import Evidence, JobFacts, Limits, NodeFacts
from slurm_failover.optin import OptIn
from slurm_failover.record import Record, State
from slurm_failover.refusal import ANYWHERE, refuse_job


class Ending(StrEnum):
    """How an attempt ended, as far as it concerns us."""

    FAILED = "failed"
    STOPPED_BY_NODE = "stopped by its node"
    NODE_LOST = "node lost"
    SENT_BACK = "sent back by a node"
    LEFT_ALONE = "left alone"


class Action(StrEnum):
    """What is done with a held job."""

    FAILOVER = "failover"
    TRY_AGAIN = "try again"
    DENY = "deny"
    EXCEED = "exceed"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision for one end of one job, and one sentence why.

    ``pause`` is how many seconds the job waits before it is tried again; ``cancel`` says that a
    job that is not started again is cancelled instead of held. ``awaited`` are nodes that owe a
    word which could change the verdict.
    """

    action: Action
    state: State
    because: str
    bad_nodes: tuple[str, ...] = ()
    pause: int = 0
    cancel: bool = False
    awaited: tuple[str, ...] = ()


def read_ending(
    job: JobFacts,
    stopped_by_node: bool = False,
    attempt_nodes: str | None = None,
    limits: Limits = ANYWHERE,
    sent_back: bool = False,
) -> tuple[Ending, str]:
    """How the attempt ended, with a sentence for the ends that are left alone.

    To be asked while the job is COMPLETING. ``stopped_by_node`` says that a node of ours requeued
    and held it; ``attempt_nodes`` are the nodes of this attempt, for the case that Slurm still
    shows the failed node of an earlier one; ``sent_back`` says that a node of the attempt is out of
    service by our own verdict, so that its Prolog let nothing start.
    """
    refusal = refuse_job(job, limits)
    if refusal:
        return Ending.LEFT_ALONE, refusal
    if job.has("FAILED", "OUT_OF_MEMORY"):
        return Ending.FAILED, ""
    if job.has("PENDING") and stopped_by_node:
        return Ending.STOPPED_BY_NODE, ""
    nodes = job.nodes if attempt_nodes is None else attempt_nodes
    if job.has("PENDING") and job.failed_node and job.failed_node in NodeSet(nodes):
        # Slurm requeues after a lost node without a hold, so this one is someone's own.
        return (Ending.LEFT_ALONE, "it is held") if job.held else (Ending.NODE_LOST, "")
    if job.has("PENDING") and sent_back:
        return Ending.SENT_BACK, ""
    state = next(iter(sorted(job.states - {"COMPLETING"})), "unknown")
    return Ending.LEFT_ALONE, f"it ended as {state}, which is not a failure of its own"


def retry_limit(wish: OptIn | None, limits: Limits) -> int:
    """How many failovers the job gets: the site's limit, or fewer where its owner asked so."""
    asked = wish.retries if wish is not None else None
    return limits.max_retries if asked is None else min(asked, limits.max_retries)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the decision table. ``when`` is its condition in words."""

    when: str
    holds: Callable[[Case], bool]
    action: Action
    state: State
    because: Callable[[Case], str]


DECISIONS: tuple[Row, ...] = (
    Row(
        "the job may not be failed over where it would run",
        lambda case: bool(case.refusal),
        Action.DENY,
        State.INTERNALERROR,
        lambda case: case.refusal,
    ),
    Row(
        "a node reports a hardware fault, and no retry is left",
        lambda case: bool(case.hardware) and case.record.retries >= case.limit,
        Action.EXCEED,
        State.MAXRETRIESEXCEEDED,
        lambda case: f"{_used_up(case)}; last: {_tell(case.hardware)}",
    ),
    Row(
        "a node reports a hardware fault, and the job asks for that node by name",
        lambda case: bool(case.hardware) and bool(case.pinned),
        Action.DENY,
        State.INTERNALERROR,
        lambda case: (
            f"{_tell(case.hardware)}; no healthy nodes: the job asks for {case.pinned} (--nodelist)"
        ),
    ),
    Row(
        "a node reports a hardware fault",
        lambda case: bool(case.hardware),
        Action.FAILOVER,
        State.FAILOVERINPROGRESS,
        lambda case: _tell(case.hardware),
    ),
    Row(
        "a node reports a fault of the job itself",
        lambda case: bool(case.internal),
        Action.DENY,
        State.INTERNALERROR,
        lambda case: f"the fault is the job's own: {_tell(case.internal)}",
    ),
    Row(
        "the job's image can not be fetched, and trying again would not help",
        lambda case: bool(case.image),
        Action.DENY,
        State.IMAGEPULLBACKOFF,
        lambda case: _tell(case.image),
    ),
    Row(
        "the job's image can not be fetched now, and the site tries no more",
        lambda case: bool(case.busy) and case.record.backoffs >= case.limits.image_retries,
        Action.EXCEED,
        State.IMAGEPULLBACKOFF,
        lambda case: f"tried {case.record.backoffs + 1} times; last: {_tell(case.busy)}",
    ),
    Row(
        "the job's image can not be fetched now",
        lambda case: bool(case.busy),
        Action.TRY_AGAIN,
        State.IMAGEPULLBACKOFF,
        lambda case: f"next try in {case.pause} s: {_tell(case.busy)}",
    ),
    Row(
        "the job was suspected to hang, and no retry is left",
        lambda case: bool(case.hung) and case.record.retries >= case.limit,
        Action.EXCEED,
        State.MAXRETRIESEXCEEDED,
        lambda case: f"{_used_up(case)}; last: {_tell(case.hung)}",
    ),
    Row(
        "the job was suspected to hang, and the site wants such jobs moved",
        lambda case: bool(case.hung),
        Action.FAILOVER,
        State.FAILOVERINPROGRESS,
        lambda case: _tell(case.hung),
    ),
    Row(
        "a node could not look",
        lambda case: bool(case.unknown),
        Action.DENY,
        State.INTERNALERROR,
        lambda case: (
            f"{case.record.cause}, and no hardware fault is known{_that_hit(case)}; "
            f"{_tell(case.unknown)}"
        ),
    ),
    Row(
        "no node reports anything",
        lambda case: True,
        Action.DENY,
        State.INTERNALERROR,
        lambda case: f"{case.record.cause}, and no node shows a hardware fault{_that_hit(case)}",
    ),
)


def decide(
    job: JobFacts,
    record: Record,
    nodes: Sequence[NodeFacts],
    limits: Limits,
    *,
    silent: bool = False,
) -> Verdict:
    """The verdict for the end that ``record`` holds, from what the attempt's nodes say.

    ``silent`` says that some node's Epilog did not end in time.
    """
    case = gather(job, record, nodes, limits, silent)
    row = next(row for row in DECISIONS if row.holds(case))
    return Verdict(
        row.action,
        row.state,
        row.because(case),
        bad_nodes=tuple(str(node) for node in nodes_of(case.hardware)),
        pause=case.pause if row.action is Action.TRY_AGAIN else 0,
        cancel=(row.action is Action.DENY and limits.cancel_denied)
        or (row.action is Action.EXCEED and limits.cancel_exceeded),
        awaited=() if case.hardware or case.refusal else case.owing,
    )


def describe_end(job: JobFacts, ending: Ending) -> str:
    """How the attempt ended, as the beginning of a sentence."""
    if ending is Ending.STOPPED_BY_NODE:
        return "the job was stopped by its node"
    if ending is Ending.NODE_LOST:
        return f"node {job.failed_node} was lost"
    if job.has("OUT_OF_MEMORY"):
        return "the job ran out of memory"
    if job.exit_signal:
        return f"the program was ended by signal {job.exit_signal}"
    return f"the program ended with exit code {job.exit_code}"


def _used_up(case: Case) -> str:
    """That no retry is left, as a clause."""
    few = ("the job may have no retry", "its only retry is used")
    return few[case.limit] if case.limit < len(few) else f"all {case.limit} retries are used"


def _that_hit(case: Case) -> str:
    """Which hardware fault is denied: none at all, or none of this job's."""
    return " that hit this job" if case.shows_fault else ""


def _tell(entries: Sequence[Evidence]) -> str:
    """The first entry in words, and how many more nodes say something."""
    first = entries[0]
    words = f"{first.node}: {first.because}" if first.node else first.because
    others = len({entry.node for entry in entries} - {first.node})
    return words if not others else f"{words} (and {others} more node{'s' * (others > 1)})"
