"""What the answer to a failed fetch of a container image means for a job. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum


class Answer(StrEnum):
    """Whether asking again can help: on this node, at a later time, or never."""

    LOCAL = "local"
    PASSING = "passing"
    LASTING = "lasting"


ANSWERS: tuple[tuple[Answer, re.Pattern[str]], ...] = (
    (
        Answer.LOCAL,
        re.compile(
            r"no space left|quota exceeded|read-only file ?system|cannot allocate memory"
            r"|input/output error|too many open files",
            re.IGNORECASE,
        ),
    ),
    (
        Answer.PASSING,
        re.compile(
            r"\b429\b|toomanyrequests|too many requests|rate limit|(?:code|status|error):? 5\d\d\b"
            r"|\b5\d\d (?:internal|bad gateway|service|gateway)|time-?d? ?-?out|deadline exceeded"
            r"|connection (?:refused|reset)|could not resolve|no such host|network is unreachable"
            r"|\bcurl: \((?:5|6|7|28|35|52|55|56|92)\)|unexpected EOF|service unavailable",
            re.IGNORECASE,
        ),
    ),
    (
        Answer.LASTING,
        re.compile(
            r"\b40[0134]\b|unauthori[sz]ed|denied|forbidden|not found|unknown|invalid image"
            r"|no such image|no basic auth",
            re.IGNORECASE,
        ),
    ),
)
"""In order: a full disk says nothing of the registry, and a limit may call itself denied."""

_LAUNCHER = re.compile(
    r"^(?:error: )?(?:pyxis: *(?:\[ERROR\] *)?|FATAL: +"
    r"|(?:docker: )?Error(?:: | response from daemon: ))"
)


def read_answer(lines: Sequence[str]) -> tuple[Answer, str]:
    """What the launcher's lines about one failed fetch mean, and the line that says so.

    An answer that is not known is a lasting one: nothing speaks for trying again.
    """
    for answer, pattern in ANSWERS:
        for line in lines:
            if pattern.search(line):
                return answer, _LAUNCHER.sub("", line)
    return Answer.LASTING, _LAUNCHER.sub("", lines[-1]) if lines else ""
