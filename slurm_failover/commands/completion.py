"""``slurm-failover completion``: the script by which a shell completes our command line."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from slurm_failover.cli import main

SHELLS = ("bash", "zsh", "fish")
PROGRAM = "slurm-failover"
_VARIABLE = "_SLURM_FAILOVER_COMPLETE"
"""Where click looks for what a shell wants to know, by its own rule for the program's name."""

_MENDED = (
    # How zsh tells that it completes by our file and does not source it: click's test holds at the
    # first TAB alone, which loads the file, and the second offered nothing (seen on zsh 5.9).
    ("[[ $zsh_eval_context[-1] == loadautofunc ]]", f"[[ $funcstack[1] == _{PROGRAM} ]]"),
    # bash takes what stands without quotes for a pattern, and would offer the files that it fits.
    (
        "for completion in $response; do\n        IFS=',' read type value <<< \"$completion\"\n",
        "while IFS=',' read -r type value; do",
    ),
    ("    done\n\n    return 0", '    done <<< "$response"\n\n    return 0'),
    ("COMPREPLY+=($value)", 'COMPREPLY+=("$value")'),
    # fish would cut what is said of an offer at its first comma.
    ('string split ","', 'string split --max 1 ","'),
)
"""What click's scripts do not do well, each with what stands there instead."""


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion of SHELL.

    Load it with `source <(slurm-failover completion bash)`, the same for zsh after compinit, or
    `slurm-failover completion fish | source`. It completes commands, options, job ids, nodes and
    rules.
    """
    click.echo(script(shell), nl=False)


def script(shell: str) -> str:
    """The script for a shell."""
    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(f"click knows no completion of {shell}")
    maker = found(main, {}, PROGRAM, _VARIABLE)
    text = str(maker.source_template % maker.source_vars()).strip()
    for theirs, ours in _MENDED:
        text = text.replace(theirs, ours)
    return text + "\n"
