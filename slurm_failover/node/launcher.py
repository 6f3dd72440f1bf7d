"""Container launchers that ended by themselves: their own words.

Where Slurm started one as a task, our SPANK plugin has noted in slurmstepd, where no user writes,
that it failed. Where the batch script called it, Slurm knows the script's exit status alone, which
is then the launcher's, and keeps the script as it was submitted. What the launcher said stands in
the job's log, where the user's program writes too. So the log counts only beside the one or the
other, and only to say why a job is held or started again later: neither drains a node, spends a
retry or raises a priority, and both are an owner's to do by ``scontrol`` anyway.
"""

from __future__ import annotations

from collections.abc import Mapping

from slurm_failover import files
from slurm_failover.batch_script import OWN_STATUS
from slurm_failover.joblog import default_output, latest_part, output_of, resolve
from slurm_failover.node.append import Person, tail_as
from slurm_failover.node.attempts import FOLDER

LOGS = ("SLURM_JOB_STDERR", "SLURM_JOB_STDOUT")
_LAST = 8
"""Lines at a log's end that can be the launcher's where the script ends with it: podman says two
for each registry that it tried, docker adds a hint to its own.
"""


def read_launcher_words(environment: Mapping[str, str], node: str) -> list[bytes]:
    """The last lines of the attempt's logs, if a launcher failed as a task of it on this node."""
    if not files.read_whole(f"{FOLDER}/{environment['SLURM_JOB_ID']}.launcher"):
        return []
    return [line for lines in _read_logs(environment, node) for line in lines]


def read_script_words(environment: Mapping[str, str], node: str) -> list[bytes]:
    """How the attempt's logs end, if its batch script ran on this node and ended with the status
    of a launcher that fails.
    """
    if exit_status(environment) not in OWN_STATUS.values() or not is_batch_host(environment, node):
        return []
    last: list[bytes] = []
    for lines in _read_logs(environment, node):
        last += [line for line in lines if line.strip()][-_LAST:]
    return last


def exit_status(environment: Mapping[str, str]) -> int:
    """The exit status of the batch script; 0 where a signal ended it."""
    status = int(environment.get("SLURM_JOB_EXIT_CODE", "0"))
    return 0 if status & 0x7F else status >> 8 & 0xFF


def is_batch_host(environment: Mapping[str, str], node: str) -> bool:
    """Whether a job's batch script runs on this node."""
    from ClusterShell.NodeSet import NodeSet

    nodes = NodeSet(environment.get("SLURM_JOB_NODELIST", ""))
    return bool(nodes) and nodes[0] == node


def _read_logs(environment: Mapping[str, str], node: str) -> list[list[bytes]]:
    """The lines of the attempt in each of its logs, as far as a tail of them holds."""
    person = Person(int(environment["SLURM_JOB_UID"]), int(environment["SLURM_JOB_GID"]))
    named = [output_of(environment[name], environment) for name in LOGS if name in environment]
    paths = dict.fromkeys(resolve(path, node) for path in named or [default_output(environment)])
    return [latest_part(tail_as(person, path)) for path in paths]
