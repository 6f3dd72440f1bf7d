"""Slurm's JSON as the live releases send it."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_failover.errors import SlurmError
from slurm_failover.slurm.facts import read_job, read_node


def number(value: int, is_set: bool = True) -> dict[str, Any]:
    return {"set": is_set, "infinite": False, "number": value}


JOB: dict[str, Any] = {
    "job_id": 12,
    "name": "train",
    "user_name": "alice",
    "partition": "gpu",
    "qos": "normal",
    "job_state": ["FAILED", "COMPLETING"],
    "state_reason": "NonZeroExitCode",
    "comment": "failover",
    "admin_comment": "x",
    "nodes": "n[1-2]",
    "excluded_nodes": "n3",
    "required_nodes": "",
    "failed_node": "n1",
    "restart_cnt": 1,
    "start_time": number(1_700_000_000),
    "end_time": number(1_700_000_100),
    "eligible_time": number(1_699_999_999),
    "exit_code": {
        "status": ["ERROR"],
        "return_code": number(3),
        "signal": {"id": number(9), "name": "KILL"},
    },
    "batch_flag": True,
    "requeue": True,
    "hold": False,
    "priority": number(4294967293),
    "array_job_id": number(0),
    "array_task_id": number(0, is_set=False),
    "gres_detail": ["gpu:2(IDX:0-1)", "gpu:2(IDX:2-3)"],
    "job_resources": {"nodes": {"list": "n[2,1]", "allocation": [{"name": "n2"}, {"name": "n1"}]}},
}


def test_a_job_is_read_with_all_that_a_decision_needs() -> None:
    job = read_job(JOB)
    assert (job.job_id, job.label, job.user, job.name) == (12, "12", "alice", "train")
    assert job.states == {"FAILED", "COMPLETING"}
    assert (job.nodes, job.excluded, job.failed_node) == ("n[1-2]", "n3", "n1")
    assert (job.start, job.end, job.eligible) == (1_700_000_000.0, 1_700_000_100.0, 1_699_999_999.0)
    assert (job.exit_code, job.exit_signal, job.restarts) == (3, 9, 1)
    assert (job.batch, job.requeue, job.held, job.priority) == (True, True, False, 4294967293)
    assert job.gres_detail == ("gpu:2(IDX:0-1)", "gpu:2(IDX:2-3)")
    assert job.allocated == ("n2", "n1")


@pytest.mark.parametrize(
    ("told", "wants"),
    [
        ({}, False),
        ({"tres_per_node": "gres/gpu:2"}, True),
        ({"tres_per_job": "gres:gpu:a100:2"}, True),
        ({"tres_per_task": "cpu:1,gres/shard:2"}, True),
        ({"tres_alloc_str": "cpu=1,mem=2000M,node=1,billing=1,gres/gpu=2"}, True),
        ({"tres_req_str": "cpu=1,mem=2000M,node=1,billing=1"}, False),
        ({"tres_alloc_str": "cpu=1,gres/gpuish=2", "tres_per_node": None}, False),
        ({"tres_per_node": "gres/gpu"}, True),
        ({"tres_per_node": "gres/gpu:0"}, False),
        ({"tres_req_str": "cpu=1,license/gpu=1"}, False),
        ({"tres_freq": "gpu:high", "tres_bind": "gres/gpu:closest"}, False),
    ],
)
def test_a_job_wants_gpus_if_any_of_its_tres_are_such(told: dict[str, object], wants: bool) -> None:
    assert read_job(JOB | told).wants_gpus is wants


def test_a_job_with_whole_nodes_is_told_from_one_with_a_share() -> None:
    whole = {"job_resources": {"nodes": {"whole": True}}}
    assert [read_job(JOB | told).has_whole_nodes for told in ({}, whole)] == [False, True]


def test_an_array_task_is_named_by_its_array() -> None:
    assert read_job(JOB | {"array_job_id": number(12), "array_task_id": number(0)}).label == "12_0"


def test_a_job_that_was_an_array_but_has_no_task_yet_keeps_its_own_name() -> None:
    job = read_job(JOB | {"array_job_id": number(12), "array_task_string": "0-2%1"})
    assert (job.label, job.tasks) == ("12", "0-2")


def test_a_number_that_is_not_set_is_neutral_and_a_bare_one_counts() -> None:
    assert read_job(JOB | {"start_time": number(5, is_set=False)}).start == 0
    assert read_job(JOB | {"start_time": 5}).start == 5


def test_missing_fields_are_neutral_and_never_a_yes() -> None:
    job = read_job({"job_id": 12})
    assert (job.batch, job.requeue, job.held) == (False, False, False)
    assert job.states == frozenset()


@pytest.mark.parametrize("raw", [None, 5, [], {}, {"job_id": 0}, {"job_id": "12"}])
def test_what_has_no_id_is_no_job(raw: Any) -> None:
    with pytest.raises(SlurmError):
        read_job(raw)


def test_a_node_is_read_with_reason_and_extra() -> None:
    raw = {
        "name": "n1",
        "state": ["IDLE", "DRAIN"],
        "reason": "why",
        "reason_changed_at": number(7),
        "extra": "{}",
    }
    node = read_node(raw)
    assert (node.name, node.reason, node.reason_time, node.extra) == ("n1", "why", 7.0, "{}")
    assert node.has("DRAIN")


@pytest.mark.parametrize("raw", [None, {}, {"name": ""}, {"name": 5}])
def test_what_has_no_name_is_no_node(raw: Any) -> None:
    with pytest.raises(SlurmError):
        read_node(raw)


@pytest.mark.parametrize(("states", "held"), [(["SUSPENDED"], False), (["RUNNING"], True)])
def test_a_suspended_job_is_not_held_though_its_priority_is_nought(
    states: list[str], held: bool
) -> None:
    assert read_job({"job_id": 1, "job_state": states, "hold": True}).held is held


def test_a_job_that_finds_too_few_nodes_in_its_partition_is_not_held_by_anybody() -> None:
    raw = {"job_id": 1, "job_state": ["PENDING"], "hold": True, "state_reason": "BadConstraints"}
    assert not read_job(raw).held
    assert read_job({**raw, "state_reason": "JobHeldUser"}).held
