"""Whose GPU it was, where Slurm, the driver and NVML count differently: docker/config says how."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import AT_WORK, CONTROLLER, HEALTH_CHECK, HOSTS, Cluster, each
from story import LOST, Story
from test_gpu import hook_log, start_on

pytestmark = pytest.mark.slurm

SETTINGS = "/etc/slurm-failover/settings.toml"
GRES_0, GRES_1 = "gpu1", "gpu0"
"""What NVML calls the GPUs that Slurm gives out first and second on n1 to n3."""


@pytest.fixture
def story(cluster: Cluster) -> Iterator[Story]:
    """The live cluster with two nodes in service, n1 and n3, so that no job asks for its nodes."""
    cluster.check(CONTROLLER, "scontrol update NodeName=n2,n4 State=DRAIN Reason=test")
    yield Story(cluster)


def take_nvml_away(cluster: Cluster, node: str) -> None:
    """Let a node have no NVML, and no look that has seen it before."""
    forget = "rm -rf /var/lib/slurm-failover/node"
    cluster.check(
        node, f"flock {AT_WORK} sh -c 'sed -i \"/^.sources.$/a nvml = false\" {SETTINGS}; {forget}'"
    )


def start_with_differing_gpus(story: Story) -> tuple[int, int]:
    """A job on GRES 0 of n3, and one on GRES 0 of n1 and GRES 1 of n3."""
    alone = story.start("--nodelist=n3", "--gres=gpu:1", comment=None)
    spread = story.start("--gres=gpu:1", nodes=2)
    detail = story.cluster.job(spread)["gres_detail"]
    assert detail == ["gpu:1(IDX:0)", "gpu:1(IDX:1)"]
    return alone, spread


def test_a_job_that_holds_another_gpu_on_each_node_is_moved_for_its_own(story: Story) -> None:
    _, spread = start_with_differing_gpus(story)
    story.cluster.gpus("n3", **{f"{GRES_1}__remap_failed": 1})
    assert story.wait_drained("n3").endswith(f"(job {spread})")
    story.cluster.check(CONTROLLER, "scontrol update NodeName=n2,n4 State=RESUME")
    assert "n3" not in story.wait_running(spread, restarts=1)
    assert story.show(spread)["retries"] == 1


def test_a_job_that_holds_another_gpu_on_each_node_stays_for_its_neighbours(story: Story) -> None:
    alone, spread = start_with_differing_gpus(story)
    before = story.cluster.read("n3", "/var/log/slurm/slurm-failover.log")
    story.cluster.gpus("n3", **{f"{GRES_0}__remap_failed": 1})
    assert story.wait_drained("n3").endswith(f"(job {alone})")
    said = story.cluster.read("n3", "/var/log/slurm/slurm-failover.log")[len(before) :]
    assert "can not be told" not in said
    assert "RUNNING" in story.cluster.job_state(spread)
    because = story.show(spread)["because"]
    assert because.startswith("runs on, since it is not known to hold what broke on n3, which is ")
    assert because.endswith(f"(job {alone})")
    story.end(spread, 0)
    story.wait_shown(spread, "Completed")
    assert story.show(spread)["retries"] == 0


def test_a_link_that_is_down_moves_the_job_of_its_gpu_alone(story: Story) -> None:
    cluster = story.cluster
    cluster.gpus("n1", gpu0__links=4, gpu1__links=4, gpu2__links=4)
    cluster.check(CONTROLLER, "scontrol update NodeName=n3 State=DRAIN Reason=test")
    spared, hit = (story.start("--gres=gpu:1") for _ in range(2))
    cluster.check(CONTROLLER, "scontrol update NodeName=n2,n3,n4 State=RESUME")
    cluster.gpus("n1", **{f"{GRES_1}__link2": 0})
    reason = story.wait_drained("n1")
    assert reason.startswith("slurm-failover: NVML: 1 of 4 NVLinks of GPU 0000:3b:00 are down")
    assert reason.endswith(f"(job {hit})")
    assert story.wait_running(hit, restarts=1) != ["n1"]
    assert "RUNNING" in cluster.job_state(spared)
    story.end(spared, 0)
    story.wait_shown(spared, "Completed")


def test_without_nvml_and_any_list_of_gpus_a_job_that_holds_them_all_is_moved(
    story: Story,
) -> None:
    cluster = story.cluster
    take_nvml_away(cluster, "n1")
    (whole,) = start_on(story, "n1", "--gres=gpu:3")
    cluster.inject("n1", LOST)
    reason = story.wait_drained("n1")
    assert reason.startswith("slurm-failover: Xid 79 on GPU 0000:3b:00")
    assert reason.endswith(f"(job {whole})")
    assert "n1" not in story.wait_running(whole, restarts=1)
    assert story.show(whole)["retries"] == 1


def test_without_nvml_the_drivers_own_list_tells_whose_a_gpu_is(story: Story) -> None:
    cluster = story.cluster
    take_nvml_away(cluster, "n1")
    listed = "/var/lib/slurm-failover-test/proc/driver/nvidia/gpus"
    for pci, minor in (("0000:86:00.0", 1), ("0000:3b:00.0", 2), ("0000:5e:00.0", 0)):
        words = f"GPU UUID: GPU-{minor}\\nDevice Minor: {minor}\\n"
        cluster.check(
            "n1", f"install -d {listed}/{pci}; printf '{words}' >{listed}/{pci}/information"
        )
    spared, hit = start_on(story, "n1", "--gres=gpu:1", jobs=2)
    before = len(hook_log(cluster, "n1"))
    cluster.inject("n1", LOST)
    assert story.wait_drained("n1").endswith(f"(job {hit})")
    assert "n1" not in story.wait_running(hit, restarts=1)
    story.end(spared, 4)
    view = story.wait_shown(spared, "Pending - internalerror")
    cause = "the program ended with exit code 4"
    assert view["because"] == f"{cause}, and no node shows a hardware fault that hit this job"
    assert "can not be told" not in "".join(hook_log(cluster, "n1")[before:])


PLAIN = "/var/lib/slurm-failover-test/plain"
"""A folder with files that are no devices, which gres.conf names as the GPUs of n4."""


@pytest.fixture
def without_devices(cluster: Cluster) -> Iterator[Story]:
    """The live cluster where gres.conf names files that are no devices as n4's GPUs, of which
    slurmd names none to its hooks, and where nothing lists n4's GPUs.
    """
    conf, line = "/etc/slurm/gres.conf", f"NodeName=n4 Name=gpu File={PLAIN}/nvidia[0-2]"
    refused = "slurmd -G 2>&1 | grep -c 'is not a valid character or block device' || true"
    update = ["scontrol", "update", "NodeName=n4", "State=RESUME"]

    def has_refused(files: int) -> bool:
        if cluster.node("n4")["state"] != ["IDLE"]:
            cluster.run(CONTROLLER, update)
            return False
        return int(cluster.check("n4", refused)) == files

    def change(command: str, files: int) -> None:
        each(lambda host: cluster.check(host, command), HOSTS)
        cluster.check(CONTROLLER, "scontrol reconfigure")
        cluster.wait(lambda: has_refused(files), 30, f"{files} files that slurmd refuses")

    cluster.check(
        "n4", f"install -d {PLAIN}; touch {PLAIN}/nvidia0 {PLAIN}/nvidia1 {PLAIN}/nvidia2"
    )
    take_nvml_away(cluster, "n4")
    try:
        change(f"sed -i.devices '/^NodeName=n4 /d' {conf}; echo '{line}' >>{conf}", 3)
        yield Story(cluster)
        cluster.check(CONTROLLER, "squeue -h -o %A | xargs -r scancel")
    finally:
        change(f"mv {conf}.devices {conf}", 0)


def test_a_failed_job_whose_gpus_slurmd_does_not_name_is_denied_with_the_doubt(
    without_devices: Story,
) -> None:
    story, cluster = without_devices, without_devices.cluster
    doubt = "Xid 79 on GPU 0000:3b:00: GPU has fallen off the bus; whether that hit this job"
    before = len(hook_log(cluster, "n4"))
    cluster.check("n4", f"chmod -x {HEALTH_CHECK}")
    try:
        (job,) = start_on(story, "n4", "--gres=gpu:1")
        cluster.inject("n4", LOST)
        story.end(job, 1)
        view = story.wait_shown(job, "Pending - internalerror")
    finally:
        cluster.check("n4", f"chmod +x {HEALTH_CHECK}")
    assert view["because"] == (
        "the program ended with exit code 1, and no hardware fault is known that hit this job; "
        f"n4: {doubt} can not be told"
    )
    assert story.reason("n4").startswith("slurm-failover: Xid 79 on GPU 0000:3b:00")
    said = "".join(hook_log(cluster, "n4")[before:])
    assert f"job {job} failed: {doubt} can not be told" in said


def test_a_job_that_holds_all_gpus_of_which_slurmd_names_none_is_moved(
    without_devices: Story,
) -> None:
    story, cluster = without_devices, without_devices.cluster
    (job,) = start_on(story, "n4", "--gres=gpu:3")
    cluster.inject("n4", LOST)
    assert story.wait_drained("n4").endswith(f"(job {job})")
    assert "n4" not in story.wait_running(job, restarts=1)
    assert story.show(job)["excluded_nodes"] == ["n4"]
