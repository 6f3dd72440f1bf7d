"""A host with Slurm in a container, and nothing of ours on it, as an admin meets it."""

from __future__ import annotations

import configparser
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker

ROOT = Path(__file__).resolve().parents[2]
SHARE = "/opt/slurm-failover/share/slurm-failover"
SETTINGS = "/etc/slurm-failover/settings.toml"
NAME = "host1"
DAEMON = ROOT / "docker" / "bin" / "cluster-daemon"
CONF = f"""ClusterName=one
SlurmctldHost={NAME}
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
MailProg=/bin/true
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
PropagateResourceLimits=NONE
ReturnToService=1
SchedulerParameters=sched_interval=1
SlurmdParameters=config_overrides
NodeName={NAME} CPUs=1
PartitionName=all Nodes={NAME} Default=YES
"""
PREPARE = """set -e
install -d -o munge -g munge -m 755 /run/munge
install -d -o slurm -g slurm /var/log/slurm /var/spool/slurmctld
install -d /var/spool/slurmd /etc/slurm
echo CgroupPlugin=disabled >/etc/slurm/cgroup.conf
cat >/etc/slurm/slurm.conf
for name in munged slurmctld slurmd; do cluster-daemon start $name; done
"""
# Looks every few milliseconds, while /tmp/watching is there, whether Slurm would find its hook.
WATCH = f"""cd /tmp && touch watching && while [ -e watching ]; do
    [ -x {SHARE}/prolog/prolog.sh ] && SLURM_JOB_ID=1 sh {SHARE}/prolog/task_prolog.sh ||
        echo gone >>missed
    echo . >>looks
done"""


def version() -> str:
    """What setup.cfg says."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    return setup["metadata"]["version"]


class Host:
    """One container. Slurm finds no host by name where there is no address but the loopback's."""

    def __init__(self, image: str, packages: Path, **more: Any) -> None:
        """``more`` are further options of the container."""
        self._client = docker.from_env(timeout=180)
        mounts = {
            str(packages): {"bind": "/packages", "mode": "ro"},
            str(DAEMON): {"bind": "/usr/local/sbin/cluster-daemon", "mode": "ro"},
        }
        options = {
            "command": ["sleep", "infinity"],
            "name": f"slurm-failover-packages-{secrets.token_hex(3)}",
            "entrypoint": "",
            "hostname": NAME,
            "init": True,
            "volumes": mounts | more.pop("volumes", {}),
        }
        self._container = self._client.containers.run(image, detach=True, **(options | more))

    def remove(self) -> None:
        """End it."""
        self._container.remove(force=True)

    def run(self, command: str, user: str = "root") -> tuple[int, str]:
        """Exit status and all output of a bash command line, 124 after two minutes."""
        argv = ["timeout", "-k", "5", "120", "bash", "-c", command]
        done = self._container.exec_run(argv, user=user)
        return int(done.exit_code), done.output.decode(errors="replace")

    def check(self, command: str, user: str = "root") -> str:
        """The output of a command that must succeed."""
        status, output = self.run(command, user)
        assert status == 0, f"{command} ended with {status}: {output}"
        return output

    def install_by_pip(self) -> str:
        """Lay out what an installation by pip would leave where packages go; a folder of it."""
        old = "/opt/slurm-failover/lib/python3.1/site-packages/slurm_failover"
        self.check(f"mkdir -p {old} {SHARE}/prolog && touch {old}/hooks.py")
        self.check("touch /opt/slurm-failover/pyvenv.cfg")
        self.check(f"install -m 755 /dev/null {SHARE}/prolog/prolog.sh")
        return old

    def python(self) -> str:
        """The release of the distribution's Python, such as 3.13."""
        return self.check("/usr/bin/python3 -V").split()[-1].rpartition(".")[0]

    def slurm(self) -> str:
        """The release of the distribution's Slurm, such as 24.11; a host of no cluster can tell."""
        return ".".join(self.check("dpkg-query -W -f '${Version}' slurmd").split(".")[:2])

    @contextmanager
    def no_hook_missing(self) -> Iterator[None]:
        """Whatever is done meanwhile, Slurm would find its hooks at every moment."""
        self.check(f"nohup bash -c '{WATCH}' >/dev/null 2>&1 & ")
        self.wait(lambda: self.run("[ -s /tmp/looks ]")[0] == 0, "the first look")
        yield
        self.check("rm /tmp/watching")
        assert self.run("cat /tmp/missed")[0] != 0, "a hook was missing for a moment"

    def start_slurm(self) -> None:
        """Let this be a cluster of one host, with a stock slurm.conf."""
        self.check(f"(\n{PREPARE}) <<'CONF'\n{CONF}CONF")
        self.wait(self.is_idle, "an idle node")

    def reconfigure(self) -> None:
        """Let Slurm read its configuration anew."""
        self.check("scontrol reconfigure")
        self.wait(self.is_idle, "an idle node after reconfigure")

    def is_idle(self) -> bool:
        """Whether the node takes jobs, and none runs."""
        return self.run("sinfo -h -o %T")[1].strip() == "idle"

    def run_job(self) -> str:
        """Let an ordinary job run to its end; its output."""
        submit = "cd /tmp && sbatch --parsable --wrap 'srun echo it ran' 2>/dev/null"
        job = self.check(submit).strip()
        shown = f"scontrol show job {job}"
        self.wait(lambda: "JobState=COMPLETED" in self.run(shown)[1], f"end of job {job}")
        self.wait(self.is_idle, "an idle node after the job")
        return self.check(f"cat /tmp/slurm-{job}.out")

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
        """Wait for a condition; AssertionError with Slurm's view where it does not come."""
        deadline = time.monotonic() + seconds
        pause = threading.Event()
        while not condition():
            if time.monotonic() > deadline:
                logs = "sinfo -R; squeue; scontrol show job; tail -n 20 /var/log/slurm/*.log"
                raise AssertionError(f"no {what} within {seconds} s\n{self.run(logs)[1]}")
            pause.wait(0.1)
