"""What concerns the cluster as a whole: Slurm's release, its clock, the way in, and other tools."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from slurm_failover.doctor.config import items, judge_jobs, judge_nodes, judge_release, judge_times
from slurm_failover.doctor.config import value as config_value
from slurm_failover.doctor.finding import Finding, error, ok, warning
from slurm_failover.doctor.host import Host
from slurm_failover.model import JobFacts
from slurm_failover.slurm.connect import connect
from slurm_failover.view.job import is_flagged
from slurm_failover.wiring import SPANK_PLUGIN, Role, lua_path

_CLOCK = 5
"""Seconds by which two clocks may differ: a fault's grace is longer by far, and munge gives 300."""


def check_release(host: Host) -> Iterator[Finding]:
    """Slurm's release, here and on the controller."""
    local = host.ask("scontrol", "-V").split()[-1]
    yield judge_release(local, config_value(host.config, "SLURM_VERSION"))


def check_config(host: Host) -> Iterator[Finding]:
    """slurm.conf as the controller has it now."""
    yield from judge_jobs(host.config, host.settings)
    yield from judge_times(host.config, host.settings)
    yield from judge_nodes(host.config)


def check_clock(host: Host) -> Iterator[Finding]:
    """This host's clock against slurmctld's, which ``sdiag`` tells."""
    found = re.search(r"output at .*\((\d+)\)", host.ask("sdiag"))
    if found is None:
        yield warning("clock", "sdiag does not tell slurmctld's time", "compare `date` by hand")
        return
    apart = time.time() - int(found[1])
    if -_CLOCK <= apart <= _CLOCK + 1:
        yield ok("clock", "as slurmctld's")
    else:
        yield error("clock", f"{apart:+.0f} s against slurmctld's", "run chrony or ntpd everywhere")


def check_option(host: Host) -> Iterator[Finding]:
    """Whether ``sbatch --failover`` is known here, by a plugin of this release. A host may go
    without: the comment asks for the same.
    """
    said = host.ask("sbatch", "--help")
    name = Path(SPANK_PLUGIN).name
    complaint = [line for line in said.splitlines() if name in line]
    if "--failover" in said:
        yield ok("sbatch --failover", "known")
    elif complaint:
        yield error(
            "sbatch --failover", complaint[0].strip(), "build plugins/spank for this release"
        )
    elif Path(SPANK_PLUGIN).exists():
        yield warning(
            "sbatch --failover",
            f"unknown here, though {SPANK_PLUGIN} is there: plugstack.conf does not load it",
            "slurm-failover install --apply",
        )
    else:
        yield ok("sbatch --failover", "its plugin is not on this host; --comment=failover works")


def check_lua(host: Host) -> Iterator[Finding]:
    """Whether the site's policy and the filter of submissions call ours."""
    folder = Path(config_value(host.config, "SLURM_CONF")).parent
    lists = {"cli_filter.lua": "CliFilterPlugins"}
    if Role.CONTROLLER in host.roles:
        lists["job_submit.lua"] = "JobSubmitPlugins"
    for name, setting in sorted(lists.items(), reverse=True):
        if "lua" in items(host.config, setting):
            yield _check_script(folder / name, f"slurm_failover_{name}", host.home)
        elif name == "job_submit.lua":
            yield warning(
                name,
                "not in force: a wrong --failover is refused when the job starts, not at once",
                "slurm-failover install --apply, then scontrol reconfigure",
            )


def _check_script(path: Path, module: str, home: str) -> Finding:
    try:
        text = path.read_text(errors="replace")
    except OSError as problem:
        return error(path.name, f"{path}: {problem.strerror}", "slurm-failover install --apply")
    if module not in text:
        return warning(path.name, f"{path} does not call us", "slurm-failover install --apply")
    if not Path(lua_path(home, module)).exists():
        return error(
            path.name, f"{lua_path(home, module)}: no such file", "install the package anew"
        )
    return ok(path.name, f"{path} calls us")


def check_rivals(host: Host) -> Iterator[Finding]:
    """Whether another tool restarts the jobs that we fail over."""
    jobs = connect(host.settings, lambda _: None).jobs()
    yield judge_rivals([job for job in jobs if is_flagged(job)])


def judge_rivals(jobs: Sequence[JobFacts]) -> Finding:
    """Flagged jobs, waiting or running, that carry another tool's mark in their comment as well.

    Mission Control's auto-resume is asked for by a JSON object with the member APS.
    """
    marked = [job.label for job in jobs if job.is_live and _has_auto_resume(job.comment)]
    if not marked:
        return ok("other tools", "no flagged job is another tool's to restart as well")
    shown = ", ".join(marked[:5]) + (" and more" if len(marked) > 5 else "")
    return warning(
        "other tools",
        f"auto-resume (APS) is asked for as well by job {shown}: both would restart it",
        "scontrol update JobId=… Comment=… with one of the two",
    )


def _has_auto_resume(comment: str) -> bool:
    start = comment.find("{")
    try:
        found, _ = json.JSONDecoder().raw_decode(comment, max(start, 0))
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "APS" in found
