"""Container launchers that Slurm started as a task and that ended by themselves: their own words.

That such a launcher failed is noted by our SPANK plugin in slurmstepd, where no user writes. What
it said stands in the job's log, where the user's program writes too. So the log counts only beside
the note, and only to say why a job is held or started again later: neither drains a node, spends a
retry or raises a priority, and both are an owner's to do by ``scontrol`` anyway.
"""

from __future__ import annotations

from collections.abc import Mapping

from slurm_failover import files
from slurm_failover.joblog import default_output, latest_part, resolve
from slurm_failover.node.append import Person, tail_as
from slurm_failover.node.attempts import FOLDER

LOGS = ("SLURM_JOB_STDERR", "SLURM_JOB_STDOUT")


def read_launcher_words(environment: Mapping[str, str], node: str) -> list[bytes]:
    """The last lines of the attempt's logs, if a launcher failed in it on this node."""
    if not files.read_whole(f"{FOLDER}/{environment['SLURM_JOB_ID']}.launcher"):
        return []
    person = Person(int(environment["SLURM_JOB_UID"]), int(environment["SLURM_JOB_GID"]))
    named = [environment[name] for name in LOGS if name in environment]
    paths = dict.fromkeys(resolve(path, node) for path in named or [default_output(environment)])
    return [line for path in paths for line in latest_part(tail_as(person, path))]
