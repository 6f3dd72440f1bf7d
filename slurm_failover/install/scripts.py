"""The scripts beside slurm.conf: Lua, the plugin stack, and calls of the site's programs. Pure."""

from __future__ import annotations

import re

from slurm_failover.errors import InstallError
from slurm_failover.install.block import Block, put_block, take_block
from slurm_failover.install.conf import newline_of
from slurm_failover.wiring import HOOKS, chain_path, hook_path, lua_path

MARK = "written by `slurm-failover install`, which may write it again"
_LUA_LINE = "slurm-failover: one line by `slurm-failover install`"
_STACKED = re.compile(r"(?m)^[ \t]*(required|optional|include)[ \t]+([^\s#]+)")
_CHAINS = {
    # Both at once, so that a slow one leaves the other its time. Slurm logs the site's status.
    "healthcheck.sh": "{theirs} &\ntheirs=$!\n{ours}\nwait $theirs\n",
    # One after the other: what they print goes into the task's environment.
    "task_prolog.sh": "{ours}\nexec {theirs}\n",
}


def chain_script(home: str, folder: str, path: str, theirs: str) -> str:
    """The script at ``path`` that calls the site's program and our hook."""
    hook = next(hook for hook in HOOKS if chain_path(folder, hook) == path)
    calls = _CHAINS[hook.name].format(theirs=_quote(theirs), ours=_quote(hook_path(home, hook)))
    return f"#!/bin/sh\n# {hook.setting} of this site and of slurm-failover, {MARK}.\n{calls}"


def own_lua(text: str) -> str:
    """A Lua script of ours for a site without one."""
    return f"-- {MARK}.\n{text}"


def own_stack() -> str:
    """The beginning of a plugstack.conf of ours for a site without one."""
    return f"# {MARK}.\n"


def is_own(text: str) -> bool:
    """Whether a file as a whole is ours."""
    return any(MARK in line for line in text.splitlines()[:2])


def put_lua(text: str, module: str, home: str, path: str) -> str:
    """A site's Lua script with the line that lets our module have its say after the site's own.

    Lua allows a ``return`` at a chunk's very end only: the line goes before it. Raises InstallError
    where that end is not to be seen; ``path`` names the script in it.
    """
    bare = take_lua(text)
    if module in bare:
        return bare
    newline = newline_of(bare)
    line = (
        f'do local found, ours = pcall(dofile, "{lua_path(home, module)}") '
        f"if found then ours.join(_G) end end -- {_LUA_LINE}"
    )
    lines = re.findall(r"[^\n]*\n|[^\n]+", bare)
    at = _place(lines, path)
    if at == len(lines) and bare and not bare.endswith("\n"):
        return f"{bare}{newline}{line}"
    return "".join([*lines[:at], line + newline, *lines[at:]])


def take_lua(text: str) -> str:
    """A site's Lua script without our line."""
    unended = re.sub(rf"\r?\n[^\n]*{re.escape(_LUA_LINE)}\Z", "", text)
    return re.sub(rf"(?m)^[^\n]*{re.escape(_LUA_LINE)}\r?\n", "", unended)


def _place(lines: list[str], path: str) -> int:
    returns = [at for at, line in enumerate(lines) if re.match(r"return\b", line)]
    said = [at for at, line in enumerate(lines) if line.strip() and not _is_remark(line)]
    if not returns:
        return len(lines)
    if returns[-1] != said[-1]:
        raise InstallError(
            f"{path}: line {returns[-1] + 1}: can not tell where the script ends; put the calls "
            "in by hand, as docs/submitting.md shows"
        )
    return returns[-1]


def _is_remark(line: str) -> bool:
    return line.lstrip().startswith("--")


def read_stack(text: str) -> list[tuple[str, str]]:
    """What a plugstack.conf names: ``required``, ``optional`` or ``include``, and what follows.

    Slurm knows these words in small letters only, and neither quotes nor continued lines (tried on
    24.11 and 26.05).
    """
    return [(found[1], found[2]) for found in _STACKED.finditer(text)]


def put_plugin(text: str, plugin: str, path: str) -> str:
    """plugstack.conf with our plugin in a block at its end."""
    return put_block(take_block(text, path)[0], Block((f"optional {plugin}",)))


def take_plugin(text: str, path: str) -> str:
    """plugstack.conf without our plugin."""
    return take_block(text, path)[0].removeprefix(own_stack())


def _quote(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
