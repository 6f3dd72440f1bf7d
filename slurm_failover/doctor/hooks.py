"""Whether Slurm calls our hooks here, and whether the right user can run them."""

from __future__ import annotations

import glob
import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from slurm_failover.doctor.config import INSTALL
from slurm_failover.doctor.finding import Finding, error, ok, warning
from slurm_failover.doctor.host import Host, holds_for, owners
from slurm_failover.trust import find_weakness
from slurm_failover.wiring import HOOKS, SHARE, Hook, Role, hook_path

_SYSLOG = "/dev/log"
"""_PATH_LOG of glibc."""
_LOGROTATE = "/etc/logrotate.d/slurm-failover"
_SECONDS = 10
_BY_ROOT = ("Prolog", "Epilog", "HealthCheckProgram")
_PROBE = "import sys; sys.path.insert(0, sys.argv[1]); import slurm_failover.hooks"


def check_hooks(host: Host) -> Iterator[Finding]:
    """Each hook that Slurm runs on this host."""
    for hook in HOOKS:
        where = Role.CONTROLLER if hook.setting.endswith("Slurmctld") else Role.NODE
        if where in host.roles:
            yield _check_hook(host, hook)
    yield _check_interpreter(host)


def _check_hook(host: Host, hook: Hook) -> Finding:
    check = hook.setting
    programs = [path for named in host.config.get(hook.setting, ()) for path in _expand(named)]
    ours = hook_path(host.home, hook)
    calling = [path for path in programs if _calls(path, ours, host.home)]
    if not calling:
        # What slurm.conf says by now may be another thing: Slurm reads it when it is told to.
        named = f"{', '.join(programs)}, and not our hook" if programs else f"no {check}"
        return error(check, f"Slurm calls {named}", INSTALL)
    for path in (calling[0], ours):
        if not Path(path).exists():
            return error(
                check, f"{path}: no such file: Slurm drains the node for it", "install the package"
            )
        if weak := find_weakness(path, owners()):
            return error(check, f"{weak.path} can be changed by others than root", weak.remedy)
        if not _may_run(host, hook, path):
            user = _runner(host, hook)
            return error(check, f"{path} can not be run by {user}", f"chmod a+rx {path}")
    others = [path for path in programs if path not in calling]
    beside = f", beside {', '.join(others)}" if others else ""
    return ok(check, f"{calling[0]}{beside}")


def _expand(named: str) -> list[str]:
    return sorted(glob.glob(named)) or [named]  # noqa: PTH207 - slurm.conf's pattern is absolute


def _calls(path: str, ours: str, home: str) -> bool:
    """Whether a program is our hook, a copy of hook.sh, or a script that names our hook."""
    if os.path.realpath(path) == os.path.realpath(ours):
        return True
    try:
        text = Path(path).read_bytes()
        copy = Path(home, SHARE, "hook.sh").read_bytes()
    except OSError:
        return False
    is_copy = text == copy and path.endswith("/" + Path(ours).name)
    return is_copy or any(
        ours.encode() in line and not line.lstrip().startswith(b"#") for line in text.splitlines()
    )


def _runner(host: Host, hook: Hook) -> str:
    """In words, who runs a hook."""
    if hook.setting == "TaskProlog":
        return "every user"
    return "root" if hook.setting in _BY_ROOT else _user(host)


def _user(host: Host) -> str:
    return host.slurm_user.pw_name if host.slurm_user else "SlurmUser"


def _may_run(host: Host, hook: Hook, path: str) -> bool:
    """Whether the user that Slurm runs a hook as may run it; only root can try it as others."""
    if os.geteuid() != 0 or hook.setting in _BY_ROOT:
        return os.access(path, os.R_OK | os.X_OK)
    user = host.slurm_user if hook.setting != "TaskProlog" else None
    return holds_for(user, "-r", path, "-a", "-x", path)


def _check_interpreter(host: Host) -> Finding:
    """Whether the Python of the hooks starts and finds them, as they start it."""
    python = f"{host.home}/bin/python3"
    package = str(Path(__file__).parent.parent.parent)
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", _PROBE, package],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return error("Python", f"{python}: {problem}", "install the package anew")
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        return error(
            "Python", f"{python} can not run the hooks: {last}", "install the package anew"
        )
    return ok("Python", f"{python} runs the hooks")


def check_state(host: Host) -> Iterator[Finding]:
    """Whether what we keep on this host can be kept."""
    yield _check_folder(host)


def check_log(host: Host) -> Iterator[Finding]:
    """Whether what the hooks have to say is kept anywhere."""
    path = host.settings.state.log
    yield _check_file(host, path) if path else _check_syslog()


def _check_folder(host: Host) -> Finding:
    folder = host.settings.state.directory
    check = "state folder"
    user = host.slurm_user
    if Role.CONTROLLER in host.roles:
        owner = user.pw_uid if user else -1
        remedy = f"install -d -m 755 -o {_user(host)} {folder}"
    else:
        owner, remedy = 0, f"install -d -m 755 {folder}"
    try:
        found = Path(folder).stat()
    except FileNotFoundError:
        if Role.CONTROLLER in host.roles:
            return error(check, f"{folder}: no such folder; SlurmUser can not make it", remedy)
        return ok(check, f"{folder}: made by the first hook")
    if found.st_uid != owner:
        return error(check, f"{folder} belongs to user {found.st_uid}", remedy)
    if found.st_mode & stat.S_IWOTH:
        return error(check, f"{folder} can be changed by every user", f"chmod o-w {folder}")
    inner = f"{folder}/controller"
    is_told = os.path.isdir(inner)  # noqa: PTH112 - False also where nobody may look
    if Role.CONTROLLER in host.roles and is_told and Path(inner).stat().st_uid != owner:
        return error(
            check,
            f"{inner} does not belong to {_user(host)}: no failure is decided on",
            f"chown -hR {_user(host)} {inner}",
        )
    return ok(check, folder)


def _check_file(host: Host, path: str) -> Finding:
    """The hooks' log; logrotate (8) passes over a folder that others than root's group may write
    to, unless it is told to go there as a user who may ("su", tried with 3.21).
    """
    folder = Path(path).parent
    if not folder.is_dir():
        return warning("log", f"{path}: its folder is not there", "make it, or set [state] log")
    if Role.CONTROLLER in host.roles and not _may_append(host, path):
        return warning(
            "log",
            f"{path}: {_user(host)} can not write it, so the controller's hooks speak to syslog",
            f"touch {path} && chown {_user(host)} {path}",
        )
    found = folder.stat()
    by_group = found.st_mode & stat.S_IWGRP and found.st_gid != 0
    if (by_group or found.st_mode & stat.S_IWOTH) and not _names_user(_LOGROTATE):
        return warning(
            "log",
            f"{path}: others may write to {folder}, so logrotate passes over it",
            f"chmod go-w {folder}, or a block for this file with `su USER GROUP` in {_LOGROTATE}",
        )
    return ok("log", path)


def _check_syslog() -> Finding:
    """syslog (3) drops without a word what nobody takes."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
            daemon.connect(_SYSLOG)
    except OSError as problem:
        return warning(
            "log",
            f"nothing listens at {_SYSLOG} ({problem.strerror}): what hooks have to say is lost",
            "start the host's syslog daemon or journal, or set [state] log",
        )
    return ok("log", "syslog, facility daemon")


def _may_append(host: Host, path: str) -> bool:
    """Whether SlurmUser may write to a log, or make it; only root can try it as another."""
    user = host.slurm_user
    tried = ("-w", path) if Path(path).exists() else ("-w", f"{Path(path).parent}")
    if user is None or os.geteuid() not in {0, user.pw_uid}:
        return True
    return holds_for(user, *tried) if os.geteuid() == 0 else os.access(tried[1], os.W_OK)


def _names_user(path: str) -> bool:
    """Whether a configuration of logrotate says as whom to rotate."""
    try:
        text = Path(path).read_text(errors="replace")
    except OSError:
        return False
    return any(line.split()[:1] == ["su"] for line in text.splitlines())
