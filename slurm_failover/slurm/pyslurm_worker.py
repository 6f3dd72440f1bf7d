"""A child process that asks Slurm through pyslurm: ``pyslurm_worker.py``, JSON lines in and out.

A process of its own, since pyslurm calls into Slurm's C library: a call that waits for slurmctld
holds the interpreter and hears no signal, ``import pyslurm`` ends the interpreter where slurm.conf
can not be read, and a library of another release could crash it. Whoever asks sets a deadline and
ends this process; nothing else is lost. It imports nothing of this package.

The first line out is ``{"slurm": "26.5", "built_for": "26.5"}``. Then every line in is a request,
``{"jobs": [IDS]}`` (all jobs if empty) or ``{"nodes": []}``, and gets one line back: a list of the
attributes below, or ``{"error": WORDS}`` in Slurm's own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

JOB = (
    "id",
    "array_id",
    "array_task_id",
    "array_tasks_waiting",
    "heterogeneous_id",
    "heterogeneous_offset",
    "name",
    "user_name",
    "partition",
    "qos",
    "state",
    "state_reason",
    "comment",
    "admin_comment",
    "allocated_nodes",
    "excluded_nodes",
    "required_nodes",
    "failed_node",
    "requeue_count",
    "start_time",
    "end_time",
    "eligible_time",
    "exit_code",
    "exit_code_signal",
    "is_batch_job",
    "is_requeueable",
    "priority",
    "num_nodes",
    "federation_origin",
    "standard_output",
    "batch_host",
)
NODE = ("name", "state", "reason", "reason_time", "extra", "comment", "partitions")
FEW = 16
"""Up to so many jobs are asked for one by one; for more, all jobs are one request."""

_UNKNOWN_JOB = 2017
"""ESLURM_INVALID_JOB_ID in slurm_errno.h."""


def answer(pyslurm: Any, request: dict[str, list[str]]) -> Any:
    """The answer to one request, fit for JSON."""
    try:
        if "jobs" in request:
            return [_describe(job, JOB, "id") for job in _find_jobs(pyslurm, request["jobs"])]
        return [_describe(node, NODE, "name") for node in pyslurm.Nodes.load().values()]
    except pyslurm.RPCError as error:
        return {"error": str(error)}


def _find_jobs(pyslurm: Any, wanted: list[str]) -> Iterable[Any]:
    """The wanted jobs one by one; all jobs where that is cheaper, or where one is not alone."""
    if not 0 < len(wanted) <= FEW or not all(name.isdecimal() for name in wanted):
        return list(pyslurm.Jobs.load().values())
    jobs = []
    for name in wanted:
        try:
            job = pyslurm.Job.load(int(name))
        except pyslurm.RPCError as error:
            if error.errno != _UNKNOWN_JOB:
                raise
            continue
        if job.array_id or job.heterogeneous_id:
            return list(pyslurm.Jobs.load().values())
        jobs.append(job)
    return jobs


def _describe(thing: Any, names: Iterable[str], key: str) -> dict[str, Any]:
    """The attributes of a job or node; only its key where a text of it is no UTF-8."""
    try:
        return {name: getattr(thing, name) for name in names}
    except UnicodeDecodeError:
        return {key: getattr(thing, key)}


def releases(pyslurm: Any) -> dict[str, str]:
    """The release of the slurmctld that answers, and the one that pyslurm was built for.

    pyslurm's version is that of the headers it is written for; a build for others says so in its
    local part (docker/pyslurm/build).
    """
    own, _, other = pyslurm.__version__.partition("+slurm")
    running = pyslurm.slurmctld.Config.load().version
    return {"slurm": _short(running), "built_for": _short(other or own)}


def _short(version: str) -> str:
    """``26.5`` of ``26.05.5``."""
    return ".".join(str(int(part)) for part in version.split(".")[:2])


def main() -> None:
    """Serve requests until standard input ends."""
    import pyslurm

    print(json.dumps(releases(pyslurm)), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(pyslurm, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
