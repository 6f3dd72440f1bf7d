"""The ground that every other live test stands on."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from cluster import CONTROLLER, NODES, Cluster
from ownership import remove_stale

import docker

CRASHING_RUN = """
import sys
import docker
from ownership import labels_of
docker.from_env().volumes.create(sys.argv[1], labels=labels_of(sys.argv[1], keep=False))
print("made", flush=True)
sys.stdin.read()
"""


def ended(cluster: Cluster, job: int) -> bool:
    return not {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING"} & set(cluster.job_state(job))


def test_four_idle_nodes_have_three_gpu_gres_each(cluster: Cluster) -> None:
    nodes = {name: cluster.node(name) for name in NODES}
    assert {name: node["state"] for name, node in nodes.items()} == {
        name: ["IDLE"] for name in NODES
    }
    assert {name: node["gres"] for name, node in nodes.items()} == dict.fromkeys(NODES, "gpu:3")


def test_a_gpu_job_of_two_nodes_runs_as_its_user_and_ends(cluster: Cluster) -> None:
    job = cluster.sbatch(
        "srun -l hostname; echo $CUDA_VISIBLE_DEVICES; id -un", "-N2", "--gres=gpu:2"
    )
    cluster.wait(lambda: ended(cluster, job), 20, "end of the job")
    assert cluster.job_state(job) == ["COMPLETED"]
    assert sorted(cluster.output(job).split()) == ["0,1", "0:", "1:", "alice", "n1", "n2"]


def test_accounting_keeps_a_row_with_the_comment_for_every_run_of_a_job(cluster: Cluster) -> None:
    script = 'echo run; [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || exec sleep 60'
    job = cluster.sbatch(script, "--comment=keep me")
    cluster.wait(lambda: cluster.output(job) == "run\n", 20, "output of the first run")
    cluster.check(CONTROLLER, ["scontrol", "requeue", str(job)])
    cluster.wait(lambda: cluster.job_state(job) == ["PENDING"], 20, "requeued job")
    cluster.check(CONTROLLER, ["scontrol", "update", f"JobId={job}", "StartTime=now"])
    cluster.wait(lambda: cluster.job_state(job) == ["COMPLETED"], 20, "second end of the job")
    rows = cluster.wait(
        lambda: (
            [row["Comment"] for row in cluster.sacct(job, "State", "Comment")] == ["keep me"] * 2
        ),
        20,
        "two accounting rows",
    )
    assert rows
    assert cluster.output(job).count("run\n") == 2


@pytest.mark.parametrize(
    "host, daemon", [("n1", "slurmd"), ("ctl", "slurmctld"), ("ctl", "slurmdbd")]
)
def test_a_killed_daemon_stays_dead_until_it_is_started(
    cluster: Cluster, host: str, daemon: str
) -> None:
    running = ["cluster-daemon", "running", daemon]
    assert cluster.run(host, running).rc == 0
    cluster.kill_daemon(host, daemon)
    assert cluster.run(host, running).rc == 1
    cluster.start_daemon(host, daemon)
    job = cluster.wait(lambda: cluster.sbatch("true", "-w", "n1"), 30, "accepted job")
    cluster.wait(
        lambda: cluster.job_state(job) == ["COMPLETED"], 30, "end of a job after the restart"
    )


def test_a_dead_slurmd_takes_its_node_down_and_a_reset_brings_it_back(cluster: Cluster) -> None:
    cluster.kill_daemon("n2", "slurmd")
    cluster.wait(lambda: "DOWN" in cluster.node("n2")["state"], 40, "node that is down")
    cluster.reset()
    assert cluster.node("n2")["state"] == ["IDLE"]


def test_a_frozen_controller_is_silent_and_goes_on_when_thawed(cluster: Cluster) -> None:
    cluster.freeze_daemon("ctl", "slurmctld")
    ask = ["squeue"]
    cluster.wait(lambda: cluster.run("n1", ask, timeout=2).rc == 124, 20, "a silent slurmctld")
    cluster.thaw_daemon("ctl", "slurmctld")
    assert cluster.check("n1", ["squeue", "-h"]) == ""


def test_an_injected_record_reads_as_dev_kmsg_would_and_is_stamped_now(cluster: Cluster) -> None:
    first = cluster.inject("n3", "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")
    second = cluster.inject("n3", "something else", level=6)
    assert second == first + 1
    lines = cluster.read("n3", "/var/lib/slurm-failover-test/kmsg").splitlines()
    prefix, _, text = lines[0].partition(";")
    priority, sequence, micros, flags = prefix.split(",")
    assert (priority, int(sequence), flags) == ("3", first, "-")
    assert text == "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    # Containers share their host's monotonic clock.
    assert 0 <= time.clock_gettime(time.CLOCK_MONOTONIC) - int(micros) / 1e6 < 10
    assert lines[1].startswith("6,")


def test_a_reset_leaves_no_trace_on_jobs_nodes_and_files(cluster: Cluster) -> None:
    held = cluster.sbatch("true", "--hold")
    running = cluster.sbatch("sleep 300", "-N4")
    cluster.wait(lambda: cluster.job_state(running) == ["RUNNING"], 20, "running job")
    update = "scontrol update NodeName=n1"
    cluster.check(CONTROLLER, f"{update} State=DRAIN Reason='by hand'")
    cluster.check(CONTROLLER, f"{update} Extra='{{\"a\":1}}' Comment='a comment'")
    cluster.inject("n1", "NVRM: Xid (PCI:0000:3b:00): 79")
    cluster.check("n1", "echo broken >/etc/slurm-failover/settings.toml")
    cluster.check(
        "n1", "mkdir -p /var/lib/slurm-failover/node && touch /var/lib/slurm-failover/node/x"
    )
    cluster.reset()
    assert {cluster.job_state(job)[0] for job in (held, running)} == {"CANCELLED"}
    node = cluster.node("n1")
    assert [node[key] for key in ("state", "reason", "extra", "comment")] == [["IDLE"], "", "", ""]
    assert cluster.read("n1", "/var/lib/slurm-failover-test/kmsg") == ""
    assert "kmsg" in cluster.read("n1", "/etc/slurm-failover/settings.toml")
    assert cluster.run("n1", ["test", "-e", "/var/lib/slurm-failover/node/x"]).rc == 1


def test_a_user_is_no_administrator(cluster: Cluster) -> None:
    done = cluster.run(
        "ctl", ["scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=x"], "bob"
    )
    assert done.rc != 0
    assert cluster.node("n1")["state"] == ["IDLE"]


def test_only_what_a_dead_run_left_behind_is_swept() -> None:
    client = docker.from_env()
    name = f"slurm-failover-crash-{time.monotonic_ns()}"
    command = [sys.executable, "-c", CRASHING_RUN, name]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=Path(__file__).parent, **pipes) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"made\n"
        remove_stale(client)
        assert client.volumes.get(name)
        run.kill()
    remove_stale(client)
    assert name not in {volume.name for volume in client.volumes.list()}
