"""Read the machine's own counters and sensors from sysfs, in a process that may hang."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

from slurm_failover.health.machine_state import MachineState, from_sysfs_reader
from slurm_failover.sources.bounded import run_bounded
from slurm_failover.sources.kmsg import boot_id

_READER = Path(__file__).with_name("reader.py")


def read_machine(
    timeout: float,
    *,
    sys_root: Path = Path("/sys"),
    proc: Path = Path("/proc"),
    lock: str = "",
) -> MachineState:
    """Look at AER, EDAC, temperatures and InfiniBand ports for at most ``timeout`` seconds; for
    ``lock`` see run_bounded.

    Never raises for what a device does: what is absent or could not be read is missing or None, and
    ``unreadable`` says why the look was cut short.
    """
    argv = [sys.executable, "-I", "-S", str(_READER), str(sys_root)]
    now, boot = time.time(), boot_id(str(proc))
    try:
        answer = run_bounded(argv, timeout, lock=lock)
        lines = answer.output.rpartition("\n")[0].splitlines()
        state = from_sysfs_reader(lines, now, boot)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        why = f"the sysfs reader failed: {error}"
        return MachineState(time=now, boot_id=boot, unreadable=why)
    if answer.timed_out:
        why = state.unreadable or "sysfs stopped answering"
        return replace(state, unreadable=f"{why} within {timeout:g} s")
    return state
