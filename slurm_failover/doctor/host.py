"""What every check needs: the host, its roles, the settings, and Slurm's live configuration."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
from dataclasses import dataclass, field

from ClusterShell.NodeSet import NodeSet, NodeSetParseError

from slurm_failover.doctor.config import LiveConfig, read_config, value
from slurm_failover.errors import SlurmUnavailable
from slurm_failover.settings.tables import Settings
from slurm_failover.sources.bounded import run_bounded
from slurm_failover.trust import Owners
from slurm_failover.wiring import Role

_SECONDS = 10
_NOBODY = 65534


@dataclass(frozen=True, slots=True)
class Host:
    """This host, and Slurm as it is configured now. ``problem`` says what is wrong with the
    settings file; the settings are then the defaults.
    """

    settings: Settings
    config: LiveConfig
    roles: frozenset[Role]
    node: str = ""
    problem: str = ""
    home: str = field(default=sys.prefix)

    def ask(self, program: str, *arguments: str) -> str:
        """What a command of Slurm's prints. Raises SlurmUnavailable with its words."""
        return ask(self.settings, program, *arguments)

    @property
    def slurm_user(self) -> pwd.struct_passwd | None:
        """SlurmUser, or None where this host does not know it."""
        name = value(self.config, "SlurmUser").partition("(")[0] or "root"
        try:
            return pwd.getpwnam(name)
        except KeyError:
            return None


def owners(*users: pwd.struct_passwd) -> Owners:
    """Root, whoever looks, and these users with their groups, whose members an admin chose."""
    return Owners(
        {0, os.geteuid(), *(user.pw_uid for user in users)}, {0, *(user.pw_gid for user in users)}
    )


def holds_for(user: pwd.struct_passwd | None, *condition: str) -> bool:
    """What test(1) says of a condition for a user with its groups, None being a user of none.

    Only root can try that.
    """
    uid, gid = (user.pw_uid, user.pw_gid) if user else (_NOBODY, _NOBODY)
    done = subprocess.run(
        ["/usr/bin/test", *condition],
        user=uid,
        group=gid,
        extra_groups=os.getgrouplist(user.pw_name, gid) if user else [],
        timeout=_SECONDS,
        check=False,
    )
    return done.returncode == 0


class NoCommand(SlurmUnavailable):
    """A command of Slurm's is not where the settings say; Slurm itself was not asked."""


def ask(settings: Settings, program: str, *arguments: str) -> str:
    """What a command of Slurm's prints. Raises SlurmUnavailable with its words, and NoCommand."""
    argv = [f"{settings.slurm.bin}/{program}", *arguments]
    try:
        answer = run_bounded(argv, settings.slurm.patience)
    except OSError as error:
        raise NoCommand(f"{argv[0]} can not be run: {error.strerror}") from error
    if answer.status != 0:
        said = answer.errors.strip() or f"no answer within {settings.slurm.patience} s"
        raise SlurmUnavailable(f"{program} {' '.join(arguments)}: {said}")
    return answer.output + answer.errors


def look_around(settings: Settings, roles: frozenset[Role], problem: str) -> Host:
    """This host. ``roles`` are what someone said it is; empty: what Slurm says.

    Raises SlurmUnavailable if Slurm does not answer.
    """
    config = read_config(ask(settings, "scontrol", "show", "config"))
    short = socket.gethostname().partition(".")[0]
    node = os.environ.get("SLURMD_NODENAME") or _node_name(settings, short)
    found = {Role.CONTROLLER} if _is_controller(config, short) else set()
    if node:
        found.add(Role.NODE)
    return Host(settings, config, roles or frozenset(found or {Role.LOGIN}), node, problem)


def _is_controller(config: LiveConfig, host: str) -> bool:
    names = [name.partition("(")[0] for name in config.get("SlurmctldHost", ())]
    try:
        return host in NodeSet.fromlist(names)
    except NodeSetParseError:
        return host in names


def _node_name(settings: Settings, host: str) -> str:
    """The name under which Slurm knows this host as a node, or ""."""
    argv = [f"{settings.slurm.bin}/scontrol", "show", "node", "--oneliner"]
    answer = run_bounded(argv, settings.slurm.patience)
    for line in answer.output.splitlines():
        words = dict(word.partition("=")[::2] for word in line.split())
        if host == words.get("NodeHostName", "").partition(".")[0]:
            return words.get("NodeName", "")
    return ""
