"""Slurm's JSON (data_parser v0.0.42) → JobFacts and NodeFacts. Pure.

Numbers are ``{set, infinite, number}``, states are lists. Missing or odd fields give the neutral
value, since releases differ in what they send; a job without an id is an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ClusterShell.RangeSet import RangeSet, RangeSetParseError

from slurm_failover.errors import SlurmError
from slurm_failover.gres import count_gpus
from slurm_failover.model import JobFacts, NodeFacts

_TOO_LARGE = 2**64
"""No number of Slurm's has more than 64 bits; NaN is not below it either."""

_GPU_TRES = re.compile(r"\bgres[/:](?:gpu|shard|mps)(?:[:=][^:=,]+)*(?=,|$)")
"""GPUs or shares of them among TRES: ``gres/gpu=2``, ``gres:gpu:a100:2``."""

REQUEUED_HELD = "job requeued in held state"
"""How Slurm describes a job after ``scontrol requeuehold``, and until its next hold or release."""


def read_job(raw: Any) -> JobFacts:
    """One element of ``jobs``. Raises SlurmError if it is no job."""
    job_id = raw.get("job_id") if isinstance(raw, dict) else None
    if not isinstance(job_id, int) or job_id <= 0:
        raise SlurmError("Slurm's JSON holds a job without an id")
    code = _object(raw, "exit_code")
    states, reason = _states(raw, "job_state"), read_text(raw, "state_reason")
    return JobFacts(
        job_id=job_id,
        label=_label(raw, job_id),
        name=read_text(raw, "name"),
        user=read_text(raw, "user_name"),
        partition=read_text(raw, "partition"),
        qos=read_text(raw, "qos"),
        states=states,
        reason=reason,
        comment=read_text(raw, "comment"),
        admin_comment=read_text(raw, "admin_comment"),
        nodes=read_text(raw, "nodes"),
        excluded=read_text(raw, "excluded_nodes"),
        required=read_text(raw, "required_nodes"),
        failed_node=read_text(raw, "failed_node"),
        restarts=read_number(raw.get("restart_cnt")),
        start=float(read_number(raw.get("start_time"))),
        end=float(read_number(raw.get("end_time"))),
        eligible=float(read_number(raw.get("eligible_time"))),
        exit_code=read_number(code.get("return_code")),
        exit_signal=read_number(_object(code, "signal").get("id")),
        batch=raw.get("batch_flag") is True,
        requeue=raw.get("requeue") is True,
        held=raw.get("hold") is True and is_hold(states, reason),
        held_by_requeue=read_text(raw, "state_description").replace("_", " ") == REQUEUED_HELD,
        priority=read_number(raw.get("priority")),
        gres_detail=_texts(raw.get("gres_detail")),
        wants_gpus=_wants_gpus(raw),
        has_whole_nodes=_object(_object(raw, "job_resources"), "nodes").get("whole") is True,
        allocated=_allocated(raw),
        node_count=read_number(raw.get("node_count")),
        components=_components(raw),
        federation=read_text(raw, "federation_origin"),
        tasks=read_text(raw, "array_task_string").partition("%")[0],
        stdout=read_text(raw, "standard_output"),
        batch_host=read_text(raw, "batch_host"),
    )


def know_components(jobs: Sequence[JobFacts]) -> list[JobFacts]:
    """The jobs, each component of a heterogeneous one with the places of the others among them."""
    parts: dict[str, list[JobFacts]] = {}
    for job in jobs:
        if job.components:
            parts.setdefault(job.label, []).append(job)
    return [_beside(job, parts[job.label]) if job.components else job for job in jobs]


def _beside(job: JobFacts, parts: Iterable[JobFacts]) -> JobFacts:
    others = [part for part in parts if part.job_id != job.job_id]
    partitions, qos = ({getattr(one, key) for one in others} for key in ("partition", "qos"))
    return replace(
        job, other_partitions=",".join(sorted(partitions)), other_qos=",".join(sorted(qos))
    )


def is_hold(states: Collection[str], reason: str) -> bool:
    """Whether a priority of 0 is a hold, as which JSON shows it. Slurm gives it as well to a
    job that is suspended, and to one for which its partition has too few nodes beside those that it
    excludes, until the job is changed (seen on 24.11.5).
    """
    return "SUSPENDED" not in states and reason != "BadConstraints"


def read_node(raw: Any) -> NodeFacts:
    """One element of ``nodes``. Raises SlurmError if it is no node."""
    name = raw.get("name") if isinstance(raw, dict) else None
    if not isinstance(name, str) or not name:
        raise SlurmError("Slurm's JSON holds a node without a name")
    return NodeFacts(
        name=name,
        states=_states(raw, "state"),
        reason=read_text(raw, "reason"),
        reason_time=float(read_number(raw.get("reason_changed_at"))),
        extra=read_text(raw, "extra"),
        comment=read_text(raw, "comment"),
        partitions=_texts(raw.get("partitions")),
        gpus=count_gpus(raw["gres"]) if isinstance(raw.get("gres"), str) else None,
    )


def _label(raw: dict[str, Any], job_id: int) -> str:
    if leader := read_number(raw.get("het_job_id")):
        return str(leader)
    array, task = read_number(raw.get("array_job_id")), raw.get("array_task_id")
    if not array or not isinstance(task, dict) or task.get("set") is not True:
        return str(job_id)
    return f"{array}_{read_number(task)}"


def _components(raw: dict[str, Any]) -> tuple[int, ...]:
    """The ids of a heterogeneous job; Slurm writes them as ``4-5,7``."""
    text = read_text(raw, "het_job_id_set")
    try:
        return tuple(map(int, RangeSet(text))) if text else ()
    except RangeSetParseError:
        return ()


def _allocated(raw: dict[str, Any]) -> tuple[str, ...]:
    nodes = _object(_object(raw, "job_resources"), "nodes").get("allocation")
    items = nodes if isinstance(nodes, list) else []
    return _texts([item.get("name") for item in items if isinstance(item, dict)])


def _wants_gpus(raw: dict[str, Any]) -> bool:
    """By what it has been given and by what it asked for: a TRES that is not accounted for is not
    among those given.
    """
    names = ("tres_alloc_str", "tres_req_str", "tres_per_job", "tres_per_node", "tres_per_socket")
    found = _GPU_TRES.findall(",".join(read_text(raw, name) for name in (*names, "tres_per_task")))
    return any(re.split("[:=]", tres)[-1] != "0" for tres in found)


def _object(raw: dict[str, Any], key: str) -> dict[str, Any]:
    value = raw.get(key)
    return value if isinstance(value, dict) else {}


def read_text(raw: dict[str, Any], key: str) -> str:
    """A member that is text, else ""."""
    value = raw.get(key)
    return value if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()


def _states(raw: dict[str, Any], key: str) -> frozenset[str]:
    value = raw.get(key)
    return frozenset(_texts([value] if isinstance(value, str) else value))


def read_number(value: object) -> int:
    """A number, plain or as Slurm writes one that may be unset; 0 for what is none."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") is not False else 0
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    return int(value) if abs(value) < _TOO_LARGE else 0
