"""Ask the BMC through ``ipmitool``. It is slow: for the health check, at a cadence of its own."""

from __future__ import annotations

import time
from pathlib import Path

from slurm_failover.health.bmc import BmcState, parse_log, parse_sensors
from slurm_failover.sources.bounded import Answer, run_bounded
from slurm_failover.sources.kmsg import boot_id

_SENSORS = ("sdr", "elist")
_LOG = ("sel", "elist", "last", "64")


def read_bmc(
    timeout: float,
    *,
    ipmitool: str = "/usr/bin/ipmitool",
    proc: Path = Path("/proc"),
    lock: str = "",
) -> BmcState:
    """Read the sensors and the newest records of the event log in at most ``timeout`` seconds; for
    ``lock`` see run_bounded.

    Never raises: without ``ipmitool`` or a BMC nothing is known, and ``unreadable`` says why.
    """
    deadline = time.monotonic() + timeout
    now, boot = time.time(), boot_id(str(proc))
    try:
        sensors = run_bounded([ipmitool, *_SENSORS], timeout, lock=lock)
        log = run_bounded([ipmitool, *_LOG], max(deadline - time.monotonic(), 0.0), lock=lock)
    except OSError as error:
        why = f"{ipmitool} could not be started: {error.strerror}"
        return BmcState(time=now, boot_id=boot, unreadable=why)
    return BmcState(
        time=now,
        boot_id=boot,
        sensors=parse_sensors(sensors.output) if sensors.status == 0 else (),
        log=parse_log(log.output) if log.status == 0 else None,
        unreadable=_failure(ipmitool, _SENSORS, sensors) or _failure(ipmitool, _LOG, log),
    )


def _failure(ipmitool: str, arguments: tuple[str, ...], answer: Answer) -> str | None:
    call = f"{ipmitool} {' '.join(arguments)}"
    if answer.timed_out:
        return f"{call} did not end in time"
    if answer.status == 0:
        return None
    last = (answer.errors.strip().splitlines() or ["no message"])[-1]
    return f"{call} failed with status {answer.status}: {last}"
