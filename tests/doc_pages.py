"""The pages of the documentation, and what stands in their blocks of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
)
LANGUAGES = {
    "sh": "commands, each of which a test executes",
    "console": "what a terminal showed",
    "bash": "lines of a script",
    "conf": "lines of Slurm's configuration",
    "toml": "lines of settings or rules",
    "lua": "lines of a site's script",
    "text": "anything else",
}
"""What a block of each language holds."""

_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"\s+#.*$")


class Block(NamedTuple):
    """A fenced block: its page, its line there, its language, and its text."""

    page: str
    line: int
    language: str
    text: str


def blocks() -> Iterator[Block]:
    """Every fenced block of every page."""
    for path in PAGES:
        text = path.read_text()
        for found in _FENCE.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield Block(str(path.relative_to(ROOT)), line, found[1], found[2])


def commands_of(block: Block) -> Iterator[str]:
    """The commands of a block, without their comments; a loop is one command."""
    loop: list[str] = []
    for raw in block.text.splitlines():
        line = _COMMENT.sub("", raw).strip()
        if not line:
            continue
        loop.append(line)
        if loop[0].startswith("for ") and line != "done":
            continue
        yield "\n".join(loop)
        loop.clear()


def commands() -> Iterator[tuple[str, str]]:
    """Every command of the documentation, with its page and line."""
    for block in blocks():
        if block.language == "sh":
            for command in commands_of(block):
                yield f"{block.page}:{block.line}", command
