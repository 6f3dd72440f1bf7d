"""On real daemons: many things at once."""

from __future__ import annotations

import pytest
from cluster import CONTROLLER, NODES, each
from rig import SHARE, Rig


@pytest.mark.parametrize("count", [2, 3])
def test_several_nodes_of_one_job_break_in_one_second(rig: Rig, count: int) -> None:
    job = rig.start(nodes=count)
    broken = rig.nodes(job)
    each(rig.break_gpu, broken)
    rig.end(job, 1)
    rig.cluster.wait(lambda: rig.drained() == sorted(broken), 60, "a drain of each")
    rig.cluster.wait(lambda: rig.show(job)["retries"] == 1, 60, "one retry")
    assert rig.show(job)["excluded_nodes"] == sorted(broken)
    rig.settle()
    rig.check_promises()


def test_two_jobs_on_one_node_are_both_moved_and_it_is_drained_once(rig: Rig) -> None:
    blocker = rig.occupy(["n2", "n3", "n4"])
    jobs = [rig.start("--gres=gpu:1", "--ntasks=1") for _ in range(2)]
    rig.end(blocker, 0)
    rig.break_memory("n1")
    for job in jobs:
        assert rig.bring_back(job) != ["n1"]
        assert rig.show(job)["retries"] == 1
    assert rig.drained() == ["n1"]
    rig.check_promises()


def test_the_node_on_which_the_job_was_just_restarted_breaks_too(rig: Rig) -> None:
    job = rig.start()
    used = []
    for restarts in range(3):
        used += rig.bring_back(job, restarts)
        rig.break_gpu(used[-1])
    last = rig.bring_back(job, 3)
    assert sorted(used + last) == sorted(NODES)
    rig.check_moved(job, retries=3)


def test_a_fault_after_the_nodes_last_look_at_the_job_is_not_its_cause(rig: Rig) -> None:
    rig.lay_wires(timeout=30, patience=60)
    job = rig.start()
    node = rig.nodes(job)[0]
    rig.trouble(CONTROLLER, "requeuehold", "gate")
    rig.end(job, 1)
    rig.wait_fired()
    assert "COMPLETING" in rig.cluster.job_state(job)
    rig.break_gpu(node)
    rig.wait_drained(node)
    rig.open_gate()
    rig.wait_shown(job, "Pending - internalerror", 60)
    rig.settle()
    rig.check_promises()


def test_a_second_node_breaks_between_requeue_and_release(rig: Rig) -> None:
    rig.lay_wires(timeout=30, patience=60)
    job = rig.start(nodes=2)
    first = rig.nodes(job)
    rig.trouble(CONTROLLER, "release", "gate")
    rig.end_broken(job)
    rig.wait_fired()
    rig.break_gpu(first[1])
    rig.wait_drained(first[1])
    rig.open_gate()
    assert not set(rig.bring_back(job)) & set(first)
    rig.check_moved(job)


def test_hooks_that_run_twice_at_once_count_once(rig: Rig) -> None:
    job = rig.start(nodes=2)
    first = rig.nodes(job)
    start = rig.cluster.job(job)["start_time"]["number"]
    told = (
        f"SLURM_JOB_ID={job} SLURM_JOB_NODELIST={','.join(first)} SLURM_JOB_START_TIME={start} "
        "SLURM_JOB_COMMENT=failover SLURM_JOB_EXIT_CODE=256"
    )
    rig.end_broken(job)
    again = f"{told} {SHARE}/epilog/epilog_slurmctld.sh & {told} {SHARE}/epilog/epilog_slurmctld.sh"
    rig.cluster.run(CONTROLLER, f"{again}; wait", "slurm")
    rig.cluster.run(first[0], f"SLURMD_NODENAME={first[0]} {told} {SHARE}/epilog/epilog.sh")
    rig.bring_back(job)
    rig.check_moved(job)
