"""Nodes on their way back into service: after a reboot, by our command, or by an admin's hand.

A reboot is a restart of slurmd with another boot id and an empty kernel log: see cluster-reboot.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import AT_WORK, CONTROLLER, HOOK_LOG, HOSTS, NODES, Cluster, each
from story import LOST, Story

pytestmark = pytest.mark.slurm

ASKS_FOR_REBOOT = {"gpu0__field__230": 2}


@pytest.fixture
def story(cluster: Cluster) -> Story:
    """The live cluster as the tests below talk to it."""
    return Story(cluster)


def repair_itself(cluster: Cluster, node: str) -> None:
    settings = "/etc/slurm-failover/settings.toml"
    cluster.check(node, f"printf '[nodes]\\nresume_after_repair = true\\n' >>{settings}")


def check_health(cluster: Cluster, node: str, times: int = 2) -> None:
    """Health checks beside slurmd's own, which come every five seconds."""
    for _ in range(times):
        cluster.check_health(node)


def resume(cluster: Cluster, node: str, *options: str) -> tuple[int, str]:
    done = cluster.run(node, ["slurm-failover", "resume", *options])
    return done.rc, done.stdout + done.stderr


def update(cluster: Cluster, node: str, *changes: str) -> None:
    cluster.check(CONTROLLER, ["scontrol", "update", f"NodeName={node}", *changes])


class Told:
    """How often a node's hooks have said something since this began; their log is never emptied."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        self._read = lambda: cluster.read(node, HOOK_LOG)
        self._before = len(self._read())

    def times(self, words: str) -> int:
        return self._read()[self._before :].count(words)


def wait_drained(story: Story, node: str) -> str:
    """The reason, as soon as the look that has drained the node has noted that for itself too."""
    reason = story.wait_drained(node)
    story.cluster.check(node, ["flock", AT_WORK, "true"])
    return reason


def wait_idle(story: Story, node: str, seconds: float = 30) -> None:
    story.cluster.wait(
        lambda: story.cluster.node(node)["state"] == ["IDLE"], seconds, f"{node} back in service"
    )


def test_only_a_reboot_returns_a_node_whose_fault_asked_for_one(story: Story) -> None:
    cluster = story.cluster
    told = Told(cluster, "n1")
    repair_itself(cluster, "n1")
    cluster.inject("n1", LOST)
    assert "; reboot needed" in wait_drained(story, "n1")
    check_health(cluster, "n1")
    assert story.is_drained("n1")

    cluster.reboot("n1")
    wait_idle(story, "n1")
    assert told.times("resumed: repaired, and checks clean") == 1
    job = story.start("--nodelist=n1", comment=None)
    story.end(job, 0)
    story.wait_shown(job, "Completed")
    assert story.drained() == []


def test_a_reboot_that_slurm_was_asked_for_returns_the_node_as_well(story: Story) -> None:
    cluster = story.cluster
    told = Told(cluster, "n1")
    repair_itself(cluster, "n1")
    cluster.inject("n1", LOST)
    wait_drained(story, "n1")
    cluster.check(CONTROLLER, ["scontrol", "reboot", "n1"])
    wait_idle(story, "n1")
    assert told.times("resumed: repaired, and checks clean") == 1
    assert story.reason("n1") == ""


@pytest.fixture
def impatient(cluster: Cluster) -> Iterator[Story]:
    """The live cluster where Slurm waits three seconds for a boot, and a node takes longer."""
    change = "s/^RebootProgram=.*/RebootProgram=\\/bin\\/true\\nResumeTimeout=3/"
    with cluster.own_configuration():
        each(lambda host: cluster.check(host, f"sed -i '{change}' /etc/slurm/slurm.conf"), HOSTS)
        cluster.check(CONTROLLER, "scontrol reconfigure")
        yield Story(cluster)


def test_a_reboot_that_takes_longer_than_slurm_waits_returns_the_node_as_well(
    impatient: Story,
) -> None:
    story, cluster = impatient, impatient.cluster
    told = Told(cluster, "n1")
    repair_itself(cluster, "n1")
    cluster.inject("n1", LOST)
    wait_drained(story, "n1")
    cluster.check(CONTROLLER, ["scontrol", "reboot", "n1"])
    cluster.kill_daemon("n1", "slurmd")
    cluster.wait(lambda: story.reason("n1").endswith(" : reboot timed out"), 30, "a time-out")
    cluster.reboot("n1")
    wait_idle(story, "n1")
    assert told.times("resumed: repaired, and checks clean") == 1
    assert story.reason("n1") == ""


def test_a_node_stays_out_of_service_where_the_site_has_not_asked_for_its_return(
    story: Story,
) -> None:
    cluster = story.cluster
    cluster.inject("n1", LOST)
    reason = wait_drained(story, "n1")
    cluster.reboot("n1")
    check_health(cluster, "n1")
    assert (story.is_drained("n1"), story.reason("n1")) == (True, reason)
    assert resume(cluster, "n1") == (0, "n1: resumed\n")
    wait_idle(story, "n1")


def test_a_reboot_that_did_not_help_returns_no_node(story: Story) -> None:
    cluster = story.cluster
    repair_itself(cluster, "n1")
    told = Told(cluster, "n1")
    cluster.gpus("n1", **ASKS_FOR_REBOOT)
    wait_drained(story, "n1")
    cluster.reboot("n1")
    check_health(cluster, "n1", 3)
    assert story.is_drained("n1")
    assert told.times("resumed") == 0
    cluster.gpus("n1", gpu0__field__230=0)
    wait_idle(story, "n1")


def test_without_the_reboot_resume_refuses_and_can_be_forced(story: Story) -> None:
    cluster = story.cluster
    cluster.inject("n1", LOST)
    wait_drained(story, "n1")
    rc, said = resume(cluster, "n1")
    assert (rc, story.is_drained("n1")) == (1, True)
    assert "that needs a reboot, and there was none since; reboot it, or use --force" in said
    assert resume(cluster, "n1", "--force") == (0, "n1: resumed\n")
    check_health(cluster, "n1")
    assert story.drained() == []


@pytest.mark.parametrize("by_command", [True, False], ids=["resume", "by itself"])
@pytest.mark.parametrize(
    "words", ["{} RMA 4711, keep out", "{} : ticket 4711", "memory test after: {}", "memory test"]
)
def test_what_an_admin_has_made_of_our_reason_is_the_admins_drain(
    story: Story, words: str, by_command: bool
) -> None:
    cluster = story.cluster
    told = Told(cluster, "n1")
    if not by_command:
        repair_itself(cluster, "n1")
    cluster.inject("n1", LOST)
    edited = words.format(wait_drained(story, "n1"))
    update(cluster, "n1", "State=DRAIN", f"Reason={edited}")
    cluster.reboot("n1")
    if by_command:
        assert resume(cluster, "n1")[0] == 1
    check_health(cluster, "n1")
    refusals = told.times("not resumed: its reason ")
    check_health(cluster, "n1", 3)
    assert (story.is_drained("n1"), story.reason("n1")) == (True, edited)
    assert bool(refusals) is not by_command
    assert told.times("not resumed: its reason ") == refusals


def test_a_waiting_job_may_use_a_node_that_an_admin_returned(story: Story) -> None:
    cluster = story.cluster
    job = story.start("--gres=gpu:3")
    (bad,) = story.nodes(job)
    blocker = story.occupy([node for node in NODES if node != bad])
    cluster.inject(bad, LOST)
    cluster.wait(lambda: story.show(job)["excluded_nodes"] == [bad], 30, "a job kept from its node")
    update(cluster, bad, "State=RESUME")
    said = cluster.run(CONTROLLER, ["slurm-failover", "reconcile"], "slurm")
    assert f"job {job} may run on {bad} again" in said.stdout + said.stderr
    assert story.wait_running(job, restarts=1) == [bad]
    assert story.show(job)["retries"] == 1
    story.end(blocker, 0)
