"""Which container launchers a batch script calls by name. Pure.

A script is its owner's word, as its output is: both together may say why a job is held or started
again later, and never more (see node/launcher.py).
"""

from __future__ import annotations

import re

OWN_STATUS = {"apptainer": 255, "singularity": 255, "podman": 125, "docker": 125}
"""How each launcher ends where no program of the user's ran: podman-run(1), docker-run(1), and seen
of podman 5.4 and docker 20.10. plugins/spank/launcher.c has the same.
"""

_COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
_NAME = re.compile(rf"(?<![\w./=:@-])(?:/usr/(?:local/)?bin/)?({'|'.join(OWN_STATUS)})(?=\s)")


def calls_launcher(script: str, status: int) -> bool:
    """Whether a script names a launcher that ends with this exit status when it fails by itself;
    a comment is no call, and neither is a program of that name in another folder.
    """
    named = _NAME.findall(_COMMENT.sub("", script))
    return any(OWN_STATUS[name] == status for name in named)
