"""Whether the site's notification program can be run, and not changed by just anybody."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator

from slurm_failover.doctor.finding import Finding, error, ok, warning
from slurm_failover.doctor.host import Host, holds_for
from slurm_failover.notify import find_program, judge_program
from slurm_failover.wiring import Role

_CHECK = "notifications"


def check_notifications(host: Host) -> Iterator[Finding]:
    """The program that ``[notify] command`` names, for every user that runs it on this host."""
    if not host.settings.notify.command:
        return
    word = host.settings.notify.command[0]
    try:
        yield _check(word, find_program(host.settings), _runners(host))
    except PermissionError:
        yield warning(_CHECK, f"{word}: only root may look at it", "run this as root to be sure")


def _runners(host: Host) -> list[pwd.struct_passwd]:
    """Root on nodes, SlurmUser on controllers, as far as this host knows it."""
    root = [pwd.getpwuid(0)] if Role.NODE in host.roles else []
    user = [host.slurm_user] if Role.CONTROLLER in host.roles and host.slurm_user else []
    return root + user


def _check(word: str, program: str, runners: list[pwd.struct_passwd]) -> Finding:
    for user in runners:
        if weak := judge_program(program, user.pw_uid):
            found = f"{word} is not run: {weak.path}: {weak.found}"
            return error(_CHECK, found, f"{weak.remedy}, or set [notify] command")
    if not os.path.isfile(program):  # noqa: PTH113 - programs are named by text here
        return warning(_CHECK, f"{word}: no such file", "set [notify] command")
    for user in runners:
        if not _may_run(program, user):
            found = f"{program} can not be run by {user.pw_name}"
            return warning(_CHECK, found, f"chmod a+rx {program}")
    return ok(_CHECK, f"told to {program}")


def _may_run(program: str, user: pwd.struct_passwd) -> bool:
    """Whether a user may run the program; only root can try it as others, whose word is yes."""
    if user.pw_uid == os.geteuid():
        return os.access(program, os.X_OK)
    return os.geteuid() != 0 or holds_for(user, "-x", program)
