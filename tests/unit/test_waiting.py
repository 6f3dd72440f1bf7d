"""Why a failed-over job still waits."""

from __future__ import annotations

from slurm_failover.model import JobFacts, NodeFacts
from slurm_failover.waiting import explain_wait

JOB = JobFacts(7, "7", partition="gpu", node_count=2, excluded="n1")


def node(name: str, *states: str, partition: str = "gpu") -> NodeFacts:
    return NodeFacts(name, frozenset(states or {"IDLE"}), partitions=(partition,))


def test_busy_nodes_are_healthy() -> None:
    assert explain_wait(JOB, [node("n1"), node("n2", "ALLOCATED"), node("n3", "MIXED")]) == ""


def test_excluded_and_drained_nodes_and_other_partitions_do_not_count() -> None:
    nodes = [node("n1"), node("n2", "IDLE", "DRAIN"), node("n3"), node("n4", partition="cpu")]
    assert explain_wait(JOB, nodes) == (
        "no healthy nodes: the job needs 2 in gpu, 1 left (excluded n1; out of service n2)"
    )


def test_a_node_that_is_excluded_and_drained_is_counted_once() -> None:
    told = "no healthy nodes: the job needs 2 in gpu, 1 left (excluded n1)"
    assert explain_wait(JOB, [node("n1", "DRAIN"), node("n2")]) == told
