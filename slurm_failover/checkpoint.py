"""What a running job gets before it is requeued, so that it can save its work. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slurm_failover.optin import strip_mirror
from slurm_failover.settings.tables import CheckpointSettings

_WORD = re.compile(r"(?:^|[\s,;])checkpoint=([^\s,;]*)(?=$|[\s,;])", re.ASCII)
_SIGNAL = re.compile(r"(B:)?(?:SIG)?([A-Z][A-Z0-9+-]{1,11}|[1-9]\d?)", re.ASCII)
NONE = "none"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A signal, to whom it goes, and how many seconds the job then has to end by itself."""

    signal: str
    batch_only: bool
    grace: int


def read_checkpoint(comment: str, site: CheckpointSettings) -> Checkpoint | None:
    """What the job's comment asks for in the word ``checkpoint=[B:]SIGNAL[@SECONDS]``, or else the
    site gives; None for a requeue at once. ``checkpoint=none`` asks for that; what can not be
    understood is as if it was not there.
    """
    word = _WORD.search(strip_mirror(comment))
    wish = word.group(1) if word else ""
    if wish == NONE:
        return None
    return _read(wish, site) or _read(site.signal, site)


def _read(text: str, site: CheckpointSettings) -> Checkpoint | None:
    name, _, seconds = text.partition("@")
    found = _SIGNAL.fullmatch(name)
    if found is None or not (seconds.isdecimal() or not seconds) or len(seconds) > 6:
        return None
    grace = int(seconds) if seconds else site.grace
    return Checkpoint(found.group(2), bool(found.group(1)), min(grace, site.longest_grace))
