"""On real daemons: files that can not be written, read or opened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import CONTROLLER, HOSTS, Cluster, each
from rig import SETTINGS, Rig

PYTHON = "/opt/slurm-failover/bin/python3"
LEDGER = "/var/lib/slurm-failover/node/ledger.json"


@pytest.fixture
def rig(cluster: Cluster) -> Rig:
    """The cluster as the tests below talk to it."""
    return Rig(cluster)


def limit_hooks(cluster: Cluster, host: str, limit: str) -> None:
    """From now on every process of ours on a host runs under a limit of the shell's."""
    script = f'#!/bin/sh\\nulimit {limit}\\nexec -a "$0" {PYTHON}.kept "$@"\\n'
    cluster.check(host, f"mv {PYTHON} {PYTHON}.kept")
    cluster.check(host, f"printf '{script.replace('/bin/sh', '/bin/bash')}' >{PYTHON}")
    cluster.check(host, f"chmod 755 {PYTHON}")


def free_hooks(cluster: Cluster, host: str) -> None:
    """No limit any more."""
    cluster.check(host, f"[ ! -e {PYTHON}.kept ] || mv -f {PYTHON}.kept {PYTHON}")


@pytest.fixture
def limited(rig: Rig) -> Iterator[Rig]:
    """Hosts whose hooks may be limited; none is when the test is over."""
    yield rig
    each(lambda host: free_hooks(rig.cluster, host), HOSTS)


@pytest.mark.parametrize("limit", ["-f 0", "-n 7"], ids=["full disk", "no file descriptors"])
def test_a_node_that_can_write_or_open_nothing_is_looked_at_again(limited: Rig, limit: str) -> None:
    job = limited.start()
    node = limited.nodes(job)[0]
    limit_hooks(limited.cluster, node, limit)
    limited.end_broken(job)
    limited.wait_shown(job, "Pending - internalerror", seconds=60) if limit != "-f 0" else None
    free_hooks(limited.cluster, node)
    limited.wait_drained(node, 60)
    limited.settle()
    limited.check_promises()


@pytest.mark.parametrize("limit", ["-f 0", "-n 7"], ids=["full disk", "no file descriptors"])
def test_a_controller_that_can_write_or_open_nothing_decides_later(
    limited: Rig, limit: str
) -> None:
    job = limited.start()
    limit_hooks(limited.cluster, CONTROLLER, limit)
    limited.end_broken(job)
    limited.cluster.wait(
        lambda: "COMPLETING" not in limited.cluster.job_state(job), 90, "the job's end"
    )
    free_hooks(limited.cluster, CONTROLLER)
    limited.bring_back(job)
    limited.check_moved(job)


@pytest.mark.parametrize("text", ["", "{", '{"boot": 5}', "\\377\\000"])
def test_a_torn_ledger_is_a_first_look(rig: Rig, text: str) -> None:
    job = rig.start()
    node = rig.nodes(job)[0]
    rig.cluster.check(node, f"mkdir -p {LEDGER.rpartition('/')[0]}; printf '{text}' >{LEDGER}")
    rig.end_broken(job)
    rig.bring_back(job)
    rig.check_moved(job)


def test_a_state_folder_that_is_a_file_costs_no_job_its_end(rig: Rig) -> None:
    """As on a read-only /var: nothing of ours can be made there."""
    job = rig.start()
    node = rig.nodes(job)[0]
    folder = "/var/lib/slurm-failover"
    rig.cluster.check(node, f"mv {folder} {folder}.kept && : >{folder}")
    rig.end_broken(job)
    rig.cluster.wait(lambda: "COMPLETING" not in rig.cluster.job_state(job), 90, "the job's end")
    rig.cluster.check(node, f"rm {folder} && mv {folder}.kept {folder}")
    rig.wait_drained(node, 60)
    rig.settle()
    rig.check_promises()


def test_settings_that_can_not_be_read_give_no_verdict(rig: Rig) -> None:
    job = rig.start()
    node = rig.nodes(job)[0]
    rig.cluster.check(node, f"rm {SETTINGS} && mkdir {SETTINGS}")
    rig.end_broken(job)
    rig.cluster.wait(lambda: "COMPLETING" not in rig.cluster.job_state(job), 90, "the job's end")
    assert not rig.is_drained(node)
    shipped = "/usr/local/share/slurm-failover-test/settings.toml"
    rig.cluster.check(node, f"rmdir {SETTINGS} && cp {shipped} {SETTINGS}")
    rig.wait_drained(node, 60)
    rig.settle()
    rig.check_promises()
