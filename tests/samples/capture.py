#!/usr/bin/env python3
"""Keep what a live Slurm says in JSON: ``capture.py [--suite trixie]``, once for each release.

Starts the test cluster, brings jobs and nodes into the states that matter, asks as we ask, and
writes tests/samples/slurm/RELEASE.jsonl: on each line a case, the request, and the whole answer
about one job or node.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / "slurm"), str(ROOT)]

from cluster import CONTROLLER, JSON, Cluster  # noqa: E402
from story import LOST, Story  # noqa: E402

EPILOG = "/opt/slurm-failover/share/slurm-failover/epilog/epilog.sh"
HELD_UP = f"#!/bin/sh\nread -r word </shared/epilog\nexec {EPILOG}.kept\n"
Case = tuple[str, list[str]]


def main() -> None:
    """Start a cluster, tell its story, write the file."""
    options = argparse.ArgumentParser()
    options.add_argument("--suite", default="trixie", choices=("trixie", "forky"))
    options.add_argument("--image", default="", help="an image of that suite that is there already")
    chosen = options.parse_args()
    cluster = Cluster(chosen.image or build(chosen.suite))
    try:
        cluster.start()
        release = cluster.check(CONTROLLER, ["scontrol", "--version"]).split()[1]
        lines = [json.dumps(line, separators=(",", ":")) for line in tell(Story(cluster))]
    finally:
        cluster.stop()
    path = HERE / "slurm" / f"{'.'.join(release.split('.')[:2])}.jsonl"
    path.write_text("\n".join(lines) + "\n")
    print(f"{path}: {len(lines)} answers of Slurm {release}")


def build(suite: str) -> str:
    """The test cluster's image; its tag."""
    command = [sys.executable, str(ROOT / "docker" / "image.py"), "--suite", suite]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return built.stdout.strip()


def tell(story: Story) -> Iterator[dict[str, Any]]:
    """Every state with what Slurm says of it, as a line of the file."""
    for case, words in chain(jobs(story), nodes(story)):
        answer = json.loads(story.cluster.check(CONTROLLER, [*words, JSON]))
        for key in ("jobs", "nodes"):
            for item in answer.get(key, []):
                yield {"case": case, "asked": " ".join(words), key[:-1]: item}


def jobs(story: Story) -> Iterator[Case]:
    """Jobs, each in its state while it is asked about."""
    cluster = story.cluster
    yield "held by its owner", show(story.submit("--hold"))
    yield "array, one task at a time", show(story.submit("--hold", "--array=0-2%1"))
    parts = [
        "#!/bin/bash",
        "#SBATCH --hold",
        "#SBATCH -n1",
        "#SBATCH hetjob",
        "#SBATCH -n1",
        "true",
    ]
    yield "heterogeneous", show(cluster.sbatch("\n".join(parts)))
    running = story.start("--exclude=n4")
    yield "running with GPUs", show(running)
    yield "running with GPUs, listed", ["squeue", "--states=all", "--array", "--jobs", str(running)]
    cluster.check(CONTROLLER, ["scontrol", "suspend", str(running)])
    yield "suspended", show(running)
    cluster.check(CONTROLLER, ["scontrol", "resume", str(running)])
    cluster.check(CONTROLLER, ["scontrol", "requeuehold", "State=SpecialExit", str(running)])
    wait_held(story, running)
    yield "special exit", show(running)
    yield "completing", show(hold_up_end(story))
    denied = story.start()
    story.end(denied, 3)
    story.wait_shown(denied, "Pending - internalerror")
    yield "denied by us", show(denied)
    array = story.start("--array=1-2", "--output=/shared/slurm-%A.out", comment=None)
    yield "array, running", show(array)
    failed = story.start(comment=None)
    story.end(failed, 137)
    cluster.wait(lambda: cluster.job_state(failed) == ["FAILED"], 30, "a failed job")
    yield "failed", show(failed)


def nodes(story: Story) -> Iterator[Case]:
    """Nodes, each in its state while it is asked about."""
    cluster = story.cluster
    ask, update = ["scontrol", "show", "node"], ["scontrol", "update"]
    cluster.check(CONTROLLER, [*update, "NodeName=n3", "State=DRAIN", "Reason=disk"])
    yield "drained by an administrator", [*ask, "n3"]
    cluster.inject("n4", LOST)
    story.wait_drained("n4")
    yield "drained by us", [*ask, "n4"]
    cluster.check(CONTROLLER, [*update, "NodeName=n2", "State=DOWN", "Reason=lost"])
    yield "down", [*ask, "n2"]
    yield "at work or idle", [*ask, "n1"]


def show(job: int) -> list[str]:
    """The request about one job."""
    return ["scontrol", "--local", "show", "job", str(job)]


def wait_held(story: Story, job: int) -> None:
    """Wait until a job that was requeued has left COMPLETING."""
    story.cluster.wait(
        lambda: "COMPLETING" not in story.cluster.job_state(job), 60, f"job {job} held"
    )


def hold_up_end(story: Story) -> int:
    """A job that stays COMPLETING for good: the Epilog on its node waits."""
    job = story.start(comment=None)
    wrapper = shlex.quote(HELD_UP)
    story.cluster.check(
        story.nodes(job)[0],
        f"mkfifo /shared/epilog && mv {EPILOG} {EPILOG}.kept && "
        f"printf %s {wrapper} >{EPILOG} && chmod 755 {EPILOG}",
    )
    story.end(job, 1)
    story.cluster.wait(lambda: "COMPLETING" in story.cluster.job_state(job), 30, "a long end")
    return job


if __name__ == "__main__":
    main()
