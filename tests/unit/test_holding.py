"""Which of a node's GPUs a job holds, in the words of slurmctld and of slurmd."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_failover.gres import GresSlot
from slurm_failover.holding import JobGpus, from_hook_environment, job_gpus, join_words
from slurm_failover.model import JobFacts

SLOTS = (GresSlot(minor=1), GresSlot(minor=2), GresSlot(minor=0))


@pytest.mark.parametrize(
    ("environment", "job"),
    [
        ({"SLURM_JOB_GPUS": "0,2"}, JobGpus(7, frozenset({0, 2}))),
        ({}, JobGpus(7, None)),
        ({"SLURM_JOB_GPUS": ""}, JobGpus(7, frozenset())),
        ({"SLURM_JOB_GPUS": "0-1"}, JobGpus(7, None)),
        (
            {"SLURM_JOB_GPUS": "1", "CUDA_VISIBLE_DEVICES": "MIG-x"},
            JobGpus(7, frozenset({1}), frozenset({"MIG-x"})),
        ),
        (
            {"SLURM_JOB_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"},
            JobGpus(7, frozenset({0, 1}), frozenset({"GPU-a", "GPU-b"})),
        ),
        (
            {"SLURM_JOB_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": "0,1"},
            JobGpus(7, frozenset({0, 1})),
        ),
    ],
)
def test_a_hook_s_environment_says_what_its_job_holds(
    environment: dict[str, str], job: JobGpus
) -> None:
    told = from_hook_environment({"SLURM_JOB_ID": "7", **environment})
    assert told == job
    assert told.is_told is (job != JobGpus(7, None))


@pytest.mark.parametrize(
    ("detail", "facts", "held"),
    [
        (("gpu:1(IDX:1)",), {"wants_gpus": True}, frozenset({1})),
        ((), {}, frozenset()),
        ((), {"wants_gpus": True}, None),
        ((), {"has_whole_nodes": True}, frozenset()),
        ((), {"has_whole_nodes": True, "states": frozenset({"FAILED", "COMPLETING"})}, None),
    ],
    ids=["told", "none", "asked for", "whole nodes", "had whole nodes"],
)
def test_slurmctld_that_names_no_gpu_of_a_job_may_have_forgotten_it(
    detail: tuple[str, ...], facts: dict[str, Any], held: frozenset[int] | None
) -> None:
    job = JobFacts(7, "7", gres_detail=detail, allocated=("n1",), **facts)
    assert job_gpus(job, "n1") == JobGpus(7, held)


@pytest.mark.parametrize(
    ("by_slurmd", "by_slurmctld", "named", "held"),
    [
        (frozenset({0}), None, False, {0}),
        (frozenset(), None, True, set()),
        (frozenset(), None, False, None),
        (frozenset(), frozenset({0, 1}), False, {0, 1}),
        (frozenset(), frozenset(), False, set()),
        (frozenset({0}), frozenset({0, 1}), False, {0, 1}),
        (None, frozenset({1}), True, {1}),
        (None, None, True, None),
    ],
)
def test_what_slurmd_does_not_name_to_its_hooks_slurmctld_tells_or_nobody(
    by_slurmd: frozenset[int] | None,
    by_slurmctld: frozenset[int] | None,
    named: bool,
    held: set[int] | None,
) -> None:
    slots = (GresSlot(0), GresSlot(1, named=named))
    told = [] if by_slurmctld is None else [JobGpus(1, by_slurmctld)]
    assert join_words(JobGpus(1, by_slurmd), told, slots) == JobGpus(
        1, None if held is None else frozenset(held)
    )


def test_uuids_that_are_fewer_than_the_gpus_that_slurmctld_tells_of_are_not_all() -> None:
    by_slurmd = JobGpus(1, frozenset({0}), frozenset({"GPU-a"}))
    assert join_words(by_slurmd, [JobGpus(1, frozenset({0}))], SLOTS) == by_slurmd
    both = frozenset({0, 1})
    assert join_words(by_slurmd, [JobGpus(1, both)], SLOTS) == JobGpus(1, both)
