"""What the controller's hooks do, put together from the settings and the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slurm_failover.controller.decider import Decider
from slurm_failover.controller.endings import find_missed_end, hold_end, record_start
from slurm_failover.controller.notes import Note, Notes
from slurm_failover.controller.placement import Placement
from slurm_failover.errors import RecordError
from slurm_failover.lifecycle import is_running, is_unfinished
from slurm_failover.model import JobFacts, Limits
from slurm_failover.policy import Ending
from slurm_failover.record import Record, read_record
from slurm_failover.settings.limits import read_limits
from slurm_failover.settings.tables import Settings
from slurm_failover.slurm.client import Slurm
from slurm_failover.slurm.connect import connect

Environment = Mapping[str, str]
Say = Callable[[str], None]


def note_start(environment: Environment, settings: Settings, say: Say) -> None:
    """PrologSlurmctld: record the attempt of a flagged job."""
    if _is_led(environment):
        return
    job_id, option = environment["SLURM_JOB_ID"], environment.get("SPANK_FAILOVER")
    record_start(
        connect(settings, say),
        read_limits(settings),
        job_id,
        nodes=_nodes(environment),
        option=option,
        say=say,
    )


def note_end(environment: Environment, settings: Settings, say: Say) -> bool:
    """EpilogSlurmctld: hold a flagged job that failed. True if a decision is due."""
    if _is_led(environment):
        return False
    return hold_end(
        connect(settings, say),
        _open_notes(settings),
        read_limits(settings),
        environment["SLURM_JOB_ID"],
        nodes=_nodes(environment),
        start=float(environment.get("SLURM_JOB_START_TIME", 0)),
        option=environment.get("SPANK_FAILOVER"),
        say=say,
    )


def decide_waiting(settings: Settings, say: Say) -> None:
    """The decider: serve all waiting jobs until none is left."""
    _decider(settings, _open_notes(settings), say).run()


def reconcile(settings: Settings, say: Say) -> int:
    """Take up every job whose record calls for something, and serve it. How many there were."""
    notes = _open_notes(settings)
    take_up(connect(settings, say), notes, read_limits(settings), say)
    waiting = len(notes.read())
    _decider(settings, notes, say).run()
    return waiting


def take_up(slurm: Slurm, notes: Notes, limits: Limits, say: Say) -> None:
    """Leave a note for every job whose handling was interrupted, wherever that was."""
    for job in slurm.jobs():
        note = _find_unfinished(slurm, limits, job, say)
        if note is not None:
            notes.add(note)


def _is_led(environment: Environment) -> bool:
    """Whether this is a later component of a heterogeneous job: what is done to its leader, Slurm
    does to all (seen on 24.11.5).
    """
    return environment.get("SLURM_HET_JOB_OFFSET", "0") != "0"


def _nodes(environment: Environment) -> str:
    """The attempt's nodes, those of all components of a heterogeneous job."""
    alone = environment.get("SLURM_JOB_NODELIST", "")
    return environment.get("SLURM_HET_JOB_NODELIST") or alone


def _find_unfinished(slurm: Slurm, limits: Limits, job: JobFacts, say: Say) -> Note | None:
    """A note for a job whose handling was interrupted, before or after its record was written."""
    record = None if job.is_led else _read_record(job, say)
    if record is None:
        return None
    if job.has("PENDING") and is_unfinished(record):
        return Note(job.job_id, job.label, Ending.STOPPED_BY_NODE, record)
    return find_missed_end(slurm, limits, job, record) if is_running(record) else None


def _read_record(job: JobFacts, say: Say) -> Record | None:
    try:
        return read_record(job.admin_comment)
    except RecordError as error:
        say(f"job {job.label}: {error}")
        return None


def _decider(settings: Settings, notes: Notes, say: Say) -> Decider:
    priority = settings.priority
    return Decider(
        connect(settings, say),
        notes,
        limits=read_limits(settings),
        placement=Placement(priority.method, priority.nice, priority.qos),
        wait_for_nodes=settings.failover.wait_for_nodes,
        say=say,
    )


def _open_notes(settings: Settings) -> Notes:
    notes = Notes(settings.state.directory)
    notes.open()
    return notes
