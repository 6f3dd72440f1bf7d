"""What the controller's hooks do, put together from the settings and the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slurm_failover.controller.decider import Decider
from slurm_failover.controller.endings import hold_end, record_start
from slurm_failover.controller.notes import Note, Notes
from slurm_failover.controller.placement import Placement
from slurm_failover.errors import RecordError
from slurm_failover.model import JobFacts, Limits
from slurm_failover.policy import Ending
from slurm_failover.record import Record, Step, read_record
from slurm_failover.settings import Settings
from slurm_failover.slurm.connect import connect

Environment = Mapping[str, str]
Say = Callable[[str], None]


def note_start(environment: Environment, settings: Settings, say: Say) -> None:
    """PrologSlurmctld: record the attempt of a flagged job."""
    job_id, option = environment["SLURM_JOB_ID"], environment.get("SPANK_FAILOVER")
    record_start(connect(settings, say), _limits(settings), job_id, option, say)


def note_end(environment: Environment, settings: Settings, say: Say) -> bool:
    """EpilogSlurmctld: hold a flagged job that failed. True if a decision is due."""
    return hold_end(
        connect(settings, say),
        _open_notes(settings),
        _limits(settings),
        environment["SLURM_JOB_ID"],
        nodes=environment.get("SLURM_JOB_NODELIST", ""),
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
    found = [note for job in connect(settings, say).jobs() if (note := _find_unfinished(job, say))]
    for note in found:
        notes.add(note)
    waiting = len(notes.read())
    _decider(settings, notes, say).run()
    return waiting


def _find_unfinished(job: JobFacts, say: Say) -> Note | None:
    """A note for a pending job whose handling was interrupted after its record was written."""
    record = _read_record(job, say)
    if record is None or record.step not in (Step.HELD, Step.DECIDED) or not job.has("PENDING"):
        return None
    return Note(job.job_id, job.label, Ending.STOPPED_BY_NODE, record)


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
        limits=_limits(settings),
        placement=Placement(priority.method, priority.nice, priority.qos),
        wait_for_nodes=settings.failover.wait_for_nodes,
        say=say,
    )


def _open_notes(settings: Settings) -> Notes:
    notes = Notes(settings.state.directory)
    notes.open()
    return notes


def _limits(settings: Settings) -> Limits:
    failover = settings.failover
    return Limits(failover.max_retries, failover.trusted_reasons)
