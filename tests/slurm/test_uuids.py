"""GPUs that Slurm names by their UUIDs, as it does where it has detected them itself.

Slurm's own stand-in of that detection is fake_gpus.conf: it gives GPUs the UUIDs that AutoDetect
would find. From 25.11 on AutoDetect finds those of whole GPUs, before only those of MIG instances,
and slurmd puts every UUID that it knows into a Prolog's and Epilog's CUDA_VISIBLE_DEVICES
(gres_common_prep_set_env in gres_common.c). A job sees them from 26.05 on only with gres.conf's
``Flags=env_uuid``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import CONTROLLER, Cluster
from story import LOST, Story
from test_gpu import settle, start_on

pytestmark = pytest.mark.slurm

NODE = "n2"
DETECTED = "/etc/slurm/fake_gpus.conf"
FOLDER = "/var/lib/slurm-failover-test"
# Sorted by their files' names, as Slurm sorts what it has detected: GRES 0, 1 and 2.
UUIDS = {
    "nvidia0": "GPU-5e5e5e5e-0000-0000-0000-000000000000",
    "nvidia1": "GPU-86868686-0000-0000-0000-000000000000",
    "nvidia2": "GPU-3b3b3b3b-0000-0000-0000-000000000000",
}
SECOND = "0000:86:00"


def restart(cluster: Cluster) -> None:
    """Let slurmd look at its GPUs anew."""
    cluster.kill_daemon(NODE, "slurmd")
    cluster.start_daemon(NODE, "slurmd")


@pytest.fixture
def story(cluster: Cluster) -> Iterator[Story]:
    """The live cluster, one node's GPUs having been detected by Slurm with their UUIDs."""
    lines = [
        f"(null)|4|(null)|(null)|{FOLDER}/{name}|{uuid}|nvidia_gpu_env,env_uuid"
        for name, uuid in UUIDS.items()
    ]
    cluster.check(NODE, ["bash", "-c", f"printf '%s\\n' \"$@\" >{DETECTED}", "detect", *lines])
    restart(cluster)
    yield Story(cluster)
    cluster.check(CONTROLLER, "squeue -h -o %A | xargs -r scancel")
    cluster.check(NODE, ["rm", DETECTED])
    restart(cluster)


def seen_by_jobs(cluster: Cluster) -> str:
    """What CUDA_VISIBLE_DEVICES holds in a job with all the node's GPUs."""
    show = ["srun", f"--nodelist={NODE}", "--gres=gpu:3", "printenv", "CUDA_VISIBLE_DEVICES"]
    return cluster.check(CONTROLLER, show, user="alice").strip()


def test_a_fault_on_the_gpu_behind_a_uuid_moves_that_job_alone(story: Story) -> None:
    cluster = story.cluster
    assert seen_by_jobs(cluster) == ",".join(UUIDS.values())
    spared, hit = start_on(story, NODE, "--gres=gpu:1", jobs=2)
    cluster.gpus(NODE, gpu1__remap_failed=1)

    assert f"GPU {SECOND}" in story.wait_drained(NODE)
    assert NODE not in story.wait_running(hit, restarts=1)
    assert "RUNNING" in cluster.job_state(spared)
    story.end(spared, 0)
    story.wait_shown(spared, "Completed")
    assert story.show(spared)["retries"] == 0


def test_a_uuid_tells_whose_gpu_it_was_also_where_slurmds_list_can_not_be_read(
    story: Story,
) -> None:
    cluster = story.cluster
    settle(cluster, NODE, "slurm", 'slurmd = "/bin/false"')
    spared, hit = start_on(story, NODE, "--gres=gpu:1", jobs=2)
    cluster.inject(NODE, LOST.replace("0000:3b:00", SECOND))
    assert f"Xid 79 on GPU {SECOND}" in story.wait_drained(NODE)
    story.end(hit, 1)
    story.end(spared, 4)

    assert NODE not in story.wait_running(hit, restarts=1, seconds=60)
    view = story.wait_shown(spared, "Pending - internalerror")
    assert view["because"] == (
        "the program ended with exit code 4, and no node shows a hardware fault that hit this job"
    )
