"""``slurm-failover uninstall``: Slurm's configuration without what install put into it."""

from __future__ import annotations

import click

from slurm_failover.commands.install import make, show
from slurm_failover.doctor.config import read_config
from slurm_failover.doctor.host import ask
from slurm_failover.errors import SlurmUnavailable
from slurm_failover.install.host import find_conf, load_config
from slurm_failover.install.plan import needs_reconfigure, plan_uninstall
from slurm_failover.settings.tables import Settings
from slurm_failover.wiring import HOOKS


@click.command("uninstall")
@click.option("--apply", is_flag=True, help="Make the changes; without it they are only shown.")
@click.option("--slurm-conf", metavar="FILE", help="Slurm's configuration, where Slurm seeks it.")
@click.pass_obj
def command(settings: Settings, *, apply: bool, slurm_conf: str | None) -> None:
    """Take our lines out of Slurm's files.

    Shows, or with --apply takes out, what install has put into Slurm's configuration. Everything
    else stays byte for byte, also what was changed since. Run it on every host, then `scontrol
    reconfigure`; only then remove the package. A script that Slurm still calls stays until a second
    run after that.
    """
    config = load_config(find_conf(slurm_conf))
    planned = plan_uninstall(config)
    in_use = _programs_in_use(settings)
    changes = [c for c in planned if c.after is not None or c.path not in in_use]
    show(changes)
    if not changes:
        click.echo(f"{config.main}: nothing of slurm-failover is in it")
    elif not apply:
        click.echo("\nNothing was changed. --apply makes these changes.")
    else:
        make(changes, settings, config)
        if needs_reconfigure(config, changes):
            click.echo("Next, when every host is done: scontrol reconfigure")
            click.echo(
                "What we drained stays drained, and what we hold stays held: look with "
                "`slurm-failover nodes` and `slurm-failover status` before the package goes"
            )
    for change in planned:
        if change not in changes:
            click.echo(f"{change.path} stays until `scontrol reconfigure`; run this again then")


def _programs_in_use(settings: Settings) -> set[str]:
    """What slurmctld has its nodes call now; nothing if it does not answer."""
    try:
        config = read_config(ask(settings, "scontrol", "show", "config"))
    except SlurmUnavailable:
        return set()
    return {program for hook in HOOKS for program in config.get(hook.setting, ())}
