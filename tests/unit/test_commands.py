"""What commands say when they are used in a way that can not work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_failover.cli import main, written_out
from slurm_failover.controller.notes import Notes
from slurm_failover.errors import WrongUser
from slurm_failover.evidence import write_evidence
from slurm_failover.model import Evidence, JobCause, NodeFacts
from slurm_failover.slurm.scontrol import Scontrol


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Slurm that knows node n1 alone."""
    monkeypatch.setattr(Scontrol, "nodes", lambda *_: [NodeFacts("n1", frozenset({"IDLE"}))])


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.mark.usefixtures("nodes")
def test_a_node_that_slurm_does_not_know_is_not_called_healthy() -> None:
    done = run("nodes", "n[1,9]")
    assert (done.exit_code, done.output) == (
        1,
        "Error: Slurm does not know node n9; see `sinfo -N`\n",
    )


@pytest.mark.usefixtures("nodes")
def test_what_is_no_list_of_nodes_is_told_how_one_looks() -> None:
    done = run("nodes", "n[1-")
    assert done.exit_code == 1
    assert done.output.startswith("Error: 'n[1-' is no list of nodes, as n[1-4] is: ")


@pytest.mark.usefixtures("nodes")
def test_nothing_against_any_node_is_said_in_words() -> None:
    assert run("nodes").output == "Nothing is known against any node.\n"


def test_of_very_many_jobs_that_a_node_speaks_of_the_latest_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = [Evidence("n1", job, 1.0, JobCause.HARDWARE, "lost", 1.0) for job in range(1, 18)]
    nodes = [
        NodeFacts("n1", frozenset({"IDLE"}), extra=write_evidence("", "n1", few, 1.0))
        for few in (words, words[1:])
    ]
    monkeypatch.setattr(Scontrol, "nodes", lambda *_: nodes[:1])
    latest = ",".join(map(str, range(2, 18)))
    monkeypatch.setenv("COLUMNS", "250")
    assert f" …,{latest} " in run("nodes").output
    monkeypatch.setattr(Scontrol, "nodes", lambda *_: nodes[1:])
    assert f"  {latest} " in run("nodes").output


def test_a_settings_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    done = run("--settings", str(tmp_path / "none.toml"), "status")
    assert done.exit_code == 1
    assert "none.toml: no such file; leave --settings out for the defaults" in done.output


@pytest.mark.parametrize(
    ("kind", "told"), [("pipe", "is a pipe: save the settings in a file"), ("link", "no such file")]
)
def test_a_settings_file_that_is_none_is_named_and_not_waited_for(
    tmp_path: Path, kind: str, told: str
) -> None:
    path = tmp_path / "settings.toml"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "none")
    done = run("--settings", str(path), "explain", "79")
    assert done.exit_code == 1
    assert f"{path}" in done.output
    assert told in done.output


def test_no_settings_at_all_are_named_by_the_empty_device() -> None:
    assert run("--settings", "/dev/null", "explain", "79").exit_code == 0
    assert "/dev/zero is a device: save" in run("--settings", "/dev/zero", "explain", "79").output


def test_an_error_can_not_steer_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[2J.toml"
    path.write_text('[failover]\n"\\u001b]0;x\\u0007" = 1\n')
    for words in (["explain", "79"], ["doctor"]):
        done = run("--settings", str(path), *words)
        assert done.exit_code in (1, 2)
        assert "a\\x1b[2J.toml: line 1: [failover] '\\x1b]0;x\\x07': unknown key" in done.output
        assert not {"\x1b", "\x07"}.intersection(done.output)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["stauts"], "No such command 'stauts'. Did you mean 'status'?"),
        (["rep"], "No such command 'rep'. Did you mean 'report' or 'replay'?"),
        (["breaker", "stats"], "No such command 'stats'. Did you mean 'status'?"),
        (["breaker", "xyz"], "No such command 'xyz'."),
        (["nodes", "--jsn"], "Did you mean"),
    ],
)
def test_a_word_that_is_unknown_is_told_the_nearest(words: list[str], told: str) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert told in done.output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be the wrong user here")
def test_root_does_not_make_what_slurm_user_could_not_open(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)
    with pytest.raises(WrongUser, match="run this as the owner of"):
        Notes(str(tmp_path)).open()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make folders of two owners")
def test_a_folder_that_is_not_slurm_users_is_told_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "controller").mkdir()
    os.chown(tmp_path / "controller", 12345, 12345)
    with pytest.raises(WrongUser, match="belong to two users, and both are to be SlurmUser's"):
        Notes(str(tmp_path)).open()
    os.chown(tmp_path, 23456, 23456)
    mend = f"`chown -hR --reference={tmp_path} {tmp_path}/controller`"
    monkeypatch.setattr(os, "geteuid", lambda: 23456)
    with pytest.raises(WrongUser, match=mend):
        Notes(str(tmp_path)).open()


def test_a_host_where_nothing_is_installed_is_told_from_one_of_the_wrong_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "makedirs", refuse)
    with pytest.raises(WrongUser, match="is not there: on a controller `slurm-failover install"):
        Notes(str(tmp_path / "none")).open()


def test_the_owner_of_the_state_opens_it(tmp_path: Path) -> None:
    notes = Notes(str(tmp_path))
    notes.open()
    assert notes.read() == []


def test_we_know_from_when_on_we_act_and_while_we_only_observe_it_is_now(tmp_path: Path) -> None:
    notes = Notes(str(tmp_path))
    notes.open()
    assert notes.since() == 0
    before = time.time()
    notes.begin(anew=False)
    begun = notes.since()
    assert before <= begun <= time.time()
    notes.begin(anew=False)
    assert notes.since() == begun
    notes.begin(anew=True)
    assert notes.since() > begun


@pytest.mark.parametrize("kept", [b"", b"soon", b"\xff", b"nan", b"9e9"])
def test_what_is_no_time_in_the_past_is_begun_anew(tmp_path: Path, kept: bytes) -> None:
    notes = Notes(str(tmp_path))
    notes.open()
    (tmp_path / "controller" / "since").write_bytes(kept)
    assert notes.since() == 0
    notes.begin(anew=False)
    assert notes.since() > 0


@pytest.mark.parametrize("where", [">&-", ">/dev/full"])
@pytest.mark.parametrize("words", ["explain 79", "completion bash"])
def test_output_that_can_not_be_written_is_one_sentence_and_no_success(
    where: str, words: str
) -> None:
    program = "from slurm_failover.cli import main; main()"
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -c "$1" {words} {where}', sys.executable, program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: standard output ")
    assert len(done.stderr.splitlines()) == 1


def test_a_character_that_a_terminal_does_not_know_is_written_as_its_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(raw, encoding="ascii"))
    with written_out():
        sys.stdout.write("tr\u00e9\n")
    assert raw.getvalue() == b"tr\\xe9\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_who_may_not_look_into_the_state_is_refused_in_words(tmp_path: Path) -> None:
    state = Path(tempfile.mkdtemp(prefix="state"))  # only its owner may enter
    (state / "controller").mkdir()
    os.seteuid(65534)
    try:
        with pytest.raises(WrongUser, match="is for SlurmUser alone"):
            Notes(str(state)).open()
    finally:
        os.seteuid(0)
        shutil.rmtree(state)
