"""What users see of a job: facts and record in the words of the flows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ClusterShell.NodeSet import NodeSet

from slurm_failover.errors import RecordError
from slurm_failover.evidence import SAME_ATTEMPT
from slurm_failover.foresight import foresee
from slurm_failover.lifecycle import is_running, names_in
from slurm_failover.model import JobFacts, Limits, NodeFacts
from slurm_failover.optin import read_opt_in, read_refusal
from slurm_failover.policy import retry_limit
from slurm_failover.record import Attempt, Record, State, Step, is_wished, read_record, tidy
from slurm_failover.refusal import refuse_wish
from slurm_failover.stopped import read_stops, read_stops_without_record
from slurm_failover.view.attempts import latest_attempt
from slurm_failover.view.states import HELD_STATES, display, slurm_state_of, state_of
from slurm_failover.view.why import explain, is_looking_for_nodes
from slurm_failover.waiting import explain_expedited

_NOT_HELD_BY_US = (State.ARMED, State.RESUMED)
_TAKEN_BACK = "failover is off: the comment does not ask for it any more"
_MOST_OF_TASKS = 64
"""Characters (SLURM_BITSTR_LEN in squeue(1))."""


@dataclass(frozen=True, slots=True)
class JobView:
    """One job as ``status`` shows it. ``state`` None says that failover is off for the job.

    ``latest`` is the attempt that runs or ran last, where it is not in the history.
    ``can_be_released`` says that its owner can start it again: a requeue holds it, ours or another,
    and nothing is left to be done with it. ``not_before`` is when Slurm lets a requeued job that
    waits start at the earliest, 0 where it does not say. ``waiting`` are the tasks of an array that
    wait, where it stands for them. ``mode`` is the site's; in observe mode ``foreseen`` is the
    state in which the job would be, were anything done with it.
    """

    job_id: int
    label: str
    user: str
    name: str
    slurm_state: str
    state: State | None
    display: str
    retries: int
    max_retries: int
    nodes: tuple[str, ...]
    excluded_nodes: tuple[str, ...]
    cause: str
    because: str
    history: tuple[Attempt, ...]
    latest: Attempt | None = None
    can_be_released: bool = False
    not_before: float = 0.0
    waiting: str = ""
    mode: str = "act"
    foreseen: State | None = None

    @property
    def job(self) -> str:
        """The job as squeue names it, with the tasks for which it stands: ``12_[3-5]``."""
        return f"{self.label}_[{self.waiting}]" if self.waiting else self.label

    def as_json(self) -> dict[str, Any]:
        """The view as a JSON object."""
        return {
            "job_id": self.job_id,
            "label": self.label,
            "user": self.user,
            "name": self.name,
            "slurm_state": self.slurm_state,
            "state": self.state.value if self.state else None,
            "display": self.display,
            "retries": self.retries,
            "max_retries": self.max_retries,
            "nodes": list(self.nodes),
            "excluded_nodes": list(self.excluded_nodes),
            "cause": self.cause or None,
            "because": self.because or None,
            "history": [_attempt_as_json(attempt) for attempt in self.history],
            "mode": self.mode,
            "foreseen": self.foreseen.value if self.foreseen else None,
        }


def is_flagged(job: JobFacts) -> bool:
    """Whether a job asked for failover, was told why it is off, or was ever handled."""
    asked = read_opt_in(job.comment) is not None or read_refusal(job.comment) != ""
    return asked or _read(job)[0] is not None


def waits_for_nodes(job: JobFacts) -> bool:
    """Whether a job was failed over and has not started since."""
    return is_looking_for_nodes(job, _read(job)[0])


def may_be_expedited(job: JobFacts) -> bool:
    """Whether a requeue holds a job that we do not hold: then it may be one of Slurm's own."""
    record, _ = _read(job)
    ours = record is not None and record.state not in _NOT_HELD_BY_US
    return job.has("PENDING") and job.held_by_requeue and not ours


def join_components(jobs: Sequence[JobFacts]) -> list[JobFacts]:
    """The jobs, each heterogeneous one as its leader with the nodes of all its components."""
    joined = []
    for job in jobs:
        own = [other for other in jobs if other.label == job.label] if job.components else [job]
        nodes = NodeSet.fromlist([other.nodes for other in own if other.nodes])
        joined += [] if job.is_led else [replace(job, nodes=str(nodes))]
    return joined


def asks_too_late(job: JobFacts, jobs: Iterable[JobFacts]) -> bool:
    """Whether a later component of a heterogeneous job asks for failover, and not its leader."""
    led = (other for other in jobs if other.is_led and other.label == job.label)
    return read_opt_in(job.comment) is None and any(read_opt_in(one.comment) for one in led)


def view_job(
    job: JobFacts,
    limits: Limits,
    nodes: Sequence[NodeFacts] = (),
    *,
    now: float = 0.0,
    expedited: bool = False,
    asked_too_late: bool = False,
) -> JobView:
    """What to show of a job. ``nodes`` are those of the cluster, for a job that waits for some, and
    ``now`` is in seconds since the epoch; ``expedited`` says that Slurm itself requeued and held
    it.
    """
    record, problem = _read(job)
    problem = explain_expedited(job) if expedited else problem
    if record is None and not problem:
        record, problem = _before_first_run(job, limits)
    if record is None and asked_too_late:
        problem = problem or "ask in the first component of a heterogeneous job"
    shown = record or Record()
    is_off = _is_taken_back(job, shown)
    problem = problem or (_TAKEN_BACK if is_off else explain(job, record, nodes, now))
    state = None if is_off else state_of(job, record)
    slurm_state = slurm_state_of(job)
    return JobView(
        job_id=job.job_id,
        label=job.label,
        user=tidy(job.user),
        name=tidy(job.name),
        slurm_state=slurm_state,
        state=state,
        display=display(slurm_state, state),
        retries=shown.retries,
        max_retries=shown.max_retries,
        nodes=_expand(job.nodes),
        excluded_nodes=_expand(job.excluded),
        cause="" if state is State.ARMED else shown.cause,
        because=problem or (shown.because if state is shown.state else ""),
        history=shown.history,
        latest=latest_attempt(job, shown, nodes),
        can_be_released=_waits_for_its_owner(job, shown)
        and (state in HELD_STATES or _is_held_by_another(job, state, shown, nodes, now)),
        not_before=job.eligible if _is_delayed(job, state) else 0.0,
        waiting="" if "_" in job.label else _cut(job.tasks),
    )


def _before_first_run(job: JobFacts, limits: Limits) -> tuple[Record | None, str]:
    """The record that a job without one will have, or why it gets none."""
    wish = read_opt_in(job.comment)
    if wish is None:
        return None, read_refusal(job.comment)
    problem = refuse_wish(wish, job, limits)
    return (None, problem) if problem else (Record(max_retries=retry_limit(wish, limits)), "")


def view_foreseen(
    view: JobView, job: JobFacts, nodes: Sequence[NodeFacts], limits: Limits
) -> JobView:
    """The view of a job where we only observe: with what would have become of it."""
    try:
        record = foresee(job, nodes, limits)
    except RecordError:
        record = None
    if record is None:
        return replace(view, mode="observe")
    what = _would_be(record)
    stays = "" if record.step is Step.DECIDED else f" as {record.state.value}"
    latest = replace(record.attempt, outcome=what)
    because = f"{what}{stays}: {record.because}"
    return replace(view, because=because, latest=latest, mode="observe", foreseen=record.state)


def _would_be(record: Record) -> str:
    """What would be done with a job whose decision this record has."""
    if record.step is Step.DECIDED:
        moved = record.state is State.FAILOVERINPROGRESS
        return "would be failed over" if moved else "would be tried again"
    return "would be cancelled" if record.step is Step.TO_CANCEL else "would be held"


def _read(job: JobFacts) -> tuple[Record | None, str]:
    try:
        return read_record(job.admin_comment), ""
    except RecordError as error:
        return None, str(error)


def _is_taken_back(job: JobFacts, record: Record) -> bool:
    """Whether the owner of a job that runs wants failover no more: nothing will be done with it."""
    runs = job.has("RUNNING", "SUSPENDED") and not job.has("COMPLETING")
    return runs and record != Record() and not is_wished(job.comment, record)


def _waits_for_its_owner(job: JobFacts, record: Record) -> bool:
    """An administrator's hold is no owner's to release."""
    ours = job.held and job.reason != "JobHeldAdmin" and record.step is Step.NONE
    return job.has("PENDING") and ours


def _is_held_by_another(
    job: JobFacts, state: State | None, record: Record, nodes: Sequence[NodeFacts], now: float
) -> bool:
    """Whether a requeue holds a job that is none of our holds, nor is about to be one: a node that
    stops a job says so before, and where no node can be seen nobody knows.
    """
    if state not in _NOT_HELD_BY_US or not job.held_by_requeue:
        return False
    if not nodes:
        return bool(record.attempt.start) and not is_running(record)
    if not record.attempt.start:
        return not read_stops_without_record(job, nodes, now)
    since = record.attempt.start - SAME_ATTEMPT
    stops = [word for word in read_stops(job, nodes) if word.start >= since]
    return not is_running(record) or not stops


def _is_delayed(job: JobFacts, state: State | None) -> bool:
    """Whether a job waits for the time of its start: a failover lifts that delay."""
    lifted = state in (None, State.FAILOVERINPROGRESS)
    return job.restarts > 0 and job.has("PENDING") and not lifted


def _cut(tasks: str) -> str:
    """The tasks of an array, cut off where squeue cuts them off."""
    if len(tasks) <= _MOST_OF_TASKS:
        return tasks
    return f"{tasks[:_MOST_OF_TASKS].rpartition(',')[0]},..."


def _attempt_as_json(attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt": attempt.number,
        "nodes": list(_expand(attempt.nodes)),
        "start": attempt.start,
        "end": attempt.end,
        "outcome": attempt.outcome,
        "because": attempt.because,
    }


def _expand(hostlist: str) -> tuple[str, ...]:
    return tuple(names_in(hostlist))
