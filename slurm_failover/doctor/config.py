"""Slurm's live configuration, as ``scontrol show config`` prints it, and what is fit in it. Pure.

Meanings, defaults and units of the settings are slurm.conf(5)'s of 24.11 and 26.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from slurm_failover.doctor.finding import Finding, error, ok, warning
from slurm_failover.settings.tables import Settings
from slurm_failover.wiring import HOOK_LIMIT, settings_of

_LINE = re.compile(r"([A-Za-z]\w*)(?:\[\d+\])?\s+= (.*)")
_UNSET = ("(null)", "", "N/A")
_OLDEST = (24, 11)
_CHECKING = ("HealthCheckInterval", "HealthCheckTimeout")
_WITHOUT_JOBS = {"IDLE", "NONDRAINED_IDLE", "START_ONLY", "REBOOT_ONLY"}
INSTALL = "slurm-failover install --apply, then scontrol reconfigure"
"""The remedy for what ``slurm-failover install`` puts into slurm.conf."""

LiveConfig = Mapping[str, tuple[str, ...]]
"""Every setting with its values; most have one, and what is not set has none."""


def read_config(text: str) -> LiveConfig:
    """The settings in what ``scontrol show config`` prints."""
    found: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        pair = _LINE.match(line)
        if pair and pair[2].strip() not in _UNSET:
            found[pair[1]] = (*found.get(pair[1], ()), pair[2].strip())
    return found


def value(config: LiveConfig, name: str) -> str:
    """A setting's value, "" where it is not set."""
    return config.get(name, ("",))[0]


def items(config: LiveConfig, name: str) -> list[str]:
    """A list's items, the values of ``key=value`` items included."""
    return [item.strip() for item in value(config, name).split(",") if item.strip()]


def seconds(config: LiveConfig, name: str) -> int | None:
    """A time in seconds; None where it is not set or has no limit (65534, NO_VAL16)."""
    found = re.match(r"(\d+)", value(config, name))
    return int(found[1]) if found and int(found[1]) not in (65534, 65535) else None


def release_of(text: str) -> tuple[int, int]:
    """The release in a version such as ``24.11.5``; (0, 0) where there is none."""
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _ours(config: LiveConfig, *names: str) -> str:
    """Those of these settings that install writes for the controller's release, as it does."""
    values = settings_of(release_of(value(config, "SLURM_VERSION")))
    return " and ".join(f"{name}={values[name]}" for name in names if name in values)


def judge_release(local: str, controller: str) -> Finding:
    """Whether Slurm is new enough, here and on the controller."""
    check = "Slurm's release"
    if release_of(local) < _OLDEST or release_of(controller) < _OLDEST:
        return error(check, f"{local} here, {controller} on the controller", "24.11 or newer")
    if release_of(local) > release_of(controller):
        return error(
            check,
            f"{local} here is newer than {controller} on the controller",
            "Slurm wants the controller updated first",
        )
    return ok(check, controller)


def judge_jobs(config: LiveConfig, settings: Settings) -> Iterator[Finding]:
    """What decides how a failed-over job fares."""
    has_policy = "lua" in items(config, "JobSubmitPlugins")
    yield _judge_requeue(config, has_policy)
    yield _judge_append(config)
    parameters = items(config, "SchedulerParameters")
    if "nohold_on_prolog_fail" in parameters:
        yield ok("nohold_on_prolog_fail", "set: a job whose node is unfit starts elsewhere")
    else:
        yield error(
            "nohold_on_prolog_fail",
            "missing: Slurm holds a job whose node is found unfit, so the Prolog lets it start",
            f"add it to SchedulerParameters: {INSTALL}",
        )
    delays = [item for item in parameters if item.startswith("requeue_delay=")]
    yield ok("requeue_delay", f"{delays[0] if delays else 'as Slurm has it'}; lifted by us")
    yield _judge_storage(config)
    if settings.failover.mode == "observe":
        yield ok("mode", "observe: everything is judged and logged, nothing is changed")
    else:
        yield ok("mode", "act: nodes are drained, and jobs are moved or held")


def _judge_requeue(config: LiveConfig, has_policy: bool) -> Finding:
    if value(config, "JobRequeue") == "1":
        return ok("JobRequeue", "1: jobs can be requeued")
    if has_policy:
        return ok("JobRequeue", "0: job_submit makes the jobs requeueable that ask for failover")
    return error(
        "JobRequeue",
        "0: no job can be failed over that was not submitted with --requeue",
        f"JobSubmitPlugins=lua with our job_submit.lua: {INSTALL}; or JobRequeue=1",
    )


def _judge_append(config: LiveConfig) -> Finding:
    if value(config, "JobFileAppend") == "1":
        return ok("JobFileAppend", "1: all attempts write to one log")
    if "lua" in items(config, "CliFilterPlugins"):
        return ok("JobFileAppend", "0: cli_filter asks for it where a job asks for failover")
    return warning(
        "JobFileAppend",
        "0: each attempt overwrites the log of the one before",
        f"{_ours(config, 'JobFileAppend')}, or our cli_filter.lua where slurm.conf says 0: "
        f"{INSTALL}",
    )


def _judge_storage(config: LiveConfig) -> Finding:
    check = "AccountingStoreFlags"
    if value(config, "AccountingStorageType") != "accounting_storage/slurmdbd":
        return warning(
            check, "no slurmdbd: a job's attempts are forgotten after MinJobAge", "use slurmdbd"
        )
    if "job_comment" in items(config, check):
        return ok(check, "job_comment: sacct shows each attempt in words")
    return warning(
        check,
        "without job_comment: sacct does not show the attempts in words",
        f"add it to {check}: {INSTALL}",
    )


def judge_times(config: LiveConfig, settings: Settings) -> Iterator[Finding]:
    """Whether Slurm waits as long as our hooks and requests may take."""
    limit = seconds(config, "PrologEpilogTimeout")
    if limit is not None and limit <= HOOK_LIMIT:
        yield error(
            "PrologEpilogTimeout",
            f"{limit} s: Slurm ends a hook that waits for a sick GPU, and drains the node for it",
            f"more than {HOOK_LIMIT} s, or no PrologEpilogTimeout",
        )
    else:
        yield ok("PrologEpilogTimeout", f"{limit} s" if limit else "none")
    start = seconds(config, "BatchStartTimeout") or 10
    if start < HOOK_LIMIT:
        yield warning(
            "BatchStartTimeout",
            f"{start} s: a job whose Prolog waits for a sick GPU may be taken for lost",
            f"{_ours(config, 'BatchStartTimeout')} (our Prolog ends within {HOOK_LIMIT} s): "
            "slurm-failover install --apply, or by hand where slurm.conf sets it, then scontrol "
            "reconfigure",
        )
    else:
        yield ok("BatchStartTimeout", f"{start} s")
    yield _judge_message_timeout(config, settings)


def _judge_message_timeout(config: LiveConfig, settings: Settings) -> Finding:
    answer, ours = seconds(config, "MessageTimeout") or 10, settings.slurm.timeout
    if ours < min(answer, settings.slurm.patience):
        return warning(
            "MessageTimeout",
            f"{answer} s, and we give a request up after {ours} s and ask again",
            f"[slurm] timeout = {min(answer, settings.slurm.patience)} in settings.toml",
        )
    return ok("MessageTimeout", f"{answer} s")


def judge_nodes(config: LiveConfig) -> Iterator[Finding]:
    """What decides how faults of nodes are found, and how nodes come back."""
    interval = seconds(config, "HealthCheckInterval") or 0
    limit = seconds(config, "HealthCheckTimeout")
    if not interval:
        found = "0: Slurm never runs the health check, and a hung job is not found"
        yield error("HealthCheckInterval", found, f"{_ours(config, *_CHECKING)}: {INSTALL}")
    elif limit == 0:  # shown for one that is not below the interval; a check then has 60 s
        found = (
            f"{interval} s; HealthCheckTimeout is not below it: Slurm logs an error, and takes 60 s"
        )
        yield ok("HealthCheckInterval", found)
    elif limit and limit <= HOOK_LIMIT:
        yield warning(
            "HealthCheckInterval",
            f"{interval} s, and HealthCheckTimeout is {limit} s: Slurm ends a health check that "
            "waits for a sick GPU",
            f"{_ours(config, *_CHECKING)} in slurm.conf, then scontrol reconfigure",
        )
    else:
        yield ok("HealthCheckInterval", f"{interval} s")
    states = set(re.split(r"[,|]", value(config, "HealthCheckNodeState"))) - {"CYCLE", ""}
    if states and states <= _WITHOUT_JOBS:
        yield warning(
            "HealthCheckNodeState",
            f"{','.join(sorted(states))}: nodes with jobs are not looked at, and a hung job is "
            "not found",
            "HealthCheckNodeState=ANY",
        )
    else:
        yield ok("HealthCheckNodeState", ",".join(sorted(states)) or "ANY")
    yield _judge_return(config)


def _judge_return(config: LiveConfig) -> Finding:
    if value(config, "ReturnToService") == "2":
        return warning(
            "ReturnToService",
            "2: a node that was lost takes jobs again as soon as it registers, whatever was wrong",
            "ReturnToService=1; what we drain stays drained either way",
        )
    return ok("ReturnToService", value(config, "ReturnToService"))
