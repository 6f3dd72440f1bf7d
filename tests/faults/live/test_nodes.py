"""On real daemons: our own processes on a node die, or the node itself does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import CONTROLLER, NODES, each
from rig import SHARE, STATE, Rig
from test_watch import end as end_watcher
from test_watch import start as start_watcher


def test_a_node_reboots_before_it_has_found_its_fault(rig: Rig) -> None:
    job = rig.start(nodes=2)
    node = rig.nodes(job)[1]
    rig.break_gpu(node)
    rig.reboot(node)
    rig.bring_back(job)
    rig.check_moved(job)


def test_a_node_reboots_after_it_was_drained(rig: Rig) -> None:
    job = rig.start()
    node = rig.end_broken(job)
    rig.wait_drained(node)
    rig.reboot(node)
    rig.bring_back(job)
    rig.check_moved(job)


def test_the_epilog_is_killed_with_its_shell_before_it_could_tell(rig: Rig) -> None:
    rig.lay_wires()
    job = rig.start()
    (node,) = rig.nodes(job)
    rig.trouble(node, 1, "gate")
    rig.end_broken(job)
    rig.wait_fired()
    rig.kill_ours(node)
    rig.open_gate()
    rig.wait_ended(job)
    # What it left is taken up after a minute, when no Epilog can be at work any more.
    rig.cluster.run(node, f"touch -d '-2 minutes' {STATE}/node/ends/*")
    rig.bring_back(job)
    reason = rig.wait_drained(node)
    if not reason.startswith("slurm-failover"):
        # Slurm drains a node whose Epilog was killed, and may have been first.
        assert reason == "Epilog error"
    rig.check_moved(job)


@pytest.fixture
def watched(rig: Rig) -> Iterator[Rig]:
    """The cluster with a watcher on every node, whose calls go over the wires."""
    rig.lay_wires()
    each(lambda node: start_watcher(rig.cluster, node), NODES)
    yield rig
    each(lambda node: end_watcher(rig.cluster, node), NODES)


def test_a_watcher_that_is_killed_while_it_acts_leaves_the_rest_to_the_health_check(
    watched: Rig,
) -> None:
    job = watched.start(nodes=2)
    node = watched.nodes(job)[1]
    watched.trouble(node, 1, "gate")
    watched.break_gpu(node)
    watched.wait_fired()
    watched.kill_ours(node)
    watched.open_gate()
    watched.bring_back(job)
    assert watched.wait_drained(node).startswith("slurm-failover: Xid 79")
    assert watched.drained() == [node]
    watched.check_moved(job)


@pytest.fixture
def unchecked(rig: Rig) -> Iterator[Rig]:
    """Node n1 without its HealthCheckProgram, so that its Prolog is the first to look."""
    hook = f"{SHARE}/prolog/healthcheck.sh"
    rig.cluster.check("n1", f"mv {hook} {hook}.kept && ln -s /bin/true {hook}")
    yield rig
    rig.cluster.check("n1", f"mv -f {hook}.kept {hook}")


@pytest.mark.parametrize("kind", ["none", "killed_before", "killed_after"])
def test_a_fault_in_the_prolog_moves_the_job_even_if_that_dies(unchecked: Rig, kind: str) -> None:
    rig = unchecked
    rig.lay_wires()
    blocker = rig.occupy(["n2", "n3", "n4"])
    rig.break_gpu("n1")
    rig.trouble("n1", 1, kind)
    job = rig.submit()
    rig.jobs.append(job)
    rig.cluster.wait(lambda: rig.is_drained("n1") or rig.has_begun(job), 30, "a start")
    rig.end(blocker, 0)
    if rig.has_begun(job):
        # Its Prolog died without a word: the job is on the sick node, and fails there.
        rig.end(job, 1)
        rig.bring_back(job)
        rig.check_moved(job, retries=1)
    else:
        rig.bring_back(job)
        rig.check_moved(job, retries=0)


def test_a_drain_by_someone_else_keeps_its_words_and_the_job_is_moved(rig: Rig) -> None:
    job = rig.start()
    (node,) = rig.nodes(job)
    rig.drain_as_admin(node, "maintenance: a new fan")
    rig.end_broken(job)
    rig.bring_back(job)
    rig.check_moved(job)


def test_a_fault_after_the_job_was_cancelled_brings_it_not_back(rig: Rig) -> None:
    job = rig.start()
    (node,) = rig.nodes(job)
    rig.cluster.check(CONTROLLER, ["scancel", str(job)], user="alice")
    rig.break_gpu(node)
    rig.wait_drained(node)
    rig.settle()
    rig.wait_shown(job, "Cancelled")
    assert rig.show(job)["retries"] == 0
    rig.check_promises()
