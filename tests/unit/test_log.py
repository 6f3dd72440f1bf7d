"""What hooks say, for an admin to read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slurm_failover.log import Log


def test_a_line_has_a_time_a_process_and_its_component(tmp_path: Path) -> None:
    path = tmp_path / "log"
    Log("epilog", str(path)).say("drain: n1")
    Log("decide", str(path)).say("job 7")
    first, second = path.read_text().splitlines()
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}"
    assert re.fullmatch(stamp + r" slurm-failover\[\d+\] epilog: drain: n1", first)
    assert second.endswith("decide: job 7")


def test_a_message_can_not_forge_a_line_or_steer_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "log"
    Log("epilog", str(path)).say("one\ntwo \x1b[2J \udcff ü")
    text = path.read_text()
    assert text.count("\n") == 1
    assert text.isascii()
    assert "\x1b" not in text


def test_a_log_that_can_not_be_written_costs_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    monkeypatch.setattr("syslog.syslog", lambda _, line: sent.append(line))
    Log("epilog", str(tmp_path)).say("drain: n1")
    assert "drain: n1" in capsys.readouterr().err
    assert sent == [f"epilog: {tmp_path}: Is a directory: drain: n1"]


def test_a_link_in_the_place_of_the_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("")
    (tmp_path / "log").symlink_to(tmp_path / "theirs")
    Log("epilog", str(tmp_path / "log")).say("x")
    assert (tmp_path / "theirs").read_text() == ""


def test_without_a_file_the_line_goes_to_syslog(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr("syslog.syslog", lambda _, line: sent.append(line))
    Log("healthcheck").say("a\nb")
    assert sent == ["healthcheck: a\\nb"]
