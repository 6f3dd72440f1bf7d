"""Whether another controller acts for Slurm now, so that nothing is decided here.

``scontrol ping`` can not tell: it shows a backup that merely waits as UP (seen on 24.11.5). The
controller that acts writes its number among the SlurmctldHosts into the file ``heartbeat`` in
StateSaveLocation, which all of them share (slurmctld's heartbeat.c: two numbers of eight bytes in
network order, a time and that number).
"""

from __future__ import annotations

import os
import struct
from itertools import count, takewhile
from pathlib import Path

from slurm_failover.slurm.client import Slurm

_HEARTBEAT = struct.Struct("!QQ")


class Standby:
    """Asks Slurm for its hosts once, and reads the heartbeat at every question."""

    def __init__(self, slurm: Slurm, host: str = "") -> None:
        self._slurm = slurm
        self._host = host or os.uname().nodename
        self._rivals: dict[int, str] | None = None
        self._heartbeat = Path()

    def is_known(self) -> bool:
        """True only where another host is known to act; what can not be read says nothing.

        Raises SlurmError if Slurm can not be asked for its hosts.
        """
        if self._rivals is None:
            self._rivals = self._ask_rivals()
        return bool(self._rivals) and self._read_actor() in self._rivals

    def _ask_rivals(self) -> dict[int, str]:
        """The other controllers by their numbers; none, after one question, where this is alone."""
        if not self._ask_host(1):
            return {}
        hosts = list(takewhile(bool, map(self._ask_host, count())))
        self._heartbeat = Path(self._slurm.setting("StateSaveLocation"), "heartbeat")
        return {n: host for n, host in enumerate(hosts) if _short(host) != _short(self._host)}

    def _ask_host(self, number: int) -> str:
        return self._slurm.setting(f"SlurmctldHost[{number}]")

    def _read_actor(self) -> int | None:
        try:
            return int(_HEARTBEAT.unpack(self._heartbeat.read_bytes())[1])
        except (OSError, struct.error):
            return None


def _short(host: str) -> str:
    """A host's bare name; Slurm shows ``name(address)`` where the address differs."""
    return host.partition("(")[0].partition(".")[0]
