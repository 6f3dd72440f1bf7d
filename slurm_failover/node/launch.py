"""Failed fetches of container images, as slurmd's own log tells them when a flagged job has ended.

slurmstepd writes the launcher's words there only where a step did not start; what the user's own
program prints never gets there.
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
    from slurm_failover.model import Evidence
    from slurm_failover.settings.tables import Settings

LOCK_PATIENCE = 15.0
"""Seconds that one hook waits for another on the same node."""
_TAIL = 1 << 20
_REPORTERS = 16
"""About how many nodes of one job say that they could not fetch its image."""


def report_image(
    environment: Mapping[str, str], settings: Settings, node: str, say: Callable[[str], None]
) -> None:
    """Epilog of a flagged job that failed: leave word on an image that could not be fetched."""
    job_id = environment["SLURM_JOB_ID"]
    lines = [
        line for line in _tail(settings.sources.slurmd_log) if b"[%s." % job_id.encode() in line
    ]
    if not any(b"error:" in line for line in lines):
        return
    start = float(environment["SLURM_JOB_START_TIME"])
    entry = _judge(lines, node, int(job_id), start, settings)
    if entry is None or not _is_reporter(environment.get("SLURM_JOB_NODELIST", ""), node):
        return
    _leave_word(entry, settings, say)


def _tail(path: str) -> list[bytes]:
    """The last lines of a log; none where it can not be read."""
    try:
        with Path(path).open("rb") as log:
            log.seek(max(os.fstat(log.fileno()).st_size - _TAIL, 0))
            return log.read(_TAIL).split(b"\n")
    except OSError:
        return []


def _judge(
    lines: Iterable[bytes], node: str, job_id: int, start: float, settings: Settings
) -> Evidence | None:
    """What the lines of one attempt say of its image; None where it is no matter of images."""
    from slurm_failover.catalogue import load_rules
    from slurm_failover.classify import read_events
    from slurm_failover.image_answer import Answer, read_answer
    from slurm_failover.model import Evidence, FaultClass, JobCause
    from slurm_failover.parse import parse_lines

    now = time.time()
    records = [r for r in parse_lines(lines, "slurmd", now=now) if r.time and r.time >= start - 1]
    overlay = Path(settings.sources.rules)
    events = read_events(records, load_rules(overlay if overlay.is_dir() else None))
    if not any(event.klass is FaultClass.IMAGE_PULL for event in events):
        return None
    answer, words = read_answer([record.text for record in records if "pyxis: " in record.text])
    local = answer is Answer.LOCAL
    what = "unpacked on this node" if local else "fetched"
    return Evidence(
        node=node,
        job_id=job_id,
        start=start,
        cause=JobCause.UNKNOWN if local else JobCause.IMAGE_PULL,
        because=f"the container image could not be {what}: {words}",
        time=now,
        passing=answer is Answer.PASSING,
    )


def _is_reporter(nodelist: str, node: str) -> bool:
    """Whether this node speaks: the first few always, of the others about as many, so that the end
    of a large job costs Slurm a bounded number of requests.
    """
    from ClusterShell.NodeSet import NodeSet

    nodes = [str(name) for name in NodeSet(nodelist)]
    return node in nodes[:_REPORTERS] or random.random() < _REPORTERS / max(len(nodes), 1)  # noqa: S311


def _leave_word(entry: Evidence, settings: Settings, say: Callable[[str], None]) -> None:
    from slurm_failover.evidence import write_evidence
    from slurm_failover.slurm.client import NodeChange
    from slurm_failover.slurm.connect import connect

    folder = f"{settings.state.directory}/node"
    files.make_folder(folder)
    with files.locked(f"{folder}/lock", LOCK_PATIENCE):
        slurm = connect(settings, say)
        extra = slurm.nodes(entry.node)[0].extra
        told = write_evidence(extra, entry.node, [entry], entry.time)
        slurm.update_node(entry.node, NodeChange(extra=told))
    say(f"job {entry.job_id}: {entry.because}")
