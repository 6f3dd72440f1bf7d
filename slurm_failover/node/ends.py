"""Ends of jobs that this node has not told Slurm all about: a file for each, until that is done.

An Epilog leaves one before it judges, and takes it away when Slurm knows. Where it died in between,
or Slurm did not answer, the next health check looks at that end again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress

from slurm_failover import files

ENDED = "FAILOVER_JOB_ENDED"
"""The variable with the end of the job, in seconds since the epoch."""
SETTLED = 60.0
"""Seconds after which the Epilog that left a file is gone: its deadline is shorter."""
_TOLD = ("SLURM", "SPANK_FAILOVER", "CUDA_VISIBLE_DEVICES", ENDED)


def leave_end(folder: str, environment: Mapping[str, str]) -> str:
    """Leave a file with what Slurm told of an end; its path."""
    ended = environment.get(ENDED) or str(time.time())
    told = {key: text for key, text in environment.items() if key.startswith(_TOLD)} | {
        ENDED: ended
    }
    path = _path(folder, environment)
    files.make_folder(f"{folder}/ends")
    files.write_whole(path, json.dumps(told))
    return path


def is_left(folder: str, environment: Mapping[str, str]) -> bool:
    """Whether Slurm was not told all about this end."""
    return os.path.exists(_path(folder, environment))  # noqa: PTH110 - no pathlib here


def left_ends(folder: str) -> list[str]:
    """The files whose Epilogs are gone; none where the folder can not be read."""
    try:
        names = sorted(os.listdir(f"{folder}/ends"))  # noqa: PTH208 - no pathlib here
    except OSError:
        return []
    paths = [f"{folder}/ends/{name}" for name in names if name.endswith(".json")]
    return [path for path in paths if is_settled(path)]


def is_settled(path: str) -> bool:
    """Whether a file is there, and nobody is at work on it."""
    try:
        return abs(time.time() - os.stat(path).st_mtime) > SETTLED  # noqa: PTH116 - no pathlib here
    except FileNotFoundError:
        return False


def drop_end(path: str) -> None:
    """Take a file away. One that stays is looked at again, which changes nothing."""
    with suppress(OSError):
        files.remove(path)


def _path(folder: str, told: Mapping[str, str]) -> str:
    return f"{folder}/ends/{told['SLURM_JOB_ID']}-{told['SLURM_JOB_START_TIME']}.json"


def read_end(path: str) -> dict[str, str]:
    """What Slurm told of an end. Raises ValueError where the file is damaged."""
    told = json.loads(files.read_whole(path) or "")
    if not isinstance(told, dict) or not all(isinstance(text, str) for text in told.values()):
        raise ValueError(f"{path} is not what an Epilog leaves")
    return told
