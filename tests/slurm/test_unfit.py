"""The gate before a job starts: an unfit node takes none, and no doubt holds one up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import CONTROLLER, HEALTH_CHECK, HOOK_LOG, HOSTS, NODES, Cluster, each
from story import LOST, Story

pytestmark = pytest.mark.slurm

RESET_REQUIRED = {"gpu2__error__nvmlDeviceGetUUID": 16}
SECONDS_ALLOWED = 45
"""What prolog.sh gives a Prolog."""


@pytest.fixture
def story(cluster: Cluster) -> Iterator[Story]:
    """The live cluster, whose health checks sleep: the Prolog alone finds what is wrong."""
    each(lambda node: cluster.check(node, ["chmod", "-x", HEALTH_CHECK]), NODES)
    yield Story(cluster)
    each(lambda node: cluster.check(node, ["chmod", "+x", HEALTH_CHECK]), NODES)


@pytest.fixture
def holding(cluster: Cluster) -> Iterator[None]:
    """Slurm without nohold_on_prolog_fail."""
    change = "sed -i 's/,nohold_on_prolog_fail//' /etc/slurm/slurm.conf"
    with cluster.own_configuration():
        each(lambda host: cluster.check(host, change), HOSTS)
        cluster.check(CONTROLLER, ["scontrol", "reconfigure"])
        yield


def told(cluster: Cluster, node: str, since: int = 0) -> str:
    return cluster.read(node, HOOK_LOG)[since:]


def slow_scontrol(cluster: Cluster, node: str, settings: str) -> None:
    """A scontrol that answers nothing, as where slurmctld is overrun."""
    cluster.check(
        node, "rm -rf /run/mute && mkdir /run/mute && ln -s /usr/bin/squeue /run/mute/squeue"
    )
    cluster.check(node, "printf '#!/bin/sh\\nexec sleep 100\\n' >/run/mute/scontrol")
    cluster.check(node, "chmod +x /run/mute/scontrol")
    table = f'[slurm]\\nbin = "/run/mute"\\n{settings}\\n'
    cluster.check(node, f"printf '{table}' >>/etc/slurm-failover/settings.toml")


def test_a_node_that_fails_every_start_takes_no_job_of_a_full_queue(story: Story) -> None:
    cluster = story.cluster
    cluster.gpus("n1", **RESET_REQUIRED)
    script = 'echo "attempt 0 on $SLURMD_NODENAME"'
    jobs = [cluster.sbatch(script, "--gres=gpu:3", "--comment=failover") for _ in range(9)]
    story.wait_drained("n1")
    cluster.wait(
        lambda: all(cluster.job_state(job) == ["COMPLETED"] for job in jobs), 90, "end of all jobs"
    )
    assert [job for job in jobs if "on n1" in cluster.output(job)] == []
    assert sum(cluster.job(job)["restart_cnt"] for job in jobs) == 1
    assert {story.show(job)["retries"] for job in jobs} == {0}


def test_a_job_that_asks_for_an_unfit_node_is_told_why_it_came_back_and_can_not_start(
    story: Story,
) -> None:
    cluster = story.cluster
    cluster.gpus("n1", **RESET_REQUIRED)
    job = story.submit("--nodelist=n1", "--gres=gpu:1")
    what = story.wait_drained("n1").removeprefix("slurm-failover: ")
    cluster.wait(lambda: cluster.job_state(job) == ["PENDING"], 30, "the job that came back")
    asks = f"no healthy nodes: the job asks for n1 (--nodelist), which is drained: {what}"
    assert story.show(job)["because"] == asks
    table = cluster.check(CONTROLLER, ["slurm-failover", "status", str(job)], "alice")
    assert " ".join(table.splitlines()[-1].split()).endswith(f"n1 requeued n1 was unfit: {what}")
    assert cluster.output(job) == ""


@pytest.mark.usefixtures("holding")
def test_where_slurm_would_hold_the_job_it_starts_and_that_is_said(story: Story) -> None:
    cluster = story.cluster
    before = len(told(cluster, "n1"))
    cluster.gpus("n1", **RESET_REQUIRED)
    job = story.start("--nodelist=n1", "--gres=gpu:1", comment=None)
    assert story.is_drained("n1")
    assert "without nohold_on_prolog_fail in SchedulerParameters" in told(cluster, "n1", before)
    story.end(job, 0)
    story.wait_shown(job, "Completed")
    waiting = story.submit("--nodelist=n1", comment=None)
    cluster.wait(
        lambda: (
            "Drain" in cluster.job(waiting)["state_reason"].title()
            or "NotAvail" in cluster.job(waiting)["state_reason"]
        ),
        30,
        "a job that waits for the drained node",
    )


def test_a_fault_that_slurm_can_not_be_told_holds_no_job_up(story: Story) -> None:
    cluster = story.cluster
    before = len(told(cluster, "n1"))
    slow_scontrol(cluster, "n1", "timeout = 1\\npatience = 2")
    cluster.gpus("n1", **RESET_REQUIRED)
    job = story.start("--nodelist=n1", "--gres=gpu:1", comment=None)
    said = told(cluster, "n1", before)
    assert "the verdict stands, and Slurm can not be told: NVML: GPU 0000:5e:00 requires" in said
    assert "prolog: no verdict: " in said
    assert story.drained() == []
    cluster.check("n1", "ln -sf /usr/bin/scontrol /run/mute/scontrol")
    story.end(job, 0)
    assert "0000:5e:00 requires a reset" in story.wait_drained("n1")


def test_a_prolog_whose_time_is_over_lets_the_job_start_and_says_so(story: Story) -> None:
    cluster = story.cluster
    before = len(told(cluster, "n1"))
    slow_scontrol(cluster, "n1", "timeout = 90")
    cluster.gpus("n1", **RESET_REQUIRED)
    start = int(cluster.check("n1", ["date", "+%s"]))
    job = story.submit("--nodelist=n1", "--gres=gpu:1", comment=None)
    story.wait_running(job, seconds=SECONDS_ALLOWED + 30)
    assert int(cluster.check("n1", ["date", "+%s"])) - start < SECONDS_ALLOWED + 20
    assert "prolog: no verdict: the hook was ended before it was done" in told(
        cluster, "n1", before
    )
    assert story.drained() == []


def test_two_jobs_that_start_while_nvml_hangs_start_and_end_in_time(story: Story) -> None:
    cluster = story.cluster
    before = len(told(cluster, "n1"))
    cluster.check("n1", "printf 'nvml_timeout = 2\\n' >/tmp/line")
    cluster.check("n1", "sed -i '/^.sources.$/r /tmp/line' /etc/slurm-failover/settings.toml")
    cluster.gpus("n1", hang__nvmlInitWithFlags=1)
    start = int(cluster.check("n1", ["date", "+%s"]))
    jobs = [story.submit("--nodelist=n1", "--gres=gpu:1") for _ in range(2)]
    for job in jobs:
        story.wait_running(job)
    for job in jobs:
        story.end(job, 0)
    for job in jobs:
        story.wait_shown(job, "Completed")
    assert int(cluster.check("n1", ["date", "+%s"])) - start < SECONDS_ALLOWED
    assert told(cluster, "n1", before).count("can not see the GPUs") == 1
    assert story.drained() == []


def test_a_job_that_is_cancelled_while_an_unfit_node_refuses_it_stays_cancelled(
    story: Story,
) -> None:
    cluster = story.cluster
    cluster.check("n1", "printf 'nvml_timeout = 8\\n' >/tmp/line")
    cluster.check("n1", "sed -i '/^.sources.$/r /tmp/line' /etc/slurm-failover/settings.toml")
    cluster.gpus("n1", hang__nvmlInitWithFlags=1)
    cluster.inject("n1", LOST)
    before = len(told(cluster, "n1"))
    job = story.submit("--nodelist=n1")
    begun = ["pgrep", "-f", "[h]ooks.py prolog"]
    cluster.wait(lambda: cluster.run("n1", begun).rc == 0, 30, "a Prolog at work")
    cluster.check(CONTROLLER, ["scancel", str(job)])
    assert story.wait_drained("n1").startswith("slurm-failover: Xid 79")
    cluster.wait(lambda: cluster.job_state(job) == ["CANCELLED"], 60, "the job's end")
    assert f"job {job} was cancelled before it started" in told(cluster, "n1", before)
    assert cluster.job(job)["restart_cnt"] == 0
