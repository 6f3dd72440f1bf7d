"""Each interpreter that we start is isolated from the environment of whoever started us."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "slurm_failover"
STARTS = [file for file in PACKAGE.rglob("*.py") if "sys.executable" in file.read_text()]


@pytest.mark.parametrize("file", STARTS, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_an_interpreter_is_started_isolated(file: Path) -> None:
    """And without site-packages, where it is to run a hook."""
    tree = ast.parse(file.read_text())
    calls = [
        [ast.unparse(part) for part in node.elts]
        for node in ast.walk(tree)
        if isinstance(node, (ast.List, ast.Tuple))
    ]
    starts = [call for call in calls if call[:1] == ["sys.executable"]]
    assert len(starts) == ast.unparse(tree).count("sys.executable")
    for start in starts:
        assert start[1] == "'-I'"
        assert start[2] == "'-S'" or "hooks" not in "".join(start)
