"""The site's settings: one dataclass per table, a default and a sentence for every key.

The same classes give the defaults, the checks and the reference page; file.py reads them.
"""

from __future__ import annotations

from slurm_failover.frozen import dataclass, field
from slurm_failover.settings.declare import setting
from slurm_failover.settings.protection import (
    BreakerSettings,
    MetricsSettings,
    NotifySettings,
    SuspicionSettings,
)
from slurm_failover.settings.thresholds import GpuThresholds, MachineThresholds

DEFAULT_PATH = "/etc/slurm-failover/settings.toml"


@dataclass(frozen=True, slots=True)
class FailoverSettings:
    """When a job is moved, and how far it may go."""

    mode: str = setting(
        "act",
        "`act`, or `observe`: look and judge, do nothing, and say what would have been done, in "
        "the log and in `status`. Only our own member of a node's Extra is written then.",
        choices=("act", "observe"),
    )
    max_retries: int = setting(
        3,
        "How many failovers one job gets. A user may ask for fewer (`failover=N`), never for more.",
        at_least=1,
        at_most=1000,
    )
    wait_for_nodes: int = setting(
        300,
        "Seconds to wait for the Epilogs of an ended job's nodes before the decision is made with "
        "what is known.",
        at_least=1,
        at_most=3600,
    )
    grace: int = setting(
        30,
        "Seconds after a job's end in which a fault on its nodes still belongs to it.",
        at_least=0,
        at_most=3600,
    )
    trusted_reasons: tuple[str, ...] = setting(
        (),
        "Drain reasons of other tools that count as a hardware fault: regular expressions, matched "
        "from the beginning of the Reason.",
        patterns=True,
    )
    spot_partitions: tuple[str, ...] = setting(
        ("spot*", "preempt*"),
        "Partitions whose jobs may be taken away at any time: failover is refused there. Shell "
        "globs.",
    )
    spot_qos: tuple[str, ...] = setting(
        ("spot*", "preempt*"), "QOS in which failover is refused. Shell globs."
    )
    on_denial: str = setting(
        "hold",
        "What becomes of a job whose failover is denied: `hold` it for its owner, or `cancel` it, "
        "for workflow managers that wait for an end.",
        choices=("hold", "cancel"),
    )
    on_exceeded: str = setting(
        "hold",
        "What becomes of a job that has used all its retries: `hold` or `cancel`.",
        choices=("hold", "cancel"),
    )


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """What is done when a registry does not give out a container image for the moment."""

    retries: int = setting(
        5,
        "How often a job is started again after a time-out, an error of the registry's own (5xx) "
        "or its rate limit (429). These are no failovers.",
        at_least=0,
        at_most=100,
    )
    first_wait: int = setting(
        60, "Seconds before the first of them; each wait doubles.", at_least=1, at_most=86400
    )
    longest_wait: int = setting(1800, "Seconds that no wait exceeds.", at_least=1, at_most=86400)


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """What a running job gets before it is requeued, so that it can save its work."""

    signal: str = setting(
        "",
        "Signal for the steps of a running job, such as `USR1`; with `B:` before it, for the batch "
        "script alone. Empty: none. A job chooses its own by the word `checkpoint=SIGNAL@SECONDS` "
        "in its comment.",
    )
    grace: int = setting(60, "Seconds that the job has to end by itself.", at_least=1, at_most=3600)
    longest_grace: int = setting(
        600, "Seconds that a job may ask for at most.", at_least=1, at_most=3600
    )


NO_CHECKPOINT = CheckpointSettings()
"""A running job is requeued at once, unless it asks for a grace itself."""


@dataclass(frozen=True, slots=True)
class PrioritySettings:
    """How a failed-over job gets ahead of the jobs that wait."""

    method: str = setting(
        "top",
        "`top`: above every waiting job of the partition, for that one start; `nice`: `nice` is "
        "subtracted from the job's niceness; `qos`: the job moves to the QOS named in `qos`; both "
        "stay with the job, also when its owner requeues it. `none`: as it was.",
        choices=("top", "nice", "qos", "none"),
    )
    nice: int = setting(
        100000,
        "By how much method `nice` raises the priority.",
        at_least=1,
        at_most=2147483645,
    )
    qos: str = setting("", "The QOS of method `qos`.")


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Where a node's evidence is read."""

    kmsg: str = setting(
        "/dev/kmsg",
        "The kernel's log, in the record format of /dev/kmsg. Empty: the journal is read instead.",
    )
    journalctl: str = setting(
        "/usr/bin/journalctl",
        "The program that reads the kernel's messages from the systemd journal where `kmsg` can "
        "not be read. Empty: the journal is not read.",
    )
    proc: str = setting(
        "/proc",
        "Where the kernel tells its id of this boot (`sys/kernel/random/boot_id`), and NVIDIA's "
        "driver its GPUs (`driver/nvidia/gpus`).",
    )
    slurmd_log: str = setting(
        "/var/log/slurm/slurmd.log",
        "slurmd's log (SlurmdLogFile), where failed fetches of container images are found. As in "
        "slurm.conf, the first `%n` stands for the node's name and the first `%h` for its host's.",
    )
    nvml: bool = setting(
        True,
        "Whether NVML is asked for the state of the GPUs. Where it is not, whose a fault is rests "
        "on the driver's own list of them (`proc`).",
    )
    nvml_timeout: int = setting(
        10,
        "Seconds after which a look at the GPUs is given up: a sick GPU can hang NVML for ever.",
        at_least=1,
        at_most=20,
    )
    sysfs: str = setting(
        "/sys",
        "Where the health check reads PCIe, memory, heat and network ports. Empty: not at all.",
    )
    ipmitool: str = setting(
        "/usr/bin/ipmitool",
        "The program with which the health check asks the BMC. Empty: the BMC is not asked.",
    )
    bmc_interval: int = setting(
        600, "Seconds between two looks at the BMC, which is slow.", at_least=1, at_most=86400
    )
    rules: str = setting(
        "/etc/slurm-failover/rules.d", "Folder of the site's own rule files; it may be absent."
    )
    first_look: int = setting(
        900,
        "Seconds of kernel log that count when a node is looked at for the first time. Older "
        "records were there before slurm-failover and drain nothing.",
        at_least=0,
        at_most=86400,
    )

    def slurmd_log_of(self, node: str, host: str) -> str:
        """slurmd's log on a node of that name, on the host of that name (without its domain). Slurm
        fills in the first of each (_massage_pathname in slurmd.c).
        """
        return self.slurmd_log.replace("%h", host, 1).replace("%n", node, 1)


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What becomes of a node that we drained."""

    resume_after_repair: bool = setting(
        False,
        "Whether the health check lifts our own drain by itself, after the reboot or reset that "
        "the fault asked for, and with all checks clean.",
    )


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """The resident watcher, where a site runs it."""

    nvml_events: bool = setting(
        True,
        "Whether NVML's events are waited for. Whoever waits holds the driver: stop the watcher "
        "before a GPU is reset or the driver replaced.",
    )
    interval: int = setting(
        300,
        "Seconds between two looks at what neither the kernel's log nor NVML's events tell: NVML, "
        "sysfs and, at its own cadence, the BMC. A look takes about 0.2 s of one core.",
        at_least=5,
        at_most=3600,
    )


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """How Slurm is asked."""

    client: str = setting(
        "auto",
        "How the decider and the commands ask for many jobs or nodes: `pyslurm`, `scontrol`, or "
        "`auto`, which is pyslurm where it is installed and built for this release of Slurm. What "
        "pyslurm can not do or answer goes through scontrol; with `pyslurm` the log says why.",
        choices=("auto", "scontrol", "pyslurm"),
    )
    bin: str = setting("/usr/bin", "Folder of scontrol, squeue and sacct.")
    slurmd: str = setting(
        "/usr/sbin/slurmd", "The node's daemon; `slurmd -G` tells which GPUs the node's GRES are."
    )
    timeout: int = setting(
        10, "Seconds that one request may take before it is tried again.", at_least=1, at_most=300
    )
    patience: int = setting(
        30, "Seconds that one request is tried in all.", at_least=1, at_most=3600
    )


@dataclass(frozen=True, slots=True)
class StateSettings:
    """Where we keep what Slurm does not: a node's ledger, the controller's wake-up notes."""

    directory: str = setting(
        "/var/lib/slurm-failover",
        "Holds `node/` (root's) on nodes and `controller/` (SlurmUser's) on controllers.",
    )
    log: str = setting(
        "",
        "File that hooks, reconcile and resume append to. On controllers they run as SlurmUser, "
        "who must be able to write it. Empty: syslog, facility daemon.",
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All tables of settings.toml."""

    failover: FailoverSettings = field(default_factory=FailoverSettings)
    priority: PrioritySettings = field(default_factory=PrioritySettings)
    image: ImageSettings = field(default_factory=ImageSettings)
    checkpoint: CheckpointSettings = field(default_factory=CheckpointSettings)
    sources: SourceSettings = field(default_factory=SourceSettings)
    gpu: GpuThresholds = field(default_factory=GpuThresholds)
    machine: MachineThresholds = field(default_factory=MachineThresholds)
    nodes: NodeSettings = field(default_factory=NodeSettings)
    watch: WatchSettings = field(default_factory=WatchSettings)
    breaker: BreakerSettings = field(default_factory=BreakerSettings)
    suspicion: SuspicionSettings = field(default_factory=SuspicionSettings)
    notify: NotifySettings = field(default_factory=NotifySettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    slurm: SlurmSettings = field(default_factory=SlurmSettings)
    state: StateSettings = field(default_factory=StateSettings)
