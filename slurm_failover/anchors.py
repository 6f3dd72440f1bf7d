"""The literal texts of which at least one stands in every line that a rule can match.

A healthy Epilog looks at the kernel's log with these and plain ``in``, and needs nothing else; so
this module imports next to nothing, and tomllib only where a site has rules of its own.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_RULES = os.path.join(os.path.dirname(__file__), "rules")  # noqa: PTH118, PTH120


def read_anchors(overlay: Path | None = None, *, programs: bool = False) -> tuple[bytes, ...]:
    """The anchors of the shipped rules and of the site's overlay folder, if there is one.

    Without ``programs`` they serve messages of the kernel alone, with it those of programs, too.
    Raises errors.RuleError where a file of the overlay can not be read.
    """
    shipped = _lines("anchors.txt")
    if programs:
        shipped += tuple(a for a in _lines("anchors-programs.txt") if a not in shipped)
    if overlay is None or not os.path.isdir(overlay):  # noqa: PTH112
        return shipped
    from slurm_failover.catalogue import overlay_anchors

    return shipped + tuple(a for a in overlay_anchors(overlay) if a not in shipped)


def _lines(name: str) -> tuple[bytes, ...]:
    with open(os.path.join(_RULES, name), "rb") as file:  # noqa: PTH118, PTH123
        return tuple(line for line in file.read().splitlines() if line and line[:2] != b"# ")
