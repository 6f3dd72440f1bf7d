"""The entries of the history: what came of each run, and what was found on nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from slurm_failover.breaker import FaultNote, read_notes
from slurm_failover.errors import RecordError
from slurm_failover.evidence import REASON_PREFIX, SAME_ATTEMPT
from slurm_failover.happening import Kind
from slurm_failover.history.runs import Outage, Run
from slurm_failover.lifecycle import names_in
from slurm_failover.model import JobFacts, NodeFacts
from slurm_failover.policy import Action
from slurm_failover.record import Attempt, Record, read_record, tidy

KINDS = {
    Action.FAILOVER: Kind.FAILOVER,
    Action.DENY: Kind.DENIED,
    Action.EXCEED: Kind.EXCEEDED,
    Action.TRY_AGAIN: Kind.RETRIED,
}
"""What a decision is called where it is told of."""

_REASON_LIMIT = 255


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened at ``time``, to a job or to a node.

    ``ran`` is how many seconds the run had lasted, ``waited`` how many went by from its end to the
    next start; None where none has followed. ``gpus`` are those of the run.
    """

    kind: Kind
    time: float
    because: str
    nodes: str
    job: str = ""
    user: str = ""
    name: str = ""
    attempt: int = 0
    gpus: int = 0
    ran: float = 0.0
    waited: float | None = None

    def as_json(self) -> dict[str, Any]:
        """The entry as a JSON object; what a node's entry has no value for is null."""
        is_job = bool(self.job)
        return {
            "time": self.time,
            "event": self.kind.value,
            "job": self.job or None,
            "user": self.user or None,
            "name": self.name or None,
            "attempt": self.attempt or None,
            "nodes": names_in(self.nodes),
            "because": self.because,
            "gpus": self.gpus if is_job else None,
            "ran_seconds": self.ran if is_job else None,
            "restart_seconds": self.waited,
        }


def tell(
    runs: Iterable[Run],
    living: Iterable[JobFacts] = (),
    outages: Sequence[Outage] = (),
    nodes: Iterable[NodeFacts] = (),
) -> list[Entry]:
    """Everything that happened, oldest first.

    ``living`` are the jobs that slurmctld knows, ``nodes`` its nodes. Of a job those runs are told
    that are among ``runs``.
    """
    comments = defaultdict(list)
    for job in living:
        comments[job.label].append(job.admin_comment)
    by_job: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_job[run.label].append(run)
    entries = [entry for job, own in by_job.items() for entry in _of_job(own, comments[job])]
    entries += [_of_outage(outage) for outage in outages if _is_ours(outage)]
    reasons = defaultdict(list)
    for outage in outages:
        reasons[outage.node].append(outage.reason)
    notes = [note for node in nodes for note in read_notes(node.name, node.extra)]
    undrained = (n for n in notes if n.observed or not _has_drained(n, reasons[n.node]))
    entries += map(_of_note, undrained)
    return sorted(entries, key=lambda entry: (entry.time, entry.job, entry.nodes))


def on_nodes(entries: Iterable[Entry], wanted: Iterable[str]) -> list[Entry]:
    """The entries about any of these nodes."""
    chosen = set(wanted)
    return [entry for entry in entries if not chosen.isdisjoint(names_in(entry.nodes))]


def named_nodes(runs: Iterable[Run], outages: Iterable[Outage]) -> set[str]:
    """The nodes that runs and outages name."""
    lists = {run.nodes for run in runs if run.nodes}  # a month has far more runs than lists
    return {name for one in lists for name in names_in(one)} | {outage.node for outage in outages}


def _of_job(runs: Iterable[Run], comments: Iterable[str]) -> list[Entry]:
    # A run that never started has the last word of a job that was cancelled while it was held.
    rows = sorted(runs, key=lambda run: run.start or inf)
    attempts = _attempts([*(run.admin_comment for run in rows), *comments])
    started = _join_components(run for run in rows if run.start)
    entries = []
    for attempt in attempts if started else ():
        # The next run may begin within the same seconds: an attempt is the nearest run alone.
        run = min(started, key=lambda run: abs(run.start - attempt.start))
        if abs(attempt.start - run.start) <= SAME_ATTEMPT and attempt.outcome in KINDS:
            following = started[started.index(run) + 1 :][:1]
            entries.append(_of_run(run, attempt, following))
    return entries


def _join_components(runs: Iterable[Run]) -> list[Run]:
    """The runs, the components of a heterogeneous job as one with the nodes and GPUs of all."""
    joined: dict[float, Run] = {}
    for run in runs:
        same = joined.get(run.start, Run(run.label))
        nodes = ",".join(filter(None, (same.nodes, run.nodes)))
        gpus = same.gpus + run.gpus
        joined[run.start] = replace(run, nodes=nodes, gpus=gpus, end=max(same.end, run.end))
    return list(joined.values())


def _of_run(run: Run, attempt: Attempt, following: Sequence[Run]) -> Entry:
    end = run.end or attempt.end
    return Entry(
        kind=KINDS[Action(attempt.outcome)],
        time=end,
        because=tidy(attempt.because),
        nodes=run.nodes or attempt.nodes,
        job=run.label,
        user=tidy(run.user),
        name=tidy(run.name),
        attempt=attempt.number,
        gpus=run.gpus,
        ran=max(0.0, end - run.start),
        waited=max(0.0, following[0].start - end) if following else None,
    )


def _attempts(comments: Iterable[str]) -> list[Attempt]:
    """The attempts that have ended, by what each of the records says; a later record counts."""
    found: dict[float, Attempt] = {}
    for record in filter(None, map(_read, comments)):
        found |= {attempt.start: attempt for attempt in record.history}
    return list(found.values())


def _read(admin_comment: str) -> Record | None:
    try:
        return read_record(admin_comment)
    except RecordError:
        return None


def _is_ours(outage: Outage) -> bool:
    return outage.reason.startswith(REASON_PREFIX)


def _of_outage(outage: Outage) -> Entry:
    words = outage.reason.removeprefix(REASON_PREFIX)
    return Entry(Kind.DRAIN, outage.start, tidy(words, _REASON_LIMIT), outage.node)


def _of_note(note: FaultNote) -> Entry:
    kind = Kind.DRAIN_PUT_OFF if note.waits else Kind.FAULT
    seen = " (observe mode)" if note.observed else ""
    return Entry(kind, note.time, tidy(note.because or note.code) + seen, note.node)


def _has_drained(note: FaultNote, reasons: Iterable[str]) -> bool:
    """Whether one of its node's drains was for a fault: a note's sentence may be cut short."""
    words = REASON_PREFIX + note.because.removesuffix("…")
    return any(reason.startswith(words) for reason in reasons)
