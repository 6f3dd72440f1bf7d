"""Notes from EpilogSlurmctld to the decider: which job ends wait, and how each one ended.

A note is a wake-up, not a store: Slurm holds the record. It is written before the job is held, so
that a hold that was interrupted can be finished by anyone.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass

from slurm_failover import files
from slurm_failover.errors import RecordError, WrongUser
from slurm_failover.policy import Ending
from slurm_failover.record import Record, decode_record, encode_record


@dataclass(frozen=True, slots=True)
class Note:
    """One job end that waits: how it ended, and the record that the held job shall have."""

    job_id: int
    label: str
    ending: Ending
    record: Record

    @property
    def start(self) -> float:
        """The start of the attempt, which names it."""
        return self.record.attempt.start

    @property
    def since(self) -> float:
        """When the attempt ended, in seconds since the epoch."""
        return self.record.attempt.end

    @property
    def name(self) -> str:
        """The note's file name."""
        return f"{self.job_id}-{self.start:.0f}.json"


class Notes:
    """The folder of waiting notes, and the locks that make the decider the only one."""

    def __init__(self, state_directory: str) -> None:
        self._state = state_directory
        self._folder = f"{state_directory}/controller"
        self._waiting = f"{self._folder}/waiting"
        self._since = f"{self._folder}/since"
        self._reconciled = f"{self._folder}/reconciled"
        self.queue = f"{self._folder}/queue"

    def open(self) -> None:
        """Create the folders. Raises WrongUser for any user but their owner, root included: what
        root makes here SlurmUser could not open.
        """
        with contextlib.suppress(PermissionError):
            files.make_folder(self._state)
            owned = self._folder if os.path.isdir(self._folder) else self._state  # noqa: PTH112
            if os.stat(owned).st_uid == os.geteuid():  # noqa: PTH116 - beside os.geteuid
                files.make_folder(self._waiting)
                return
        raise WrongUser(self._explain_refusal())

    def _explain_refusal(self) -> str:
        state, folder = self._state, self._folder
        if files.is_missing(state):
            return (
                f"{state} is not there: on a controller `slurm-failover install --apply` makes it"
            )
        with contextlib.suppress(PermissionError, FileNotFoundError):
            if os.stat(state).st_uid == os.geteuid() != os.stat(folder).st_uid:  # noqa: PTH116
                return self._name_owner(state, folder)
        return (
            f"{folder} is for SlurmUser alone: run this as the owner of {state}, "
            "for example with `sudo -u slurm`"
        )

    @staticmethod
    def _name_owner(state: str, folder: str) -> str:
        """What is wrong where ``folder`` in our ``state`` is another's. Root's is the one that a
        hook or a command of root's has made.
        """
        if os.geteuid() == 0:
            return (
                f"{folder} and {state} belong to two users, and both are to be SlurmUser's: "
                "`slurm-failover doctor` names the remedy"
            )
        mend = f"chown -hR --reference={state} {folder}"
        return f"{folder} does not belong to the owner of {state}: `{mend}` as root mends that"

    def begin(self, *, anew: bool) -> None:
        """Remember from when on we act here: from now on, unless that is known and not to be set
        anew. Where nothing can be written nothing is remembered.
        """
        with contextlib.suppress(OSError):
            if anew or not self.since():
                files.write_whole(self._since, str(time.time()))

    def since(self) -> float:
        """From when on we act here, in seconds since the epoch: a job that ended before then no
        hook of ours has missed. 0 where that is not known: where it is written nowhere or damaged,
        or lies ahead, since the clock was set back.
        """
        try:
            return _read_time(self._since)
        except OSError:
            return 0.0

    def mark_reconciled(self) -> None:
        """Remember that reconcile has just been through, or had nothing to do on standby."""
        with contextlib.suppress(OSError):
            files.write_whole(self._reconciled, str(time.time()))

    def reconciled(self) -> float:
        """When reconcile was last through, in seconds since the epoch; 0 where that is not known.

        Raises PermissionError for a user who may not look.
        """
        return _read_time(self._reconciled)

    def lock(self, name: str) -> str:
        """The path of a lock file."""
        return f"{self._folder}/{name}.lock"

    def add(self, note: Note) -> None:
        """Leave a note; the same note twice is one."""
        value = [note.job_id, note.label, note.ending.value, encode_record(note.record)]
        files.write_whole(f"{self._waiting}/{note.name}", json.dumps(value))

    def remove(self, note: Note) -> None:
        """Take a note away; it may be gone already."""
        files.remove(f"{self._waiting}/{note.name}")

    def read(self) -> list[Note]:
        """All notes that wait. One that can not be understood is passed over."""
        names = sorted(
            entry.name for entry in os.scandir(self._waiting) if entry.name.endswith(".json")
        )
        notes = [self._read(f"{self._waiting}/{name}") for name in names]
        return [note for note in notes if note is not None]

    def _read(self, path: str) -> Note | None:
        try:
            text = files.read_whole(path)
            job_id, label, ending, record = json.loads(text or "")
            return Note(int(job_id), str(label), Ending(ending), decode_record(record))
        except (ValueError, TypeError, OverflowError, RecordError):
            return None


def _read_time(path: str) -> float:
    """The time that a file tells; 0 where it is absent or damaged, or its time lies ahead."""
    try:
        told = float(files.read_whole(path) or 0)
    except ValueError:
        return 0.0
    return told if told <= time.time() else 0.0
