"""``slurm-failover reconcile``: bring every flagged job to what its record calls for."""

from __future__ import annotations

import os
from collections.abc import Callable

import click

from slurm_failover.cli import say_to_terminal
from slurm_failover.controller.returns import readmit_nodes
from slurm_failover.controller.work import open_notes, reconcile
from slurm_failover.deed import in_mode
from slurm_failover.errors import WrongUser
from slurm_failover.log import Log
from slurm_failover.settings.tables import Settings
from slurm_failover.slurm.client import Slurm
from slurm_failover.slurm.connect import connect_for_many
from slurm_failover.slurm.standby import Standby


@click.command("reconcile")
@click.pass_obj
def command(settings: Settings) -> None:
    """Finish interrupted work, as SlurmUser.

    That is decisions, releases and raised priorities.

    Nodes that are back in service are taken off the lists of the jobs that wait. It may run at any
    time and any number of times; a job that needs nothing is left as it is. On a controller that is
    on standby it does nothing, so its timer may run on all of them.
    """
    say = in_mode(settings.failover.mode, _say_and_log(settings))
    slurm = connect_for_many(settings, say)
    if os.geteuid() == 0:
        _refuse_root(slurm)
    # On standby as well: what fails from then on is taken up after a takeover.
    notes = open_notes(settings)
    if Standby(slurm).is_known():
        notes.mark_reconciled()
        say_to_terminal("another controller acts for Slurm now: nothing to do on this one")
        return
    count = reconcile(settings, say) + readmit_nodes(slurm, say)
    notes.mark_reconciled()
    say_to_terminal(f"{count} job{'s' * (count != 1)} had something left to do")


def _refuse_root(slurm: Slurm) -> None:
    """Raises WrongUser where root is not SlurmUser: what it makes the hooks could not open."""
    user = slurm.setting("SlurmUser").partition("(")[0]
    if user not in ("", "root"):
        raise WrongUser(
            f"this is for SlurmUser, {user}: run it on a controller as that, for example with "
            f"`sudo -u {user} slurm-failover reconcile`"
        )


def _say_and_log(settings: Settings) -> Callable[[str], None]:
    """To whoever runs this, and to the file in which a site reads what hooks did, if it has one:
    a decision is told there whoever made it.
    """
    if not settings.state.log:
        return say_to_terminal
    log = Log("reconcile", settings.state.log)

    def say(message: str) -> None:
        say_to_terminal(message)
        log.say(message)

    return say
