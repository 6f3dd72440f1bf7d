"""ask_watcher.sh: how hooks in the shell ask the watcher, and whose end its word is enough for."""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_failover.node.ask import Desk, Question

SCRIPT = Path(__file__).parents[2] / "prolog" / "ask_watcher.sh"
END = int(time.time())
WELL = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_COMMENT": "failover",
    "SLURM_JOB_EXIT_CODE": "0",
    "SLURM_JOB_START_TIME": str(END - 100),
    "SLURM_JOB_END_TIME": str(END),
}


class Site:
    """A node's /run with a watcher that says what the test wants."""

    def __init__(self, folder: Path) -> None:
        self.run = folder / "slurm-failover"
        self.watch = self.run / "watch"
        self.watch.mkdir(parents=True)
        self.script = folder / "ask_watcher.sh"
        self.script.write_text(SCRIPT.read_text().replace("/run/slurm-failover", str(self.run)))
        (self.watch / "pid").write_text(f"{os.getpid()}\n")
        self.word = "clean"
        self.asked: list[Question] = []
        self._desk = Desk(str(self.watch))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self._over.is_set():
            select.select([self._desk.fileno()], [], [], 0.02)
            for question in self._desk.questions():
                self.asked.append(question)
                if self.word:
                    self._desk.answer(question, self.word)

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._desk.close()

    def sh(self, line: str, **environment: str) -> subprocess.CompletedProcess[str]:
        argv = ["sh", "-uc", f". {self.script}; {line}"]
        clean = {"PATH": os.environ["PATH"], **environment}
        return subprocess.run(argv, env=clean, capture_output=True, text=True, check=False)

    def vouched(self, **environment: str) -> bool:
        return self.sh("is_vouched_for", **environment).returncode == 0


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


def test_a_live_watcher_is_heard_and_nothing_is_left_behind(site: Site) -> None:
    done = site.sh("is_watched 0; echo $? $said")
    assert (done.stdout, done.stderr) == ("0 clean\n", "")
    assert sorted(path.name for path in site.watch.iterdir()) == ["ask", "pid"]


def test_hooks_that_ask_at_once_are_all_answered(site: Site) -> None:
    line = (
        "for n in 1 2 3 4 5 6 7 8; do sh -c '. \"$1\"; is_watched 0; echo $said' sh %s & done; wait"
    )
    assert site.sh(line % site.script).stdout.split() == ["clean"] * 8


def test_a_watcher_that_does_not_answer_is_none(site: Site) -> None:
    site.word = ""
    assert site.sh("is_watched 0").returncode != 0
    assert not site.vouched(SLURM_JOB_ID="7")


@pytest.mark.parametrize(
    "left", ["pid of another", "no pid", "no ask", "ask is a file", "no folder"]
)
def test_without_a_watcher_nobody_waits(site: Site, left: str) -> None:
    if left == "pid of another":
        (site.watch / "pid").write_text("999999999\n")
    if left in ("no pid", "no folder"):
        (site.watch / "pid").unlink()
    if left in ("no ask", "ask is a file", "no folder"):
        (site.watch / "ask").unlink()
    if left == "ask is a file":
        (site.watch / "ask").touch()
    if left == "no folder":
        site.watch.rmdir()
    assert site.sh("is_watched 0").returncode != 0
    assert site.asked == []
    site.watch.mkdir(exist_ok=True)
    (site.watch / "ask").touch()


@pytest.mark.parametrize("word", ["busy", "blind", "cleaner", ""])
def test_only_a_clean_word_vouches(site: Site, word: str) -> None:
    site.word = word
    assert not site.vouched(SLURM_JOB_ID="7")


def test_an_unflagged_job_is_vouched_for_however_it_ended(site: Site) -> None:
    for ended in ({}, {"SLURM_JOB_EXIT_CODE": "256"}, {"SLURM_JOB_COMMENT": "my words"}):
        assert site.vouched(SLURM_JOB_ID="7", **ended)
    assert {question.start for question in site.asked} == {0.0}


def test_a_flagged_job_that_ended_well_is_vouched_for_since_its_start(site: Site) -> None:
    for name in ("7", "7.start"):
        (site.run / name).touch()
    assert site.vouched(**WELL)
    assert [question.start for question in site.asked] == [END - 100]
    assert list(site.run.iterdir()) == [site.watch]


def test_a_job_that_was_flagged_when_it_started_is_looked_at_in_full(site: Site) -> None:
    (site.run / "7.start").touch()
    assert not site.vouched(SLURM_JOB_ID="7", SLURM_JOB_EXIT_CODE="0")
    assert site.vouched(SLURM_JOB_ID="8", SLURM_JOB_EXIT_CODE="0")


@pytest.mark.parametrize(
    "change",
    [
        {"SLURM_JOB_EXIT_CODE": "256"},
        {"SLURM_JOB_EXIT_CODE": "9"},
        {"SLURM_JOB_EXIT_CODE": ""},
        {"SLURM_JOB_END_TIME": str(END + 36000)},
        {"SLURM_JOB_END_TIME": ""},
        {"SLURM_JOB_START_TIME": ""},
        {"SLURM_JOB_COMMENT": "", "SPANK_FAILOVER": "2", "SLURM_JOB_EXIT_CODE": "256"},
        {"SLURM_JOB_COMMENT": "", "SPANK_FAILOVER": "", "SLURM_JOB_EXIT_CODE": "256"},
    ],
    ids=range(8),
)
def test_a_flagged_job_that_did_not_surely_end_well_is_looked_at_in_full(
    site: Site, change: dict[str, str]
) -> None:
    (site.run / "7").touch()
    assert not site.vouched(**WELL | change)
    assert site.asked == []
    assert (site.run / "7").exists()


def test_no_word_of_a_users_is_taken_for_a_command(site: Site, tmp_path: Path) -> None:
    comment = f"failover'; touch {tmp_path}/x; $(touch {tmp_path}/x) `touch {tmp_path}/x`"
    site.vouched(**WELL | {"SLURM_JOB_COMMENT": comment})
    assert not (tmp_path / "x").exists()
