"""Start a hook's longer work in a session of its own.

Slurm takes a child that keeps the hook's output open for the hook, and a job completes only when
its hooks have ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def start_detached(hook: str, variables: Mapping[str, str] | None = None) -> None:
    """Run one of the entry points in hooks.py, with ``variables`` added to our environment."""
    subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("hooks.py")), hook],
        env={**os.environ, **(variables or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
