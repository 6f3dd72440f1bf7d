"""Tables and JSON for people and pipes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WIDE = 10000
NOTHING = "-"
"""The cell of what there is none of."""
READABLE = 40
"""Columns; a sentence in fewer is a ladder of words."""


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], empty: str) -> None:
    """Print rows under bare headings as Slurm's commands do; ``empty`` where there are none.

    On a terminal, or where COLUMNS gives a width, the last column wraps, on lines of its own below
    its row where little room is left for it; else nothing is cut. With NO_COLOR set there are no
    escapes, bold ones included.
    """
    lines = list(rows)
    if not lines:
        sys.stdout.write(empty + "\n")
        return
    console = _console(_width())
    with console.capture() as capture:
        if _room(columns, lines, console.width) < min(READABLE, _widest(columns, lines, -1)):
            _print_below(console, columns, lines)
        else:
            console.print(_table(columns, lines))
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def _table(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    for column in columns:
        is_last = column == columns[-1]
        table.add_column(column, no_wrap=not is_last, overflow="fold" if is_last else "ignore")
    for line in lines:
        table.add_row(*(Text(cell) for cell in line))
    return table


def _print_below(console: Console, columns: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Each row without its last cell, and that below it. A row too long is left to the terminal."""
    wide = _console(WIDE)
    with wide.capture() as capture:
        wide.print(_table(columns[:-1], (line[:-1] for line in lines)))
    heads = capture.get().splitlines()
    below = [Text(columns[-1], style="bold"), *(Text(line[-1]) for line in lines)]
    for head, sentence in zip(heads, below, strict=True):
        console.print(Text.from_ansi(head), soft_wrap=True)
        if sentence.plain not in ("", NOTHING):
            console.print(Padding(sentence, (0, 0, 0, 4)))


def _room(columns: Sequence[str], lines: Sequence[Sequence[str]], width: int) -> int:
    """The columns that are left for the last cell of a row."""
    taken = (_widest(columns, lines, at) + 1 for at in range(len(columns) - 1))
    return width - sum(taken)


def _widest(columns: Sequence[str], lines: Sequence[Sequence[str]], at: int) -> int:
    return max(cell_len(line[at]) for line in (columns, *lines))


def _width() -> int | None:
    """The width to keep to; None for the terminal's own."""
    has_width = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return None if has_width else WIDE


def _console(width: int | None) -> Console:
    return Console(
        highlight=False,
        soft_wrap=width is not None,
        width=width,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )
