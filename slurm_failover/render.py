"""Tables and JSON for people and pipes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 10000


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], empty: str) -> None:
    """Print rows under bare headings as Slurm's commands do; ``empty`` where there are none.

    On a terminal, or where COLUMNS gives a width, the last column wraps; else nothing is cut. With
    NO_COLOR set there are no escapes, bold ones included.
    """
    lines = list(rows)
    if not lines:
        sys.stdout.write(empty + "\n")
        return
    table = Table(box=None, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    for column in columns:
        is_last = column == columns[-1]
        table.add_column(column, no_wrap=not is_last, overflow="fold" if is_last else "ignore")
    for line in lines:
        table.add_row(*(Text(cell) for cell in line))
    console = _console()
    with console.capture() as capture:
        console.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def _console() -> Console:
    has_width = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return Console(
        highlight=False,
        soft_wrap=not has_width,
        width=None if has_width else WIDE,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )
