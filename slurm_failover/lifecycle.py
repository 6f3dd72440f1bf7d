"""How a record changes: start, hold, verdict, placement, and the owner's own ways. Pure.

::

    start ──► armed / resumed ──► hold ──► failoverinprogress (held)
                 ▲                             │ decide
                 │                             ├──► internalerror        held, the owner's turn, or
                 │                             ├──► maxretriesexceeded   cancelled where the site
                 │                             ├──► imagepullbackoff     wants that (to cancel)
                 │                             ├──► imagepullbackoff (decided), a pause ──┐
                 └── start ◄── placed ◄── failoverinprogress (decided) ◄──────────────────┘
"""

from __future__ import annotations

from dataclasses import replace

from ClusterShell.NodeSet import NodeSet, NodeSetException

from slurm_failover.errors import RecordError
from slurm_failover.model import JobFacts
from slurm_failover.policy import Action, Ending, Verdict, describe_end
from slurm_failover.record import Attempt, Record, State, Step


def start_attempt(job: JobFacts, old: Record | None, limit: int) -> Record:
    """The record of the attempt that ``job`` shows: the old one if it has it, else one started."""
    if old is None:
        old = Record(max_retries=limit)
    if old.attempt.start == job.start:
        return old
    moved = old.state is State.FAILOVERINPROGRESS and old.step in (Step.DECIDED, Step.PLACED)
    return replace(
        old,
        state=State.RESUMED if moved or old.state is State.RESUMED else State.ARMED,
        step=Step.NONE,
        restarts=0,
        lost="",
        because="",
        attempt=Attempt(number=_next_number(old), nodes=job.nodes, start=job.start),
    )


def hold(record: Record, job: JobFacts, ending: Ending, now: float) -> Record:
    """The record of a job that is held until its nodes have been heard."""
    return replace(
        record,
        state=State.FAILOVERINPROGRESS,
        step=Step.HELD,
        restarts=job.restarts + _to_be_counted(job, ending),
        lost=job.failed_node if ending is Ending.NODE_LOST else "",
        cause=describe_end(job, ending),
        because="waiting for the job's nodes to report",
        attempt=replace(record.attempt, end=now),
    )


def apply_verdict(record: Record, verdict: Verdict) -> Record:
    """The record after a decision: the attempt is closed, and a failover is counted, once."""
    closed = record.close_attempt(verdict.action.value, verdict.because)
    moved = verdict.action is Action.FAILOVER
    waits = verdict.action is Action.TRY_AGAIN
    rest = Step.TO_CANCEL if verdict.cancel else Step.NONE
    return replace(
        closed,
        state=verdict.state,
        step=Step.DECIDED if moved or waits else rest,
        backoffs=record.backoffs + 1 if waits else 0,
        pause=verdict.pause,
        retries=record.retries + moved,
        excluded=merge_nodes(record.excluded, *verdict.bad_nodes),
        cause=verdict.because if verdict.bad_nodes else record.cause,
        because=verdict.because,
    )


def note_restarts(record: Record, job: JobFacts) -> Record:
    """The record of a job that is decided on, with the restarts that it has had by then. Slurm
    counts the restart after a lost node when the job leaves COMPLETING (seen on 24.11.5).
    """
    uncounted = bool(record.lost) and job.has("COMPLETING")
    return replace(record, restarts=job.restarts + uncounted)


def is_outrun(record: Record, job: JobFacts) -> bool:
    """Whether a job that is held was restarted once more since it was held or decided on: by the
    end of an attempt of which the record knows nothing.
    """
    ended = record.step in (Step.HELD, Step.DECIDED, Step.PLACED) and record.restarts > 0
    return ended and job.has("PENDING") and job.held and job.restarts > record.restarts


def _to_be_counted(job: JobFacts, ending: Ending) -> int:
    """How many restarts Slurm has yet to count of a job that is held: that of our own requeue, or
    after a lost node its own, while the job is COMPLETING.
    """
    if ending is Ending.NODE_LOST:
        return int(job.has("COMPLETING"))
    return 0 if job.has("PENDING") else 1


def reopen(record: Record) -> Record:
    """The record of a decided job as it was before the decision."""
    attempt = replace(record.attempt, outcome="", because="")
    past = tuple(old for old in record.history if old.start != attempt.start)
    return replace(
        record,
        state=State.FAILOVERINPROGRESS,
        step=Step.HELD,
        because="a node that could not tell in time has a hardware fault",
        attempt=attempt,
        history=past,
    )


def place(record: Record) -> Record:
    """The record of a job that was released and raised: nothing is left to do."""
    return replace(record, step=Step.PLACED)


def step_back(record: Record, because: str) -> Record:
    """The record of a job that its owner or an admin took over before the decision."""
    closed = record.close_attempt("left alone", because)
    return replace(closed, state=State.ARMED, step=Step.NONE, because=because)


def is_running(record: Record) -> bool:
    """Whether the record shows its attempt as running: its end has not been written."""
    return record.step is Step.NONE and not record.attempt.outcome


def is_unfinished(record: Record) -> bool:
    """Whether something is left to be done for the record's attempt, which has ended."""
    return record.step in (Step.HELD, Step.DECIDED, Step.TO_CANCEL)


def is_held_again(record: Record, job: JobFacts) -> bool:
    """Whether the hold that we had lifted is there once more. A slurmctld that is killed may come
    back without a release that it had not saved, and then takes our record of it all the same.
    """
    ours = job.held and job.held_by_requeue and job.reason != "JobHeldAdmin"
    is_placed = record.step is Step.PLACED and job.restarts == record.restarts
    return is_placed and ours and job.has("PENDING")


def merge_nodes(*hostlists: str) -> str:
    """The union of hostlists, folded as Slurm prints them. Raises RecordError."""
    return str(_read_nodes(",".join(text for text in hostlists if text)))


def expand(hostlist: str) -> list[str]:
    """The names in a hostlist. Raises RecordError if it is none."""
    return [str(name) for name in _read_nodes(hostlist)]


def names_in(hostlist: str) -> list[str]:
    """The names in a hostlist, for who only shows them: what is none stands for itself."""
    try:
        return expand(hostlist)
    except RecordError:
        return [hostlist]


def _read_nodes(hostlist: str) -> NodeSet:
    try:
        return NodeSet(hostlist)
    except NodeSetException as error:
        raise RecordError(f"{hostlist!r} is no list of nodes, as n[1-4] is: {error}") from error


def _next_number(record: Record) -> int:
    return record.attempt.number + 1 if record.attempt.start else 1
