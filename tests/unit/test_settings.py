"""The settings file: what it says counts, and what it says wrongly is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_failover.errors import SettingsError
from slurm_failover.settings.file import LARGEST, load_settings, parse_settings
from slurm_failover.settings.tables import Settings, SourceSettings


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


def test_a_byte_order_mark_is_named_and_not_called_an_invalid_statement() -> None:
    assert refusal(b"\xef\xbb\xbf[failover]\n").endswith(
        "line 1: a byte order mark; save it as UTF-8 without one"
    )


def test_lines_may_end_as_on_windows() -> None:
    assert parse_settings(b"[failover]\r\nmode = 'observe'\r\n", "x").failover.mode == "observe"
    assert "line 3: [failover] modee" in refusal(b"[failover]\r\n\r\nmodee = 'act'\r\n")


@pytest.mark.parametrize(
    "value", ["nan", "inf", "9" * 5000, "9" * 4000, "0x" + "f" * 8000, f"'{'x' * 100000}'"]
)
def test_an_odd_value_is_one_short_sentence(value: str) -> None:
    said = refusal(f"[breaker]\nnodes = {value}\n")
    assert said.startswith("/etc/s.toml: ")
    assert len(said) < 400


def test_a_key_that_is_there_twice_is_named_with_its_line() -> None:
    assert "line 3" in refusal("[failover]\nmode = 'act'\nmode = 'act'\n")


def test_a_huge_file_is_no_settings_file(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(b"#" * LARGEST)
    assert load_settings(str(path)) == Settings()
    path.write_bytes(b"#" * (LARGEST + 1))
    with pytest.raises(SettingsError, match="larger than"):
        load_settings(str(path))


def test_a_file_that_can_not_be_read_is_an_error_and_not_the_defaults(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="can not be read"):
        load_settings(str(tmp_path))


def test_a_key_can_not_steer_a_terminal_nor_fill_it() -> None:
    assert "[failover] 'a\\x1b[2J': unknown key" in refusal('[failover]\n"a\\u001b[2J" = 1\n')
    assert "unknown table ['a\\x07']" in refusal('["a\\u0007"]\n')
    assert len(refusal(f"[failover]\n{'x' * 100000} = 1\n")) < 1000


def test_slurmds_log_is_found_under_the_name_that_slurm_makes_of_it() -> None:
    sources = SourceSettings(slurmd_log="/var/log/%n/%h/slurmd.%n.%h.log")
    assert sources.slurmd_log_of("n1", "h1") == "/var/log/n1/h1/slurmd.%n.%h.log"
