"""doctor finds on a live cluster what was broken there, and names the remedy."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cluster import CONTROLLER, Cluster

HOOK = "/opt/slurm-failover/share/slurm-failover/epilog/epilog.sh"

# A plugin of Slurm 23.11, as far as Slurm looks at it.
OLD_PLUGIN = (
    'const char plugin_name[] = "failover", plugin_type[] = "spank"; '
    "const unsigned plugin_version = 0x170b00;"
)


@pytest.fixture(autouse=True)
def _sound(cluster: Cluster) -> None:
    cluster.check("n1", "install -d /var/lib/slurm-failover-test/sys")


def lines(cluster: Cluster, host: str, user: str = "root") -> tuple[int, dict[str, dict[str, Any]]]:
    """doctor's exit status and its lines by check."""
    done = cluster.run(host, ["slurm-failover", "doctor", "--json"], user)
    assert done.stdout, done.stderr
    return done.rc, {line["check"]: line for line in json.loads(done.stdout)}


@pytest.mark.parametrize(
    ("breaks", "mends", "check", "words"),
    [
        (f"chmod 644 {HOOK}", f"chmod 755 {HOOK}", "Epilog", "can not be run by root"),
        (f"chmod 777 {HOOK}", f"chmod 755 {HOOK}", "Epilog", "can be changed by others"),
        (
            "cluster-gpus absent",
            "cluster-gpus reset",
            "NVML",
            "while Slurm gives out 3 GPUs here",
        ),
        (
            "chmod 666 /var/lib/slurm-failover-test/kmsg",
            "chmod 644 /var/lib/slurm-failover-test/kmsg",
            "kernel log",
            "is no evidence",
        ),
        (
            "mkdir -p /etc/slurm-failover/rules.d; echo x >/etc/slurm-failover/rules.d/x.toml",
            "rm /etc/slurm-failover/rules.d/x.toml",
            "rules",
            "x.toml",
        ),
        (
            "echo '[nonsense]' >>/etc/slurm-failover/settings.toml",
            "sed -i '$d' /etc/slurm-failover/settings.toml",
            "settings",
            "unknown table [nonsense]",
        ),
        (
            "chmod 666 /etc/slurm-failover/settings.toml",
            "chmod 644 /etc/slurm-failover/settings.toml",
            "settings",
            "can be changed by others than root",
        ),
        (
            "mv /usr/lib/slurm-failover/slurm_failover.so /root/so.away; "
            f"echo '{OLD_PLUGIN}' | gcc -shared -o /usr/lib/slurm-failover/slurm_failover.so -xc -",
            "mv /root/so.away /usr/lib/slurm-failover/slurm_failover.so",
            "sbatch --failover",
            "ncompatible",
        ),
    ],
)
def test_what_is_broken_on_a_node_is_named(
    cluster: Cluster, breaks: str, mends: str, check: str, words: str
) -> None:
    sound, before = lines(cluster, "n1")
    assert (sound < 2, before[check]["level"]) == (True, "ok"), before
    cluster.check("n1", breaks)
    try:
        status, found = lines(cluster, "n1")
    finally:
        cluster.check("n1", mends)
    assert status > 0
    assert found[check]["level"] != "ok", found
    assert words in found[check]["found"]
    assert found[check]["remedy"]


def test_a_state_folder_that_slurm_user_can_not_write_is_named(cluster: Cluster) -> None:
    cluster.check(CONTROLLER, "chown root: /var/lib/slurm-failover")
    try:
        status, found = lines(cluster, CONTROLLER)
    finally:
        cluster.check(CONTROLLER, "chown slurm: /var/lib/slurm-failover")
    assert status == 2
    assert found["state folder"]["remedy"] == ("install -d -m 755 -o slurm /var/lib/slurm-failover")
    assert lines(cluster, CONTROLLER)[0] < 2


def test_a_job_that_another_tool_restarts_as_well_is_named(cluster: Cluster) -> None:
    comment = 'failover {"APS": {"auto_resume_mode": "requeue"}}'
    job = cluster.sbatch("true", f"--comment={comment}", "--hold")
    _, found = lines(cluster, CONTROLLER)
    assert f"by job {job}:" in found["other tools"]["found"]


def test_a_slurmctld_that_is_down_is_told_in_one_line(cluster: Cluster) -> None:
    cluster.kill_daemon(CONTROLLER, "slurmctld")
    try:
        done = cluster.run("n1", ["slurm-failover", "doctor"], timeout=120)
    finally:
        cluster.start_daemon(CONTROLLER, "slurmctld")
    assert done.rc == 2
    assert done.stdout.startswith("error   slurmctld: scontrol show config: ")
    assert "still looking at Slurm's configuration" in done.stderr


def test_an_ordinary_user_may_look(cluster: Cluster) -> None:
    status, found = lines(cluster, CONTROLLER, "alice")
    assert status < 2, found
