"""The flag: how a job's owner asks for failover, and how the wish is read.

A wish is no evidence: it switches failover on for the job and can lower the number of retries. It
never counts, drains or raises anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = re.compile(r"(?:^|[\s,;])failover(?:=([^\s,;]*))?(?=$|[\s,;])", re.ASCII)
_MIRROR = re.compile(r" ?\[slurm-failover: ([^\[\]]*)\]\Z")
_OFF = ("off", "no", "none", "false", "never")
_REFUSED = "off: "
_DIGITS = 9
"""Of a number of retries that is a count, and no mistake."""
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
        return _read_number(option if option != SITE_DEFAULT else None, "--failover")
    word = _WORD.search(strip_mirror(comment))
    return None if word is None else _read_number(word.group(1), "failover")


def has_wish(comment: str, option: str | None = None) -> bool:
    """Whether the job asked for failover in words that can be understood."""
    wish = read_opt_in(comment, option)
    return wish is not None and not wish.problem


def read_refusal(comment: str) -> str:
    """Why failover is off for the job, where our words behind the owner's text say so; or empty."""
    mirror = _MIRROR.search(comment)
    words = mirror.group(1) if mirror else ""
    return words.removeprefix(_REFUSED) if words.startswith(_REFUSED) else ""


def strip_mirror(comment: str) -> str:
    """The comment as its owner wrote it, without the state that we show after it."""
    return _MIRROR.sub("", comment)


def _read_number(text: str | None, word: str) -> OptIn:
    if text is None:
        return OptIn()
    asked = f"{word}={text[:20]}"
    if text.lower() in _OFF or (text and not text.strip("0")):
        return OptIn(problem=f"{asked} asks for no failover")
    if text.isascii() and text.isdigit():
        digits = text.lstrip("0")
        if len(digits) > _DIGITS:
            return OptIn(problem=f"{asked} asks for too many retries")
        return OptIn(retries=int(digits))
    return OptIn(problem=f"{asked} is no whole number of retries, at least 1")
