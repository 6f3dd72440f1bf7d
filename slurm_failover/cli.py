"""The command line: ``slurm-failover COMMAND``. Commands are imported only when they are called."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from io import TextIOWrapper
from typing import Any

import click

from slurm_failover import __version__
from slurm_failover.errors import FailoverError, OutputLost, SettingsError
from slurm_failover.files import is_missing, what_instead
from slurm_failover.settings.tables import DEFAULT_PATH, Settings

COMMANDS = {
    "breaker": "slurm_failover.commands.breaker",
    "classify": "slurm_failover.commands.classify",
    "completion": "slurm_failover.commands.completion",
    "doctor": "slurm_failover.commands.doctor",
    "explain": "slurm_failover.commands.explain",
    "history": "slurm_failover.commands.history",
    "install": "slurm_failover.commands.install",
    "logs": "slurm_failover.commands.logs",
    "nodes": "slurm_failover.commands.nodes",
    "reconcile": "slurm_failover.commands.reconcile",
    "replay": "slurm_failover.commands.replay",
    "report": "slurm_failover.commands.report",
    "resume": "slurm_failover.commands.resume",
    "status": "slurm_failover.commands.status",
    "uninstall": "slurm_failover.commands.uninstall",
}

BEFORE_SETTINGS = ("completion", "doctor", "install", "uninstall")
"""Commands that do their work with a broken settings file as well, by the defaults."""

_PROBLEM = "slurm_failover.settings_problem"


class SuggestingGroup(click.Group):
    """A group that names the nearest commands where one is unknown. Click does so from 8.4 on, and
    not for commands that are imported when they are needed.
    """

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names, and the words behind it."""
        known = self.list_commands(ctx)
        near = [] if args[0] in known else get_close_matches(args[0], known)
        if near and not ctx.resilient_parsing:
            words = " or ".join(repr(name) for name in near)
            ctx.fail(f"No such command {args[0]!r}. Did you mean {words}?")
        return super().resolve_command(ctx, args)


class LazyGroup(SuggestingGroup):
    """A group whose commands are modules with a ``command``, imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name]).command
        return command if isinstance(command, click.Command) else None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; our errors become one line and exit status 1."""
        try:
            with written_out():
                return super().invoke(ctx)
        except FailoverError as error:
            raise click.ClickException(make_visible(str(error))) from error


def make_visible(text: str) -> str:
    """A text fit for a terminal, which would obey control characters in it: a path, a key of a
    settings file and Slurm's own words may hold any.
    """
    return "".join(c if c.isprintable() or c == "\n" else _as_number(c) for c in text)


def _as_number(character: str) -> str:
    return character.encode("unicode_escape").decode()


@contextmanager
def written_out() -> Iterator[None]:
    """Have what is printed written in full before we end, whatever characters the terminal knows.
    Raises OutputLost; a reader that has seen enough (EPIPE) is click's to serve.
    """
    if sys.stdout is None:
        raise OutputLost("standard output is closed; send it to a file or to /dev/null")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno == errno.EPIPE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor at the end of Python
        raise OutputLost(f"standard output can not be written: {error.strerror}") from error


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="slurm-failover")
@click.option(
    "--settings",
    "settings_path",
    default=DEFAULT_PATH,
    show_default=True,
    metavar="FILE",
    help="The site's settings.",
)
@click.pass_context
def main(ctx: click.Context, settings_path: str) -> None:
    """A GPU fault on Slurm no longer costs a training run."""
    from slurm_failover.settings.file import load_settings

    ctx.color = False if os.environ.get("NO_COLOR") else None
    named = ctx.get_parameter_source("settings_path") is not click.core.ParameterSource.DEFAULT
    if named and is_missing(settings_path):
        raise SettingsError(f"{settings_path}: no such file; leave --settings out for the defaults")
    try:
        _refuse_endless(settings_path)
        ctx.obj = load_settings(settings_path)
    except SettingsError as error:
        if ctx.invoked_subcommand not in BEFORE_SETTINGS:
            raise
        ctx.obj = Settings()
        ctx.meta[_PROBLEM] = str(error)


def _refuse_endless(path: str) -> None:
    """Raises SettingsError where a pipe or a device stands in the place of the settings file, which
    might be waited for without an end; /dev/null has one.
    """
    try:
        what = what_instead(os.stat(path).st_mode)  # noqa: PTH116
    except OSError:  # the reader's to tell
        return
    if what and os.path.realpath(path) != os.devnull:
        raise SettingsError(f"{path} is {what}: save the settings in a file, and name that")


def settings_problem(ctx: click.Context) -> str:
    """What is wrong with the settings file, for a command of ``BEFORE_SETTINGS``; "" if nothing."""
    return str(ctx.meta.get(_PROBLEM, ""))


def say_to_terminal(message: str) -> None:
    """Tell the person at the terminal; standard output stays for results."""
    sys.stderr.write(f"slurm-failover: {make_visible(message)}\n")
