"""``slurm-failover resume``: return repaired nodes to service, after a look at each where it is."""

from __future__ import annotations

import os
from collections.abc import Callable

import click

from slurm_failover.breaker import read_notes
from slurm_failover.cli import say_to_terminal
from slurm_failover.commands.complete import complete_nodes
from slurm_failover.controller.returns import readmit_nodes
from slurm_failover.deed import in_mode
from slurm_failover.evidence import is_drained_by_us
from slurm_failover.log import Log
from slurm_failover.model import NodeFacts
from slurm_failover.node.checks import NodeChecks
from slurm_failover.node.respond import is_in_service
from slurm_failover.settings.tables import Settings
from slurm_failover.slurm.connect import connect


@click.command("resume")
@click.argument("nodelist", default="", shell_complete=complete_nodes)
@click.option("--force", is_flag=True, help="Also without the reboot that the fault asked for.")
@click.pass_context
def command(context: click.Context, nodelist: str, force: bool) -> None:
    """Look at this node again; lift our own drain if it is clean.

    NODELIST is this node if it is left out. A node is looked at where it is, so this command
    resumes no other node: run it there, for example `clush -w NODELIST slurm-failover resume`. A
    drain that is not ours, or whose reason somebody has changed, is left as it is.
    """
    settings: Settings = context.obj
    say = in_mode(settings.failover.mode, say_to_terminal)
    slurm = connect(settings, say)
    checks = NodeChecks(os.environ, settings, say)
    try:
        nodes = slurm.nodes(nodelist or checks.node)
        if not nodes:
            raise click.ClickException(
                f"Slurm knows no node {nodelist or checks.node}; run this on a node"
            )
        observes = settings.failover.mode == "observe"
        log = Log("resume", settings.state.log)
        refusals = [_resume(checks, node, force, observes, log.say) for node in nodes]
    except PermissionError as error:
        raise click.ClickException(f"{error}; run this as root") from error
    readmit_nodes(slurm, say)
    if any(refusals):
        context.exit(1)


def _resume(
    checks: NodeChecks, node: NodeFacts, force: bool, observes: bool, note: Callable[[str], None]
) -> bool:
    """Return one node to service and note that, or say why it stays as it is. True if it stays out
    of service.
    """
    if is_in_service(node):
        click.echo(f"{node.name}: is in service{_what_was_seen(node)}")
        return False
    refusal = _find_refusal(checks, node, force)
    command = f"scontrol update NodeName={node.name} State=RESUME"
    if not refusal and observes:
        refusal = f"it is clean, and observe mode changes nothing; `{command}` does"
    if not refusal and (refusal := checks.lift_drain()):
        refusal = f"{refusal}; `{command}` lifts that"
    if refusal:
        click.echo(f"{node.name}: stays out of service: {refusal}")
        return True
    note(f"resumed by hand{' with --force' * force}, checks clean; it was out for: {node.reason}")
    click.echo(f"{node.name}: resumed")
    return False


def _what_was_seen(node: NodeFacts) -> str:
    """What a node in service was never drained for, as a clause: it was judged in observe mode."""
    observed = [note for note in read_notes(node.name, node.extra) if note.observed]
    return f"; would have been drained (observe mode): {observed[-1].because}" if observed else ""


def _find_refusal(checks: NodeChecks, node: NodeFacts, force: bool) -> str:
    if not is_drained_by_us(node):
        return f"its reason is not ours: {node.reason or 'none given'}"
    if node.name != checks.node:
        return "it is looked at where it is; run `slurm-failover resume` there"
    missing = "" if force else checks.missing_reboot(node)
    return f"{missing}; reboot it, or use --force" if missing else checks.recheck()
