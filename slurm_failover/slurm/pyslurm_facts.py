"""pyslurm's attributes → JobFacts and NodeFacts. Pure.

pyslurm 25.11 tells less than Slurm's JSON, and what it leaves out is never guessed: such a job or
node is *unclear*, and whoever asked asks scontrol about it. Seen on 26.05.5:

- of a job's state only one word, so COMPLETING hides how the job ended;
- of an exit code from 128 on what is above 128, which can not be told from a smaller one;
- a description of the state in place of its reason, where there is one;
- of a node in part use MIXED, whatever it was;
- ``gres_detail``, ``allocated``, ``wants_gpus`` and ``has_whole_nodes`` not at all: only
  ``jobs_on`` is sure to tell them;
- of a node's GRES what a parser of its own makes of them, which fails on some: not read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from slurm_failover.model import JobFacts, NodeFacts
from slurm_failover.slurm.facts import REQUEUED_HELD, is_hold

_BASE = (
    "PENDING",
    "RUNNING",
    "SUSPENDED",
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
)
"""The states of job_states in slurm.h; every other word is a flag beside one of them."""

_HELD = ("SPECIAL_EXIT", "REQUEUE_HOLD")
"""The flags that only a pending job has, so that they tell its base state."""

_REASON = re.compile(r"([A-Za-z]+)(,.*)?")
"""A reason, such as ``Priority``, alone or before its details."""


@dataclass(frozen=True, slots=True)
class Unclear:
    """A job or a node of which pyslurm does not tell enough; ``name`` is what to ask for."""

    name: str
    job_id: int = 0


def read_jobs(
    raws: Collection[dict[str, Any]], wanted: Collection[str] = ()
) -> list[JobFacts | Unclear]:
    """The wanted jobs out of ``raws``, or all, in its order.

    As squeue does, it takes an array's id for all its tasks, and a heterogeneous job's leader for
    all its components.
    """
    components = _components(raws)
    return [
        _read_job(raw, components.get(raw.get("heterogeneous_id"), ()))
        for raw in raws
        if not wanted or not _names(raw).isdisjoint(wanted)
    ]


def read_nodes(
    raws: Iterable[dict[str, Any]], wanted: Collection[str] = ()
) -> list[NodeFacts | Unclear]:
    """The wanted nodes out of ``raws``, or all, in its order."""
    return [_read_node(raw) for raw in raws if not wanted or raw["name"] in wanted]


def _read_job(raw: dict[str, Any], components: tuple[int, ...]) -> JobFacts | Unclear:
    job_id: int = raw["id"]
    unclear = Unclear(_label(raw), job_id)
    if len(raw) == 1:
        return unclear
    states, reason = _states(raw), _reason(raw)
    if not states or not reason or not _has_exact_exit(raw, states):
        return unclear
    return JobFacts(
        job_id=job_id,
        label=unclear.name,
        name=_text(raw, "name"),
        user=_text(raw, "user_name"),
        partition=_text(raw, "partition"),
        qos=_text(raw, "qos"),
        states=states,
        reason=reason,
        comment=_text(raw, "comment"),
        admin_comment=_text(raw, "admin_comment"),
        nodes=_text(raw, "allocated_nodes"),
        excluded=_text(raw, "excluded_nodes"),
        required=_text(raw, "required_nodes"),
        failed_node=_text(raw, "failed_node"),
        restarts=_number(raw, "requeue_count"),
        start=float(_number(raw, "start_time")),
        end=float(_number(raw, "end_time")),
        eligible=float(_number(raw, "eligible_time")),
        exit_signal=_number(raw, "exit_code_signal"),
        batch=raw["is_batch_job"] is True,
        requeue=raw["is_requeueable"] is True,
        held=_number(raw, "priority") == 0 and is_hold(states, reason),
        held_by_requeue=_text(raw, "state_reason") == REQUEUED_HELD,
        priority=_number(raw, "priority"),
        node_count=_number(raw, "num_nodes"),
        components=components,
        federation=_text(raw, "federation_origin"),
        tasks=_text(raw, "array_tasks_waiting"),
        stdout=_text(raw, "standard_output"),
        batch_host=_text(raw, "batch_host"),
    )


def _read_node(raw: dict[str, Any]) -> NodeFacts | Unclear:
    name: str = raw["name"]
    states = frozenset(_text(raw, "state").split("+"))
    if len(raw) == 1 or "MIXED" in states:
        return Unclear(name)
    return NodeFacts(
        name=name,
        states=states,
        reason=_text(raw, "reason"),
        reason_time=float(_number(raw, "reason_time")),
        extra=_text(raw, "extra"),
        comment=_text(raw, "comment"),
        partitions=tuple(raw["partitions"]),
    )


def _components(raws: Iterable[dict[str, Any]]) -> dict[Any, tuple[int, ...]]:
    """The ids of each heterogeneous job, leader first, by its leader's."""
    found: dict[Any, list[tuple[int, int]]] = {}
    for raw in raws:
        if leader := raw.get("heterogeneous_id"):
            found.setdefault(leader, []).append((_number(raw, "heterogeneous_offset"), raw["id"]))
    return {leader: tuple(job_id for _, job_id in sorted(ids)) for leader, ids in found.items()}


def _names(raw: dict[str, Any]) -> frozenset[str]:
    """What a job may be asked by."""
    others = (raw.get(key) for key in ("array_id", "heterogeneous_id"))
    return frozenset((str(raw["id"]), _label(raw), *(str(name) for name in others if name)))


def _label(raw: dict[str, Any]) -> str:
    """pyslurm tells no task 0: a task without a number is that, unless it stands for those that
    wait.
    """
    if raw.get("heterogeneous_id"):
        return str(raw["heterogeneous_id"])
    if not raw.get("array_id") or raw.get("array_tasks_waiting"):
        return str(raw["id"])
    return f"{raw['array_id']}_{_number(raw, 'array_task_id')}"


def _states(raw: dict[str, Any]) -> frozenset[str]:
    state = _text(raw, "state")
    if state in _HELD:
        return frozenset({"PENDING", state})
    return frozenset({state}) if state in _BASE else frozenset()


def _reason(raw: dict[str, Any]) -> str:
    text = _text(raw, "state_reason")
    if text == REQUEUED_HELD:
        return "JobHeldUser"
    match = _REASON.fullmatch(text)
    return match[1] if match else ""


def _has_exact_exit(raw: dict[str, Any], states: frozenset[str]) -> bool:
    """Whether the exit code is told as it was; 128 is told as 0."""
    if _number(raw, "exit_code"):
        return False
    return "FAILED" not in states or _number(raw, "exit_code_signal") != 0


def _text(raw: dict[str, Any], key: str) -> str:
    value = raw.get(key)
    return value if isinstance(value, str) else ""


def _number(raw: dict[str, Any], key: str) -> int:
    value = raw.get(key)
    return value if isinstance(value, int) else 0
