"""On real daemons: files that can not be written, read or opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
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
    script = f'#!/bin/bash\\nulimit -n 7\\nexec -a "$0" {PYTHON}.kept "$@"\\n'
    cluster.check(host, f"mv {PYTHON} {PYTHON}.kept && printf '{script}' >{PYTHON}")
    cluster.check(host, ["chmod", "755", PYTHON])


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


@pytest.mark.parametrize("text", ["", '{"boot": 5}', "\\377\\000"], ids=["empty", "torn", "bytes"])
def test_a_torn_ledger_is_a_first_look(rig: Rig, text: str) -> None:
    job = rig.start()
    (node,) = rig.nodes(job)
    rig.cluster.check(node, f"mkdir -p {LEDGER.rpartition('/')[0]}; printf '{text}' >{LEDGER}")
    rig.end_broken(job)
    rig.bring_back(job)
    rig.check_moved(job)


def test_settings_that_can_not_be_read_give_no_verdict(rig: Rig) -> None:
    job = rig.start()
    (node,) = rig.nodes(job)
    rig.cluster.check(node, f"mv {SETTINGS} {SETTINGS}.kept && mkdir {SETTINGS}")
    rig.end_broken(job)
    rig.wait_shown(job, "Pending - internalerror", 60)
    assert not rig.is_drained(node)
    rig.cluster.check(node, f"rmdir {SETTINGS} && mv {SETTINGS}.kept {SETTINGS}")
    rig.wait_drained(node, 60)
    rig.settle()
    rig.check_promises()
