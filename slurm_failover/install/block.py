"""Our lines in a file that is not ours: one block between two marks at its end. Pure.

The block also remembers what was changed elsewhere, so that nothing but the file itself is needed
to take all of it away again.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from slurm_failover.errors import InstallError
from slurm_failover.install.conf import newline_of

BEGIN = "# slurm-failover: begin. `slurm-failover uninstall` takes this away"
END = "# slurm-failover: end of what was written as"
_UNENDED = " (the file had no newline at its end)"
_REPLACED = re.compile(r"# changed (\w+) from (.*) to (\S+)")
_ADDED = re.compile(r"# added to (\w+): (.*)")


@dataclass(frozen=True, slots=True)
class Block:
    """What we have in a configuration: lines of our own, values that we put in the place of the
    site's (name, theirs, ours), and items that we added to lists (name, item).
    """

    lines: tuple[str, ...] = ()
    replaced: tuple[tuple[str, str, str], ...] = ()
    added: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lines or self.replaced or self.added)


def put_block(text: str, block: Block) -> str:
    """The text with the block at its end; the text itself for an empty block."""
    if not block:
        return text
    newline = newline_of(text)
    unended = bool(text) and not text.endswith("\n")
    body = [
        *(f"# changed {name} from {theirs} to {ours}" for name, theirs, ours in block.replaced),
        *(f"# added to {name}: {item}" for name, item in block.added),
        *block.lines,
    ]
    lines = [BEGIN + _UNENDED * unended, *body, f"{END} {_sum(body)}"]
    return text + newline * unended + "".join(line + newline for line in lines)


def take_block(text: str, path: str) -> tuple[str, Block]:
    """The text without our block, byte for byte what others wrote, and the block.

    Raises InstallError if a mark stands alone, or if someone has written between the two: what
    others wrote is never taken away. ``path`` names the file in it.
    """
    found = re.search(rf"(?m)^{re.escape(BEGIN)}.*$", text)
    end = re.search(rf"(?m)^{re.escape(END)} (\w+)[ \t\r]*(?:\n|\Z)", text)
    if found is None and end is None:
        return text, Block()
    if found is None or end is None or end.start() < found.start():
        raise InstallError(
            f"{path}: one of the lines {BEGIN!r} and {END!r} is missing; "
            "take out what is left of our lines by hand"
        )
    before, after = text[: found.start()], text[end.end() :]
    if _UNENDED in found[0] and not after:
        before = before.removesuffix("\r\n" if found[0].endswith("\r") else "\n")
    inner = (line.rstrip("\r") for line in text[found.end() : end.start()].split("\n"))
    body = [line for line in inner if line]
    if _sum(body) != end[1]:
        raise InstallError(
            f"{path}: line {text.count(chr(10), 0, found.start()) + 1}: the lines from here to "
            f"{END!r} are not as they were written; move what is yours out of them, give back what "
            "was there (the diff of the installation shows it), or take all of them out by hand"
        )
    return before + after, _read_body(body)


def _sum(body: Iterable[str]) -> str:
    return f"{zlib.crc32(chr(10).join(body).encode(errors='surrogateescape')):08x}"


def _read_body(body: list[str]) -> Block:
    replaced, added, lines = [], [], []
    for line in body:
        if found := _REPLACED.fullmatch(line):
            replaced.append((found[1], found[2], found[3]))
        elif found := _ADDED.fullmatch(line):
            added.append((found[1], found[2]))
        else:
            lines.append(line)
    return Block(tuple(lines), tuple(replaced), tuple(added))
