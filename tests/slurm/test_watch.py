"""The resident watcher on the live cluster: a fault is acted on at once.

A watcher that is dead, hangs or was stopped costs nothing but the time that it saved.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import HEALTH_CHECK, NODES, Cluster, each
from story import LOST, PAGE_FAULT, Story

pytestmark = pytest.mark.slurm

SHARE = "/opt/slurm-failover/share/slurm-failover"
HOOKS = "/opt/slurm-failover/lib/python3*/site-packages/slurm_failover/hooks.py"
FOLDER = "/run/slurm-failover/watch"
START = f"exec setsid /opt/slurm-failover/bin/python3 -I -S {HOOKS} watch >/dev/null 2>&1 &"
ASK = f". {SHARE}/ask_watcher.sh; is_watched 0; echo $said"
SETTINGS = "/etc/slurm-failover/settings.toml"


def start(cluster: Cluster, node: str) -> None:
    """Start a watcher, and wait until it has nothing left to do."""
    cluster.check(node, START)
    cluster.wait(lambda: ask(cluster, node) == "clean", 30, f"watcher on {node}")


def ask(cluster: Cluster, node: str) -> str:
    """What the watcher answers to a hook; empty if it does not."""
    return cluster.run(node, ASK).stdout.strip()


def send(cluster: Cluster, node: str, signal: str) -> None:
    """Send a signal to a node's watcher, where there is one."""
    cluster.run(node, f"kill -{signal} $(cat {FOLDER}/pid)")


def end(cluster: Cluster, node: str) -> None:
    """End a node's watcher, whatever state it is in, with all that it has started."""
    send(cluster, node, "CONT")
    send(cluster, node, "TERM")
    gone = "! pgrep -f '[h]ooks.py watch' && ! pgrep -f '[e]vents.py'"
    cluster.wait(lambda: cluster.run(node, gone).rc == 0, 30, f"the watcher's end on {node}")


def runs_python(cluster: Cluster, node: str, hook: str, **environment: str) -> bool:
    """Whether a hook, run now, needs an interpreter."""
    words = " ".join(f"{key}={value}" for key, value in environment.items())
    return "hooks.py" in cluster.run(node, f"{words} sh -x {hook}").stderr


@pytest.fixture
def watched(cluster: Cluster) -> Iterator[Story]:
    """The cluster with a watcher on every node, and no health check by Slurm."""
    each(lambda node: start(cluster, node), NODES)
    yield Story(cluster)
    each(lambda node: end(cluster, node), NODES)


def test_a_hung_job_is_moved_by_the_watcher_alone(watched: Story) -> None:
    job = watched.start(nodes=2)
    first = watched.nodes(job)
    watched.cluster.inject(first[1], LOST)
    second = watched.wait_running(job, restarts=1)
    assert first[1] not in second
    assert (watched.show(job)["state"], watched.show(job)["retries"]) == ("resumed", 1)
    log = watched.cluster.read(first[1], "/var/log/slurm/slurm-failover.log")
    assert "faults: drain: slurm-failover: Xid 79" in log


def test_a_programs_fault_leaves_its_job_and_node_alone(watched: Story) -> None:
    job = watched.start()
    node = watched.nodes(job)[0]
    watched.cluster.inject(node, PAGE_FAULT)
    watched.cluster.wait(lambda: ask(watched.cluster, node) == "clean", 30, "a judged record")
    assert "RUNNING" in watched.cluster.job_state(job)
    assert not watched.is_drained(node)
    watched.end(job, 0)


def test_hooks_leave_the_work_to_a_live_watcher(watched: Story) -> None:
    ended = {"SLURM_JOB_ID": "7", "SLURM_JOB_EXIT_CODE": "256"}
    epilog = f"{SHARE}/epilog/epilog.sh"
    assert not runs_python(watched.cluster, "n1", HEALTH_CHECK)
    assert not runs_python(watched.cluster, "n1", epilog, **ended)
    send(watched.cluster, "n1", "KILL")
    assert runs_python(watched.cluster, "n1", HEALTH_CHECK)
    assert runs_python(watched.cluster, "n1", epilog, **ended)


def test_the_epilog_of_a_flagged_job_looks_for_itself_unless_it_ended_well(watched: Story) -> None:
    cluster, epilog = watched.cluster, f"{SHARE}/epilog/epilog.sh"
    now = int(cluster.check("n1", "date +%s"))
    well = {
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_COMMENT": "failover",
        "SLURM_JOB_EXIT_CODE": "0",
        "SLURM_JOB_START_TIME": str(now - 5),
        "SLURM_JOB_END_TIME": str(now),
    }
    cluster.check("n1", "touch /run/slurm-failover/7")
    assert not runs_python(cluster, "n1", epilog, **well)
    assert cluster.run("n1", "[ -e /run/slurm-failover/7 ]").rc != 0
    assert runs_python(cluster, "n1", epilog, **{**well, "SLURM_JOB_EXIT_CODE": "256"})
    assert runs_python(cluster, "n1", epilog, **{**well, "SLURM_JOB_END_TIME": str(now + 9999)})
    cluster.inject("n1", PAGE_FAULT)
    cluster.wait(lambda: ask(cluster, "n1") == "clean", 30, "a judged record")
    assert runs_python(cluster, "n1", epilog, **well)


@pytest.mark.parametrize("how", ["KILL", "STOP"])
def test_a_dead_or_stopped_watcher_is_noticed_and_its_work_is_done(
    watched: Story, how: str
) -> None:
    job = watched.start()
    node = watched.nodes(job)[0]
    send(watched.cluster, node, how)
    assert ask(watched.cluster, node) == ""
    watched.cluster.inject(node, LOST)
    second = watched.wait_running(job, restarts=1)
    assert node not in second
    assert watched.reason(node).startswith("slurm-failover: Xid 79")


def test_a_stopped_watcher_that_goes_on_does_nothing_twice(watched: Story) -> None:
    cluster = watched.cluster
    send(cluster, "n1", "STOP")
    cluster.inject("n1", LOST)
    cluster.check_health("n1")
    cluster.wait(lambda: watched.is_drained("n1"), 30, "the drain")
    cluster.check("ctl", "scontrol update NodeName=n1 State=RESUME")
    send(cluster, "n1", "CONT")
    cluster.wait(lambda: ask(cluster, "n1") == "clean", 30, "a watcher that has caught up")
    assert not watched.is_drained("n1")


def test_what_was_written_while_no_watcher_ran_is_seen_at_its_start(watched: Story) -> None:
    end(watched.cluster, "n2")
    watched.cluster.inject("n2", LOST)
    watched.cluster.check("n2", START)
    assert watched.wait_drained("n2").startswith("slurm-failover: Xid 79")


@pytest.mark.parametrize("torn", ["", "x", "0 9999999\n3,9999999,1,-;NVRM: Xid"])
def test_a_watcher_with_torn_files_judges_all_that_is_new_and_nothing_else(
    watched: Story, torn: str
) -> None:
    cluster = watched.cluster
    cluster.inject("n2", LOST)
    watched.wait_drained("n2")
    end(cluster, "n2")
    cluster.check("ctl", "scontrol update NodeName=n2 State=RESUME")
    cluster.check(
        "n2", f"printf '%s' '{torn}' >{FOLDER}/caught; : >{FOLDER}/pid; rm -f {FOLDER}/ask"
    )
    start(cluster, "n2")
    assert not watched.is_drained("n2")
    cluster.inject("n2", LOST.replace("3b", "86"))
    assert "0000:86:00" in watched.wait_drained("n2")


def test_a_second_watcher_leaves_the_first_alone(watched: Story) -> None:
    python = START.removeprefix("exec setsid ").removesuffix(" &")
    assert watched.cluster.run("n1", python).rc == 0
    assert ask(watched.cluster, "n1") == "clean"


def test_users_can_neither_see_nor_forge_what_the_watcher_says(watched: Story) -> None:
    for command in (f"ls {FOLDER}", f"cat {FOLDER}/pid", f"echo 1 0 >{FOLDER}/ask"):
        assert watched.cluster.run("n1", command, user="alice").rc != 0
    assert watched.cluster.run("n1", f"mkdir -p {FOLDER}/../x", user="alice").rc != 0


def test_an_xid_that_only_nvml_tells_of_drains_the_node(watched: Story) -> None:
    job = watched.start()
    node = watched.nodes(job)[0]
    watched.cluster.gpus(node, event1="0 8 79")
    second = watched.wait_running(job, restarts=1)
    assert node not in second
    assert watched.reason(node).startswith("slurm-failover: Xid 79 on GPU 0000:3b:00")


def test_an_xid_that_the_kernel_and_nvml_tell_of_is_judged_once(watched: Story) -> None:
    cluster = watched.cluster
    cluster.gpus("n1", event1="0 8 79")
    cluster.inject("n1", LOST)
    reason = watched.wait_drained("n1")
    cluster.wait(lambda: ask(cluster, "n1") == "clean", 30, "a watcher that has done its work")
    assert reason.count("Xid") == 1
    cluster.check("ctl", "scontrol update NodeName=n1 State=RESUME")
    cluster.check_health("n1")
    send(cluster, "n1", "KILL")
    cluster.check_health("n1")
    assert not watched.is_drained("n1")


def test_an_uncorrectable_memory_error_is_looked_at_when_nvml_tells_of_it(watched: Story) -> None:
    cluster = watched.cluster
    cluster.gpus("n1", gpu0__ecc="1", event1="0 2 0")
    assert "0000:3b:00" in watched.wait_drained("n1")


def test_a_hanging_nvml_delays_no_drain(watched: Story) -> None:
    job = watched.start()
    node = watched.nodes(job)[0]
    watched.cluster.gpus(node, hang__nvmlInitWithFlags="1")
    watched.cluster.inject(node, LOST)
    watched.cluster.wait(lambda: watched.is_drained(node), 5, "a drain in spite of NVML")
    watched.wait_running(job, restarts=1)


def test_the_journal_serves_where_the_kernels_log_can_not_be_read(watched: Story) -> None:
    cluster = watched.cluster
    end(cluster, "n3")
    cluster.check(
        "n3",
        "cat >/usr/local/sbin/journal <<'EOF'\n"
        "#!/bin/sh\n"
        "case $* in *--follow*) exec tail -n +1 -f /var/lib/slurm-failover-test/journal ;; esac\n"
        "exec cat /var/lib/slurm-failover-test/journal\n"
        "EOF\n"
        "chmod 755 /usr/local/sbin/journal",
    )
    entry = (
        'printf \'{"_TRANSPORT":"%s","SYSLOG_FACILITY":"0","PRIORITY":"3","MESSAGE":"%s",'
        '"_SOURCE_MONOTONIC_TIMESTAMP":"%s"}\\n\' '
    )
    clock = "$(awk '{print int($1 * 1000000)}' /proc/uptime)"
    journal = "/var/lib/slurm-failover-test/journal"
    cluster.check("n3", f'{entry} kernel "Linux version 6" 1 >{journal}')
    cluster.check(
        "n3",
        f'sed -i \'s#^kmsg = .*#kmsg = ""\\njournalctl = "/usr/local/sbin/journal"#\' {SETTINGS}',
    )
    start(cluster, "n3")
    cluster.check("n3", f'{entry} syslog "{LOST}" "{clock}" >>{journal}')
    cluster.check_health("n3")
    assert ask(cluster, "n3") == "clean"
    cluster.check("n3", f'{entry} kernel "{LOST}" "{clock}" >>{journal}')
    assert watched.wait_drained("n3").startswith("slurm-failover: Xid 79")
