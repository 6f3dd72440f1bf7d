"""A real Slurm cluster in containers: one controller, four nodes with stand-in GPUs.

What it makes is labelled, so that several clusters live side by side: see ownership.py.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from docker.models.containers import Container
from open_shell import OpenShell
from ownership import labels_of, remove_cluster, remove_stale

import docker

CONTROLLER = "ctl"
NODES = ("n1", "n2", "n3", "n4")
HOSTS = (CONTROLLER, *NODES)
JSON = "--json=v0.0.42"
SHARED = "/shared"
PYTHON = "/opt/slurm-failover/bin/python"
HOOK_LOG = "/var/log/slurm/slurm-failover.log"
HEALTH_CHECK = "/opt/slurm-failover/share/slurm-failover/prolog/healthcheck.sh"
AT_WORK = "/run/slurm-failover/healthcheck.lock"
MAY_MOUNT: dict[str, Any] = {
    "cap_add": ["SYS_ADMIN"],
    "devices": ["/dev/fuse"],
    "security_opt": ["apparmor=unconfined"],
}
T = TypeVar("T")


class Finished(NamedTuple):
    """How a command in a container ended."""

    rc: int
    stdout: str
    stderr: str


def poll(condition: Callable[[], T], seconds: float, every: float = 0.1) -> T | None:
    """The first true value of ``condition``, or None after the deadline."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            return None
        pause.wait(every)


def each(function: Callable[[str], T], hosts: Iterable[str]) -> dict[str, T]:
    """``function`` of every host, at the same time."""
    names = tuple(hosts)
    with ThreadPoolExecutor(len(names)) as pool:
        return dict(zip(names, pool.map(function, names), strict=True))


def _label(job: dict[str, Any]) -> str:
    """A job as Slurm's requests name it: asked for one task, Slurm may name its whole array."""
    task = job["array_task_id"]
    return (
        f"{job['array_job_id']['number']}_{task['number']}" if task["set"] else str(job["job_id"])
    )


class Cluster:
    """The live cluster. Hosts are ``ctl`` and ``n1`` to ``n4``; users are root, alice and bob."""

    def __init__(
        self,
        image: str,
        name: str | None = None,
        *,
        keep: bool = False,
        mounts: Mapping[str, str] | None = None,
        may_mount: bool = False,
        forgets_pyslurm: bool = False,
    ) -> None:
        """``mounts`` are file systems in memory, by path, that every host has; the value is their
        mount options. ``may_mount`` lets root mount more of them, also its own through /dev/fuse.
        ``forgets_pyslurm``: it is taken away, as on a site that has none.
        """
        self._forgets_pyslurm = forgets_pyslurm
        self._mounts = dict(mounts or {})
        self._rights = MAY_MOUNT if may_mount else {}
        self.image = image
        self.name = name or f"slurm-failover-{secrets.token_hex(3)}"
        self._client = docker.from_env(timeout=180)
        self._labels = labels_of(self.name, keep)
        self._containers: dict[str, Container] = {}
        self._shells: dict[tuple[str, str], list[OpenShell]] = {}

    # --- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Create everything and wait until four nodes are idle."""
        remove_stale(self._client)
        network = self._client.networks.create(self.name, driver="bridge", labels=self._labels)
        self._client.volumes.create(self.name, labels=self._labels)
        # The controller goes first: an empty volume takes its content from the first container.
        self._containers[CONTROLLER] = self._create(CONTROLLER, str(network.name))
        self._containers |= each(lambda host: self._create(host, str(network.name)), NODES)
        self.wait(self._all_idle, 60, "four idle nodes after the cluster's start")
        if self._forgets_pyslurm:
            forget = [PYTHON, "-m", "pip", "uninstall", "-qy", "pyslurm"]
            each(lambda host: self.check(host, forget), HOSTS)

    def stop(self) -> None:
        """Remove everything that ``start`` made."""
        for shell in chain.from_iterable(self._shells.values()):
            shell.close()
        self._shells.clear()
        remove_cluster(self._client, self.name)

    def _create(self, host: str, network: str) -> Container:
        endpoint = self._client.api.create_endpoint_config(aliases=[host])
        return self._client.containers.run(
            self.image,
            name=f"{self.name}-{host}",
            hostname=host,
            labels=self._labels,
            init=True,
            detach=True,
            network=network,
            networking_config={network: endpoint},
            volumes={self.name: {"bind": SHARED, "mode": "rw"}},
            tmpfs=self._mounts,
            **self._rights,
        )

    def has_pyslurm(self) -> bool:
        """Whether pyslurm is installed beside our package."""
        look = "import importlib.util as u, sys; sys.exit(u.find_spec('pyslurm') is None)"
        return self.run(CONTROLLER, [PYTHON, "-I", "-c", look]).rc == 0

    def reset(self) -> None:
        """Back to the state after ``start``, for the next test: no job, four idle nodes.

        Job ids, accounting rows and log files stay. Where that fails the cluster is made anew
        before it is told, so that no other test meets what one has left.
        """
        try:
            self._clean_up()
        except AssertionError:
            self.stop()
            self.start()
            raise

    def _clean_up(self) -> None:
        each(lambda host: self.check(host, ["cluster-reset", "daemons"]), HOSTS)
        self.wait(self._cancel_all, 60, "an empty queue")
        each(lambda host: self.check(host, ["cluster-reset"], timeout=120), HOSTS)
        self.wait(self._healed, 60, "four idle nodes without a trace of the last test")

    @contextmanager
    def own_configuration(self) -> Iterator[None]:
        """What is changed in /etc/slurm meanwhile, on any host, is as before at the end, and known
        to Slurm: also where a change or a test failed, and whatever daemon it has left dead.
        """
        keep = "rm -rf /root/slurm.kept && cp -a /etc/slurm /root/slurm.kept"
        each(lambda host: self.check(host, keep), HOSTS)
        try:
            yield
        finally:
            each(lambda host: self.check(host, ["cluster-reset", "daemons"]), HOSTS)
            self.check(CONTROLLER, "squeue -h -o %A | xargs -r scancel")
            restore = "rm -rf /etc/slurm && mv /root/slurm.kept /etc/slurm"
            each(lambda host: self.check(host, restore), HOSTS)
            self.check(CONTROLLER, ["scontrol", "reconfigure"])

    def _cancel_all(self) -> bool:
        """Whether no job was left. Slurm requeues a cancelled job whose Prolog fails after that
        (seen on 24.11.5), so once is not enough.
        """
        jobs = self.check(CONTROLLER, ["squeue", "-h", "-o", "%A"]).split()
        if jobs:
            self.run(CONTROLLER, ["scancel", *jobs])
        return not jobs

    def _all_idle(self) -> bool:
        done = self.run(CONTROLLER, ["scontrol", "show", "node", JSON])
        nodes = json.loads(done.stdout)["nodes"] if done.rc == 0 else []
        return len(nodes) == len(NODES) and all(n["state"] == ["IDLE"] for n in nodes)

    def _healed(self) -> bool:
        clean = True
        for node in json.loads(self.check(CONTROLLER, ["scontrol", "show", "node", JSON]))["nodes"]:
            update = ["scontrol", "update", f"NodeName={node['name']}"]
            if {"DRAIN", "DOWN"} & set(node["state"]):
                self.run(CONTROLLER, [*update, "State=RESUME"])
            if node["reason"] or node["extra"] or node["comment"]:
                self.run(CONTROLLER, [*update, "Reason=", "Extra=", "Comment="])
            traces = node["reason"], node["extra"], node["comment"]
            clean = clean and node["state"] == ["IDLE"] and not any(traces)
        return clean

    # --- commands -------------------------------------------------------------------------------

    def run(
        self, host: str, command: str | list[str], user: str = "root", timeout: float = 60
    ) -> Finished:
        """Run an argument list, or a bash command line, in a host. 124 is the time-out's status."""
        argv = ["bash", "-c", command] if isinstance(command, str) else command
        limit = ["timeout", "-k", "5", str(timeout)]
        idle = self._shells.setdefault((host, user), [])
        try:
            shell = idle.pop()
        except IndexError:
            shell = OpenShell(self._containers[host], user)
        try:
            done = Finished(*shell.run([*limit, *argv]))
        except EOFError as lost:
            raise AssertionError(f"{host} was lost while {argv} ran: {lost}") from None
        idle.append(shell)
        return done

    def check(
        self, host: str, command: str | list[str], user: str = "root", timeout: float = 60
    ) -> str:
        """The stdout of a command that must succeed; AssertionError with its stderr if not."""
        done = self.run(host, command, user, timeout)
        assert done.rc == 0, f"{host}: {command} ended with {done.rc}: {done.stderr}{done.stdout}"
        return done.stdout

    def sbatch(self, script: str, *options: str, user: str = "alice") -> int:
        """Submit a script (``#!/bin/bash`` is added where it has none); the job's id.

        The output is /shared/slurm-JOB.out, the same file on every host.
        """
        text = script if script.startswith("#!") else f"#!/bin/bash\n{script}\n"
        line = 'script=$1; shift; printf "%s\n" "$script" | sbatch --parsable "$@"'
        argv = ["bash", "-c", line, "sbatch", text, *options]
        return int(self.check(CONTROLLER, argv, user).split(";")[0])

    # --- what Slurm knows -----------------------------------------------------------------------

    def job(self, job: int | str) -> dict[str, Any]:
        """One job as ``scontrol show job`` tells it; AssertionError where Slurm knows none."""
        answer = json.loads(self.check(CONTROLLER, ["scontrol", "show", "job", str(job), JSON]))
        names = {_label(found): found for found in answer["jobs"]}
        names |= {str(found["job_id"]): found for found in answer["jobs"]}
        assert str(job) in names, f"Slurm answered with jobs {list(names)}, not {job}"
        return dict(names[str(job)])

    def job_state(self, job: int | str) -> list[str]:
        """The job's state and flags, such as ``["FAILED", "COMPLETING"]``."""
        return list(self.job(job)["job_state"])

    def node(self, name: str) -> dict[str, Any]:
        """One node as ``scontrol show node`` tells it."""
        answer = json.loads(self.check(CONTROLLER, ["scontrol", "show", "node", name, JSON]))
        return dict(answer["nodes"][0])

    def sacct(self, job: int | str, *fields: str) -> list[dict[str, str]]:
        """The accounting rows of a job, one for every run of it, oldest first, without steps."""
        form = f"--format={','.join(fields)}"
        argv = ["sacct", "-D", "-X", "-n", "--parsable2", "--delimiter=\t", "-j", str(job), form]
        rows = self.check(CONTROLLER, argv).splitlines()
        return [dict(zip(fields, row.split("\t"), strict=True)) for row in rows]

    def read(self, host: str, path: str) -> str:
        """A file's text, empty where there is no such file."""
        return self.run(host, ["cat", path]).stdout

    def output(self, job: int | str) -> str:
        """What the job has written so far, all its runs in one file."""
        return self.read(CONTROLLER, f"{SHARED}/slurm-{job}.out")

    # --- faults ---------------------------------------------------------------------------------

    def inject(self, node: str, text: str, level: int = 3) -> int:
        """Append a kernel record to a node's log, stamped with its clock now; its sequence."""
        return int(self.check(node, ["cluster-inject", str(level), text]))

    def check_health(self, node: str) -> None:
        """A health check, now: at most one is at work, so slurmd's own is let through before."""
        self.check(node, f"flock {AT_WORK} true 2>/dev/null; exec {HEALTH_CHECK}", timeout=120)

    def gpus(self, node: str, **answers: object) -> None:
        """Change what NVIDIA's library says on a node; the keys are nvml.c's, with __ for a dot."""
        pairs = [str(x) for key, value in answers.items() for x in (key.replace("__", "."), value)]
        self.check(node, ["cluster-gpus", "set", *pairs])

    def reboot(self, node: str) -> None:
        """Let a node have had a reboot, with slurmd up again."""
        self.check(node, ["cluster-reboot", "now"])

    def kill_daemon(self, host: str, name: str) -> None:
        """End a daemon as a crash would; it stays dead until it is started again."""
        self.check(host, ["cluster-daemon", "kill", name])

    def start_daemon(self, host: str, name: str) -> None:
        """Start a daemon and wait until it answers; nothing where it runs already."""
        self.check(host, ["cluster-daemon", "start", name])

    def freeze_daemon(self, host: str, name: str) -> None:
        """Stop a daemon in its tracks: it holds its port and answers nothing."""
        self.check(host, ["cluster-daemon", "freeze", name])

    def thaw_daemon(self, host: str, name: str) -> None:
        """Let a frozen daemon go on."""
        self.check(host, ["cluster-daemon", "thaw", name])

    # --- waiting --------------------------------------------------------------------------------

    def wait(self, condition: Callable[[], T], seconds: float, what: str) -> T:
        """The first true value of ``condition``; AssertionError with the cluster's view if none.

        An AssertionError of the condition itself (Slurm away for a moment) means "not yet".
        """
        last: list[str] = []

        def attempt() -> T | None:
            try:
                return condition()
            except AssertionError as error:
                last[:] = [str(error)]
                return None

        value = poll(attempt, seconds)
        if value is None:
            raise AssertionError(f"no {what} within {seconds} s. {' '.join(last)}\n{self.report()}")
        return value

    def report(self) -> str:
        """What someone who debugs a failed test looks at first."""
        commands = {
            CONTROLLER: (
                "squeue -o '%i %j %u %T %R %N %Q %k'",
                "sinfo -N -p gpu -o '%N %T %E'",
                "scontrol show job | tail -n 150",
                "scontrol show node | grep -E 'NodeName|State|Reason|Extra|Comment'",
                "tail -n 40 /var/log/slurm/slurmctld.log",
                f"tail -n 30 {HOOK_LOG}",
            ),
        }
        commands |= dict.fromkeys(
            NODES, (f"tail -n 15 {HOOK_LOG}", "tail -n 15 /var/log/slurm/slurmd.log")
        )
        parts = []
        for host in filter(self._containers.get, commands):
            for command in commands[host]:
                done = self.run(host, command, timeout=10)
                parts.append(f"--- {host}: {command}\n{done.stdout}{done.stderr}")
        return "\n".join(parts)
