"""On real daemons: files that can not be written, read or opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import silent_disk
from cluster import CONTROLLER, HOSTS, Cluster, each
from rig import READ_ONLY, SETTINGS, STATE, Rig

PYTHON = "/opt/slurm-failover/bin/python3"
LEDGER = f"{STATE}/node/ledger.json"
FULL = f"{STATE}/full"


def fill_disk(cluster: Cluster, host: str) -> None:
    """Not one byte more can be written where our state is."""
    assert "No space left" in cluster.run(host, f"cat /dev/zero >{FULL}").stderr


def empty_disk(cluster: Cluster, host: str) -> None:
    """There is room again."""
    cluster.check(host, ["rm", "-f", FULL])


def use_read_only(cluster: Cluster, host: str) -> None:
    """Our state is on a file system that was mounted for reading alone."""
    assert "Read-only" in cluster.run(host, ["mkdir", f"{READ_ONLY}/state"]).stderr
    edit = f'/^\\[state\\]/a directory = "{READ_ONLY}/state"'
    cluster.check(host, ["sed", "-i", edit, SETTINGS])


def use_own(cluster: Cluster, host: str) -> None:
    """Our state is where it was."""
    cluster.check(host, ["sed", "-i", "/^directory = /d", SETTINGS])


def limit_files(cluster: Cluster, host: str) -> None:
    """From now on our interpreters on a host may open few files."""
    many = f"{PYTHON} -I -S -c 'import os; [os.dup(0) for _ in range(9)]'"
    script = f'#!/bin/bash\\nulimit -n 7\\nexec -a "$0" {PYTHON}.kept "$@"\\n'
    cluster.check(host, f"mv {PYTHON} {PYTHON}.kept && printf '{script}' >{PYTHON}")
    cluster.check(host, ["chmod", "755", PYTHON])
    assert "Too many open files" in cluster.run(host, many).stderr


def free_files(cluster: Cluster, host: str) -> None:
    """No limit any more."""
    cluster.check(host, f"[ ! -e {PYTHON}.kept ] || mv -f {PYTHON}.kept {PYTHON}")


Act = Callable[[Cluster, str], None]
TROUBLES: dict[str, tuple[Act, Act]] = {
    "full disk": (fill_disk, empty_disk),
    "read-only": (use_read_only, use_own),
    "no file descriptors": (limit_files, free_files),
}


@pytest.fixture
def broken(rig: Rig) -> Iterator[Rig]:
    """Hosts whose files may be out of reach; none is when the test is over."""
    yield rig
    each(lambda host: free_files(rig.cluster, host), HOSTS)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_node_that_can_write_or_open_nothing_is_looked_at_again(
    broken: Rig, trouble: str
) -> None:
    begin, end = TROUBLES[trouble]
    soon = f"printf '\\n[failover]\\nwait_for_nodes = 15\\n' >>{SETTINGS}"
    broken.cluster.check(CONTROLLER, soon)
    job = broken.start()
    (node,) = broken.nodes(job)
    begin(broken.cluster, node)
    broken.end_broken(job)
    broken.wait_ended(job)
    if trouble != "no file descriptors":
        # What can not be remembered is judged all the same.
        broken.bring_back(job)
        end(broken.cluster, node)
        broken.check_moved(job)
    end(broken.cluster, node)
    # A verdict that nobody can be told of fails the Epilog, and Slurm drains the node for that.
    ours = ("slurm-failover: Xid 79", "Epilog error")
    assert broken.wait_drained(node, 60).startswith(ours)
    broken.settle()
    broken.check_promises()


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_controller_that_can_write_or_open_nothing_decides_later(
    broken: Rig, trouble: str
) -> None:
    begin, end = TROUBLES[trouble]
    job = broken.start()
    (node,) = broken.nodes(job)
    begin(broken.cluster, CONTROLLER)
    broken.break_gpu(node)
    broken.end(job, 1)
    broken.wait_ended(job)
    end(broken.cluster, CONTROLLER)
    broken.bring_back(job)
    broken.check_moved(job)


@pytest.fixture
def disowned(rig: Rig) -> Iterator[Rig]:
    """The controller's folder is root's: no hook of SlurmUser's can leave anything there."""
    rig.cluster.check(CONTROLLER, f"install -d -m 700 -o root {STATE}/controller")
    yield rig
    own(rig)


def own(rig: Rig) -> None:
    """The controller's folder is SlurmUser's again."""
    rig.cluster.check(CONTROLLER, f"chown -hR slurm {STATE}/controller")


def test_a_job_that_no_hook_could_record_and_its_node_has_stopped_is_moved_later(
    disowned: Rig,
) -> None:
    job = disowned.start()
    (node,) = disowned.nodes(job)
    disowned.break_gpu(node)
    disowned.wait_ended(job)
    assert "chown -hR --reference=" in disowned.reconcile().stderr
    assert disowned.show(job)["because"].startswith("held by its node, and no start of it is")
    own(disowned)
    disowned.bring_back(job)
    disowned.check_moved(job)


TORN = {
    "empty": f": >{LEDGER}",
    "torn": f"printf '{{\"boot\": 5}}' >{LEDGER}",
    "bytes": f"printf '\\377\\000' >{LEDGER}",
    "a folder": f"mkdir {LEDGER}",
}


@pytest.mark.parametrize("what", TORN)
def test_a_torn_ledger_is_a_first_look(rig: Rig, what: str) -> None:
    job = rig.start()
    (node,) = rig.nodes(job)
    rig.cluster.check(node, f"mkdir -p {LEDGER.rpartition('/')[0]}; rm -f {LEDGER}; {TORN[what]}")
    rig.end_broken(job)
    rig.bring_back(job)
    assert f"{LEDGER} can not be read, so this is a first look" in rig.said(node)
    rig.check_moved(job)


SYSLOG = "/var/log/slurm/syslog"
LISTENER = f"""
import os, socket
heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
heard.bind("/dev/log")
os.chmod("/dev/log", 0o666)
while True:
    line = heard.recv(65536)
    with open("{SYSLOG}", "ab") as file:
        file.write(line + bytes([10]))
"""
SPOILT = {
    "a folder": f"mkdir {SETTINGS}",
    "half of them": f"head -c -3 {SETTINGS}.kept >{SETTINGS}",
    "bytes": f"printf '\\377\\376' >{SETTINGS}",
}


@pytest.fixture
def heard(rig: Rig) -> Iterator[Rig]:
    """The cluster with a syslog on every host."""
    start = ["bash", "-c", 'setsid python3 -c "$1" >/dev/null 2>&1 &', "syslog", LISTENER]
    each(lambda host: rig.cluster.check(host, f"rm -f {SYSLOG} /dev/log"), HOSTS)
    each(lambda host: rig.cluster.check(host, start), HOSTS)
    for host in HOSTS:
        rig.cluster.wait(
            lambda host=host: rig.cluster.run(host, ["test", "-S", "/dev/log"]).rc == 0,
            10,
            "a syslog",
        )
    yield rig
    each(lambda host: rig.cluster.run(host, ["pkill", "-f", "/dev/log"]), HOSTS)
    each(lambda host: rig.cluster.run(host, ["rm", "-f", "/dev/log"]), HOSTS)


@pytest.mark.parametrize("what", SPOILT)
def test_settings_that_can_not_be_read_are_said_and_give_no_verdict(heard: Rig, what: str) -> None:
    rig, cluster = heard, heard.cluster
    job = rig.start()
    (node,) = rig.nodes(job)
    rig.look(node)
    cluster.check(node, f"mv {SETTINGS} {SETTINGS}.kept && {SPOILT[what]}")
    rig.look(node)
    known = cluster.read(node, LEDGER)
    assert known
    rig.end_broken(job)
    rig.wait_shown(job, "Pending - internalerror", 60)
    rig.look(node)
    for hook in ("epilog", "healthcheck"):
        said = [line for line in cluster.read(node, SYSLOG).splitlines() if f" {hook}: " in line]
        assert said, f"{hook} did not say why it judges nothing"
        assert all(f"no verdict: {SETTINGS}: " in line for line in said)
    # With settings of any other kind a look would have been remembered.
    assert cluster.read(node, LEDGER) == known
    assert not rig.is_drained(node)
    cluster.check(node, f"rm -rf {SETTINGS} && mv {SETTINGS}.kept {SETTINGS}")
    rig.wait_drained(node, 60)
    rig.settle()
    rig.check_promises()


# --- a disk that never answers --------------------------------------------------------------------

SERVER = "/usr/local/sbin/silent_disk.py"
BOTH_HOOKS = 120
"""Seconds in which one job's Epilog and another's Prolog are left behind."""


def silence(cluster: Cluster, host: str, path: str = STATE) -> None:
    """Whoever touches our state, or what else lies there, sleeps from now on, and no signal wakes
    it.
    """
    text = Path(silent_disk.__file__).read_text()
    cluster.check(host, ["bash", "-c", 'printf %s "$1" >"$2"', "copy", text, SERVER])
    cluster.check(host, f"setsid python3 {SERVER} {path} >/dev/null 2>&1 &")
    mounted = f"grep -q '{path} fuse' /proc/mounts"
    cluster.wait(lambda: cluster.run(host, mounted).rc == 0, 10, "a silent disk")
    cluster.run(host, f"timeout -k 1 1 ls -d {path}")
    cluster.check(host, f"ps -e -o stat=,args= | grep '^D.* ls -d {path}$'")


def revive(cluster: Cluster, host: str) -> None:
    """All is there as before; whoever slept wakes with an error."""
    cluster.run(host, ["pkill", "-f", SERVER])
    cluster.run(host, "awk '$3 == \"fuse\" {print $2}' /proc/mounts | xargs -r umount -l")


def asleep(rig: Rig, host: str) -> list[str]:
    """What no signal wakes: the last word of each command line."""
    lines = rig.cluster.run(host, "ps -e -o stat=,args=").stdout.splitlines()
    return sorted(line.split()[-1] for line in lines if line[0] == "D" and " ls " not in line)


@pytest.fixture
def silent(rig: Rig) -> Iterator[Rig]:
    """Hosts whose disks may never answer; all do when the test is over."""
    if not Path(silent_disk.DEVICE).exists():
        pytest.skip(f"needs {silent_disk.DEVICE}")
    yield rig
    each(lambda host: revive(rig.cluster, host), HOSTS)


def test_a_node_whose_disk_never_answers_lets_jobs_end_and_start_and_is_not_drained(
    silent: Rig,
) -> None:
    rig = silent
    job = rig.start()
    (node,) = rig.nodes(job)
    silence(rig.cluster, node)
    rig.end(job, 0)
    again = rig.submit(f"--nodelist={node}")
    rig.jobs.append(again)
    rig.wait_shown(job, "Completed", BOTH_HOOKS)
    rig.cluster.wait(lambda: rig.has_begun(again), BOTH_HOOKS, "a start on that node")
    hooks = ["epilog", "healthcheck", "prolog"]
    rig.cluster.wait(lambda: asleep(rig, node) == hooks, 10, "each hook's one that sleeps")
    assert rig.drained() == []
    revive(rig.cluster, node)
    rig.break_gpu(node)
    rig.end(again, 1)
    assert rig.wait_drained(node, 60).startswith("slurm-failover: Xid 79")
    rig.check_promises()


def test_a_controller_whose_disk_never_answers_lets_jobs_start_and_end_and_decides_later(
    silent: Rig,
) -> None:
    rig = silent
    job = rig.start()
    (node,) = rig.nodes(job)
    silence(rig.cluster, CONTROLLER)
    other = rig.start("--exclude", node)
    rig.end_broken(job)
    rig.wait_ended(job)
    rig.wait_drained(node)
    revive(rig.cluster, CONTROLLER)
    rig.bring_back(job)
    rig.check_moved(job)
    rig.end(other, 0)
    rig.wait_shown(other, "Completed")


SOURCES = {
    "the GPUs": "/etc/nvml-stand-in.conf",
    "the BMC": "/var/lib/slurm-failover-test/bmc",
}
"""What stands for a driver here, by what a look can not see while that never answers."""


@pytest.mark.parametrize("unseen", SOURCES)
def test_a_source_that_never_answers_is_no_fault_and_leaves_one_process_behind(
    silent: Rig, unseen: str
) -> None:
    rig, said = silent, f"healthcheck: can not see {unseen}"
    job = rig.start()
    (node,) = rig.nodes(job)
    rig.cluster.check(node, f"sed -i '/^\\[sources\\]$/a nvml_timeout = 2' {SETTINGS}")
    silence(rig.cluster, node, SOURCES[unseen])
    rig.cluster.wait(lambda: said in rig.said(node), 60, "a look that sees less")
    for _ in range(3):
        rig.look(node)
    rig.cluster.wait(lambda: len(asleep(rig, node)) == 1, 10, "one process that sleeps")
    assert rig.said(node).count("can not see") == 1
    assert rig.drained() == []
    rig.end_broken(job)
    rig.bring_back(job)
    rig.check_moved(job)
