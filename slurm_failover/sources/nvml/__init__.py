"""Ask NVML for the state of this node's GPUs, in a process that may hang without harm."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

from slurm_failover.health.gpu_state import GpuState, from_reader
from slurm_failover.sources.bounded import Answer, run_bounded
from slurm_failover.sources.kmsg import boot_id

_READER = Path(__file__).with_name("reader.py")


def read_state(
    timeout: float, *, lock: Path | None = None, proc: Path = Path("/proc"), nvml: bool = True
) -> GpuState:
    """Look at every GPU through NVML for at most ``timeout`` seconds; without ``nvml`` at nothing
    but the driver's own list of them below ``proc``.

    Never raises for anything that NVML or a GPU does: what could not be read is None, and
    ``unreadable`` says why. What was read before a GPU hung is kept.

    ``lock`` is a file in a folder that only root can write. The reader holds it while it lives,
    so a node whose driver hangs gathers one stuck process, not one for every look.
    """
    ask = "nvml" if nvml else "driver"
    argv = [sys.executable, "-I", str(_READER), str(proc), str(lock or ""), ask]
    try:
        answer = run_bounded(argv, timeout)
    except OSError as error:
        return _unreadable(f"the NVML reader could not be started: {error}", proc)
    return _state_of(answer, timeout, proc)


def _state_of(answer: Answer, timeout: float, proc: Path) -> GpuState:
    whole_lines = answer.output.rpartition("\n")[0].splitlines()
    try:
        state = from_reader(whole_lines, time.time(), boot_id(str(proc)))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return _unreadable(f"the NVML reader's answer makes no sense: {error}", proc)
    if answer.timed_out:
        why = state.unreadable or "NVML stopped answering"
        return replace(state, unreadable=f"{why} within {timeout:g} s")
    if answer.status != 0:
        last = (answer.errors.strip().splitlines() or [f"status {answer.status}"])[-1]
        return replace(state, unreadable=f"the NVML reader ended early: {last}")
    return state


def _unreadable(why: str, proc: Path) -> GpuState:
    return GpuState(time=time.time(), boot_id=boot_id(str(proc)), unreadable=why)
