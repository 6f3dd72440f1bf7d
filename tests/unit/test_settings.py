"""The settings file: what it says counts, and what it says wrongly is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_failover.errors import SettingsError
from slurm_failover.settings.file import load_settings, parse_settings
from slurm_failover.settings.tables import Settings


def refusal(text: str | bytes) -> str:
    raw = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(SettingsError) as refused:
        parse_settings(raw, "/etc/s.toml")
    return str(refused.value)


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert load_settings(str(tmp_path / "none.toml")) == Settings()


def test_an_empty_file_is_the_defaults() -> None:
    assert parse_settings(b"", "x") == Settings()


def test_what_the_file_says_counts_and_the_rest_keeps_its_default(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("[failover]\nmax_retries = 5\ntrusted_reasons = ['^nhc: ']\n")
    settings = load_settings(str(path))
    assert settings.failover.max_retries == 5
    assert settings.failover.trusted_reasons == ("^nhc: ",)
    assert settings.failover.mode == "act"
    assert settings.slurm == Settings().slurm


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("\n[failover]\nmax_retrys = 1", 3, "[failover] max_retrys: unknown key; known are mode"),
        ("[failover]\n[fail]\n", 2, "unknown table [fail]; known are failover"),
        ("[failover]\nmax_retries = 0", 2, "must be between 1 and 1000, not 0"),
        ("[failover]\nmax_retries = true", 2, "must be a whole number, not True"),
        ("[failover]\nmax_retries = '3'", 2, "must be a whole number, not '3'"),
        ("[failover]\nmode = 'Act'", 2, "must be one of act, observe, not 'Act'"),
        ("failover.mode = 1", 1, "[failover] mode: must be a string"),
        ("[failover]\ntrusted_reasons = 'x'", 2, "must be a list of strings"),
        ("[failover]\ntrusted_reasons = ['(']", 2, "'(' is not a regular expression"),
        ("failover = 3", 1, "[failover] must be a table"),
        ("[slurm]\ntimeout = 5\n[failover]\ngrace = -1", 4, "[failover] grace: must be between"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_remedy(text: str, line: int, words: str) -> None:
    said = refusal(text)
    assert said.startswith(f"/etc/s.toml: line {line}: ")
    assert words in said


def test_what_is_no_toml_is_named_with_its_line() -> None:
    assert "line 2" in refusal("[failover]\nmode = \n")


def test_what_is_no_utf_8_is_named_with_its_line() -> None:
    assert refusal(b"# ok\n# \xff\n") == "/etc/s.toml: line 2: not UTF-8 text; save it as UTF-8"


def test_a_file_that_can_not_be_read_is_an_error_and_not_the_defaults(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="can not be read"):
        load_settings(str(tmp_path))
