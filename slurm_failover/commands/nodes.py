"""``slurm-failover nodes``: what is known against nodes."""

from __future__ import annotations

import click

from slurm_failover.commands.banner import end_with, show_banner
from slurm_failover.commands.complete import complete_nodes
from slurm_failover.commands.watch import repeat, settings_for, watch_option
from slurm_failover.errors import SlurmError
from slurm_failover.lifecycle import expand, merge_nodes
from slurm_failover.render import NOTHING, print_json, print_table
from slurm_failover.settings.tables import Settings
from slurm_failover.slurm.connect import connect_for_many
from slurm_failover.view.node import NodeView, has_findings, view_node

COLUMNS = ("NODE", "STATE", "DRAINED BY US", "JOBS", "REASON")
SHOWN_JOBS = 16
OBSERVED = "would have been drained (observe mode)"
"""Right whatever the mode is by now: what was judged in observe mode is not judged again."""


@click.command("nodes")
@click.argument("nodelist", default="", shell_complete=complete_nodes)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object for each node.")
@watch_option
@click.pass_obj
def command(settings: Settings, nodelist: str, as_json: bool, every: float | None) -> None:
    """Show what is known against nodes.

    With NODELIST these nodes, known or not.
    """
    asked = settings_for(settings, every)
    repeat(lambda: _show(asked, nodelist, as_json), every, for_programs=as_json)


def _show(settings: Settings, nodelist: str, as_json: bool) -> None:
    """Print what is known now."""
    wanted = expand(nodelist)
    every = connect_for_many(settings, lambda _: None).nodes()
    breaker = show_banner(settings, every, aside=as_json)
    nodes = [node for node in every if not wanted or node.name in wanted]
    missing = merge_nodes(*set(wanted).difference(node.name for node in nodes))
    if missing:
        raise SlurmError(f"Slurm does not know node {missing}; see `sinfo -N`")
    views = [view_node(node) for node in nodes]
    shown = views if nodelist else [view for view in views if has_findings(view)]
    if as_json:
        print_json([view.as_json() for view in shown])
        end_with(breaker)
        return
    print_table(COLUMNS, [_row(view) for view in shown], "Nothing is known against any node.")
    end_with(breaker)


def _row(view: NodeView) -> tuple[str, ...]:
    latest = view.findings[-1]["because"] if view.findings else "-"
    hit = {finding["job_id"] for finding in view.findings}
    jobs = _list(hit.union(*(fault["jobs"] for fault in view.faults)))
    acts = [fault for fault in view.faults if not fault["observed"]]
    waits = [f"not drained yet: {fault['because']}" for fault in acts if fault["waits"]]
    seen = [f"{OBSERVED}: {fault['because']}" for fault in view.faults[-1:] if fault["observed"]]
    noted = [str(fault["because"]) for fault in view.faults[-1:]]
    past = [f"{noted[0]} (resumed)"] if view.is_back else []
    known = [*waits, *seen, *past, *([latest] if view.findings else noted), NOTHING]
    words = view.reason or known[0]
    return (view.name, view.slurm_state, "yes" if view.ours else "no", jobs or "-", words)


def _list(jobs: set[int]) -> str:
    """The latest of the jobs; ``--json`` has all."""
    earlier = ["…"] if len(jobs) > SHOWN_JOBS else []
    return ",".join([*earlier, *map(str, sorted(jobs)[-SHOWN_JOBS:])])
