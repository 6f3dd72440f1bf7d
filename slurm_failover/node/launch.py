"""Failed fetches of container images, as a node's trusted witnesses tell of them when a flagged
job has ended.

slurmstepd writes the words of a launcher in its own process (pyxis, Slurm's OCI) into slurmd's log,
and only there where a step did not start; what the user's own program prints never gets there. For
launchers that Slurm starts as a task, or that the batch script calls, see launcher.py.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_failover import files

if TYPE_CHECKING:
    from slurm_failover.model import Evidence, Record
    from slurm_failover.settings.tables import Settings
    from slurm_failover.slurm.client import Slurm

LOCK_PATIENCE = 15.0
"""Seconds that one hook waits for another on the same node."""
_TAIL = 1 << 20
_FIRST = 16
"""How many nodes of one job say at once that they could not fetch its image."""
_PER_SECOND, _LONGEST_WAIT = 64, 10.0
"""How many of the others ask in one second whether it is said, and how long the last one waits."""

Say = Callable[[str], None]


def report_image(environment: Mapping[str, str], settings: Settings, node: str, say: Say) -> None:
    """Epilog of a flagged job that failed: leave word on an image that could not be fetched."""
    entry = _find(environment, settings, node)
    suspected = None if entry else _suspect(environment, settings, node)
    if not entry and not suspected:
        return
    from slurm_failover.slurm.connect import connect

    slurm = connect(settings, say)
    entry = entry or _confirm(slurm, suspected, environment)
    if not entry or is_told(slurm, entry, environment.get("SLURM_JOB_NODELIST", ""), time.sleep):
        return
    _leave_word(slurm, entry, settings, say)
    say(f"job {entry.job_id}: {entry.because}")


def is_told(slurm: Slurm, entry: Evidence, nodelist: str, pause: Callable[[float], None]) -> bool:
    """Whether others have left the same word on this attempt, so that this node need not.

    The first few nodes do not ask. The others wait a little, spread so that a failure on all nodes
    of a large job is no storm of requests, and a failure on one of them is never lost.
    """
    from ClusterShell.NodeSet import NodeSet

    from slurm_failover.evidence import choose, read_evidence

    nodes = [str(name) for name in NodeSet(nodelist)]
    first = nodes[:_FIRST]
    if entry.node in first or entry.node not in nodes:
        return False
    pause(1.0 + random.uniform(0.0, min(len(nodes) / _PER_SECOND, _LONGEST_WAIT)))  # noqa: S311
    return any(
        told.cause is entry.cause
        for facts in slurm.nodes(str(NodeSet.fromlist(first)))
        for told in choose(read_evidence(facts.name, facts.extra), entry.job_id, entry.start)
    )


def _find(environment: Mapping[str, str], settings: Settings, node: str) -> Evidence | None:
    """What this node's witnesses say of the image; None where it is no matter of images."""
    job_id, start = int(environment["SLURM_JOB_ID"]), float(environment["SLURM_JOB_START_TIME"])
    log = settings.sources.slurmd_log_of(node, os.uname().nodename.partition(".")[0])
    for records in (
        _daemon_records(log, job_id, start),
        _launcher_records(environment, node),
    ):
        entry = _judge(records, node, job_id, start, settings) if records else None
        if entry is not None:
            return entry
    return None


def _suspect(environment: Mapping[str, str], settings: Settings, node: str) -> Evidence | None:
    """What a launcher that the batch script may have called says of the image."""
    from slurm_failover.node.launcher import read_script_words

    words = read_script_words(environment, node)
    job_id, start = int(environment["SLURM_JOB_ID"]), float(environment["SLURM_JOB_START_TIME"])
    return _judge(_as_printed(words), node, job_id, start, settings) if words else None


def _confirm(
    slurm: Slurm, suspected: Evidence | None, environment: Mapping[str, str]
) -> Evidence | None:
    """What was suspected, if the script that Slurm keeps calls such a launcher. One request."""
    from slurm_failover.batch_script import calls_launcher
    from slurm_failover.node.launcher import exit_status

    script = slurm.batch_script(environment["SLURM_JOB_ID"])
    return suspected if calls_launcher(script, exit_status(environment)) else None


def _daemon_records(path: str, job_id: int, start: float) -> list[Record]:
    """The lines of slurmd's log on one attempt, if an error is among them."""
    lines = [line for line in _tail(path) if b"[%d." % job_id in line]
    if not any(b"error:" in line for line in lines):
        return []
    from slurm_failover.parse import parse_lines

    records = parse_lines(lines, "slurmd", now=time.time())
    return [record for record in records if record.time and record.time >= start - 1]


def _launcher_records(environment: Mapping[str, str], node: str) -> list[Record]:
    """The last lines of the attempt's log, if a launcher failed in it."""
    from slurm_failover.node.launcher import read_launcher_words

    return _as_printed(read_launcher_words(environment, node))


def _as_printed(words: list[bytes]) -> list[Record]:
    """Lines of a job's log; an empty list costs nothing."""
    if not words:
        return []
    from slurm_failover.parse import parse_lines

    return list(parse_lines(words, "stderr", now=time.time()))


def _tail(path: str) -> list[bytes]:
    """The last lines of a log; none where it can not be read."""
    try:
        with Path(path).open("rb") as log:
            log.seek(max(os.fstat(log.fileno()).st_size - _TAIL, 0))
            return log.read(_TAIL).split(b"\n")
    except OSError:
        return []


def _judge(
    records: Iterable[Record], node: str, job_id: int, start: float, settings: Settings
) -> Evidence | None:
    """What the lines of one attempt say of its image; None where it is no matter of images."""
    from slurm_failover.catalogue import load_rules
    from slurm_failover.classify import read_events
    from slurm_failover.image_answer import Answer, read_answer
    from slurm_failover.model import Evidence, FaultClass, JobCause

    overlay = Path(settings.sources.rules)
    rules = load_rules(overlay if overlay.is_dir() else None)
    told = [
        record.text
        for record in records
        if any(event.klass is FaultClass.IMAGE_PULL for event in read_events([record], rules))
    ]
    if not told:
        return None
    answer, words = read_answer(told)
    local = answer is Answer.LOCAL
    what = "unpacked on this node" if local else "fetched"
    return Evidence(
        node=node,
        job_id=job_id,
        start=start,
        cause=JobCause.UNKNOWN if local else JobCause.IMAGE_PULL,
        because=f"the container image could not be {what}: {words}",
        time=time.time(),
        passing=answer is Answer.PASSING,
    )


def _leave_word(slurm: Slurm, entry: Evidence, settings: Settings, say: Say) -> None:
    from slurm_failover.evidence import tell_dropped, write_evidence
    from slurm_failover.slurm.client import NodeChange

    folder = f"{settings.state.directory}/node"
    files.make_folder(folder)
    with files.locked(f"{folder}/lock", LOCK_PATIENCE):
        extra = slurm.nodes(entry.node)[0].extra
        told = write_evidence(extra, entry.node, [entry], entry.time)
        slurm.update_node(entry.node, NodeChange(extra=told))
        full = tell_dropped(extra, told)
        if full:
            say(full)
