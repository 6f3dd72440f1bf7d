"""The settings of what protects a site from us, and of what tells it how we do."""

from __future__ import annotations

from slurm_failover.frozen import dataclass
from slurm_failover.settings.declare import setting


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """The circuit breaker: many faults at once are rarely the hardware's, so then nothing is
    drained or requeued until an admin has looked.
    """

    enabled: bool = setting(
        True, "Whether draining and requeueing stop by themselves when too many nodes are faulty."
    )
    nodes: int = setting(
        3,
        "How many nodes may be judged faulty within `window` in any case, on a cluster however "
        "small: one more can open the breaker.",
        at_least=1,
        at_most=100000,
    )
    percent: int = setting(
        10,
        "The share of the cluster's nodes that may be judged faulty within `window`. The breaker "
        "opens where more than that, and more than `nodes`, are.",
        at_least=1,
        at_most=100,
    )
    same_percent: int = setting(
        5,
        "The share of nodes that may show one and the same code, or faults under one and the same "
        "driver version, within `window`, where they hit the jobs of several users. More than "
        "that, and more than `nodes`, open the breaker.",
        at_least=1,
        at_most=100,
    )
    users: int = setting(
        2, "How many users are several, for `same_percent`.", at_least=1, at_most=1000
    )
    attempts: int = setting(
        3,
        "How many attempts of one job may meet the same code within a day, each on nodes of its "
        "own. One more opens the breaker for this job and the nodes that it hits.",
        at_least=1,
        at_most=1000,
    )
    window: int = setting(
        1800, "Seconds within which faults count together.", at_least=60, at_most=86400
    )
    lasts: int = setting(
        3600,
        "Seconds after the last fault of too many until the breaker closes by itself.",
        at_least=60,
        at_most=86400,
    )
    pace: int = setting(
        2,
        "Seconds between two drains after the first `at_once`, so that many faults at once can be "
        "counted before all their nodes are drained. 0: no pace.",
        at_least=0,
        at_most=60,
    )
    at_once: int = setting(3, "How many drains need no pace.", at_least=1, at_most=100000)


@dataclass(frozen=True, slots=True)
class SuspicionSettings:
    """A job that may hang without any fault: its GPUs are idle and its log does not grow."""

    after: int = setting(
        0,
        "Seconds for which all GPUs of a flagged job must be idle, and its log unchanged, before "
        "it is suspected to hang. 0: no job is suspected.",
        at_least=0,
        at_most=604800,
    )
    idle_percent: int = setting(
        2, "Utilization in percent up to which a GPU is idle.", at_least=0, at_most=50
    )
    action: str = setting(
        "report",
        "What is done about such a job: `report` it in `status` and metrics, or `requeue` it as "
        "well, which counts as a retry and excludes no node.",
        choices=("report", "requeue"),
    )


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """A program of the site's that is told what happens."""

    command: tuple[str, ...] = setting(
        (),
        "Program and arguments, run without a shell by the user of whoever tells: root on nodes, "
        "SlurmUser on the controller. It gets one JSON object on its standard input. One that "
        "others could change than root and that user is not run. Empty: none.",
    )
    timeout: int = setting(
        30, "Seconds after which the program is killed.", at_least=1, at_most=3600
    )


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Metrics in files for the textfile collector of Prometheus' node exporter."""

    directory: str = setting(
        "",
        "The collector's folder, on nodes and on the controller; SlurmUser must be able to write "
        "there on the controller. Empty: no metrics.",
    )
