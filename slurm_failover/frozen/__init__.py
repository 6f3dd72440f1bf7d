"""``@dataclass(frozen=True, slots=True)`` for what a healthy hook imports.

The standard module costs every start of a hook more time than all that the hook then does: it
imports ``inspect``, and compiles the methods of each class. Modules that healthy hooks import take
``dataclass``, ``field``, ``fields`` and ``replace`` from here. For who checks types they are the
standard ones; what runs are those of ``made``, which behave like them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import Field, dataclass, field, fields, replace
else:
    from slurm_failover.frozen.made import Field, dataclass, field, fields, replace

__all__ = ["Field", "dataclass", "field", "fields", "replace"]
