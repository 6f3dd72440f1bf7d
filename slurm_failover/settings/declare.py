"""How a setting is declared, in every table alike: default, meaning, and what it may be. Pure."""

from __future__ import annotations

from slurm_failover.frozen import field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    _T = TypeVar("_T")


def setting(
    default: _T,
    doc: str,
    *,
    choices: tuple[str, ...] = (),
    at_least: float | None = None,
    at_most: float | None = None,
    patterns: bool = False,
) -> _T:
    """A field of a settings table. ``doc`` is its line in the reference; numbers have bounds, and
    ``patterns`` says that the texts are regular expressions.
    """
    metadata = {
        "doc": doc,
        "choices": choices,
        "at_least": at_least,
        "at_most": at_most,
        "patterns": patterns,
    }
    result: _T = field(default=default, metadata=metadata)
    return result
