#!/usr/bin/env python3
"""Write what is written from the code itself: settings reference, example, manual pages,
the decision table.

``docs/generate.py`` writes the files; a test compares them with what would be written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from slurm_failover import __version__  # noqa: E402
from slurm_failover.cli import main as cli  # noqa: E402
from slurm_failover.commands.completion import script  # noqa: E402
from slurm_failover.policy import DECISIONS, Action  # noqa: E402
from slurm_failover.settings.reference import (  # noqa: E402
    as_example,
    as_manual,
    as_markdown,
    escape,
    to_roff,
)

NOTE = "Written by docs/generate.py from the commands themselves: change them."
DECISIONS_BEGIN = "<!-- written by docs/generate.py from slurm_failover/policy.py -->"
DECISIONS_END = "<!-- end -->"
FILES = """
.TP
.I /etc/slurm\\-failover/settings.toml
The site's settings, see
.BR slurm\\-failover\\-settings (5).
.TP
.I /etc/slurm\\-failover/rules.d
The site's own rules.
.TP
.I /var/lib/slurm\\-failover
What nodes and controllers keep.
""".strip()


def command_manual() -> str:
    """The page slurm-failover(1), with every command and option."""
    context = click.Context(cli, info_name="slurm-failover")
    lines = [
        f'.\\" {NOTE}',
        f'.TH SLURM\\-FAILOVER 1 "" "slurm\\-failover {__version__}"',
        ".SH NAME",
        "slurm\\-failover \\- move Slurm jobs away from hardware faults",
        ".SH SYNOPSIS",
        ".B slurm\\-failover",
        "[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]",
        ".SH OPTIONS",
        *options_of(cli, context),
        ".SH COMMANDS",
    ]
    for name in cli.list_commands(context):
        lines += command_section(cli, name, context)
    lines += [".SH FILES", FILES, ".SH EXIT STATUS"]
    lines.append(
        "0 if all went well, 1 if it did not, 2 for a wrong use; what differs is said above. An "
        "error is words on standard error, with --json as well: ask the exit status first. "
        "Standard output then holds whole JSON of what is known, or nothing."
    )
    lines += [".SH SEE ALSO", ".BR slurm\\-failover\\-settings (5), \\ sbatch (1)"]
    return "\n".join(lines) + "\n"


def command_section(group: click.Group, name: str, parent: click.Context) -> Iterator[str]:
    """One command, or each command of a group of them."""
    command = group.get_command(parent, name)
    if command is None:
        return
    context = click.Context(command, info_name=name, parent=parent)
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            yield from command_section(command, inner, context)
        return
    path = context.command_path.removeprefix("slurm-failover ")
    usage = " ".join(command.collect_usage_pieces(context))
    yield f'.SS "{escape(path)} {escape(usage)}"'
    for number, paragraph in enumerate((command.help or "").split("\n\n")):
        if number:
            yield ".PP"
        yield to_roff(" ".join(paragraph.split()))
    yield from options_of(command, context)


def options_of(command: click.Command, context: click.Context) -> Iterator[str]:
    """The options of a command, each with its help."""
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record and "--help" not in parameter.opts:
            yield ".TP"
            yield f"\\fB{escape(record[0])}\\fR"
            yield to_roff(" ".join(record[1].split()))


BECOMES = {
    Action.FAILOVER: "moved to other nodes; a retry",
    Action.TRY_AGAIN: "started again after a pause; no retry",
    Action.DENY: "held",
    Action.EXCEED: "held",
}


def decisions() -> str:
    """The decision table of policy.py, row by row in its order."""
    lines = ["| the first of these that holds | the job is | shown as |", "|---|---|---|"]
    lines += [f"| {row.when} | {BECOMES[row.action]} | `{row.state}` |" for row in DECISIONS]
    return "\n".join(lines)


def with_decisions(text: str) -> str:
    """A page with the decision table between its two marks."""
    before, _, rest = text.partition(f"{DECISIONS_BEGIN}\n")
    _, end, after = rest.partition(DECISIONS_END)
    if not end:
        raise ValueError(f"docs/architecture.md has lost its mark {DECISIONS_END}")
    return f"{before}{DECISIONS_BEGIN}\n{decisions()}\n{DECISIONS_END}{after}"


def pages() -> dict[str, str]:
    """Every file that is written from the code, by its path in the repository."""
    return {
        "docs/architecture.md": with_decisions((ROOT / "docs/architecture.md").read_text()),
        "docs/settings.md": as_markdown(),
        "docs/man/slurm-failover.1": command_manual(),
        "docs/man/slurm-failover-settings.5": as_manual(__version__),
        "examples/settings.toml": as_example(),
        "completions/slurm-failover.bash": script("bash"),
        "completions/_slurm-failover": script("zsh"),
        "completions/slurm-failover.fish": script("fish"),
    }


def main() -> None:
    """Write all pages."""
    for name, text in pages().items():
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(text)


if __name__ == "__main__":
    main()
