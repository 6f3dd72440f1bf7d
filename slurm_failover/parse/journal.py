"""Entries of the systemd journal, as ``journalctl -o json`` or the library gives them.

Only the journal itself writes fields that open with an underscore. ``_TRANSPORT=kernel`` also holds
what user space wrote into /dev/kmsg, so facility 0 is asked for as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

from slurm_failover.model import Record
from slurm_failover.parse.text import LONGEST, decode

_LONGEST_ENTRY = 262_144


def parse_journal_line(raw: bytes) -> Record | None:
    """The record in one line of ``journalctl -o json``, or None where it is no such line."""
    if len(raw) > _LONGEST_ENTRY:
        return None
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or "MESSAGE" not in fields:
        return None
    return parse_journal(fields)


def parse_journal(fields: Mapping[str, object]) -> Record:
    """The record in the fields of one entry of the journal."""
    transport, facility = str(fields.get("_TRANSPORT")), str(fields.get("SYSLOG_FACILITY"))
    kernel = transport == "kernel" and facility == "0"
    time = _microseconds(fields, "_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP")
    tag = str(fields.get("SYSLOG_IDENTIFIER") or fields.get("_COMM") or "user")
    return Record(
        text=_message(fields["MESSAGE"]),
        time=time,
        time_certain=time is not None,
        trusted=kernel,
        source="journal",
        origin="kernel" if kernel else ("user" if tag == "kernel" else tag),
    )


def _message(value: object) -> str:
    """The text; the journal gives what is not UTF-8 as a list of bytes."""
    if isinstance(value, bytes):
        return decode(value)
    if isinstance(value, list):
        return decode(bytes(b for b in value[:LONGEST] if type(b) is int and 0 <= b < 256))
    return decode(str(value or "").encode("utf-8", "replace"))


def _microseconds(fields: Mapping[str, object], *keys: str) -> float | None:
    for key in keys:
        value = fields.get(key)
        if isinstance(value, datetime):
            return value.timestamp()
        text = str(value)
        if text.isascii() and text.isdigit() and len(text) < 20:
            return int(text) / 1e6
    return None
