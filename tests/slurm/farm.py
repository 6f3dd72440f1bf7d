"""A real Slurm cluster of hundreds of nodes for the benches: one slurmctld, and many slurmd in few
containers (``slurmd -N``), each with a kernel log, a ledger and settings of its own.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from cluster import CONTROLLER, SHARED, Cluster, each

SERVER = Path(__file__).with_name("farm_hooks.py")
PER_HOST = 64
FEW = 8
HOME = "/var/lib/farm"
PORT = 17000
SPARE = "ctl2"
STATE = f"{SHARED}/state"
HOOKS = "/opt/slurm-failover/share/slurm-failover"
SETTINGS = """[sources]
kmsg = "HOME/NODE/kmsg"
sysfs = ""
ipmitool = ""
nvml = false
slurmd_log = ""
[breaker]
enabled = false
pace = 0
# A node of its own has a processor of its own, and its requests do not wait for one.
[slurm]
timeout = 30
patience = 60
[state]
directory = "HOME/NODE"
log = "/var/log/slurm/slurm-failover.log"
"""
NODE_HOOK = """#!/bin/bash
# Stands for the hook of this name: farm_hooks.py runs the real one, with this node's settings.
exec 3<>/dev/tcp/127.0.0.1/7979 || exit 0
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
{ printf '%s\\0' @HOOK@; env -0; printf '\\0'; } >&3
# As long as three requests may take: a hook that is cut short could pass for a clean one.
read -r -t 200 status <&3
[ "$status" != 100 ]
"""
CONTROLLER_SETTINGS = """[breaker]
enabled = false
pace = 0
[state]
log = "/var/log/slurm/slurm-failover.log"
"""
SPREAD = """
set -e
cluster-daemon start munged
settings=$1; shift
for node in "$@"; do
    mkdir -p HOME/$node /var/spool/slurmd/$node
    : >HOME/$node/kmsg
    printf '%s' "$settings" | sed "s/NODE/$node/" >HOME/$node/settings.toml
done
"""
INJECT = """
import sys, time
from pathlib import Path
for node in sys.argv[2:]:
    with Path("HOME", node, "kmsg").open("r+") as log:
        number = len(log.readlines()) + 1
        micros = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        log.write(f"3,{number},{micros},-;{sys.argv[1]}\\n")
"""

START_SPARE = """
touch /var/log/slurm/slurm-failover.log
chown slurm: /var/lib/slurm-failover /var/log/slurm/slurm-failover.log
cluster-daemon start munged && slurmctld -i
"""


class Farm(Cluster):
    """``size`` nodes v001, v002, …; partition ``bad`` has the first ``bad`` of them, ``good`` the
    rest, ``few`` the last eight, and ``all`` has all.
    """

    def __init__(self, image: str, size: int, bad: int, *, with_spare: bool = False) -> None:
        """``with_spare`` adds a second controller, SPARE, which shares the first one's state."""
        super().__init__(image)
        self._with_spare = with_spare
        self.nodes = [f"v{number:03}" for number in range(1, size + 1)]
        self._bad = bad
        starts = range(0, size, PER_HOST)
        self.hosts = {f"w{n}": self.nodes[at : at + PER_HOST] for n, at in enumerate(starts, 1)}

    def start(self) -> None:
        """Create everything and wait until all nodes are idle."""
        network = self._client.networks.create(self.name, driver="bridge", labels=self._labels)
        self._client.volumes.create(self.name, labels=self._labels)
        controllers = (CONTROLLER, SPARE) if self._with_spare else (CONTROLLER,)
        hosts = (*controllers, *self.hosts)
        for host in hosts:
            self._containers[host] = self._create_asleep(host, str(network.name))
        conf = self._write_conf(self.read(CONTROLLER, "/etc/slurm/slurm.conf"))
        each(lambda host: self._write(host, "/etc/slurm/slurm.conf", conf), hosts)
        each(lambda host: self.check(host, "rm -f /etc/slurm/gres.conf"), hosts)
        for host in controllers:
            self._write(host, "/etc/slurm-failover/settings.toml", CONTROLLER_SETTINGS)
        self.check(CONTROLLER, f"install -d -o slurm {STATE}")
        self.check(CONTROLLER, "setsid cluster-entrypoint >/dev/null 2>&1 </dev/null &")
        ask = ["scontrol", "show", "node"]
        self.wait(lambda: self.run(CONTROLLER, ask).rc == 0, 60, "an answer of slurmctld")
        if self._with_spare:
            self.check(SPARE, START_SPARE)
        for host, nodes in self.hosts.items():
            self._start_nodes(host, nodes)
        self.wait(lambda: self.count_idle() == len(self.nodes), 120, "an idle farm")

    def count_idle(self) -> int:
        """How many nodes are idle."""
        told = self.check(CONTROLLER, ["sinfo", "-h", "-p", "all", "-t", "idle", "-o", "%D"])
        return sum(map(int, told.split()))

    def inject_all(self, nodes: list[str], text: str) -> None:
        """Append a kernel record to the logs of several nodes."""
        for host, mine in self.hosts.items():
            chosen = [node for node in mine if node in set(nodes)]
            if chosen:
                self.check(host, ["python3", "-c", INJECT.replace("HOME", HOME), text, *chosen])

    def clean(self) -> None:
        """No job, all nodes idle, and no trace of what was done."""
        self.check(CONTROLLER, "squeue -h -o %A | xargs -r scancel")
        self.wait(lambda: not self.check(CONTROLLER, ["squeue", "-h"]), 120, "an empty queue")
        for host, nodes in self.hosts.items():
            wipe = f'cd {HOME}; for n in "$@"; do rm -rf $n/node; : >$n/kmsg; done'
            self.check(host, _script(wipe, *nodes))
        names = f"v[{self.nodes[0][1:]}-{self.nodes[-1][1:]}]"
        self.check(CONTROLLER, ["scontrol", "update", f"NodeName={names}", "Extra=", "Comment="])
        self.run(CONTROLLER, ["scontrol", "update", f"NodeName={names}", "State=RESUME"])
        self.wait(lambda: self.count_idle() == len(self.nodes), 120, "an idle farm")

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs that Slurm shows."""
        told = self.check(CONTROLLER, ["squeue", "--states=all", "--json=v0.0.42"])
        return list(json.loads(told)["jobs"])

    def _write_conf(self, shipped: str) -> str:
        """The test cluster's own configuration, made for many nodes in few hosts."""
        kept = [
            line
            for line in shipped.splitlines()
            if not re.match(
                r"(NodeName|PartitionName|GresTypes|AccountingStorageTRES|Prolog=|Epilog=|TaskProlog"
                r"|HealthCheck|Slurmd(SpoolDir|LogFile|PidFile|Timeout|Debug)|SlurmctldDebug"
                r"|MessageTimeout|StateSaveLocation|PreemptType|PreemptMode)",
                line,
            )
        ]
        hosts = [
            f"NodeName=v[{nodes[0][1:]}-{nodes[-1][1:]}] NodeHostname={host} NodeAddr={host} "
            f"Port={PORT + 1}-{PORT + len(nodes)} CPUs=4 RealMemory=500"
            for host, nodes in self.hosts.items()
        ]
        edge, last = self.nodes[self._bad - 1][1:], self.nodes[-1][1:]
        first = self.nodes[self._bad][1:]
        return "\n".join(
            (
                *kept,
                *(f"SlurmctldHost={host}" for host in ((SPARE,) if self._with_spare else ())),
                f"StateSaveLocation={STATE}",
                "SlurmdSpoolDir=/var/spool/slurmd/%n",
                "SlurmdLogFile=/var/log/slurm/%n.log",
                "SlurmdPidFile=/run/slurmd-%n.pid",
                # debug2 tells how long slurmctld was at work on each request.
                "SlurmctldDebug=debug2",
                "SlurmdTimeout=300",
                "MessageTimeout=30",
                f"Prolog={HOME}/prolog.sh",
                f"Epilog={HOME}/epilog.sh",
                *hosts,
                f"PartitionName=all Nodes=v[001-{last}] Default=YES",
                f"PartitionName=bad Nodes=v[001-{edge}]",
                f"PartitionName=good Nodes=v[{first}-{last}]",
                f"PartitionName=few Nodes=v[{self.nodes[-FEW:][0][1:]}-{last}]",
                "",
            )
        )

    def _start_nodes(self, host: str, nodes: list[str]) -> None:
        self.check(host, _script(SPREAD, SETTINGS.replace("HOME", HOME), *nodes))
        for name in ("prolog", "epilog"):
            hook = NODE_HOOK.replace("HOME", HOME).replace("@HOOK@", name)
            self._write(host, f"{HOME}/{name}.sh", hook)
            self.check(host, f"chmod 755 {HOME}/{name}.sh")
        self._write(host, f"{HOME}/hooks.py", SERVER.read_text())
        self.check(
            host,
            f"setsid /opt/slurm-failover/bin/python3 -I -S {HOME}/hooks.py {HOME} "
            "/opt/slurm-failover/lib/python3*/site-packages >/var/log/farm.log 2>&1 </dev/null & "
            "until : </dev/tcp/127.0.0.1/7979; do sleep 0.1; done 2>/dev/null",
        )
        self.check(host, _script('for node in "$@"; do slurmd -N $node; done', *nodes), timeout=120)

    def _create_asleep(self, host: str, network: str) -> Any:
        endpoint = self._client.api.create_endpoint_config(aliases=[host])
        return self._client.containers.run(
            self.image,
            ["infinity"],
            entrypoint="sleep",
            name=f"{self.name}-{host}",
            hostname=host,
            labels=self._labels,
            init=True,
            detach=True,
            network=network,
            networking_config={network: endpoint},
            volumes={self.name: {"bind": SHARED, "mode": "rw"}},
        )

    def _write(self, host: str, path: str, text: str) -> None:
        self.check(host, ["sh", "-c", 'printf %s "$1" >"$2"', "sh", text, path])


def _script(text: str, *words: str) -> list[str]:
    return ["bash", "-c", text.replace("HOME", HOME), "bash", *words]
