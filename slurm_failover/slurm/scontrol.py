"""Slurm through its own commands: scontrol and squeue, read as JSON of one pinned version."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Collection
from typing import Any

from slurm_failover.errors import NoSuchJob, NotPermitted, SlurmError, SlurmUnavailable
from slurm_failover.model import JobFacts, NodeFacts
from slurm_failover.slurm.client import JobChange, NodeChange
from slurm_failover.slurm.facts import know_components, read_job, read_node
from slurm_failover.slurm.retry import persist

JSON = "--json=v0.0.42"
"""Spoken by Slurm 24.11 to 26.05 alike."""

WHOLE_TEXTS = {"SLURM_BITSTR_LEN": "0"}
"""The tasks of an array in full, which Slurm cuts off after 64 bytes else (scontrol(1))."""
FEW = 3
"""So many jobs are asked for one by one: for more than one ``squeue`` has slurmctld send all jobs
that there are. With ``--local`` no federation is asked for first (counted by sdiag on 24.11.5).
"""

_SILENT = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Zero Bytes were transmitted",
    "Unexpected message received",
    "Slurm backup controller in standby mode",
    "temporarily unable",
    "connect failure",
    "Resource temporarily unavailable",
    "Munge encode failed",
    "Protocol authentication error",
)
_DENIED = "Access/permission denied"
"""ESLURM_ACCESS_DENIED (slurm_errno.c): as with PrivateData=nodes, see slurm.conf(5)."""
_UNKNOWN_JOB = "Invalid job id specified"
_PENDING_ALREADY = "Job is pending execution"
_EXPEDITED = "ExpeditedRequeue=Yes"


class Scontrol:
    """The Slurm protocol over the commands in ``folder``; times are in seconds."""

    def __init__(self, folder: str = "/usr/bin", timeout: float = 10, patience: float = 30) -> None:
        self._folder = folder
        self._timeout = timeout
        self._patience = patience

    def job(self, job_id: str) -> JobFacts:
        """See the protocol."""
        # Asked for one task, Slurm may answer with others of its array as well (seen on 24.11.5).
        for job in self._show_job(job_id):
            if job_id in (str(job.job_id), job.label):
                return job
        raise NoSuchJob(f"Slurm does not know job {job_id}")

    def jobs(self, job_ids: Collection[str] = ()) -> list[JobFacts]:
        """See the protocol."""
        if 0 < len(job_ids) <= FEW:
            return [job for job_id in job_ids for job in self._show_known(job_id)]
        chosen = ["--jobs", ",".join(job_ids)] if job_ids else []
        try:
            found = self._read("jobs", "squeue", JSON, "--states=all", "--array", *chosen)
        except NoSuchJob:
            return []
        return know_components([read_job(job) for job in found])

    def jobs_on(self, node: str) -> list[JobFacts]:
        """See the protocol."""
        states = "--states=RUNNING,SUSPENDED,COMPLETING"
        found = self._read("jobs", "squeue", JSON, states, "--nodelist", node)
        return [read_job(job) for job in found]

    def is_expedited(self, label: str) -> bool:
        """See the protocol."""
        # The JSON that we pin leaves it out (seen on 26.05.5).
        lines = self._run("scontrol", "show", "job", label).splitlines()
        return any(line.strip() == _EXPEDITED for line in lines)

    def batch_script(self, job_id: str) -> str:
        """See the protocol."""
        script = self._run("scontrol", "write", "batch_script", job_id, "-")
        if not script:  # It exits with 0 then (seen on 24.11.5).
            raise SlurmError(f"scontrol wrote no batch script of job {job_id}")
        return script

    def nodes(self, names: str = "") -> list[NodeFacts]:
        """See the protocol."""
        chosen = [names] if names else []
        found = self._read("nodes", "scontrol", "show", "node", *chosen, JSON)
        return [read_node(node) for node in found]

    def requeue_and_hold(self, label: str) -> None:
        """See the protocol."""
        # Never State=SpecialExit: it would start the jobs that wait for this one's failure, now or
        # later (slurmctld's test_job_dependency, and seen on 24.11.5).
        self._requeue("requeuehold", label)

    def requeue(self, label: str) -> None:
        """See the protocol."""
        self._requeue("requeue", label)

    def stop(self, label: str, start: float) -> None:
        """See the protocol."""
        persist(lambda: self._try_to_stop(label, start), self._patience)

    def hold(self, label: str) -> None:
        """See the protocol."""
        self._run("scontrol", "uhold", label)

    def release(self, label: str) -> None:
        """See the protocol."""
        self._run("scontrol", "release", label)

    def cancel(self, label: str) -> None:
        """See the protocol."""
        self._run("scancel", "--quiet", label)

    def signal(self, label: str, name: str, *, batch_only: bool) -> None:
        """See the protocol."""
        whom = ["--batch"] if batch_only else []
        self._run("scancel", f"--signal={name}", *whom, label)

    def update_job(self, label: str, change: JobChange) -> None:
        """See the protocol."""
        named = {
            "ExcNodeList": change.excluded,
            "QOS": change.qos,
            "Nice": change.nice,
            "Priority": change.priority,
            "StartTime": _start_time(change),
            "AdminComment": change.admin_comment,
            "Comment": change.comment,
        }
        self._run("scontrol", "update", f"JobId={label}", *_assign(named))

    def update_node(self, node: str, change: NodeChange) -> None:
        """See the protocol."""
        named = {
            "State": "RESUME" if change.resume else "DRAIN" if change.drain is not None else None,
            "Reason": change.drain,
            "Extra": change.extra,
            "Comment": change.comment,
        }
        self._run("scontrol", "update", f"NodeName={node}", *_assign(named))

    def setting(self, name: str) -> str:
        """See the protocol."""
        for line in self._run("scontrol", "show", "config").splitlines():
            key, _, value = line.partition("=")
            if key.strip() == name:
                return "" if value.strip() == "(null)" else value.strip()
        return ""

    def _requeue(self, how: str, label: str) -> None:
        try:
            self._run("scontrol", how, label)
        except SlurmError as error:
            if _PENDING_ALREADY not in str(error):
                raise

    def _try_to_stop(self, label: str, start: float) -> None:
        """Look first: an earlier try may have been carried out, and the job may run again. What
        happens between look and stop is Slurm's: Incomplete requeues a job only while it runs (seen
        on 24.11.5 and 26.05.5), and a plain requeue keeps the hold of a running job.
        """
        job = self.job(label)
        if job.runs_since(start):
            how = "requeue" if job.held else "requeuehold"
            self._try("scontrol", how, "Incomplete", label)

    def _show_known(self, job_id: str) -> list[JobFacts]:
        """The job, with all tasks of an array and all components of a heterogeneous job; none where
        it is unknown.
        """
        try:
            found = self._show_job(job_id)
        except NoSuchJob:
            return []
        names = [(str(job.job_id), job.label, job.label.partition("_")[0]) for job in found]
        return [job for job, known in zip(found, names, strict=True) if job_id in known]

    def _show_job(self, job_id: str) -> list[JobFacts]:
        found = self._read("jobs", "scontrol", "--local", "show", "job", job_id, JSON)
        return know_components([read_job(job) for job in found])

    def _read(self, what: str, program: str, *arguments: str) -> list[Any]:
        """The list named ``what`` in an answer; none of it is an empty one."""
        raw = self._run(program, *arguments)
        try:
            answer = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise SlurmError(f"{program} gave no JSON, is it older than 24.11? {error}") from error
        found = answer.get(what, []) if isinstance(answer, dict) else None
        if not isinstance(found, list):
            raise SlurmError(f"{program} gave JSON of an unknown form")
        return found

    def _run(self, program: str, *arguments: str) -> str:
        """Standard output of one request, tried again while Slurm does not answer."""
        return persist(lambda: self._try(program, *arguments), self._patience)

    def _try(self, program: str, *arguments: str) -> str:
        command = [f"{self._folder}/{program}", *arguments]
        try:
            process = subprocess.Popen(
                [os.fsencode(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **WHOLE_TEXTS},
            )
        except OSError as error:
            raise SlurmError(
                f"{command[0]} can not be run: {error.strerror}; set [slurm] bin to its folder"
            ) from error
        try:
            output, errors = process.communicate(timeout=self._timeout)
        except subprocess.TimeoutExpired as error:
            raise SlurmUnavailable(f"{program} did not answer in {self._timeout} s") from error
        finally:
            if process.returncode is None:
                # Not waited for: what sleeps in the kernel (state D) does not die before it wakes.
                process.kill()
        if process.returncode != 0:
            raise explain(program, os.fsdecode(errors) + os.fsdecode(output))
        return os.fsdecode(output)


def _start_time(change: JobChange) -> str | None:
    if change.start_in:
        return f"now+{change.start_in}"
    return "now" if change.start_now else None


def _assign(named: dict[str, Any]) -> list[str]:
    return [f"{key}={value}" for key, value in named.items() if value is not None]


def explain(program: str, words: str) -> SlurmError:
    """The error that a failed command's words tell of."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    text = f"{program}: {'; '.join(lines[:3]) or 'failed without a word'}"
    if _UNKNOWN_JOB in words:
        return NoSuchJob(text)
    if _DENIED in words:
        return NotPermitted(text)
    if any(sign in words for sign in _SILENT):
        return SlurmUnavailable(text)
    return SlurmError(text)
