"""What the controller's hooks do, put together from the settings and the environment."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from slurm_failover import files
from slurm_failover.controller.arrivals import Kind, Queue, from_environment
from slurm_failover.controller.breaker import Guard
from slurm_failover.controller.decider import Decider
from slurm_failover.controller.endings import find_missed_end
from slurm_failover.controller.missed import Missed, has_failed_before
from slurm_failover.controller.notes import Note, Notes
from slurm_failover.controller.placement import Placement, lower_started
from slurm_failover.controller.serving import Server
from slurm_failover.errors import RecordError, SlurmUnavailable
from slurm_failover.foresight import imagine_held, show_as_it_is
from slurm_failover.lifecycle import (
    expand,
    is_held_again,
    is_running,
    is_unfinished,
    merge_nodes,
)
from slurm_failover.metrics import Metrics
from slurm_failover.model import JobFacts, Limits, NodeFacts
from slurm_failover.policy import Ending
from slurm_failover.record import Record, read_record
from slurm_failover.reporter import reporter
from slurm_failover.settings.limits import read_limits
from slurm_failover.settings.tables import Settings
from slurm_failover.slurm.client import Slurm
from slurm_failover.slurm.connect import connect, connect_for_many
from slurm_failover.slurm.standby import Standby

ROLE = "controller"
LIFETIME = 240.0
"""Seconds for which reconcile waits for jobs that it has taken up. A job whose nodes do not end, as
where a dead GPU holds its processes, must not keep it from what is interrupted meanwhile.
"""
Environment = Mapping[str, str]
Say = Callable[[str], None]


def serve_hook(kind: Kind, environment: Environment, settings: Settings, say: Say) -> bool:
    """PrologSlurmctld and EpilogSlurmctld, in their turn: hand in what Slurm told, and serve all
    that waits. True if a decider should be started.
    """
    notes = open_notes(settings)
    path = environment.get("FAILOVER_QUEUE") or notes.queue
    if path != notes.queue:
        say(
            f"the hooks' shell takes {path} for {notes.queue}: in settings.toml it finds "
            "`directory` on a line of its own, in quotes, below `[state]` alone"
        )
    queue = Queue(path)
    queue.add(from_environment(kind, environment))
    _serve(_server(connect(settings, say), notes, settings, say), queue, say)
    return _is_decider_due(notes, queue)


def decide_waiting(settings: Settings, say: Say) -> None:
    """The decider: serve all waiting jobs until none is left."""
    _decider(settings, open_notes(settings), say).run()


def reconcile(settings: Settings, say: Say) -> int:
    """Take up every job whose record calls for something, and serve it. How many there were.

    Where we only observe nothing is left to be done but to decide on what hooks have seen.
    """
    slurm, notes = connect_for_many(settings, say), open_notes(settings)
    if settings.failover.mode == "act":
        take_up(slurm, notes, read_limits(settings), say, since=notes.since())
    arrived = {arrival.job_id for arrival in Queue(notes.queue).read()}
    waiting = len(arrived | {str(note.job_id) for note in notes.read()})
    _decider(settings, notes, say, LIFETIME).run()
    _guard(slurm, settings, say).look()
    Metrics(settings, ROLE, say).set_to("last_reconcile_timestamp_seconds", round(time.time()))
    return waiting


def take_up(slurm: Slurm, notes: Notes, limits: Limits, say: Say, *, since: float = 0.0) -> None:
    """Leave a note for every job whose handling was interrupted, wherever that was, and hand in
    what no hook has lived to hand in. A job that failed before ``since`` had no hook of ours.
    """
    jobs = [job for job in slurm.jobs() if not (job.is_led or has_failed_before(job, since))]
    found = [(job, _read_record(job, say)) for job in jobs]
    queue = Queue(notes.queue)
    by_hand = Missed(slurm, queue, limits, say)
    by_hand.hand_in(found)
    recorded = by_hand.take_up([(job, record) for job, record in found if record is not None])
    lower_started(slurm, recorded, queue.lock, say)
    missed = [(job, record) for job, record in recorded if is_running(record)]
    names = merge_nodes(*(r.attempt.nodes for job, r in missed if job.has("PENDING")))
    nodes = slurm.nodes(names) if names else []
    # One that waits already knows since when.
    waiting = {(note.name, note.ending) for note in notes.read()}
    for job, record in recorded:
        note = _find_unfinished(limits, job, record, nodes)
        if note is not None and (note.name, note.ending) not in waiting:
            notes.add(note)


def open_notes(settings: Settings) -> Notes:
    """The controller's notes, which know from when on we act here: not while we only observe.

    Raises WrongUser for any user but their owner.
    """
    notes = Notes(settings.state.directory)
    notes.open()
    notes.begin(anew=settings.failover.mode == "observe")
    return notes


def _is_decider_due(notes: Notes, queue: Queue) -> bool:
    """Whether something waits that no live decider will see: it looks again after it let go of its
    lock, so it sees all that was there when the lock was found taken.
    """
    if not (notes.read() or queue.read()):
        return False
    with files.locked(notes.lock("decider"), 0) as free:
        return free


def _find_unfinished(
    limits: Limits, job: JobFacts, record: Record, nodes: Sequence[NodeFacts]
) -> Note | None:
    """A note for a job whose handling was interrupted, before or after its record was written."""
    is_left = is_unfinished(record) or is_held_again(record, job)
    if job.has("PENDING") and is_left:
        return Note(job.job_id, job.label, Ending.STOPPED_BY_NODE, record)
    return find_missed_end(limits, job, record, nodes) if is_running(record) else None


def _read_record(job: JobFacts, say: Say) -> Record | None:
    try:
        record = read_record(job.admin_comment)
        if record is not None:
            expand(record.attempt.nodes)
        return record
    except RecordError as error:
        say(f"job {job.label}: {error}")
        return None


def _decider(settings: Settings, notes: Notes, say: Say, lifetime: float = math.inf) -> Decider:
    priority, limits = settings.priority, read_limits(settings)
    slurm = connect_for_many(settings, say)
    return Decider(
        slurm,
        notes,
        limits=limits,
        placement=Placement(priority.method, priority.nice, priority.qos),
        wait_for_nodes=settings.failover.wait_for_nodes,
        say=say,
        lifetime=lifetime,
        catch_up=partial(_catch_up, _server(slurm, notes, settings, say), Queue(notes.queue), say),
        is_standby=Standby(slurm).is_known,
        guard=_guard(slurm, settings, say).against,
        report=reporter(settings, ROLE, say),
        imagine=imagine_held if settings.failover.mode == "observe" else show_as_it_is,
    )


def _server(slurm: Slurm, notes: Notes, settings: Settings, say: Say) -> Server:
    return Server(slurm, notes, read_limits(settings), say, reporter(settings, ROLE, say))


def _guard(slurm: Slurm, settings: Settings, say: Say) -> Guard:
    memory = f"{settings.state.directory}/{ROLE}/breaker.json"
    report = reporter(settings, ROLE, say)
    metrics = Metrics(settings, ROLE, say)
    return Guard(
        slurm,
        settings.breaker,
        memory=memory,
        say=say,
        report=report,
        mark=lambda is_open: metrics.set_to("breaker_open", float(is_open)),
    )


def _catch_up(server: Server, queue: Queue, say: Say, may_serve: bool) -> bool:
    """Serve what hooks had to leave behind, if it may; whether anything is left. A live hook goes
    first.
    """
    if may_serve and queue.read():
        with files.locked(queue.lock, 0) as in_turn:
            if in_turn:
                _serve(server, queue, say)
    return bool(queue.read())


def _serve(server: Server, queue: Queue, say: Say) -> None:
    try:
        server.serve(queue)
    except SlurmUnavailable as error:
        say(f"Slurm does not answer, what its hooks handed in waits: {error}")
