"""What must hold around the flows: no call where all is well, twice is once, errors that help."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator

import pytest
from cluster import CONTROLLER, HOSTS, NODES, Cluster
from story import LOST, Story

pytestmark = pytest.mark.slurm

HOOKS = "/opt/slurm-failover/share/slurm-failover"
SETTINGS = "/etc/slurm-failover/settings.toml"
COUNTER = """#!/bin/sh
echo "$(hostname) ${0##*/} $*" >>/shared/calls
exec "/usr/bin/${0##*/}" "$@"
"""


@pytest.fixture
def story(cluster: Cluster) -> Story:
    """The live cluster as the tests below talk to it."""
    return Story(cluster)


def count_calls(cluster: Cluster) -> None:
    """From now on every Slurm command of a hook is written to /shared/calls."""
    cluster.check(
        CONTROLLER,
        "rm -rf /shared/bin /shared/calls; mkdir /shared/bin; : >/shared/calls; "
        "chmod 666 /shared/calls; for name in scontrol squeue sacct; do "
        f"printf %s {shlex.quote(COUNTER)} >/shared/bin/$name; done; chmod 755 /shared/bin/*",
    )
    for host in HOSTS:
        cluster.check(host, f"printf '\\n[slurm]\\nbin = \"/shared/bin\"\\n' >>{SETTINGS}")


def wait_for_health_check(cluster: Cluster, node: str, sequence: int) -> None:
    """Wait until a health check has judged the log of a node up to a record."""
    ledger = "/var/lib/slurm-failover/node/ledger.json"
    cluster.wait(
        lambda: json.loads(cluster.read(node, ledger) or "{}").get("cursor") == sequence,
        30,
        f"a health check of {node}",
    )


def test_a_healthy_end_and_a_healthy_health_check_make_no_call(story: Story) -> None:
    count_calls(story.cluster)
    job = story.start(comment=None, nodes=4)
    story.cluster.check(CONTROLLER, ": >/shared/calls")
    sequences = {n: story.cluster.inject(n, "nvme nvme0: 8/0/0 queues", 6) for n in NODES}
    story.end(job, 1)
    story.cluster.wait(lambda: story.cluster.job_state(job) == ["FAILED"], 30, "the job's end")
    for node, sequence in sequences.items():
        wait_for_health_check(story.cluster, node, sequence)
    assert story.cluster.read(CONTROLLER, "/shared/calls") == ""

    story.cluster.inject("n1", LOST)
    story.wait_drained("n1")
    assert "n1 scontrol update NodeName=n1 State=DRAIN" in story.cluster.read(
        CONTROLLER, "/shared/calls"
    )


def test_the_requests_for_one_end_do_not_grow_with_the_healthy_nodes(story: Story) -> None:
    count_calls(story.cluster)
    counts = []
    for nodes in (1, 4):
        job = story.start(nodes=nodes)
        story.cluster.check(CONTROLLER, ": >/shared/calls")
        story.end(job, 1)
        # `status` would ask Slurm as well, and its requests are none of the hooks'.
        story.cluster.wait(lambda: "internalerror" in story.comment(job), 30, "the denial")  # noqa: B023
        calls = story.cluster.read(CONTROLLER, "/shared/calls").splitlines()
        # How often the decider asks whether the job's nodes are done depends on the clock.
        counts.append(len([call for call in calls if " show job " not in call]))
    assert counts[0] == counts[1] <= 8


def test_hooks_that_run_twice_count_once(story: Story) -> None:
    job = story.start(nodes=2)
    first = story.nodes(job)
    start = story.cluster.job(job)["start_time"]["number"]
    story.cluster.inject(first[0], LOST)
    story.end(job, 1)
    story.wait_running(job, restarts=1)
    again = (
        f"SLURM_JOB_ID={job} SLURM_JOB_NODELIST={','.join(first)} SLURM_JOB_START_TIME={start} "
        f"SLURM_JOB_COMMENT=failover SLURM_JOB_EXIT_CODE=256 SLURMD_NODENAME={first[0]}"
    )
    before = story.cluster.node(first[0])
    for _ in range(2):
        story.cluster.check(first[0], f"{again} {HOOKS}/epilog/epilog.sh")
        story.cluster.check(CONTROLLER, f"{again} {HOOKS}/epilog/epilog_slurmctld.sh", "slurm")
        story.cluster.check(CONTROLLER, ["slurm-failover", "reconcile"], "slurm")
    after = story.cluster.node(first[0])
    view = story.show(job)
    assert (view["display"], view["retries"], len(view["history"])) == ("Running", 1, 1)
    assert story.cluster.job(job)["restart_cnt"] == 1
    assert (after["reason"], after["extra"]) == (before["reason"], before["extra"])


def test_a_node_that_an_admin_resumed_is_not_drained_again_for_the_old_record(
    story: Story,
) -> None:
    story.cluster.inject("n1", LOST)
    story.wait_drained("n1")
    story.cluster.check(CONTROLLER, ["scontrol", "update", "NodeName=n1", "State=RESUME"])
    sequence = story.cluster.inject("n1", "usb 1-1: new high-speed USB device", 6)
    wait_for_health_check(story.cluster, "n1", sequence)
    assert not story.is_drained("n1")

    story.cluster.inject("n1", LOST)
    story.wait_drained("n1")


@pytest.fixture
def no_health_check(cluster: Cluster) -> Iterator[None]:
    """Node n1 without its HealthCheckProgram, so that its Prolog is the first to look."""
    hook = f"{HOOKS}/prolog/healthcheck.sh"
    cluster.check("n1", f"mv {hook} {hook}.kept && ln -s /bin/true {hook}")
    yield
    cluster.check("n1", f"mv -f {hook}.kept {hook}")


@pytest.mark.usefixtures("no_health_check")
def test_a_fault_before_a_job_starts_sends_the_job_elsewhere_without_a_retry(story: Story) -> None:
    blocker = story.occupy(["n2", "n3", "n4"])
    story.cluster.inject("n1", LOST)
    job = story.submit()
    assert story.wait_drained("n1").startswith("slurm-failover: Xid 79")
    story.cluster.wait(lambda: story.cluster.job_state(job) == ["PENDING"], 30, "a requeue")
    assert story.cluster.job(job)["hold"] is False

    # Slurm alone would let the job wait for two minutes.
    story.end(blocker, 0)
    assert story.wait_running(job, restarts=1) != ["n1"]
    assert story.show(job)["retries"] == 0


def test_a_bad_settings_file_is_an_error_with_file_line_and_key(story: Story) -> None:
    bad = "[sources]\nkmsg = 5\n"
    for host in HOSTS:
        story.cluster.check(host, f"printf '{bad}' >{SETTINGS}")
    for command in (["status"], ["nodes"], ["reconcile"]):
        done = story.cluster.run(CONTROLLER, ["slurm-failover", *command], user="alice")
        assert done.rc == 1
        assert f"{SETTINGS}: line 2: [sources] kmsg: must be a string, not 5" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_bad_settings_file_gives_no_verdict(story: Story) -> None:
    job = story.start(nodes=4)
    for node in NODES:
        story.cluster.check(node, f"printf '[sources]\nkmgs = \"x\"\n' >{SETTINGS}")
        story.cluster.inject(node, LOST)
    story.end(job, 1)
    view = story.wait_shown(job, "Pending - internalerror")
    assert view["retries"] == 0
    assert story.drained() == []


@pytest.fixture
def short_wait(cluster: Cluster) -> None:
    """A controller that waits for the Epilogs of a job's nodes no longer than three seconds."""
    cluster.check(CONTROLLER, f"printf '\\n[failover]\\nwait_for_nodes = 3\\n' >>{SETTINGS}")


@pytest.fixture
def stuck(cluster: Cluster) -> Iterator[Callable[[str], None]]:
    """Lets the Epilog of a node, at its next run, wait until the test is over or lets it go on."""
    hook, gates = f"{HOOKS}/epilog/epilog.sh", "/shared/epilog"
    nodes: list[str] = []

    def block(node: str) -> None:
        wrapper = f"#!/bin/sh\nread -r word <{gates}.{node}\nexec {hook}.kept\n"
        cluster.check(
            node,
            f"mkfifo {gates}.{node} && mv {hook} {hook}.kept && "
            f"printf %s {shlex.quote(wrapper)} >{hook} && chmod 755 {hook}",
        )
        nodes.append(node)

    yield block
    for node in nodes:
        cluster.check(
            node, f"mv -f {hook}.kept {hook}; timeout 5 sh -c 'echo go >{gates}.{node}'; :"
        )
        cluster.check(node, f"rm -f {gates}.{node}")


@pytest.mark.usefixtures("short_wait")
def test_a_job_is_denied_without_the_node_whose_epilog_never_ends(
    story: Story, stuck: Callable[[str], None]
) -> None:
    job = story.start(nodes=2)
    late = story.nodes(job)[1]
    stuck(late)
    story.end(job, 1)
    view = story.wait_shown(job, "Pending - internalerror")
    assert "COMPLETING" in story.cluster.job_state(job)
    assert "a node's Epilog has not ended" in view["because"]
    assert story.drained() == []


@pytest.mark.usefixtures("short_wait")
def test_a_failover_is_decided_without_the_node_whose_epilog_never_ends(
    story: Story, stuck: Callable[[str], None]
) -> None:
    job = story.start(nodes=2)
    bad, late = story.nodes(job)
    stuck(late)
    story.cluster.inject(bad, LOST)
    story.end(job, 1)
    story.wait_drained(bad)
    story.cluster.wait(lambda: story.show(job)["retries"] == 1, 30, "a decision")
    assert "COMPLETING" in story.cluster.job_state(job)
    story.cluster.check(late, f"echo go >/shared/epilog.{late}", timeout=10)
    assert bad not in story.wait_running(job, restarts=1)
