"""The vocabulary: every noun that the rest of the house shares, and nothing that acts.

The flow is Record → Event → Judgement on a node, and Evidence + JobFacts → Verdict on the
controller. Times are seconds since the epoch, PCI ids are written ``0000:3b:00``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FaultClass(StrEnum):
    """Whose fault an event is."""

    HARDWARE = "hardware"
    INTERNAL = "internal"
    IMAGE_PULL = "image_pull"
    AMBIGUOUS = "ambiguous"
    INFORMATIONAL = "informational"


class Scope(StrEnum):
    """How far an event reaches: one job, one GPU, the fabric between GPUs, or the whole node."""

    JOB = "job"
    GPU = "gpu"
    FABRIC = "fabric"
    NODE = "node"


class NodeAction(StrEnum):
    """What a node needs after an event."""

    NONE = "none"
    DRAIN = "drain"
    REBOOT = "reboot"


class Role(StrEnum):
    """What part an event plays beside others.

    A root stands on its own. An echo takes over whose fault it is from what came before it on the
    same device, and stands on its own only where nothing did. A hint proves nothing by itself, and
    turns an ambiguous event on the same device into a hardware fault. A condition is the node's
    need and never the cause of a job's end. A cancel takes the node's need of an earlier echo back.
    """

    ROOT = "root"
    ECHO = "echo"
    HINT = "hint"
    CONDITION = "condition"
    CANCEL = "cancel"


class JobCause(StrEnum):
    """Whose fault the end of a job was, as far as one node can tell. ``HUNG`` is a suspicion on
    which the site wants the job moved; no node is to blame.
    """

    HARDWARE = "hardware"
    INTERNAL = "internal"
    IMAGE_PULL = "image_pull"
    HUNG = "hung"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a log, freed of its transport: prefixes, colours and escapes are gone.

    ``time`` is None where the log gives none; ``time_certain`` is False where it had to be guessed
    (no year, no zone, a wall clock that was printed from a monotonic one). ``trusted`` says that an
    ordinary user could not have written the line. ``origin`` is "kernel", the name of the program
    that wrote the line, or empty where the log does not say. ``repeats`` is how many messages the
    line stands for ("message repeated 9 times").
    """

    text: str
    line: int = 0
    time: float | None = None
    time_certain: bool = False
    sequence: int | None = None
    trusted: bool = False
    source: str = ""
    origin: str = ""
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class Event:
    """What one or more records say, and which rule says so. Storms of one kind are one event.

    ``implied`` is the class of another code that the line itself names as its cause.
    ``gpu_instance`` is the MIG GPU instance that the line names, if it names one.
    """

    kind: str
    klass: FaultClass
    scope: Scope
    rule: str
    because: str
    code: int | None = None
    pci: str | None = None
    meaning: str = ""
    action: str = ""
    node_action: NodeAction = NodeAction.NONE
    role: Role = Role.ROOT
    implied: FaultClass | None = None
    time: float | None = None
    last_time: float | None = None
    time_certain: bool = False
    line: int = 0
    lines: int = 1
    sequence: int | None = None
    trusted: bool = False
    source: str = ""
    text: str = ""
    gpu_instance: int | None = None

    @property
    def gpu(self) -> str | None:
        """The PCI id of the one GPU that this is about, if any. A fault of the fabric names the
        GPU whose links it is about; only an SXid names a switch.
        """
        about_one = self.scope in (Scope.GPU, Scope.FABRIC) and self.kind != "sxid"
        return self.pci if about_one else None


@dataclass(frozen=True, slots=True)
class Window:
    """The span in which an event can belong to a job: its start to its end, plus a grace."""

    start: float
    end: float
    grace: float = 30.0

    def holds(self, time: float | None) -> bool:
        """Whether an event at ``time`` can belong; an event without a time cannot."""
        return time is not None and self.start - 1.0 <= time <= self.end + self.grace


@dataclass(frozen=True, slots=True)
class Judgement:
    """Two decisions over the same events: whose fault the job's end was, and the node's need.

    An out-of-bounds kernel can deny the job *and* leave a node that needs a reboot.
    """

    cause: JobCause
    node: NodeAction
    because: str
    root: Event | None = None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What Slurm says of one job at one moment.

    ``label`` is the name to use in requests: ``ARRAY_TASK`` for an array task, since the bare id of
    an array's first record would hit every task. ``nodes`` and ``excluded`` are hostlists as Slurm
    prints them. ``states`` holds the base state and its flags, such as FAILED and COMPLETING.
    ``held_by_requeue`` says that its hold came with a requeue, in one request.
    ``components`` are the ids of a heterogeneous job, leader first; ``label`` is the leader's.
    ``other_partitions`` and ``other_qos`` are those of its other components, as far as Slurm was
    asked about them in the same moment.
    ``tasks`` are those of an array that wait, where this is the one record of all of them, as Slurm
    prints them: ``1,4-6``.
    ``stdout`` is the path of the job's output, with what differs between nodes (``%N``) unresolved.
    ``gres_detail`` says of each node which GRES the job holds there; ``allocated`` are the names of
    these nodes in the same order, which that of ``nodes`` need not be. A job that completes has no
    such detail any more (seen on 24.11.5 and 26.05.5); ``wants_gpus`` still says that a TRES of
    GPUs or of shares of them is among those that it asked for or holds, and ``has_whole_nodes``
    that no other job, or none of another user's, shares its nodes.
    """

    job_id: int
    label: str
    name: str = ""
    user: str = ""
    partition: str = ""
    qos: str = ""
    other_partitions: str = ""
    other_qos: str = ""
    states: frozenset[str] = frozenset()
    reason: str = ""
    comment: str = ""
    admin_comment: str = ""
    nodes: str = ""
    excluded: str = ""
    required: str = ""
    failed_node: str = ""
    restarts: int = 0
    start: float = 0.0
    end: float = 0.0
    eligible: float = 0.0
    exit_code: int = 0
    exit_signal: int = 0
    batch: bool = True
    requeue: bool = True
    held: bool = False
    held_by_requeue: bool = False
    priority: int = 0
    gres_detail: tuple[str, ...] = ()
    allocated: tuple[str, ...] = ()
    wants_gpus: bool = False
    has_whole_nodes: bool = False
    node_count: int = 0
    components: tuple[int, ...] = ()
    federation: str = ""
    tasks: str = ""
    stdout: str = ""
    batch_host: str = ""

    @property
    def is_led(self) -> bool:
        """Whether this is a later component of a heterogeneous job."""
        return self.job_id in self.components[1:]

    def has(self, *states: str) -> bool:
        """Whether the job is in any of the given Slurm states or flags."""
        return not self.states.isdisjoint(states)

    @property
    def is_live(self) -> bool:
        """Whether the job waits or runs, or its end is not through yet."""
        return self.has("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING")

    def runs_since(self, start: float) -> bool:
        """Whether the attempt that began at ``start`` still runs, or is suspended."""
        runs = self.has("RUNNING", "SUSPENDED") and not self.has("COMPLETING")
        return runs and self.start == start


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What Slurm says of one node at one moment. ``gpus`` is how many it has as GRES; None where
    that was not told.
    """

    name: str
    states: frozenset[str] = frozenset()
    reason: str = ""
    reason_time: float = 0.0
    extra: str = ""
    comment: str = ""
    partitions: tuple[str, ...] = ()
    gpus: int | None = None

    def has(self, *states: str) -> bool:
        """Whether the node is in any of the given Slurm states or flags."""
        return not self.states.isdisjoint(states)


@dataclass(frozen=True, slots=True)
class Limits:
    """What the site allows: failovers for one job, where, and which foreign drain reasons count.

    ``cancel_denied`` and ``cancel_exceeded`` say that such a job is cancelled instead of held.
    ``image_retries`` is how often a failed fetch of a container image is tried again, after pauses
    that double from ``image_first_wait`` to at most ``image_longest_wait`` seconds.
    """

    max_retries: int = 3
    trusted_reasons: tuple[str, ...] = ()
    spot_partitions: tuple[str, ...] = ()
    spot_qos: tuple[str, ...] = ()
    cancel_denied: bool = False
    cancel_exceeded: bool = False
    image_retries: int = 5
    image_first_wait: int = 60
    image_longest_wait: int = 1800


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one node says about one attempt of one job; ``start`` names the attempt.

    ``requeued`` says that the node itself requeued and held the job, since it was running on.
    ``passing`` says that the cause may be gone when the job starts again.
    """

    node: str
    job_id: int
    start: float
    cause: JobCause
    because: str
    time: float = 0.0
    requeued: bool = False
    passing: bool = False
