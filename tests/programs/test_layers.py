"""The contract of the layers is whole: it can not be kept by forgetting a module."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def contract(name: str) -> configparser.SectionProxy:
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    return parser[f"importlinter:contract:{name}"]


def names(text: str) -> set[str]:
    return {name.strip(" ()").removeprefix("slurm_failover.") for name in text.split("\n") if name}


def test_every_module_of_the_lowest_layer_is_held_to_be_pure() -> None:
    lowest = contract("layers")["layers"].strip().splitlines()[-1].split(":")
    there = {p.stem for p in (ROOT / "slurm_failover").iterdir() if p.name != "__init__.py"}
    thinking = names("\n".join(lowest)) & there
    assert names(contract("pure")["source_modules"].strip()) & there == thinking


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("policy.py", "import time", "what only thinks touches nothing"),
        ("record.py", "import slurm_failover.files", "over what only thinks"),
        ("node/respond.py", "import slurm_failover.controller.notes", "over controller and node"),
        ("slurm/scontrol.py", "import tenacity", "only slurm.retry knows tenacity"),
        ("node/checks.py", "import click", "no hook waits for a library of the terminal"),
        ("newcomer.py", "", "over controller and node"),
    ],
)
def test_the_linter_sees_a_broken_layer(
    tmp_path: Path, module: str, line: str, broken: str
) -> None:
    shutil.copytree(
        ROOT / "slurm_failover",
        tmp_path / "slurm_failover",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    shutil.copy(ROOT / ".importlinter", tmp_path)
    with (tmp_path / "slurm_failover" / module).open("a") as file:
        file.write(f"\n{line}\n")
    linter = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [linter, "--no-cache", "--config", ".importlinter"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert any(broken in line and "BROKEN" in line for line in done.stdout.splitlines()), (
        done.stdout
    )
