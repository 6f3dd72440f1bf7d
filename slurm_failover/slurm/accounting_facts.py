"""Slurm's accounting (sacct's JSON, data_parser v0.0.42, and sacctmgr's lines) → Run, Outage. Pure.

Missing or odd fields give the neutral value, as in facts.py.
"""

from __future__ import annotations

from typing import Any

from slurm_failover.history import Outage, Run
from slurm_failover.slurm.facts import read_number, read_text

OUTAGE_FIELDS = "NodeName,TimeStart,TimeEnd,State,Reason"
NO_VAL = 0xFFFFFFFE
"""Slurm's word for a number that is not set (slurm.h)."""
_NO_NODES = "None assigned"


def read_run(raw: Any) -> Run | None:
    """One element of ``jobs``; None for what is no job."""
    job_id = read_number(raw.get("job_id")) if isinstance(raw, dict) else 0
    if job_id <= 0:
        return None
    nodes, time, words = read_text(raw, "nodes"), raw.get("time"), raw.get("comment")
    clock = time if isinstance(time, dict) else {}
    return Run(
        label=_label(raw, job_id),
        user=read_text(raw, "user"),
        name=read_text(raw, "name"),
        nodes="" if nodes == _NO_NODES else nodes,
        start=_time(clock.get("start")),
        end=_time(clock.get("end")),
        gpus=_gpus(raw.get("tres")),
        admin_comment=read_text(words, "administrator") if isinstance(words, dict) else "",
        job_id=job_id,
    )


def read_outage(line: str) -> Outage | None:
    """A line of ``sacctmgr --parsable2 --noheader show event`` with ``OUTAGE_FIELDS`` and times in
    seconds since the epoch; None for what is no node's.
    """
    node, start, end, states, reason = (line.split("|", 4) + [""] * 5)[:5]
    if not node or not start.isdecimal():
        return None
    return Outage(node, float(start), float(end) if end.isdecimal() else 0.0, states, reason)


def _time(value: object) -> float:
    """A time; 0 for none. A run that was cancelled before it started has Slurm's NO_VAL as its
    start (seen on 26.05.5).
    """
    seconds = read_number(value)
    return float(seconds) if 0 < seconds < NO_VAL else 0.0


def _label(raw: dict[str, Any], job_id: int) -> str:
    het, array = raw.get("het"), raw.get("array")
    leader = read_number(het.get("job_id")) if isinstance(het, dict) else 0
    if leader:
        return str(leader)
    task = array.get("task_id") if isinstance(array, dict) else None
    parent = read_number(array.get("job_id")) if isinstance(array, dict) else 0
    is_task = parent > 0 and isinstance(task, dict) and task.get("set") is True
    return f"{parent}_{read_number(task)}" if is_task else str(job_id)


def _gpus(tres: object) -> int:
    """The GPUs of a run: the untyped count, which holds all, or else the sum over the types."""
    items = tres.get("allocated") if isinstance(tres, dict) else None
    counts: dict[str, int] = {}
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict) and item.get("type") == "gres":
            counts[str(item.get("name"))] = max(0, read_number(item.get("count")))
    typed = sum(count for name, count in counts.items() if name.startswith("gpu:"))
    return counts.get("gpu", typed)
