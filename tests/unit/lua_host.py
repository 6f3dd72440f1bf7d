"""Runs the Lua modules as Slurm would: each Lua that Slurm may load, and Slurm's table `slurm`."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lupa", reason="the Lua modules are tested with lupa, which is not installed")

LUA = Path(__file__).parent.parent.parent / "plugins" / "lua"
VERSIONS = ("lua51", "lua53", "lua54")
NO_VAL, NO_VAL16 = 0xFFFFFFFE, 0xFFFE
SUCCESS, ERROR = 0, -1


class LuaHost:
    """One Lua state. ``told`` is what the user reads, ``logged`` what the daemon's log gets."""

    def __init__(self, version: str) -> None:
        self.lua = import_module(f"lupa.{version}").LuaRuntime(unpack_returned_tuples=True)
        self.told: list[str] = []
        self.logged: list[str] = []
        self.lua.globals().slurm = self.lua.table(
            SUCCESS=SUCCESS,
            ERROR=ERROR,
            NO_VAL=NO_VAL,
            NO_VAL16=NO_VAL16,
            log_user=self._writer(self.told),
            log_error=self._writer(self.logged),
            log_debug=self._writer(self.logged),
        )

    def _writer(self, lines: list[str]) -> Any:
        """A log function of Slurm's: a format of string.format and its values."""
        function = self.lua.eval(
            "function(put) return function(...) put(string.format(...)) end end"
        )
        return function(lines.append)

    def load(self, name: str) -> Any:
        """The module in ``plugins/lua/NAME.lua``."""
        return self.lua.globals().dofile(str(LUA / f"{name}.lua"))

    def run_ready_made(self, name: str, home: Path) -> Any:
        """Run ``plugins/lua/NAME.lua`` with our modules installed in ``home``; its globals."""
        text = (LUA / f"{name}.lua").read_text()
        script, count = re.subn('HOME = ".*"', f'HOME = "{home}/"', text)
        assert count == 1
        self.lua.execute(script)
        return self.lua.globals()

    def table(self, value: Any) -> Any:
        """A Lua table of a dict or list, with all that is in it."""
        return self.lua.table_from(value, recursive=True)


def to_python(value: Any) -> Any:
    """A Lua value as Python writes it: tables with items 1 to N are lists."""
    if not hasattr(value, "items"):
        return value
    items = {key: to_python(item) for key, item in value.items() if key != "is_array"}
    if set(items) == set(range(1, len(items) + 1)):
        return [items[index] for index in sorted(items)]
    return items
