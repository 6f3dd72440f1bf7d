"""``slurm-failover install``: what Slurm's configuration needs so that Slurm calls us."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Collection
from difflib import unified_diff
from pathlib import Path

import click

from slurm_failover.errors import InstallError
from slurm_failover.install.files import Change, apply_change, prepare
from slurm_failover.install.host import (
    FETCHED,
    find_conf,
    find_owners,
    find_roles,
    host_name,
    load_config,
    read_release,
    slurm_user,
)
from slurm_failover.install.plan import plan_install
from slurm_failover.install.wire import Config
from slurm_failover.settings.tables import Settings
from slurm_failover.wiring import SPANK_PLUGIN, Role


@click.command("install")
@click.option("--apply", is_flag=True, help="Make the changes; without it they are only shown.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice([role.value for role in Role]),
    help="What this host is, where slurm.conf does not say so; may be repeated.",
)
@click.option("--slurm-conf", metavar="FILE", help="Slurm's configuration, where Slurm seeks it.")
@click.option(
    "--plugin",
    default=SPANK_PLUGIN,
    show_default=True,
    metavar="FILE",
    help="The plugin with sbatch --failover; if it is not there, plugstack.conf stays as it is.",
)
@click.pass_obj
def command(
    settings: Settings, *, apply: bool, roles: tuple[str, ...], slurm_conf: str | None, plugin: str
) -> None:
    """Put our lines into Slurm's files.

    Shows, or with --apply makes, what slurm.conf and the files beside it need. What the site has
    stays: further lines for Prolog and Epilog, items added to its lists, a script that calls its
    health check and ours, one line in its Lua scripts. Run it on every node and login host, and on
    the controller last. To run it twice changes nothing more.
    """
    if Path(plugin).is_dir():
        raise click.BadParameter(
            f"{plugin} is a folder: name the plugin in it", param_hint="--plugin"
        )
    config = load_config(find_conf(slurm_conf))
    mine = frozenset(map(Role, roles)) or find_roles(config, host_name())
    release = read_release(settings.slurm.bin)
    home = sys.prefix
    changes = plan_install(config, mine, home=home, release=release, plugin=plugin)
    state = _missing_state(settings, config) if Role.CONTROLLER in mine else None
    show(changes)
    if state:
        click.echo(f"make the folder {state} for SlurmUser")
    if not changes and not state:
        click.echo(f"{config.main}: all in place for {_named(mine)}")
    elif not apply:
        click.echo(f"\nNothing was changed. --apply makes these changes for {_named(mine)}.")
    else:
        if state:
            _make_state(state, config)
        make(changes, settings, config)
        click.echo("Next, when every host is done: scontrol reconfigure; slurm-failover doctor")


def show(changes: Collection[Change]) -> None:
    """Print changes as a unified diff."""
    for change in changes:
        before, after = (_lines(text) for text in (change.before, change.after))
        old = change.path if change.before is not None else "/dev/null"
        new = change.path if change.after is not None else "/dev/null"
        click.echo("".join(unified_diff(before, after, old, new)), nl=False)


def make(changes: list[Change], settings: Settings, config: Config) -> None:
    """Make changes with a backup; prints where it lies. Raises InstallError."""
    if not changes:
        return
    if config.main == FETCHED:
        click.echo(f"{FETCHED} comes from the controller and is changed there")
    owners = find_owners(config)
    targets = [prepare(change, owners) for change in changes]
    backup = _backup_folder(settings.state.directory)
    done: list[str] = []
    for change, target in zip(changes, targets, strict=True):
        try:
            apply_change(change, target, backup)
        except InstallError as error:
            raise InstallError(f"{error}; {_so_far(done, backup)}") from error
        done.append(change.path)
    click.echo(f"{len(changes)} file{'s' * (len(changes) != 1)} changed; {_copies(backup)}")


def _so_far(done: list[str], backup: str) -> str:
    """What an installation that stops half-way leaves behind, and how to go on."""
    if not done:
        return "nothing was changed"
    return f"changed already: {', '.join(done)}; {_copies(backup)}; run this again to finish"


def _copies(backup: str) -> str:
    return f"copies from before this run: {backup}"


def _lines(text: str | None) -> list[str]:
    shown = (text or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in shown.splitlines(keepends=True)
    ]


def _named(roles: Collection[Role]) -> str:
    return " and ".join(sorted(roles))


def _backup_folder(directory: str) -> str:
    """A new folder that only its owner may enter."""
    folder = Path(directory, "backup")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return tempfile.mkdtemp(prefix=time.strftime("%Y%m%dT%H%M%S-", time.gmtime()), dir=folder)
    except OSError as error:
        raise InstallError(f"{folder}: can not be made: {error.strerror}; run as root") from error


def _missing_state(settings: Settings, config: Config) -> str | None:
    """The controller's folder, if it is not there or not yet SlurmUser's."""
    folder = Path(settings.state.directory)
    try:
        return None if folder.stat().st_uid == slurm_user(config).pw_uid else str(folder)
    except FileNotFoundError:
        return str(folder)


def _make_state(folder: str, config: Config) -> None:
    user = slurm_user(config)
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)  # noqa: PTH103
        os.chown(folder, user.pw_uid, user.pw_gid, follow_symlinks=False)
    except OSError as error:
        raise InstallError(f"{folder}: {error.strerror}; run as root") from error
