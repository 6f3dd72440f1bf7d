"""The stories in tests/cases give their golden verdicts, and a changed verdict is seen."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_failover.catalogue import Catalogue, load_rules
from slurm_failover.cli import main
from slurm_failover.commands.replay import command, read_case, render
from slurm_failover.errors import SourceUnreadable

CASES = Path(__file__).parents[1] / "cases"
STORIES = sorted(path.parent for path in CASES.glob("*/case.toml"))
# What the public incidents were found to be: whose fault, and what the node needed.
VERDICTS = {
    "01": ("hardware", "drain"),
    "02": ("hardware", "drain"),
    "04": ("hardware", "drain"),
    "05": ("hardware", "reboot"),
    "06": ("hardware", "reboot"),
    "07": ("hardware", "reboot"),
    "10": ("hardware", "drain"),
    "11": ("hardware", "reboot"),
    "12": ("hardware", "drain"),
    "14": ("hardware", "drain"),
    "15": ("unknown", "none"),
    "17": ("hardware", "drain"),
    "19": ("hardware", "drain"),
    "20": ("hardware", "drain"),
    "21": ("internal", "none"),
    "23": ("internal", "none"),
    "24": ("internal", "reboot"),
    "25": ("internal", "reboot"),
    "27": ("unknown", "none"),
    "28": ("hardware", "drain"),
    "30": ("hardware", "drain"),
    "32": ("hardware", "drain"),
    "33": ("hardware", "none"),
    "35": ("hardware", "drain"),
}
BLAMED = {"05": "0000:91:00", "10": "0000:9b:00", "28": "0000:00:08", "35": "0000:1c:00"}


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_rules()


def golden(folder: Path) -> dict:
    return json.loads((folder / "verdict.json").read_text("utf-8"))


def story(number: str) -> Path:
    (found,) = [folder for folder in STORIES if folder.name.split("-")[0] == number]
    return found


@pytest.mark.parametrize("folder", STORIES, ids=lambda folder: folder.name)
def test_a_story_gives_its_golden_verdict(folder, catalogue):
    assert render(read_case(folder, catalogue)) == (folder / "verdict.json").read_text("utf-8")


@pytest.mark.parametrize("number", VERDICTS)
def test_a_public_incident_gets_the_verdict_that_was_right(number):
    told = golden(story(number))
    assert (told["verdict"], told["node"]) == VERDICTS[number]


@pytest.mark.parametrize("number", BLAMED)
def test_the_right_device_is_blamed(number):
    assert golden(story(number))["blamed"] == BLAMED[number]


def test_a_changed_verdict_is_shown_and_fails(tmp_path):
    folder = tmp_path / "case"
    shutil.copytree(story("21"), folder)
    text = (folder / "verdict.json").read_text("utf-8")
    (folder / "verdict.json").write_text(text.replace('"internal"', '"hardware"'), "utf-8")
    result = CliRunner().invoke(command, [str(folder)])
    assert result.exit_code == 1
    assert '-"verdict": "hardware"' in result.output.replace("- ", "-")
    updated = CliRunner().invoke(command, [str(folder), "--update"])
    assert updated.exit_code == 0
    assert CliRunner().invoke(command, [str(folder)]).exit_code == 0


def test_a_case_with_a_missing_log_says_so(tmp_path, catalogue):
    folder = tmp_path / "case"
    shutil.copytree(story("21"), folder)
    (folder / "kernel.log").unlink()
    with pytest.raises(SourceUnreadable, match=r"kernel\.log"):
        read_case(folder, catalogue)


def test_a_case_with_an_unknown_key_says_so(tmp_path, catalogue):
    folder = tmp_path / "case"
    shutil.copytree(story("21"), folder)
    text = (folder / "case.toml").read_text("utf-8")
    (folder / "case.toml").write_text("colour = 1\n" + text, "utf-8")
    with pytest.raises(SourceUnreadable, match="colour"):
        read_case(folder, catalogue)


def a_case(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "case.toml").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder / "none", "none is not there: name the folder of a case.toml"),
        (lambda folder: shutil.copy(__file__, folder), "is no folder: name the folder of a"),
        (lambda folder: folder, "no case.toml is in it, nor in a folder in it"),
        (lambda folder: a_case(folder / "x", "title"), "x/case.toml is not as a case is written"),
        (lambda folder: a_case(folder / "x", "title = 'x'\nlog = 3"), "is not as a case is"),
        (lambda folder: a_case(folder / "x", '"a\\u001b" = 3'), "case.toml: unknown key 'a\\x1b'"),
        (
            lambda folder: a_case(folder / "x", "title='x'\n[[log]]\nfile='a'\nformat='dmesg'"),
            "x/a can not be read: No such file or directory",
        ),
    ],
)
def test_a_folder_that_holds_no_case_is_named_with_what_to_name(tmp_path, make, words):
    result = CliRunner().invoke(main, ["replay", str(make(tmp_path))])
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert words in result.output
    assert "Errno" not in result.output
    assert "\x1b" not in result.output


@pytest.mark.parametrize("name", ["case.toml", "kernel.log", "verdict.json"])
def test_a_pipe_in_a_case_is_not_waited_for(tmp_path, name):
    folder = tmp_path / "case"
    shutil.copytree(story("21"), folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    result = CliRunner().invoke(main, ["replay", str(folder)])
    assert result.exit_code == 1
    assert f"{folder}/{name} can not be read: it is a pipe, and no file" in result.output


def test_a_verdict_that_can_not_be_written_is_named(tmp_path):
    folder = tmp_path / "case"
    shutil.copytree(story("21"), folder)
    (folder / "verdict.json").unlink()
    (folder / "verdict.json").mkdir()
    result = CliRunner().invoke(main, ["replay", "--update", str(folder)])
    assert result.exit_code == 1
    assert f"{folder}/verdict.json can not be written: Is a directory" in result.output
