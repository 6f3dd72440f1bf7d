"""The literal texts of which at least one stands in every line that a rule can match.

A healthy Epilog looks at the kernel's log with these and plain ``in``, and needs nothing else; so
this module imports next to nothing, and tomllib only where a site has rules of its own.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_SHIPPED = os.path.join(os.path.dirname(__file__), "rules", "anchors.txt")  # noqa: PTH118, PTH120


def read_anchors(overlay: Path | None = None) -> tuple[bytes, ...]:
    """The anchors of the shipped rules and of the site's overlay folder, if there is one.

    Raises errors.RuleError where a file of the overlay can not be read.
    """
    with open(_SHIPPED, "rb") as file:  # noqa: PTH123
        shipped = tuple(line for line in file.read().splitlines() if line and line[:2] != b"# ")
    if overlay is None or not os.path.isdir(overlay):  # noqa: PTH112
        return shipped
    from slurm_failover.catalogue import overlay_anchors

    return shipped + tuple(a for a in overlay_anchors(overlay) if a not in shipped)
