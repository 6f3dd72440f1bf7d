"""The watcher as systemd runs it: in its sandbox, under its watchdog."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import containers
import pytest
from booted import Booted, NoCgroups

UNIT = "slurm-failover-watch"
KMSG = "/var/log/kmsg"
SETTINGS = f'[sources]\nkmsg = "{KMSG}"\n'
FAULT = f"""echo "3,1,$(awk '{{printf "%d", $1 * 1000000}}' /proc/uptime),-;\
NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus." >>{KMSG}"""


@pytest.fixture
def booted(suite: str, packages: Path) -> Iterator[Booted]:
    """A cluster of one host where systemd runs our watcher."""
    if os.geteuid() != 0:
        pytest.skip("only root can give systemd a cgroup of its own")
    try:
        host = Booted(containers.image_name(suite, "host"), packages)
    except NoCgroups as error:
        pytest.skip(f"no systemd can run in a container here: {error}")
    try:
        host.boot()
        host.start_slurm()
        host.check("apt-get install -qy /packages/*.deb && slurm-failover install --apply")
        host.check(f"touch {KMSG}; printf '{SETTINGS}' >/etc/slurm-failover/settings.toml")
        host.reconfigure()
        host.check(f"systemctl start {UNIT}")
        yield host
    finally:
        host.remove()


def test_in_its_sandbox_the_watcher_drains_a_node_with_a_fault(booted: Booted) -> None:
    assert "watcher" in booted.run("slurm-failover doctor")[1]
    booted.check(FAULT)
    ours = "slurm-failover: Xid 79 on GPU 0000:3b:00"
    booted.wait(lambda: ours in booted.check("sinfo -h -R -o %E"), "a drain")


def test_a_watcher_that_hangs_is_started_again_and_goes_on(booted: Booted) -> None:
    main = f"systemctl show {UNIT} -p MainPID --value"
    first = booted.check(main).strip()
    booted.check(f"kill -STOP {first}")
    booted.check(FAULT)
    booted.wait(lambda: booted.check(main).strip() not in ("0", first), "a new watcher", 120)
    booted.wait(lambda: "slurm-failover" in booted.check("sinfo -h -R -o %E"), "a drain")
