"""What this host has: its slurm.conf, its part in the cluster, and the programs that are named."""

from __future__ import annotations

import glob
import os
import pwd
import re
import socket
import subprocess
from collections.abc import Iterator

from ClusterShell.NodeSet import NodeSet, NodeSetParseError

from slurm_failover.errors import InstallError
from slurm_failover.files import is_missing
from slurm_failover.install.block import take_block
from slurm_failover.install.conf import read_settings
from slurm_failover.install.files import read_text
from slurm_failover.install.wire import Config
from slurm_failover.trust import Owners
from slurm_failover.wiring import HOOKS, SHARE, Role, hook_path

FETCHED = "/run/slurm/conf/slurm.conf"
"""Where slurmd links what it got from the controller, on a node without a slurm.conf."""

_CONF = "/etc/slurm/slurm.conf"


def find_conf(named: str | None = None) -> str:
    """The path of this host's slurm.conf: the one that ``--slurm-conf`` named, or as Slurm seeks
    it. Raises InstallError.
    """
    for origin, path in (("--slurm-conf ", named), ("SLURM_CONF=", os.environ.get("SLURM_CONF"))):
        if path and is_missing(path):
            raise InstallError(
                f"{origin}{path}: no such file; name the slurm.conf that Slurm reads on this host, "
                f"such as {_CONF}"
            )
        if path:
            return os.path.abspath(path)  # noqa: PTH100 - keeps links
    for path in (_CONF, FETCHED):
        if not is_missing(path):
            return path
    raise InstallError(f"{_CONF}: no such file; name yours with --slurm-conf FILE")


def load_config(path: str) -> Config:
    """slurm.conf with all that it includes. Raises InstallError."""
    config = Config(path, {})
    wanted = {path: ""}
    while wanted:
        name, included_by = wanted.popitem()
        text = read_text(name)
        if text is None:
            where = f", though {included_by} includes it" if included_by else ""
            raise InstallError(f"{name}: no such file{where}")
        config.texts[name] = text
        inner = (config.include(setting) for setting in read_settings(text))
        wanted |= {found: name for found in inner if found and found not in config.texts}
    return config


def host_name() -> str:
    """This host's short name, as Slurm compares it."""
    return socket.gethostname().partition(".")[0]


def find_roles(config: Config, host: str) -> frozenset[Role]:
    """What slurm.conf says that a host is; a host that it does not name is one for logins."""
    controllers, nodes = NodeSet(), NodeSet()
    for _, setting in config.walk():
        if setting.name in ("slurmctldhost", "controlmachine", "backupcontroller"):
            controllers.add(setting.value.partition("(")[0])
        elif setting.name == "nodename" and setting.value.upper() != "DEFAULT":
            nodes.update(_hosts(setting.value, setting.rest))
    roles = {Role.CONTROLLER} if host in controllers else set()
    if host in nodes:
        roles.add(Role.NODE)
    return frozenset(roles or {Role.LOGIN})


def _hosts(names: str, rest: str) -> NodeSet:
    hostnames = re.search(r"(?i)\bNodeHostName=(\S+)", rest)
    try:
        return NodeSet(hostnames[1] if hostnames else names)
    except NodeSetParseError:
        return NodeSet()


def read_release(folder: str) -> tuple[int, int]:
    """Slurm's release by its own word, such as (24, 11). Raises InstallError."""
    program = f"{folder}/scontrol"
    try:
        said = subprocess.run(
            [program, "-V"], capture_output=True, text=True, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise InstallError(f"{program} -V: {error}; is Slurm installed here?") from error
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None:
        raise InstallError(f"{program} -V: {said.strip()!r} names no release")
    return int(found[1]), int(found[2])


def slurm_user(config: Config) -> pwd.struct_passwd:
    """SlurmUser, root unless slurm.conf names another. Raises InstallError."""
    name = config.value("SlurmUser").partition("(")[0] or "root"
    try:
        return pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
    except KeyError as error:
        raise InstallError(f"SlurmUser={name}: this host knows no such user") from error


def find_owners(config: Config) -> Owners:
    """Who may own what we write to."""
    user = slurm_user(config)
    return Owners({0, user.pw_uid, os.geteuid()}, {0, user.pw_gid})


def find_covered(config: Config, home: str) -> frozenset[str]:
    """Those of our hooks that the site's own lines name already: by path, by a pattern or a link,
    or as a copy of our hook.sh.
    """
    bare, _ = take_block(config.texts[config.main], config.main)
    site = Config(config.main, {**config.texts, config.main: bare})
    copy = read_text(f"{home}/{SHARE}/hook.sh")
    covered = set()
    for hook in HOOKS:
        ours = hook_path(home, hook)
        for path in _named_programs(site, hook.setting):
            same_file = os.path.realpath(path) == os.path.realpath(ours)
            is_copy = copy is not None and path.endswith("/" + hook.name) and _text(path) == copy
            if same_file or is_copy:
                covered.add(ours)
    return frozenset(covered)


def _named_programs(config: Config, name: str) -> Iterator[str]:
    for _, setting in config.walk():
        if setting.name == name.lower():
            yield setting.value
            yield from glob.glob(setting.value)  # noqa: PTH207 - the pattern is absolute


def _text(path: str) -> str | None:
    try:
        return read_text(path)
    except InstallError:
        return None
