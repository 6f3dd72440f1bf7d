"""The flag: how a job's owner asks for failover, and how the wish is read.

A wish is no evidence: it switches failover on for the job and can lower the number of retries. It
never counts, drains or raises anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = re.compile(r"(?:^|[\s,;])failover(?:=([^\s,;]*))?(?=$|[\s,;])", re.ASCII)
_MIRROR = re.compile(r" ?\[slurm-failover: [^\[\]]*\]\Z")
SITE_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class OptIn:
    """A job's wish. ``retries`` None means the site's default; ``problem`` says why it is void."""

    retries: int | None = None
    problem: str = ""


def read_opt_in(comment: str, option: str | None = None) -> OptIn | None:
    """The wish in a job's comment, or in the value of ``sbatch --failover`` where that was used.

    The option (``SPANK_FAILOVER`` in a hook's environment) beats the comment. In the comment the
    wish is the word ``failover`` or ``failover=N`` between blanks, commas or semicolons. None means
    that the job did not ask.
    """
    if option is not None:
        return _read_number(option if option != SITE_DEFAULT else None)
    word = _WORD.search(strip_mirror(comment))
    return None if word is None else _read_number(word.group(1))


def strip_mirror(comment: str) -> str:
    """The comment as its owner wrote it, without the state that we show after it."""
    return _MIRROR.sub("", comment)


def _read_number(text: str | None) -> OptIn | None:
    if text is None:
        return OptIn()
    if text == "off":
        return None
    if text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0:
        return OptIn(retries=int(text))
    return OptIn(problem="failover=N needs a whole number of retries, at least 1")
