"""Faults that no kernel log shows, and whose they are: NVML and the BMC on real Slurm daemons.

The nodes' GPUs answer through a stand-in of NVIDIA's library; docker/config says which GPU is
which: GRES 0, 1 and 2 of n1 to n3 are 86, 3b and 5e; on n4 GRES 1 and 2 are MIG instances of 3b.
"""

from __future__ import annotations

import pytest
from cluster import CONTROLLER, HOOK_LOG, NODES, Cluster
from story import LOST, Story

pytestmark = pytest.mark.slurm

BMC = "/var/lib/slurm-failover-test/bmc/sensors"
IS_LOST = 15
HAS_MIG = "n4"


@pytest.fixture
def story(cluster: Cluster) -> Story:
    """The live cluster as the tests below talk to it."""
    return Story(cluster)


def settle(cluster: Cluster, node: str, table: str, line: str) -> None:
    """Set one key of a node's settings."""
    path = "/etc/slurm-failover/settings.toml"
    cluster.check(node, f"grep -q '^.{table}.$' {path} || echo '[{table}]' >>{path}")
    cluster.check(node, f"sed -i '/^.{table}.$/a {line}' {path}")


def start_on(story: Story, node: str, *options: str, jobs: int = 1) -> list[int]:
    """Start flagged jobs on a node without tying them to it: the others are out of service then."""
    others = ",".join(other for other in NODES if other != node)
    change = ["scontrol", "update", f"NodeName={others}"]
    story.cluster.check(CONTROLLER, [*change, "State=DRAIN", "Reason=test"])
    started = [story.start(*options) for _ in range(jobs)]
    story.cluster.check(CONTROLLER, [*change, "State=RESUME"])
    return started


def hook_log(cluster: Cluster, node: str) -> list[str]:
    return cluster.read(node, HOOK_LOG).splitlines()


def heat(cluster: Cluster, node: str) -> None:
    settle(cluster, node, "gpu", "clock_event_seconds = 1")
    cluster.gpus(node, gpu0__clock_events=0x40, gpu0__temperature=97)


def break_pcie(cluster: Cluster, node: str) -> None:
    cluster.gpus(node, gpu0__pcie_width=8)


def brake(cluster: Cluster, node: str) -> None:
    settle(cluster, node, "gpu", "clock_event_seconds = 1")
    cluster.gpus(node, gpu0__clock_events=0x80)


def lose_power_supply(cluster: Cluster, node: str) -> None:
    cluster.check(node, f"sed -i 's/^PS1.*Presence detected/&, Failure detected/' {BMC}")


def lose_gpu(cluster: Cluster, node: str) -> None:
    cluster.gpus(node, gpu0__error=IS_LOST)


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (heat, "NVML: heat has held the clocks of GPU 0000:"),
        (brake, "NVML: the power brake has held the clocks of GPU 0000:"),
        (break_pcie, "PCIe lanes"),
        (lose_power_supply, "BMC: PS1 Status: Presence detected, Failure detected"),
        (lose_gpu, "NVML: GPU 0000:"),
    ],
    ids=["thermal", "power brake", "PCIe", "power supply", "lost GPU"],
)
def test_what_only_nvml_or_the_bmc_shows_drains_the_node_and_moves_the_job(
    story: Story, break_it, words: str
) -> None:
    (job,) = start_on(story, "n1", "--gres=gpu:3")
    break_it(story.cluster, "n1")

    reason = story.wait_drained("n1")
    assert reason.startswith("slurm-failover: ")
    assert words in reason
    second = story.wait_running(job, restarts=1)
    assert "n1" not in second
    view = story.show(job)
    assert (view["state"], view["retries"], view["excluded_nodes"]) == ("resumed", 1, ["n1"])
    assert words in view["cause"]
    assert story.drained() == ["n1"]


def test_a_fault_on_one_jobs_gpu_moves_that_job_alone(story: Story) -> None:
    spared, hit = start_on(story, "n2", "--gres=gpu:1", jobs=2)
    story.cluster.gpus("n2", gpu0__remap_failed=1)

    reason = story.wait_drained("n2")
    assert reason.startswith("slurm-failover: NVML: a row of GPU 0000:3b:00's memory")
    assert reason.endswith(f"(job {hit})")
    assert "n2" not in story.wait_running(hit, restarts=1)
    assert "RUNNING" in story.cluster.job_state(spared)
    assert "DRAIN" in story.cluster.node("n2")["state"]
    story.end(spared, 0)
    story.wait_shown(spared, "Completed")
    assert story.show(spared)["retries"] == 0
    assert story.cluster.job(spared)["restart_cnt"] == 0


def test_a_job_that_fails_beside_another_jobs_broken_gpu_is_not_moved(story: Story) -> None:
    failing = story.start("--nodelist=n3", "--gres=gpu:1")
    story.cluster.inject("n3", LOST)
    story.end(failing, 4)

    view = story.wait_shown(failing, "Pending - internalerror")
    cause = "the program ended with exit code 4"
    assert view["because"] == f"{cause}, and no node shows a hardware fault that hit this job"
    assert story.wait_drained("n3").startswith("slurm-failover: Xid 79 on GPU 0000:3b:00")


def test_a_gpu_with_mig_takes_the_jobs_of_its_instances_and_no_other(story: Story) -> None:
    spared, first, second = start_on(story, HAS_MIG, "--gres=gpu:1", jobs=3)
    story.cluster.gpus(HAS_MIG, gpu1__ecc=2)

    assert "GPU 0000:3b:00" in story.wait_drained(HAS_MIG)
    for job in (first, second):
        assert HAS_MIG not in story.wait_running(job, restarts=1)
    assert "RUNNING" in story.cluster.job_state(spared)
    story.end(spared, 0)
    story.wait_shown(spared, "Completed")


def test_where_the_gpu_can_not_be_mapped_the_job_is_denied_with_a_sentence(story: Story) -> None:
    cluster = story.cluster
    settle(cluster, "n1", "slurm", 'slurmd = "/bin/false"')
    job = story.start("--nodelist=n1", "--gres=gpu:1")
    cluster.inject("n1", LOST)
    story.end(job, 1)

    view = story.wait_shown(job, "Pending - internalerror")
    assert "Xid 79 on GPU 0000:3b:00" in view["because"]
    assert "whether that hit this job can not be told" in view["because"]
    assert story.wait_drained("n1").startswith("slurm-failover: Xid 79")


def test_an_unfit_node_starts_no_job_and_the_job_loses_no_retry(story: Story) -> None:
    cluster = story.cluster
    cluster.check(CONTROLLER, "scontrol update NodeName=n[2-4] State=DRAIN Reason=test")
    cluster.check("n1", "chmod -x /opt/slurm-failover/share/slurm-failover/prolog/healthcheck.sh")
    try:
        cluster.gpus("n1", gpu2__error__nvmlDeviceGetUUID=16)
        job = story.submit("--gres=gpu:2")
        assert story.wait_drained("n1").startswith(
            "slurm-failover: NVML: GPU 0000:5e:00 requires a reset"
        )
        cluster.check(CONTROLLER, "scontrol update NodeName=n[2-4] State=RESUME")
        cluster.wait(lambda: cluster.job_state(job) == ["PENDING"], 20, "a job that waits again")
        assert not cluster.job(job)["hold"]
        cluster.check(CONTROLLER, ["scontrol", "update", f"JobId={job}", "StartTime=now"])
        cluster.wait(lambda: "RUNNING" in cluster.job_state(job), 20, "a start elsewhere")
        view = story.show(job)
        assert "n1" not in view["nodes"]
        assert (view["retries"], view["excluded_nodes"]) == (0, [])
    finally:
        cluster.check(
            "n1", "chmod +x /opt/slurm-failover/share/slurm-failover/prolog/healthcheck.sh"
        )


def test_a_node_that_an_admin_returns_is_drained_again_for_a_state_and_not_for_a_record(
    story: Story,
) -> None:
    cluster = story.cluster
    cluster.inject("n1", LOST)
    cluster.gpus("n2", gpu0__remap_failed=1)
    for node in ("n1", "n2"):
        story.wait_drained(node)
        cluster.check(CONTROLLER, ["scontrol", "update", f"NodeName={node}", "State=RESUME"])

    assert "could not be remapped" in story.wait_drained("n2")
    looks = len(hook_log(cluster, "n1"))
    last = cluster.check("n1", "stat -c %Y /var/lib/slurm-failover/node/ledger.json")
    cluster.wait(
        lambda: (
            int(cluster.check("n1", "stat -c %Y /var/lib/slurm-failover/node/ledger.json"))
            > int(last) + 3
        ),
        30,
        "two more health checks",
    )
    assert story.drained() == ["n2"]
    assert len(hook_log(cluster, "n1")) == looks


def test_when_nvml_hangs_jobs_start_and_end_in_time_and_nothing_is_drained(story: Story) -> None:
    cluster = story.cluster
    settle(cluster, "n1", "sources", "nvml_timeout = 2")
    before = len(hook_log(cluster, "n1"))
    cluster.gpus("n1", gpu1__hang__nvmlDeviceGetTemperature=1)
    start = cluster.check("n1", ["date", "+%s"])
    job = story.start("--nodelist=n1", comment=None)
    story.end(job, 0)
    story.wait_shown(job, "Completed", 40)
    cluster.wait(lambda: cluster.node("n1")["state"] == ["IDLE"], 30, "an idle node")
    took = int(cluster.check("n1", ["date", "+%s"])) - int(start)

    assert took < 40
    said = [line for line in hook_log(cluster, "n1")[before:] if "can not see" in line]
    assert len(said) == 1
    assert "NVML stopped answering at GPU 0000:86:00 within 2 s" in said[0]
    assert story.drained() == []


def test_a_node_without_nvml_says_once_what_it_can_not_see(story: Story) -> None:
    cluster = story.cluster
    before = len(hook_log(cluster, "n1"))
    cluster.check("n1", ["cluster-gpus", "absent"])
    for _ in range(2):
        job = story.start("--nodelist=n1", comment=None)
        story.end(job, 0)
        story.wait_shown(job, "Completed")
    said = [line for line in hook_log(cluster, "n1")[before:] if "can not see" in line]
    assert len(said) == 1
    assert said[0].endswith("can not see the GPUs: neither NVIDIA's driver nor its library is here")
    assert story.drained() == []


def resume(cluster: Cluster, node: str, *names: str) -> tuple[int, str]:
    done = cluster.run(node, ["slurm-failover", "resume", *names])
    return done.rc, done.stdout + done.stderr


def test_resume_looks_at_the_node_and_lifts_only_our_own_drain(story: Story) -> None:
    cluster = story.cluster
    cluster.gpus("n1", gpu0__remap_failed=1)
    story.wait_drained("n1")

    rc, said = resume(cluster, "n1")
    assert rc == 1
    assert "n1: stays out of service: NVML: a row of GPU 0000:3b:00's memory" in said
    rc, said = resume(cluster, "n2", "n1")
    assert (rc, story.is_drained("n1")) == (1, True)
    assert "n1: stays out of service: it is looked at where it is" in said

    cluster.gpus("n1", gpu0__remap_failed=0)
    assert resume(cluster, "n1")[0] == 0
    assert story.drained() == []
    cluster.check(CONTROLLER, "scontrol update NodeName=n1 State=DRAIN Reason='memory test'")
    rc, said = resume(cluster, "n1")
    assert (rc, story.reason("n1")) == (1, "memory test")
    assert "its reason is not ours: memory test" in said


def test_a_waiting_job_may_use_its_node_again_once_it_is_back_in_service(story: Story) -> None:
    cluster = story.cluster
    job = story.start("--gres=gpu:3", "--exclude=n4")
    (bad,) = story.nodes(job)
    blocker = story.occupy([node for node in NODES if node != bad])
    cluster.gpus(bad, gpu0__remap_failed=1)
    cluster.wait(
        lambda: bad in story.show(job)["excluded_nodes"], 30, f"a job that keeps away from {bad}"
    )
    cluster.gpus(bad, gpu0__remap_failed=0)
    rc, said = resume(cluster, bad)
    assert rc == 0, said

    assert story.wait_running(job, restarts=1) == [bad]
    view = story.show(job)
    assert (view["retries"], view["excluded_nodes"]) == (1, ["n4"])
    story.end(blocker, 0)


@pytest.mark.parametrize("wanted", [True, False])
def test_a_drain_for_a_reset_is_lifted_after_it_only_where_the_site_wants_that(
    story: Story, wanted: bool
) -> None:
    cluster = story.cluster
    if wanted:
        settle(cluster, "n1", "nodes", "resume_after_repair = true")
    cluster.gpus("n1", gpu0__error__nvmlDeviceGetUUID=16)
    story.wait_drained("n1")
    ledger = "/var/lib/slurm-failover/node/ledger.json"
    cluster.gpus("n1", gpu0__error__nvmlDeviceGetUUID=0)
    if wanted:
        cluster.wait(lambda: not story.is_drained("n1"), 30, "a return to service")
        return
    repaired = int(cluster.check("n1", ["date", "+%s"]))
    cluster.wait(
        lambda: int(cluster.check("n1", ["stat", "-c", "%Y", ledger])) > repaired + 4,
        30,
        "two health checks after the reset",
    )
    assert story.is_drained("n1")
