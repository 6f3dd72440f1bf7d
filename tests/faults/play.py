"""A cluster that lives by itself over the fake slurmctld: jobs run as their script says, nodes
break, Slurm starts our hooks, and any process of ours may meet with trouble (see ``steps``).

The hooks are the real ones, from environment to files; only Slurm, the clock and the processes that
they start are stand-ins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ClusterShell.NodeSet import NodeSet
from fake_slurmctld import FakeSlurm
from fake_state import FakeJob
from steps import Killed, Machine, Steps, stamp

from slurm_failover.controller.returns import readmit_nodes
from slurm_failover.controller.work import reconcile
from slurm_failover.errors import FailoverError
from slurm_failover.record import Record, read_record
from slurm_failover.settings.tables import (
    FailoverSettings,
    Settings,
    SlurmSettings,
    SourceSettings,
    StateSettings,
)
from slurm_failover.slurm.connect import connect

LOST = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus"
NODES = "n[1-6]"
LONGEST_STORY = 60
"""Rounds in which every story ends; one that does not has a job that goes round in circles."""
TIMER = 60
"""Seconds between two reconciles, and that every attempt lasts."""


@dataclass(frozen=True)
class Run:
    """What happens in one attempt of a job: how it ends, and on how many of its nodes a GPU breaks.

    ``end`` is an exit code, ``hangs`` (only the fault ends it), ``lost`` (its first node is), or a
    state of Slurm's such as TIMEOUT. ``soon``: before any timer goes.
    """

    end: int | str = 0
    broken: int = 0
    soon: bool = False


@dataclass
class Script:
    """One job: what its owner wrote, and what happens in each attempt; the last one repeats."""

    runs: tuple[Run, ...]
    comment: str = "failover"
    size: int = 2
    option: str | None = None


@dataclass
class Cluster:
    """The cluster, and what is known to be true of it."""

    folder: Path
    steps: Steps
    limit: int = 3
    slurm: FakeSlurm = field(default_factory=lambda: FakeSlurm(NODES))
    jobs: dict[str, Script] = field(default_factory=dict)
    attempts: dict[str, list[int]] = field(default_factory=dict)
    needy: set[str] = field(default_factory=set)
    foreign: dict[str, str] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    held: dict[str, str] = field(default_factory=dict)
    meddled: set[str] = field(default_factory=set)
    meddle: Callable[[Cluster, str], None] = lambda cluster, moment: None
    twice: bool = False

    def __post_init__(self) -> None:
        self.slurm.parameters["SchedulerParameters"] = "nohold_on_prolog_fail"
        self.controller = self._machine("ctl")
        self.nodes = {str(name): self._machine(str(name)) for name in NodeSet(NODES)}
        for name in self.nodes:
            self._log(name).touch()

    def submit(self, script: Script) -> str:
        """A job; its label."""
        label = self.slurm.submit(script.comment, size=script.size)
        self.jobs[label], self.attempts[label] = script, []
        return label

    def record(self, label: str) -> Record | None:
        """The trusted record of a job."""
        return read_record(self.slurm.peek(label).admin_comment)

    def live(self) -> None:
        """Until nothing happens any more, not even by a reconcile and health checks."""
        for _ in range(LONGEST_STORY):
            if not (self._end_jobs() or self._run_hooks() or self._start_jobs()):
                before, met = self.picture(), self.steps.count_met()
                self.look_everywhere()
                self.reconcile()
                # A timer that died says nothing: the next one goes all the same.
                is_calm = met == self.steps.count_met() and before == self.picture()
                if is_calm and not self._is_anything_due():
                    return
        raise AssertionError("the story does not end:\n" + "\n".join(self.steps.done[-30:]))

    def picture(self) -> list[Any]:
        """All that Slurm shows."""
        jobs = [self.slurm.peek(label).facts(0) for label in self.jobs]
        return [jobs, [self.slurm.peek_node(name).facts() for name in self.nodes]]

    # --- what Slurm starts ------------------------------------------------------------------------

    def _start_jobs(self) -> bool:
        due = [job.begin for job in self._jobs() if self._waits(job)]
        if not due:
            return False
        if min(due) - self.slurm.clock > TIMER:
            self.slurm.clock += TIMER
            self.reconcile()
            return True
        self.slurm.clock = max(self.slurm.clock, min(due))
        started = self.slurm.schedule()
        for label in started:
            self.meddle(self, "start")
            job = self.slurm.peek(label)
            self.attempts[label].append(job.start)
            self.controller.hook("prolog_slurmctld", self._environment(job))
            fit = [self._prolog(job, name) for name in job.nodes]
            if not all(fit):
                self.slurm.requeue(label)
        return bool(started)

    def _prolog(self, job: FakeJob, name: str) -> bool:
        verdict = self.nodes[name].hook("prolog", self._environment(job, name)) == "verdict"
        if verdict:
            self._drain_by_slurm(name, "Prolog error")
        return not verdict

    def _end_jobs(self) -> bool:
        """What the scripts say of the jobs that run now."""
        ran = [job for job in self._jobs() if job.state == "RUNNING"]
        for job in ran:
            runs = self.jobs[job.label].runs
            self._play(job, runs[min(len(self.attempts[job.label]), len(runs)) - 1])
        return bool(ran)

    def _play(self, job: FakeJob, run: Run) -> None:
        if not run.soon:
            self.slurm.clock += TIMER
            self.reconcile()
        for name in job.nodes[: run.broken]:
            self.break_gpu(name)
        self.meddle(self, "run")
        if job.state != "RUNNING":
            return
        if run.end == "lost":
            self.slurm.lose_node(job.nodes[0])
            self.foreign[job.nodes[0]] = "Not responding"
        elif run.end == "hangs":
            self._let_it_hang(job)
        elif isinstance(run.end, int):
            self.slurm.finish(job.label, code=run.end)
        else:
            self.slurm.finish(job.label, state=run.end)

    def _let_it_hang(self, job: FakeJob) -> None:
        """Health checks go on, and so does what they started."""
        for _ in range(3):
            for name in list(job.nodes):
                self.nodes[name].hook("healthcheck", {"SLURMD_NODENAME": name})
                self._run_later(self.nodes[name])
        assert job.state != "RUNNING", "a job hangs on broken nodes for ever"

    def _run_hooks(self) -> bool:
        """The hooks of all jobs that ended: EpilogSlurmctld first, as Slurm does."""
        ended = [job for job in self._jobs() if job.completing]
        for job in ended:
            environment = self._environment(job, ends=True)
            nodes = sorted(job.busy)
            self.meddle(self, "end")
            for _ in range(1 + self.twice):
                self.controller.hook("epilog_slurmctld", environment)
            self.meddle(self, "held")
            for name in nodes:
                self._epilog(name, environment)
            self.slurm.end_hook(job.label)
            self.meddle(self, "completed")
        for machine in (self.controller, *self.nodes.values()):
            self._run_later(machine)
        return bool(ended)

    def _epilog(self, name: str, environment: Mapping[str, str]) -> None:
        told = {**environment, "SLURMD_NODENAME": name}
        outcome = self.nodes[name].hook("epilog", told)
        if outcome == "killed" or self.twice:
            outcome = self.nodes[name].hook("epilog", told)
        if outcome == "verdict":
            self._drain_by_slurm(name, "Epilog error")
        self.slurm.end_epilog(environment["SLURM_JOB_ID"], name)

    def _run_later(self, machine: Machine) -> None:
        while machine.later:
            name, environment = machine.later.pop(0)
            if name != "tell_verdict":
                self.meddle(self, name)
                machine.hook(name, environment)

    def _drain_by_slurm(self, name: str, reason: str) -> None:
        """A hook failed: a node that is drained keeps its reason."""
        if "DRAIN" not in self.slurm.peek_node(name).flags:
            self.slurm.drain(name, reason)
            self.foreign[name] = reason

    # --- what a site starts -----------------------------------------------------------------------

    def look_everywhere(self) -> None:
        """HealthCheckProgram on every node."""
        for name, machine in self.nodes.items():
            machine.hook("healthcheck", {"SLURMD_NODENAME": name})
            self._run_later(machine)

    def reconcile(self) -> None:
        """The timer's `slurm-failover reconcile`."""
        machine = self.controller
        with suppress(Killed, FailoverError, OSError), machine.process({}):
            reconcile(machine.settings, machine.said.append)
            readmit_nodes(connect(machine.settings, machine.said.append), machine.said.append)

    # --- the world --------------------------------------------------------------------------------

    def break_gpu(self, name: str) -> None:
        """The kernel of a node says so."""
        self.needy.add(name)
        log = self._log(name)
        number = len(log.read_text().splitlines()) + 1
        with log.open("a") as file:
            file.write(f"3,{number},{stamp(self.slurm)},-;{LOST}\n")

    def drain_as_admin(self, name: str, reason: str = "maintenance") -> None:
        """An administrator, or another tool."""
        self.slurm.drain(name, reason)
        self.foreign[name] = reason

    def cancel(self, label: str) -> None:
        """Its owner's scancel. One that comes after the job's end Slurm passes over."""
        self.slurm.cancel(label)
        if self.slurm.peek(label).state == "CANCELLED":
            self.cancelled.add(label)

    def hold(self, label: str, hold: str) -> None:
        """Its owner or an administrator holds a job that runs, or that waits for its start."""
        job = self.slurm.peek(label)
        if job.state in ("RUNNING", "PENDING") and not job.hold:
            job.hold = self.held[label] = hold

    def said(self) -> Iterator[str]:
        """All that our processes logged."""
        for name, machine in {"ctl": self.controller, **self.nodes}.items():
            yield from (f"{name}: {line}" for line in machine.said)

    # --- within -----------------------------------------------------------------------------------

    def _jobs(self) -> list[FakeJob]:
        return [self.slurm.peek(label) for label in self.jobs]

    @staticmethod
    def _waits(job: FakeJob) -> bool:
        return job.state == "PENDING" and not job.hold and not job.completing

    def _is_anything_due(self) -> bool:
        return any(j.state == "RUNNING" or j.completing or self._waits(j) for j in self._jobs())

    def _machine(self, name: str) -> Machine:
        folder = self.folder / name
        folder.mkdir()
        sources = SourceSettings(
            kmsg=str(folder / "kmsg"),
            rules=str(folder / "rules"),
            nvml=False,
            sysfs="",
            ipmitool="",
            slurmd_log="",
        )
        settings = Settings(
            failover=FailoverSettings(max_retries=self.limit, trusted_reasons=("nhc:",)),
            sources=sources,
            slurm=SlurmSettings(patience=1),
            state=StateSettings(directory=str(folder / "state"), log=str(folder / "log")),
        )
        return Machine(settings, self.slurm, self.steps)

    def _log(self, name: str) -> Path:
        return self.folder / name / "kmsg"

    def _environment(self, job: FakeJob, node: str = "", *, ends: bool = False) -> dict[str, str]:
        """What Slurm tells a hook of a job."""
        failed = job.exit_code or job.exit_signal or job.state not in ("COMPLETED", "RUNNING")
        told = {
            "SLURM_JOB_ID": job.label,
            "SLURM_JOB_COMMENT": job.comment,
            "SLURM_JOB_NODELIST": str(NodeSet.fromlist(job.nodes)),
            "SLURM_JOB_START_TIME": str(job.start),
            "SLURM_JOB_UID": "1",
            "SLURM_JOB_GID": "1",
            "SLURM_JOB_RESTART_COUNT": "0",
        }
        if ends:
            told["SLURM_JOB_EXIT_CODE"] = "256" if failed else "0"
        if node:
            told["SLURMD_NODENAME"] = node
        if (option := self.jobs[job.label].option) is not None:
            told["SPANK_FAILOVER"] = option
        return told
