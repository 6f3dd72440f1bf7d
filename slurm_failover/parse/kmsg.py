"""One record of /dev/kmsg: ``prio,seq,usec,flags[,…];text`` and dictionary lines below it.

Source: Documentation/ABI/testing/dev-kmsg of the Linux kernel. The kernel never gives facility 0 to
what user space writes there, so facility 0 is the proof of origin.
"""

from __future__ import annotations

import re

from slurm_failover.model import Record
from slurm_failover.parse.text import decode

_HEAD = re.compile(rb"(\d{1,10}),(\d{1,20}),(\d{1,20}),([^;,\n]{0,8})(?:,[^;\n]{0,200})?;")
_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")


def is_kmsg(raw: bytes) -> bool:
    """Whether the bytes open like a record of /dev/kmsg."""
    return _HEAD.match(raw) is not None


def parse_kmsg(raw: bytes, boot_time: float) -> Record:
    """The record in one read of /dev/kmsg; ``boot_time`` is the epoch second of the boot.

    What does not look like a record becomes an untrusted one without a time.
    """
    head = _HEAD.match(raw)
    if head is None:
        return Record(text=decode(raw), source="kmsg", origin="user")
    kernel = int(head[1]) >> 3 == 0
    text = raw[head.end() :].split(b"\n", 1)[0]
    return Record(
        text=decode(_ESCAPE.sub(lambda m: bytes([int(m[1], 16)]), text)),
        time=boot_time + int(head[3]) / 1e6,
        time_certain=True,
        sequence=int(head[2]),
        trusted=kernel,
        source="kmsg",
        origin="kernel" if kernel else "user",
    )
