"""Tables as a person reads them in a terminal, and as a pipe gets them."""

from __future__ import annotations

import pytest

from slurm_failover.render import print_table

HEADS = ("JOBID", "STATE", "CAUSE")
STATE = "Pending - failoverinprogress"
SENTENCE = "the GPU fell off the bus, and the job waits for a node that is free and whole"


def lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str, *cells: str
) -> list[str]:
    monkeypatch.setenv("COLUMNS", columns)
    print_table(HEADS, [("7", STATE, cell) for cell in cells], "none")
    return capsys.readouterr().out.splitlines()


def test_a_sentence_with_little_room_stands_below_its_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head, cause, row, *below, last = lines(monkeypatch, capsys, "60", SENTENCE, "-")
    assert head.split() == ["JOBID", "STATE"]
    assert cause == "    CAUSE"
    assert row == f"7     {STATE}" == last
    assert " ".join(line.strip() for line in below) == SENTENCE
    assert all(line.startswith("    ") and len(line) <= 60 for line in below)


def test_a_sentence_with_room_stands_in_its_row_and_wraps_between_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = lines(monkeypatch, capsys, "80", SENTENCE)
    assert found[0].split() == list(HEADS)
    assert found[1].startswith(f"7     {STATE} the GPU fell")
    assert " ".join(" ".join(line[35:].split()) for line in found[1:]) == SENTENCE


def test_words_that_fit_stay_in_their_row_however_little_room_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines(monkeypatch, capsys, "45", "short")[1:] == [f"7     {STATE} short"]


def test_a_row_that_is_too_long_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = lines(monkeypatch, capsys, "20", SENTENCE)
    assert f"7     {STATE}" in found
    assert " ".join(" ".join(found).split()).endswith(SENTENCE)


def test_a_pipe_gets_one_line_for_each_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines(monkeypatch, capsys, "", SENTENCE)[1:] == [f"7     {STATE} {SENTENCE}"]
