"""A settings file of any content gives settings, or one error that names the file."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slurm_failover.errors import SettingsError
from slurm_failover.settings.file import parse_settings
from slurm_failover.settings.tables import Settings

QUICK = settings(max_examples=200)
KEYS = [
    (table.name, key.name)
    for table in fields(Settings)
    for key in fields(table.default_factory)  # type: ignore[arg-type]
]
VALUES = ["1", "-1", "1.5", "true", '"x"', '""', "[]", '["["]', "{}", "1979-05-27", "inf", "[[1]]"]
lines = st.one_of(
    st.sampled_from([f"[{table}]" for table, _ in KEYS]),
    st.builds("{} = {}".format, st.sampled_from([key for _, key in KEYS]), st.sampled_from(VALUES)),
    st.text(max_size=8),
)


def outcome(raw: bytes) -> Settings | str:
    try:
        return parse_settings(raw, "/a/file")
    except SettingsError as error:
        return str(error)


@QUICK
@given(st.binary())
@example(b"x = " + b"[" * 5000)
@example(b"[failover]\ntrusted_reasons = ['" + b"(" * 5000 + b"']")
def test_any_bytes(raw: bytes) -> None:
    result = outcome(raw)
    assert isinstance(result, Settings) or result.startswith("/a/file: ")


@QUICK
@given(st.lists(lines, max_size=6))
def test_any_lines_that_look_like_settings(text: list[str]) -> None:
    result = outcome("\n".join(text).encode("utf-8", "replace"))
    assert isinstance(result, Settings) or result.startswith("/a/file: ")


@pytest.mark.parametrize(("table", "key"), KEYS)
def test_a_value_of_the_wrong_type_is_named_with_file_line_table_and_key(
    table: str, key: str
) -> None:
    result: Any = outcome(f"# first line\n[{table}]\n{key} = 1979-05-27\n".encode())
    assert isinstance(result, str)
    assert result.startswith(f"/a/file: line 3: [{table}] {key}: must be ")
