"""Watch for jobs of this node that may hang: idle GPUs, and a log that does not grow.

Slurm is asked only when a GPU has been idle for long, and then seldom; a site without the setting
pays nothing.
"""

from __future__ import annotations

import json
import pwd
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from slurm_failover import files, joblog
from slurm_failover.attribution import held_gpus
from slurm_failover.errors import SlurmError
from slurm_failover.evidence import tell_dropped, write_evidence
from slurm_failover.happening import Happening, Kind
from slurm_failover.holding import job_gpus
from slurm_failover.metrics import Metrics
from slurm_failover.model import Evidence, JobCause
from slurm_failover.node.clock import clock_was_set
from slurm_failover.node.memory import LOCK_PATIENCE
from slurm_failover.node.remember import read_devices
from slurm_failover.node.respond import is_ours_to_stop
from slurm_failover.node.stopping import stop_now
from slurm_failover.reporter import reporter
from slurm_failover.settings.limits import read_limits
from slurm_failover.slurm import connect as slurm_connect
from slurm_failover.slurm.client import NodeChange
from slurm_failover.sources.bounded import run_bounded
from slurm_failover.sources.slurmd import read_slots
from slurm_failover.suspicion import Quiet, follow_idle, quiet_since, suspect, write_quiet

if TYPE_CHECKING:
    from slurm_failover.attribution import Device
    from slurm_failover.gres import GresSlot
    from slurm_failover.model import JobFacts
    from slurm_failover.node.ledger import Ledger
    from slurm_failover.settings.tables import Settings
    from slurm_failover.slurm.client import Slurm

STAT_TIMEOUT = 5.0
"""Seconds that a look at a job's log may take: its file system may hang."""

Say = Callable[[str], None]
Gpus = Iterable[tuple[str, int | None]]


def look_for_hangs(
    settings: Settings, node: str, ledger: Ledger, gpus: Sequence[tuple[str, int | None]], say: Say
) -> None:
    """Look for jobs that may hang, where the site wants that. ``gpus`` are the PCI ids of the
    node's GPUs, with their utilization in percent where it is known.
    """
    suspicion = Suspicion(
        settings, node, partial(slurm_connect.connect, settings, say), say, read_devices(ledger)
    )
    try:
        suspicion.look(gpus)
    except (SlurmError, OSError) as error:
        say(f"no job is suspected: {error}")


@dataclass
class State:
    """What is remembered between two looks. ``words`` are those in this node's Extra, ``told`` the
    attempts of which a suspicion was reported; ``looked`` is when the last look was, by both
    clocks.
    """

    idle: dict[str, float] = field(default_factory=dict)
    asked: float = 0.0
    words: list[list[float]] = field(default_factory=list)
    told: list[list[float]] = field(default_factory=list)
    looked: list[float] = field(default_factory=list)


class Suspicion:
    """The suspicions of one node, whose GPUs are ``devices``."""

    def __init__(
        self,
        settings: Settings,
        node: str,
        connect: Callable[[], Slurm],
        say: Say,
        devices: tuple[Device, ...],
    ) -> None:
        self._settings = settings
        self._site = settings.suspicion
        self._node = node
        self._connect = connect
        self._say = say
        self._devices = devices
        self._path = f"{settings.state.directory}/node/quiet.json"
        self._now, self._uptime = time.time(), time.monotonic()

    def look(self, gpus: Gpus) -> None:
        """Follow the GPUs' idleness, and tell and act on what it comes to. Raises SlurmError, and
        OSError where that can not be remembered.
        """
        state = self._recall()
        if clock_was_set(state.looked, [self._now, self._uptime]):
            state.idle = {}
        state.looked = [self._now, self._uptime]
        state.idle = follow_idle(state.idle, gpus, self._now, self._site.idle_percent)
        if state.words or self._is_due(state):
            state.asked = self._now
            self._ask(state)
        files.write_whole(self._path, json.dumps(asdict(state)))

    def _is_due(self, state: State) -> bool:
        after = self._site.after
        long = any(self._now - since >= after for since in state.idle.values())
        return long and abs(self._now - state.asked) >= after / 4

    def _ask(self, state: State) -> None:
        """Bring this node's word up to what its jobs do, and judge those that it is the host of."""
        slurm = self._connect()
        limits = read_limits(self._settings)
        jobs = [job for job in slurm.jobs_on(self._node) if is_ours_to_stop(job, limits)]
        since = {job.job_id: self._since(job, state) for job in jobs}
        quiet = {job_id: time for job_id, time in since.items() if time is not None}
        jobs = [job for job in jobs if job.job_id in quiet]
        words = [Quiet(job.job_id, job.start, quiet[job.job_id]) for job in jobs]
        keys = [[word.job_id, word.start] for word in words]
        if keys != state.words:
            self._leave(slurm, words)
            state.words = keys
        hosts = [job for job in jobs if self._is_host(job)]
        suspects = [job for job in hosts if self._is_suspected(slurm, job)]
        for job in suspects:
            if [job.job_id, job.start] not in state.told:
                self._tell(slurm, job, quiet[job.job_id])
        state.told = [[job.job_id, job.start] for job in suspects]
        Metrics(self._settings, "node", self._say).set_to("suspected_hangs", len(suspects))

    def _since(self, job: JobFacts, state: State) -> float | None:
        """Since when a job is quiet here, if for long enough."""
        held = held_gpus(job_gpus(job, self._node), self._devices, self._slots)
        idle = quiet_since(held, state.idle)
        written = self._log_written(job) if idle and self._is_host(job) else job.start
        if idle is None or written is None:
            return None
        since = max(idle, written, job.start)
        return since if self._now - since >= self._site.after else None

    @cached_property
    def _slots(self) -> tuple[GresSlot, ...] | None:
        return read_slots(self._settings.slurm.slurmd, self._node)

    def _is_host(self, job: JobFacts) -> bool:
        return job.batch_host == self._node

    def _log_written(self, job: JobFacts) -> float | None:
        """When the job's log was last written to, looked at with its owner's rights; None where
        that is unknown: no regular file, no such user, a file system that hangs.
        """
        try:
            person = pwd.getpwnam(job.user)
        except KeyError:
            return None
        rights = [f"--reuid={person.pw_uid}", f"--regid={person.pw_gid}", "--init-groups"]
        path = joblog.resolve(job.stdout, self._node)
        stat = ["/usr/bin/stat", "--dereference", "--format=%Y %F", "--", path]
        answer = run_bounded(["/usr/bin/setpriv", *rights, *stat], STAT_TIMEOUT)
        seconds, _, kind = answer.output.strip().partition(" ")
        return float(seconds) if answer.status == 0 and kind.startswith("regular") else None

    def _is_suspected(self, slurm: Slurm, job: JobFacts) -> bool:
        return suspect(job, slurm.nodes(job.nodes)) is not None

    def _leave(self, slurm: Slurm, words: Sequence[Quiet]) -> None:
        self._rewrite(slurm, lambda extra: write_quiet(extra, words))

    def _tell(self, slurm: Slurm, job: JobFacts, since: float) -> None:
        idle = f"its GPUs are idle, and its log has not grown, for {self._now - since:.0f} s"
        self._say(f"job {job.label} is suspected to hang: {idle}")
        told = Happening(Kind.SUSPICION, idle, node=self._node, job=job.label, user=job.user)
        reporter(self._settings, "node", self._say)(told)
        if self._site.action == "requeue":
            self._move(slurm, job, idle)

    def _move(self, slurm: Slurm, job: JobFacts, because: str) -> None:
        """Have the controller move the job: it counts as a retry, and no node is to blame."""
        entry = Evidence(
            node=self._node,
            job_id=job.job_id,
            start=job.start,
            cause=JobCause.HUNG,
            because=f"suspected to hang: {because}",
            time=self._now,
            requeued=self._settings.failover.mode == "act",
        )

        def leave_word(before: str) -> str:
            extra = write_evidence(before, self._node, [entry], self._now)
            if full := tell_dropped(before, extra):
                self._say(full)
            return extra

        self._rewrite(slurm, leave_word)
        try:
            stop_now(slurm, job.label, job.start, self._say)
        except SlurmError as error:
            self._say(f"job {job.label} runs on: {error}")

    def _rewrite(self, slurm: Slurm, change: Callable[[str], str]) -> None:
        """Change the node's Extra under its lock: no word of an Epilog gets lost in between."""
        with files.locked(f"{self._settings.state.directory}/node/lock", LOCK_PATIENCE):
            before = slurm.nodes(self._node)[0].extra
            extra = change(before)
            if extra != before:
                slurm.update_node(self._node, NodeChange(extra=extra))

    def _recall(self) -> State:
        try:
            raw: Any = json.loads(files.read_whole(self._path) or "{}")
            return State(**raw)
        except (OSError, ValueError, TypeError):
            return State()
