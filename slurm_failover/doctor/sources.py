"""Whether what a node's evidence is read from is there, readable, and out of users' hands."""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from slurm_failover.attribution import Device, devices_of, finds_holder_of_all, held_gpus
from slurm_failover.catalogue import load_rules
from slurm_failover.doctor.config import value
from slurm_failover.doctor.finding import Finding, error, ok, warning
from slurm_failover.doctor.host import Host, owners
from slurm_failover.errors import RuleError, SourceUnreadable
from slurm_failover.gres import GresSlot
from slurm_failover.holding import JobGpus
from slurm_failover.settings.tables import DEFAULT_PATH, SourceSettings
from slurm_failover.sources.journal import read_journal
from slurm_failover.sources.nvml import read_state
from slurm_failover.sources.slurmd import read_slots
from slurm_failover.trust import find_weakness

_NAMES = "have gres.conf name /dev/nvidiaN"
_MAP = (
    f"install or mend NVIDIA's driver, set [sources] proc to where it lists its GPUs, and {_NAMES}"
)
"""What leads from a fault to the job that holds the GPU."""


def check_sources(host: Host) -> Iterator[Finding]:
    """The kernel's log, slurmd's log, sysfs and the BMC."""
    sources = host.settings.sources
    yield _check_kernel_log(sources.kmsg, sources.journalctl)
    yield _check_slurmd_log(host)
    if not sources.sysfs:
        yield ok("sysfs", "not read, by [sources] sysfs")
    elif Path(sources.sysfs).is_dir():
        yield ok("sysfs", sources.sysfs)
    else:
        yield warning("sysfs", f"{sources.sysfs}: no such folder", "set [sources] sysfs")
    yield _check_bmc(sources.ipmitool)


def _check_kernel_log(kmsg: str, journalctl: str) -> Finding:
    """The kernel's own log, or the journal where that can not be read."""
    if _can_read(kmsg) or not journalctl or os.geteuid() != 0:
        return _check_log("kernel log", kmsg, "[sources] kmsg")
    try:
        read_journal(journalctl, "--lines=1")
    except SourceUnreadable as problem:
        found = f"{kmsg} can not be read, nor can the journal: {problem}"
        return error("kernel log", found, "set [sources] kmsg or journalctl")
    return ok("kernel log", f"the journal, by {journalctl}: {kmsg} can not be read")


def _can_read(path: str) -> bool:
    """Whether a file can be opened: in a container root may have the right, and be refused."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _check_log(check: str, path: str, key: str, *trusted: pwd.struct_passwd) -> Finding:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        weak = find_weakness(os.path.abspath(path), owners(*trusted))  # noqa: PTH100 - keeps links
    except PermissionError:
        return warning(check, f"{path}: only root may read it", "run this as root to be sure")
    except OSError as problem:
        return error(check, f"{path}: {problem.strerror}", f"set {key}")
    if weak:
        return error(
            check,
            f"{weak.path} can be changed by others than root: what it says is no evidence",
            f"{weak.remedy}, or set {key}",
        )
    return ok(check, path)


def _check_slurmd_log(host: Host) -> Finding:
    check, ours = "slurmd's log", _slurmd_log(host, host.settings.sources)
    configured = value(host.config, "SlurmdLogFile")
    if not configured:
        return warning(
            check,
            "SlurmdLogFile is not set: failed fetches of container images are not recognised",
            f"SlurmdLogFile={host.settings.sources.slurmd_log} in slurm.conf",
        )
    theirs = _slurmd_log(host, SourceSettings(slurmd_log=configured))
    if os.path.realpath(theirs) != os.path.realpath(ours):
        return warning(
            check,
            f"slurmd writes to {theirs}, and {ours} is read",
            f'[sources] slurmd_log = "{configured}" in settings.toml',
        )
    # Slurm's log folder is SlurmUser's, who can have Slurm run anything as root anyway.
    trusted = [host.slurm_user] if host.slurm_user else []
    return _check_log(check, ours, "[sources] slurmd_log", *trusted)


def _slurmd_log(host: Host, sources: SourceSettings) -> str:
    return sources.slurmd_log_of(host.node, socket.gethostname().partition(".")[0])


def _check_bmc(ipmitool: str) -> Finding:
    has_device = any(Path("/dev").glob("ipmi*"))
    if ipmitool and os.access(ipmitool, os.X_OK):
        return ok("BMC", f"asked by {ipmitool}")
    if ipmitool and has_device:
        return warning("BMC", f"{ipmitool} is not there, and a BMC is", "install ipmitool")
    return ok("BMC", "not asked")


def judge_settings(problem: str) -> Finding:
    """Whether the settings file could be read; ``problem`` is what is wrong with it, or ""."""
    if problem:
        return error("settings", problem, "mend the file; until then hooks give no verdict")
    return ok("settings", "read")


def check_rules(host: Host) -> Iterator[Finding]:
    """The settings file, and the rules with the site's own."""
    found = judge_settings(host.problem)
    yield found if host.problem else _in_others_hands("settings", [DEFAULT_PATH]) or found
    folder = Path(host.settings.sources.rules)
    try:
        rules = load_rules(folder)
    except RuleError as problem:
        yield error("rules", str(problem), "mend the file; until then hooks give no verdict")
    else:
        paths = [str(folder), *map(str, folder.glob("*.toml"))]
        yield _in_others_hands("rules", paths) or ok("rules", f"{len(rules.rules)} rules")


def _in_others_hands(check: str, paths: Sequence[str]) -> Finding | None:
    """An error if others could change one of the files by which hooks act as root."""
    wholes = map(os.path.abspath, paths)
    weak = next(filter(None, (find_weakness(path, owners()) for path in wholes)), None)
    if weak is None:
        return None
    return error(
        check, f"{weak.path} can be changed by others than root, who acts on it", weak.remedy
    )


def check_gpus(host: Host) -> Iterator[Finding]:
    """What NVML answers, against the GPUs that Slurm gives out."""
    sources = host.settings.sources
    slots = read_slots(host.settings.slurm.slurmd, host.node)
    state = read_state(sources.nvml_timeout, proc=Path(sources.proc), nvml=sources.nvml)
    lists = f"{sources.proc}/driver/nvidia/gpus"
    unmapped = _say_unmapped(devices_of(state), slots, lists)
    if not sources.nvml and unmapped:
        yield warning("NVML", f"not asked, by [sources] nvml, and {unmapped}", _MAP)
    elif not sources.nvml:
        yield ok("NVML", "not asked, by [sources] nvml")
    elif state.unreadable:
        if slots and unmapped:
            yield warning("NVML", f"{state.unreadable}, and {unmapped}", _MAP)
        elif slots:
            remedy = "install or mend NVIDIA's driver, or set [sources] nvml = false"
            yield warning("NVML", f"{state.unreadable}, and Slurm gives out GPUs here", remedy)
        else:
            yield ok("NVML", f"no GPUs: {state.unreadable}")
    elif slots is not None and len(slots) > _devices(state.gpus):
        yield warning(
            "NVML",
            f"NVML sees {len(state.gpus)} GPUs, and Slurm gives out {len(slots)}",
            "a GPU is missing, or gres.conf names one too many",
        )
    elif unmapped := _say_unmapped(devices_of(state), slots, "NVML"):
        yield warning("NVML", unmapped, _NAMES)
    else:
        yield ok("NVML", f"{len(state.gpus)} GPUs, driver {state.driver or 'unknown'}")


def _say_unmapped(
    devices: tuple[Device, ...], slots: tuple[GresSlot, ...] | None, lists: str
) -> str:
    """What it costs that some GPU that Slurm gives out has no name among the ``devices``; empty
    where all have one. ``lists`` is what names those.
    """
    every = JobGpus(0, frozenset(range(len(slots or ()))))
    if not slots or held_gpus(every, devices, slots) is not None:
        return ""
    missing = "does not list those of gres.conf" if devices else "lists none"
    cost = (
        "a GPU's fault moves a job that holds them all, and no other"
        if finds_holder_of_all(devices, slots)
        else "no GPU's fault moves a job that holds one that is missing there"
    )
    return f"{lists} {missing}, while Slurm gives out {len(slots)} GPUs here: {cost}"


def _devices(gpus: tuple[object, ...]) -> int:
    """How many GRES the GPUs can be at most: a GPU may be given out in parts."""
    return sum(max(1, len(getattr(gpu, "instances", ()))) for gpu in gpus)


def check_zone(host: Host) -> Iterator[Finding]:
    """Whether slurmd stamps its log in the zone in which we read it."""
    path = Path(_slurmd_log(host, host.settings.sources))
    try:
        written = path.stat().st_mtime
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 65536))
            tail = file.read().decode(errors="replace")
    except OSError:
        return
    stamps = re.findall(r"(?m)^\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)", tail)
    if stamps:
        yield judge_zone(stamps[-1], written)


def judge_zone(stamp: str, written: float) -> Finding:
    """A local stamp of the log's last line against the time at which the file was written."""
    from datetime import datetime

    apart = datetime.fromisoformat(stamp).timestamp() - written
    if abs(apart) < 15 * 60:
        return ok("time zone", "slurmd's log is stamped in this host's")
    return warning(
        "time zone",
        f"slurmd's log is {abs(apart) / 3600:.1f} h {'ahead' if apart > 0 else 'behind'}",
        "restart slurmd: it still uses the time zone that was set when it started",
    )
