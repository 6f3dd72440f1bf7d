"""What is written from the code is as the code is now."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

from slurm_failover.cli import COMMANDS
from slurm_failover.settings.file import parse_settings
from slurm_failover.settings.reference import as_example, as_manual, as_markdown, escape, to_roff
from slurm_failover.settings.tables import Settings

ROOT = Path(__file__).parent.parent.parent


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = generator().pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_not_stale(name: str) -> None:
    path = ROOT / name
    assert path.exists(), "run docs/generate.py"
    assert path.read_text() == PAGES[name], f"{name} is stale: run docs/generate.py"


def test_every_setting_is_on_the_page_with_its_default() -> None:
    page = as_markdown()
    for table in fields(Settings):
        part = page.split(f"## `[{table.name}]`")[1].split("\n## ")[0]
        for key in fields(table.default_factory):  # type: ignore[arg-type]
            assert f"| `{key.name}` | `" in part


def test_the_example_as_it_is_and_with_every_key_switched_on_is_the_defaults() -> None:
    example = as_example()
    assert parse_settings(example.encode(), "x") == Settings()
    switched_on = re.sub(r"(?m)^#(\w+ = )", r"\1", example)
    assert switched_on.count("\n#") < example.count("\n#")
    assert parse_settings(switched_on.encode(), "x") == Settings()
    keys = sum(len(fields(t.default_factory)) for t in fields(Settings))  # type: ignore[arg-type]
    assert len(re.findall(r"(?m)^\w+ = ", switched_on)) == keys


def test_every_command_is_in_the_manual() -> None:
    manual = PAGES["docs/man/slurm-failover.1"]
    for name in COMMANDS:
        assert re.search(rf'(?m)^\.SS "{escape(name)} ', manual), name
    assert "\\fB\\-\\-apply\\fR" in manual


def test_no_text_of_ours_is_a_request_to_roff() -> None:
    known = {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".BR", ".I", '.\\"'}
    for page in (PAGES["docs/man/slurm-failover.1"], as_manual("1")):
        starts = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
        assert starts <= known
    assert escape(".so /etc/shadow") == "\\&.so /etc/shadow"
    assert to_roff("`a-b` \\n") == "\\fBa\\-b\\fR \\en"
