"""``slurm-failover uninstall``: Slurm's configuration as it was before install."""

from __future__ import annotations

import os

import click

from slurm_failover.commands.install import make, show
from slurm_failover.install.host import find_conf, load_config
from slurm_failover.install.plan import plan_uninstall
from slurm_failover.settings.tables import Settings


@click.command("uninstall")
@click.option("--apply", is_flag=True, help="Make the changes; without it they are only shown.")
@click.option("--slurm-conf", metavar="FILE", help="Slurm's configuration, where Slurm seeks it.")
@click.pass_obj
def command(settings: Settings, *, apply: bool, slurm_conf: str | None) -> None:
    """Take our lines out of Slurm's files.

    Shows, or with --apply takes out, what install has put into Slurm's configuration. Everything
    else stays byte for byte, also what was changed since. Run it on the controller first, then
    `scontrol reconfigure`, then on all other hosts; only then remove the package.
    """
    config = load_config(os.path.abspath(slurm_conf or find_conf()))  # noqa: PTH100 - keeps links
    changes = plan_uninstall(config)
    show(changes)
    if not changes:
        click.echo(f"{config.main}: nothing of slurm-failover is in it")
    elif not apply:
        click.echo("\nNothing was changed. --apply makes these changes.")
    else:
        make(changes, settings, config)
        click.echo(
            "Next: scontrol reconfigure; then the package may go, and "
            f"{settings.state.directory} with the backups"
        )
