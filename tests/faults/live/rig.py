"""Trouble on the live cluster, and what must hold after it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from cluster import CONTROLLER, HOOK_LOG, HOSTS, NODES, Cluster, Finished, each
from story import LOST, Story

SETTINGS = "/etc/slurm-failover/settings.toml"
STATE = "/var/lib/slurm-failover"
READ_ONLY = "/read-only"
SHARE = "/opt/slurm-failover/share/slurm-failover"
WRAPPER = Path(__file__).with_name("trouble.sh").read_text()
COMMANDS = ("scontrol", "squeue", "scancel", "sacct")
NOT_CHANGES = ("squeue", "sacct", "scontrol show", "scontrol ping")
OURS = "[s]lurm-failover|/shared/[b]in"
"""What the command lines of all our processes have, and that of the search does not."""

TIMER = 2.0
"""Seconds between two reconciles."""


class Rig(Story):
    """One test's view of a cluster in trouble."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.foreign: dict[str, str] = {}
        self.sick: set[str] = set()
        self.repaired: set[str] = set()
        self.jobs: list[int] = []
        self.nodes_at_rest: dict[int, list[str]] = {}
        self._logged = each(lambda host: len(cluster.read(host, HOOK_LOG)), HOSTS)
        self._set("[breaker]\nenabled = false\n")

    # --- trouble at a step ------------------------------------------------------------------------

    def lay_wires(self, timeout: int = 3, patience: int = 20) -> None:
        """From now on every Slurm command of ours is counted, and may meet with trouble."""
        copy = ["bash", "-c", 'for name in $2; do printf %s "$1" >/shared/bin/$name; done', "copy"]
        self.cluster.check(
            CONTROLLER,
            "rm -rf /shared/bin /shared/steps /shared/trouble; "
            "mkdir -m 777 /shared/bin /shared/steps /shared/trouble; : >/shared/steps/lock; "
            f"for host in {' '.join(HOSTS)}; do : >/shared/steps/$host; done; "
            "chmod 666 /shared/steps/*",
        )
        self.cluster.check(CONTROLLER, [*copy, WRAPPER, " ".join(COMMANDS)])
        self.cluster.check(CONTROLLER, "chmod 755 /shared/bin/*")
        self._set(
            '[slurm]\nbin = "/shared/bin"\nclient = "scontrol"\n'
            f"timeout = {timeout}\npatience = {patience}\n"
        )

    def _set(self, text: str) -> None:
        append = ["bash", "-c", f"printf '\\n%s' \"$1\" >>{SETTINGS}", "append", text]
        each(lambda host: self.cluster.check(host, append), HOSTS)

    def forget_steps(self) -> None:
        """Count from here."""
        self.cluster.check(
            CONTROLLER,
            "rm -f /shared/trouble/* /shared/steps/fired /shared/steps/open; "
            f"for host in {' '.join(HOSTS)}; do : >/shared/steps/$host; done",
        )

    def steps(self, host: str) -> list[str]:
        """The calls that our processes on a host have made."""
        return self.cluster.read(CONTROLLER, f"/shared/steps/{host}").splitlines()

    def trouble(self, host: str, which: int | str, kind: str) -> None:
        """Lay down what happens at a call of a host, by its number or by how it begins."""
        self.cluster.check(CONTROLLER, f"echo {which} {kind} >/shared/trouble/{host}")

    def has_fired(self) -> bool:
        """Whether the trouble has come."""
        return self.cluster.run(CONTROLLER, ["test", "-e", "/shared/steps/fired"]).rc == 0

    def wait_fired(self) -> None:
        """Wait until a process of ours stands at the gate, or has met its trouble."""
        self.cluster.wait(self.has_fired, 40, "the trouble that was laid down")

    def open_gate(self) -> None:
        """Let the process at the gate go on."""
        self.cluster.check(CONTROLLER, ": >/shared/steps/open")

    def is_away(self) -> bool:
        """Whether slurmctld answers nobody."""
        return self.cluster.run(CONTROLLER, ["scontrol", "show", "config"], timeout=2).rc != 0

    # --- deaths -----------------------------------------------------------------------------------

    def kill_ours(self, host: str) -> None:
        """SIGKILL for every process of ours on a host, shells and all."""
        self.cluster.run(host, ["pkill", "-KILL", "-f", OURS])

    def wait_saved(self) -> None:
        """Wait until slurmctld has saved what happened until now. One that is killed before shows a
        job that has ended as running, until it misses it on its node (seen on 24.11.5).
        """
        now = self.cluster.check(CONTROLLER, "date +%s%N").strip()
        self.cluster.sbatch("true", "--hold")  # something that has to be saved
        saved = f'[ "$(date -r /var/spool/slurmctld/job_state +%s%N)" -gt {now} ]'
        self.cluster.wait(
            lambda: self.cluster.run(CONTROLLER, saved).rc == 0, 30, "slurmctld's state on its disk"
        )

    def daemons(self, host: str, names: Sequence[str], action: str) -> None:
        """start, kill, freeze or thaw daemons of a host."""
        for name in names:
            self.cluster.check(host, ["cluster-daemon", action, name])

    def reboot(self, node: str) -> None:
        """A node reboots, which mends what it had."""
        self.repaired.add(node)
        self.cluster.reboot(node)

    def reboot_controller(self) -> None:
        """What a reboot of the controller's machine does: all dies, and Slurm comes back."""
        names = ("munged", "mariadbd", "slurmdbd", "slurmctld")
        boot = "/var/lib/slurm-failover-test/proc/sys/kernel/random/boot_id"
        self.daemons(CONTROLLER, tuple(reversed(names)), "kill")
        self.kill_ours(CONTROLLER)
        self.cluster.check(
            CONTROLLER, f"rm -rf /run/slurm-failover; cat /proc/sys/kernel/random/uuid >{boot}"
        )
        self.daemons(CONTROLLER, names, "start")

    # --- the world --------------------------------------------------------------------------------

    def start(self, *options: str, comment: str | None = "failover", nodes: int = 1) -> int:
        """Submit a job and wait until it runs."""
        job = super().start(*options, comment=comment, nodes=nodes)
        self.jobs.append(job)
        self.nodes_at_rest[job] = self.nodes(job)
        return job

    def said(self, host: str) -> str:
        """What our hooks on a host have logged since the test began."""
        return self.cluster.read(host, HOOK_LOG)[self._logged[host] :]

    def break_gpu(self, node: str) -> None:
        """A GPU of a node falls off the bus."""
        self.sick.add(node)
        self.cluster.inject(node, LOST)

    def break_memory(self, node: str) -> None:
        """The memory of a node fails, which is every job's that runs there."""
        self.sick.add(node)
        self.cluster.inject(node, "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0")

    def look(self, node: str) -> None:
        """A health check, now."""
        self.cluster.check_health(node)

    def end_broken(self, job: int) -> str:
        """A GPU breaks under a job, and the job fails of it; the node's name."""
        node = self.nodes(job)[0]
        self.break_gpu(node)
        self.end(job, 1)
        return node

    def drain_as_admin(self, node: str, reason: str) -> None:
        """An administrator drains a node."""
        self.foreign[node] = reason
        update = ["scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}"]
        self.cluster.check(CONTROLLER, update)

    def reconcile(self) -> Finished:
        """The timer's reconcile; it may meet with trouble itself."""
        return self.cluster.run(CONTROLLER, ["slurm-failover", "reconcile"], "slurm")

    def has_begun(self, job: int, restarts: int = 0) -> bool:
        """Whether the job's script runs, in this attempt."""
        line = f"attempt {restarts} on"
        return line in self.cluster.output(job) and "RUNNING" in self.cluster.job_state(job)

    def bring_back(self, job: int, restarts: int = 1, seconds: float = 90) -> list[str]:
        """Reconcile, as a timer does, until the job runs again; the names of its nodes."""
        due = time.monotonic() + TIMER

        def runs() -> bool:
            nonlocal due
            if self.has_begun(job, restarts):
                return True
            if time.monotonic() > due:
                self.reconcile()
                due = time.monotonic() + TIMER
            return False

        self.cluster.wait(runs, seconds, f"attempt {restarts} of job {job}")
        return self.nodes(job)

    def wait_ended(self, job: int, seconds: float = 90) -> None:
        """Wait until a job's end is through."""
        self.cluster.wait(
            lambda: not {"RUNNING", "COMPLETING"} & set(self.cluster.job_state(job)),
            seconds,
            f"the end of job {job}",
        )

    def settle(self, seconds: float = 60) -> None:
        """Reconcile until it finds nothing more to do."""
        self.cluster.wait(
            lambda: (
                (done := self.reconcile()).rc == 0 and "0 jobs had" in done.stdout + done.stderr
            ),
            seconds,
            "a reconcile that has nothing to do",
        )

    def heal(self) -> None:
        """Repaired nodes, for the next play: only what the next one would take for its own goes."""
        for node in sorted(self.sick):
            self.wait_drained(node)
            self.cluster.wait(
                lambda node=node: "COMPLETING" not in self.cluster.node(node)["state"], 60, "an end"
            )
            update = ["scontrol", "update", f"NodeName={node}"]
            self.cluster.check(CONTROLLER, [*update, "State=RESUME"])
            self.cluster.check(CONTROLLER, [*update, "Reason=", "Extra="])
        self.sick.clear()
        self.jobs.clear()

    def changes(self, host: str) -> int:
        """How many calls of a host have changed something."""
        return sum(not call.startswith(NOT_CHANGES) for call in self.steps(host))

    # --- promises ---------------------------------------------------------------------------------

    def check_promises(self) -> None:
        """What holds after every story: see tests/faults/promises.py."""
        for job in self.jobs:
            self._check_job(job)
        for name in NODES:
            reason = self.reason(name)
            if name in self.foreign:
                assert reason == self.foreign[name]
            elif reason.startswith("slurm-failover"):
                assert name in self.sick, f"good node {name} was drained: {reason}"

    def _check_job(self, job: int) -> None:
        view, known = self.show(job), self.cluster.job(job)
        assert "failover" in known["comment"], view
        if view["state"] is None:
            return
        moved = [past["start"] for past in view["history"] if past["outcome"] == "failover"]
        assert len(moved) == len(set(moved)) == view["retries"] <= view["max_retries"], view
        assert not (known["hold"] and view["state"] == "failoverinprogress"), view

    def check_moved(self, job: int, retries: int = 1) -> None:
        """A job that was moved so often runs to its end, and the promises hold."""
        view = self.show(job)
        assert view["retries"] == retries, view
        assert not set(self.nodes(job)) & (self.sick - self.repaired)
        self.end(job, 0)
        self.wait_shown(job, "Completed")
        self.check_promises()
