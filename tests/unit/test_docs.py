"""The documentation names what exists: commands, options, pages, and places in them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from doc_pages import LANGUAGES, PAGES, ROOT, blocks, commands

from slurm_failover.cli import main

LINK = re.compile(r"\]\(([^)\s]+)\)")
CALL = re.compile(r"`(slurm-failover(?:-\S+)? [^`]*)`")
MENTIONED = [
    *commands(),
    *(
        (path.name, call)
        for path in PAGES
        for call in CALL.findall(path.read_text())
        if "…" not in call
    ),
]


def place(heading: str) -> str:
    """The name by which a link finds a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_block_says_what_it_holds() -> None:
    assert {(block.page, block.line) for block in blocks() if block.language not in LANGUAGES} == (
        set()
    )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_to_a_page_of_ours_leads_somewhere(path: Path) -> None:
    page = ROOT / path
    for target in LINK.findall(page.read_text()):
        if "://" in target:
            continue
        name, _, heading = target.partition("#")
        there = page.parent / name if name else page
        assert there.exists(), target
        headings = re.findall(r"^#+ (.*)$", there.read_text(), re.M) if heading else []
        assert not heading or heading in map(place, headings), target


@pytest.mark.parametrize(("where", "call"), MENTIONED)
def test_every_command_of_ours_has_the_words_and_options_that_are_told(
    where: str, call: str
) -> None:
    words = shlex.split(call)
    if "slurm-failover" not in words:
        return
    words = words[words.index("slurm-failover") + 1 :]
    command: click.Command = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        inner = command.get_command(click.Context(command), words.pop(0))
        assert inner is not None, f"{where}: {call}"
        command = inner
    known = {option for parameter in command.params for option in parameter.opts}
    asked = {word.partition("=")[0] for word in words if word.startswith("-")}
    assert asked <= known | {"--help", "--version"}, f"{where}: {call}"
