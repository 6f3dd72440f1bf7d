"""Whatever JSON Slurm sends: facts, or Slurm's error; and never facts that were made up."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from slurm_failover.errors import SlurmError
from slurm_failover.model import JobFacts, NodeFacts
from slurm_failover.slurm.facts import read_job, read_node

QUICK = settings(max_examples=300)
JOB = (
    *("job_id", "name", "user_name", "partition", "qos", "job_state", "state_reason", "comment"),
    *("admin_comment", "nodes", "excluded_nodes", "required_nodes", "failed_node", "restart_cnt"),
    *("start_time", "end_time", "eligible_time", "exit_code", "batch_flag", "requeue", "hold"),
    *("priority", "gres_detail", "job_resources", "array_job_id", "array_task_id", "het_job_id"),
    "het_job_id_set",
)
NODE = ("name", "state", "reason", "reason_changed_at", "extra")

leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.just(10**400)
)
values = st.one_of(
    leaves,
    st.lists(leaves, max_size=3),
    st.fixed_dictionaries(
        {}, optional={"set": leaves, "infinite": leaves, "number": leaves, "id": leaves}
    ),
    st.fixed_dictionaries({"return_code": leaves, "signal": leaves}),
)


def objects(keys: tuple[str, ...]) -> st.SearchStrategy[Any]:
    return st.one_of(values, st.dictionaries(st.sampled_from(keys), values))


@QUICK
@given(objects(JOB))
@example({"job_id": 1, "priority": math.inf})
@example({"job_id": 1, "priority": {"set": True, "number": math.nan}})
@example({"job_id": 1, "start_time": 10**400})
def test_any_json_as_a_job(raw: Any) -> None:
    try:
        job = read_job(raw)
    except SlurmError:
        assert (
            not isinstance(raw, dict)
            or not isinstance(raw.get("job_id"), int)
            or (raw["job_id"] <= 0)
        )
        return
    assert isinstance(job, JobFacts)
    assert job.label
    assert job.held is (raw.get("hold") is True)
    assert job.requeue is (raw.get("requeue") is True)


@QUICK
@given(objects(NODE))
def test_any_json_as_a_node(raw: Any) -> None:
    try:
        node = read_node(raw)
    except SlurmError:
        return
    assert isinstance(node, NodeFacts)
    assert node.name == raw["name"]
