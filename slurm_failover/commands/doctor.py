"""``slurm-failover doctor``: is everything in place on this host?"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import click

from slurm_failover.cli import make_visible, settings_problem
from slurm_failover.doctor.finding import Finding, Level, error, exit_status
from slurm_failover.doctor.host import NoCommand, look_around
from slurm_failover.doctor.rounds import examine
from slurm_failover.doctor.sources import judge_settings
from slurm_failover.errors import FailoverError
from slurm_failover.render import print_json
from slurm_failover.settings.tables import Settings
from slurm_failover.wiring import Role

_COLOURS = {Level.OK: "green", Level.WARNING: "yellow", Level.ERROR: "red"}
_PATIENCE = 2.0


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object for each finding.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice([role.value for role in Role]),
    help="What this host is, where Slurm does not say so; may be repeated.",
)
@click.pass_context
def command(context: click.Context, *, as_json: bool, roles: tuple[str, ...]) -> None:
    """Look for what is wrong with this host.

    Looks at its part of the installation, says of each part whether it is fit and what to do where
    it is not, and changes nothing. Run it as root, on the controller, on a node and on a login
    host. The exit status is 0 if all is well, 1 with warnings, and 2 with errors.
    """
    findings = []
    slow = _Slow()
    for finding in _examine(context, frozenset(map(Role, roles)), slow):
        findings.append(finding)
        if not as_json:
            _print(finding)
    slow.end()
    if as_json:
        print_json(
            [
                {"check": f.check, "level": f.level, "found": f.found, "remedy": f.remedy or None}
                for f in findings
            ]
        )
    context.exit(exit_status(findings))


class _Slow:
    """Says on standard error what a look is at, once it has lasted two seconds."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def begin(self, name: str) -> None:
        """Another look begins."""
        self.end()
        self._timer = threading.Timer(_PATIENCE, self._tell, [name])
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """The last look is over."""
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self, name: str) -> None:
        sys.stderr.write(f"slurm-failover: still looking at {name} …\n")


def _examine(context: click.Context, roles: frozenset[Role], slow: _Slow) -> Iterator[Finding]:
    settings: Settings = context.obj
    broken = settings_problem(context)
    slow.begin("Slurm's configuration")
    try:
        host = look_around(settings, roles, broken)
    except FailoverError as problem:
        if broken:  # the file may be what names the commands' folder
            yield judge_settings(broken)
        yield _without_slurm(problem)
        return
    yield from examine(host, slow.begin)


def _without_slurm(problem: FailoverError) -> Finding:
    if isinstance(problem, NoCommand):
        return error("Slurm's commands", str(problem), "set [slurm] bin to its folder")
    return error("slurmctld", str(problem), "start slurmctld, or look from a host that reaches it")


def _print(finding: Finding) -> None:
    level = click.style(f"{finding.level:<8}", fg=_COLOURS[finding.level])
    click.echo(f"{level}{finding.check}: {make_visible(finding.found)}")
    if finding.remedy:
        click.echo(f"        -> {make_visible(finding.remedy)}")
