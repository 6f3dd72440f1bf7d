"""The reference of settings.toml in three forms, written from the tables alone. Pure."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from slurm_failover.frozen import Field, fields
from slurm_failover.settings.tables import DEFAULT_PATH, Settings

_NOTE = "Written by docs/generate.py from slurm_failover/settings: change it there."
_ABOUT = (
    f"The site's settings are in `{DEFAULT_PATH}`, a TOML file that need not be there: every key "
    "has a default. Hooks and commands read it each time, so a change counts at once; the watcher "
    "is restarted. A file with an unknown key or a value out of its bounds is refused as a whole: "
    "then hooks give no verdict, and `slurm-failover doctor` names the line."
)


def as_markdown() -> str:
    """The page docs/settings.md."""
    lines = [f"<!-- {_NOTE} -->", "# Settings", "", *textwrap.wrap(_ABOUT, 100), ""]
    for table, keys in _tables():
        lines += [f"## `[{table.name}]`", "", *textwrap.wrap(_purpose(table), 100), ""]
        lines += ["| key | default | meaning |", "|---|---|---|"]
        lines += [f"| `{key.name}` | {_code(key)} | {_in_cell(_meaning(key))} |" for key in keys]
        lines.append("")
    return "\n".join(lines)


def as_example() -> str:
    """An annotated settings.toml in which every key stands with its default, switched off."""
    lines = [f"# {_NOTE}", *_remark(_ABOUT)]
    for table, keys in _tables():
        lines += ["", *_remark(_purpose(table)), f"[{table.name}]"]
        for key in keys:
            lines += ["", *_remark(_meaning(key)), f"#{key.name} = {default_of(key)}"]
    return "\n".join(lines) + "\n"


def as_manual(version: str) -> str:
    """The page slurm-failover-settings(5)."""
    lines = [
        f'.\\" {_NOTE}',
        f'.TH SLURM\\-FAILOVER\\-SETTINGS 5 "" "slurm\\-failover {version}"',
        ".SH NAME",
        "slurm\\-failover\\-settings \\- what a site may set",
        ".SH SYNOPSIS",
        f".I {escape(DEFAULT_PATH)}",
        ".SH DESCRIPTION",
        to_roff(_ABOUT),
    ]
    for table, keys in _tables():
        lines += [f".SH [{table.name}]", to_roff(_purpose(table))]
        for key in keys:
            lines += [".TP", f"\\fB{key.name}\\fR = {escape(default_of(key))}"]
            lines.append(to_roff(_meaning(key)))
    lines += [".SH SEE ALSO", ".BR slurm\\-failover (1)"]
    return "\n".join(lines) + "\n"


def default_of(key: Field[Any]) -> str:
    """A key's default as TOML."""
    value = key.default
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def escape(text: str) -> str:
    """A text in which roff sees no request and no escape."""
    bare = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{bare}" if bare[:1] in (".", "'") else bare


def to_roff(text: str) -> str:
    """A sentence for a manual page; what stands in backquotes becomes bold."""
    return re.sub(r"`([^`]*)`", r"\\fB\1\\fR", escape(text))


def _tables() -> Iterator[tuple[Field[Any], tuple[Field[Any], ...]]]:
    for table in fields(Settings):
        yield table, fields(table.default_factory)  # type: ignore[arg-type]


def _purpose(table: Field[Any]) -> str:
    return " ".join((table.default_factory.__doc__ or "").split())


def _meaning(key: Field[Any]) -> str:
    """What a key means, and what it may be where its sentence does not say so."""
    doc = " ".join(str(key.metadata["doc"]).split())
    low, high = key.metadata["at_least"], key.metadata["at_most"]
    return doc if low is None else f"{doc} From {low} to {high}."


def _code(key: Field[Any]) -> str:
    return f"`{default_of(key)}`".replace("|", "\\|")


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")


def _remark(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text.replace("`", ""), 98)]
