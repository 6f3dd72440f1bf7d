"""``slurm-failover completion``: the script by which a shell completes our command line."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from slurm_failover.cli import main

SHELLS = ("bash", "zsh", "fish")
PROGRAM = "slurm-failover"
_VARIABLE = "_SLURM_FAILOVER_COMPLETE"
"""Where click looks for what a shell wants to know, by its own rule for the program's name."""

_FIRST_CALL = "[[ $zsh_eval_context[-1] == loadautofunc ]]"
_EVERY_CALL = f"[[ $funcstack[1] == _{PROGRAM} ]]"
"""How zsh tells that it completes by our file and does not source it. click's test holds at the
first TAB alone, which loads the file: the second offered nothing (seen on zsh 5.9).
"""


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
    return text.replace(_FIRST_CALL, _EVERY_CALL) + "\n"
