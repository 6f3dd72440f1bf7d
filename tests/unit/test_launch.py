"""Which witnesses tell of an image that could not be fetched, and which nodes of a job say so."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from fake_slurmctld import FakeSlurm

from slurm_failover import evidence, files
from slurm_failover.evidence import read_evidence, write_evidence
from slurm_failover.model import Evidence, JobCause
from slurm_failover.node import launch, launcher
from slurm_failover.settings.tables import Settings, SourceSettings, StateSettings
from slurm_failover.slurm import connect

START = 1_700_000_000
FETCH = (
    "FATAL:   While making image from oci registry: error fetching image to cache: failed to get "
    "checksum for docker://r.example.com/nosuch: reading manifest latest: manifest unknown"
)
BUSY = (
    "Error: initializing source docker://r.example.com/busy:1: pinging container registry "
    "r.example.com: received unexpected HTTP status: 503 Service Unavailable"
)
PYXIS = "[2023-11-14T22:13:2{}.000] [7.0] error: pyxis:     [ERROR] URL https://r/v2/x {}"


class Keeper(FakeSlurm):
    """Slurm, which keeps the script of job 7."""

    script = ""

    def batch_script(self, job_id: str) -> str:
        self.calls.append("batch_script")
        return self.script if job_id == "7" else ""


class Node:
    """Node n1 after a flagged job of its own has failed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log, self.slurmd, self.note = (
            folder / "log",
            folder / "slurmd.n1",
            folder / "7.launcher",
        )
        self.slurm = Keeper("n[1-40]")
        self.said: list[str] = []

    def report(
        self, node: str = "n1", nodelist: str = "n1", status: int = 1, script: str = ""
    ) -> list[Evidence]:
        self.slurm.script = script
        told = {
            "SLURM_JOB_EXIT_CODE": str(status << 8),
            **{"SLURM_JOB_ID": "7", "SLURM_JOB_START_TIME": str(START)},
            **{"SLURM_JOB_UID": str(os.getuid()), "SLURM_JOB_GID": str(os.getgid())},
            **{"SLURM_JOB_NODELIST": nodelist, "SLURM_JOB_STDERR": str(self.log)},
        }
        slurmd = str(self.folder / "slurmd.%n")
        settings = Settings(
            sources=SourceSettings(slurmd_log=slurmd, rules=str(self.folder / "none")),
            state=StateSettings(directory=str(self.folder / "state")),
        )
        launch.report_image(told, settings, node, self.said.append)
        return read_evidence(node, self.slurm.peek_node(node).extra)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node(tmp_path)
    monkeypatch.setattr(launcher, "FOLDER", str(tmp_path))
    monkeypatch.setattr(connect, "connect", lambda *_: node.slurm)
    monkeypatch.setenv("TZ", "UTC")
    return node


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becoming someone else needs root")


@needs_root
@pytest.mark.parametrize(("words", "passing"), [(FETCH, False), (BUSY, True)])
def test_a_launchers_words_count_beside_the_note_that_it_failed(
    node: Node, words: str, passing: bool
) -> None:
    node.log.write_text(f"INFO:    Starting\n{words}\nsrun: error: n1: task 0: Exited\n")
    node.note.write_text("0 /usr/bin/apptainer\n")
    [entry] = node.report()
    assert (entry.cause, entry.passing) == (JobCause.IMAGE_PULL, passing)
    assert entry.because.startswith("the container image could not be fetched: ")
    assert "FATAL" not in entry.because
    assert node.said == [f"job 7: {entry.because}"] or "r.example.com" in node.said[0]


@needs_root
def test_a_word_that_has_no_room_is_said_in_the_log(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "LONGEST_EXTRA", 100)
    node.log.write_text(f"{BUSY}\n")
    node.note.write_text("0 /usr/bin/apptainer\n")
    assert node.report() == []
    assert "no room for all words" in node.said[0]


@pytest.mark.parametrize("words", [FETCH, BUSY])
def test_the_same_words_without_the_note_are_no_evidence(node: Node, words: str) -> None:
    node.log.write_text(f"{words}\n")
    assert node.report() == []
    assert node.slurm.calls == []


@needs_root
def test_a_launcher_that_failed_for_another_reason_is_no_matter_of_images(node: Node) -> None:
    node.log.write_text('FATAL:   "train": executable file not found in $PATH\n')
    node.note.write_text("0 /usr/bin/apptainer\n")
    assert node.report() == []


@needs_root
def test_the_words_of_an_earlier_attempt_are_not_this_ones(node: Node) -> None:
    node.log.write_text(
        f"{FETCH}\n=== slurm-failover: attempt 2 of job 7 started now on n1; x ===\nnothing\n"
    )
    node.note.write_text("0 /usr/bin/apptainer\n")
    assert node.report() == []


@needs_root
def test_a_disk_that_is_full_is_the_nodes_trouble(node: Node) -> None:
    node.log.write_text("FATAL:   While making image from oci registry: no space left on device\n")
    node.note.write_text("0 /usr/bin/apptainer\n")
    [entry] = node.report()
    assert entry.cause is JobCause.UNKNOWN
    assert "unpacked on this node" in entry.because


@needs_root
def test_a_log_that_is_a_link_is_not_read(node: Node, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{FETCH}\n")
    node.log.symlink_to(tmp_path / "secret")
    node.note.write_text("0 /usr/bin/apptainer\n")
    assert node.report() == []


# --- called by the batch script -----------------------------------------------------------------

CALL = "#!/bin/bash\nmodule load apptainer\napptainer exec --nv docker://r.example.com/x train\n"


@needs_root
@pytest.mark.parametrize(
    ("words", "status", "call", "passing"),
    [
        (FETCH, 255, CALL, False),
        (FETCH, 255, "srun /usr/bin/singularity exec docker://x train\n", False),
        (BUSY, 125, "set -e\nX=1 podman run r.example.com/busy:1 train && echo done\n", True),
    ],
)
def test_a_launchers_words_count_where_the_batch_script_calls_it_and_ends_with_its_status(
    node: Node, words: str, status: int, call: str, passing: bool
) -> None:
    node.log.write_text(f"INFO:    Starting\n{words}\n\n")
    [entry] = node.report(status=status, script=call)
    assert (entry.cause, entry.passing) == (JobCause.IMAGE_PULL, passing)


@needs_root
@pytest.mark.parametrize(
    ("status", "call"),
    [
        (255, "#!/bin/bash\npython train.py\n"),
        (255, "# apptainer exec docker://r.example.com/x train\npython train.py\n"),
        (255, "./apptainer exec docker://r.example.com/x train\n"),
        (255, "/home/alice/bin/apptainer exec docker://r.example.com/x train\n"),
        (255, "pull docker://r.example.com/x; cat apptainer.log\n"),
        (255, CALL.replace("apptainer", "podman")),
        (125, CALL),
        (1, CALL),
        (0, CALL),
    ],
)
def test_the_same_words_of_a_script_that_calls_no_such_launcher_change_nothing(
    node: Node, status: int, call: str
) -> None:
    node.log.write_text(f"{FETCH}\n")
    assert node.report(status=status, script=call) == []
    assert "update_node" not in node.slurm.calls


@needs_root
def test_the_words_count_only_at_the_end_of_what_the_script_printed(node: Node) -> None:
    node.log.write_text(f"{FETCH}\n" + "step\n" * 8)
    assert node.report(status=255, script=CALL) == []
    node.log.write_text(f"{FETCH}\n" + "step\n" * 7)
    assert len(node.report(status=255, script=CALL)) == 1


@needs_root
def test_only_the_batch_host_reads_the_log_of_the_batch_script(node: Node) -> None:
    node.log.write_text(f"{FETCH}\n")
    assert node.report("n2", "n[1-2]", status=255, script=CALL) == []
    assert len(node.report("n1", "n[1-2]", status=255, script=CALL)) == 1


@needs_root
def test_a_failure_without_such_words_asks_slurm_nothing(node: Node) -> None:
    node.log.write_text("Traceback (most recent call last):\n")
    assert node.report(status=255, script=CALL) == []
    assert node.slurm.calls == []


def test_slurmds_log_tells_of_a_bundle_that_is_not_there(node: Node) -> None:
    node.slurmd.write_text(
        "[2023-11-14T22:13:21.000] [7.0] error: _load_config: unable to open: /b/config.json\n"
        "[2023-11-14T22:13:21.000] [7.0] error: setup_container: container setup failed: No such\n"
    )
    [entry] = node.report()
    assert entry.because.endswith("_load_config: unable to open: /b/config.json")
    assert not entry.passing


def test_slurmds_log_of_an_earlier_attempt_or_another_job_is_not_this_ones(node: Node) -> None:
    old = PYXIS.format(1, "returned error code: 404").replace("2023-11-14", "2023-11-13")
    other = PYXIS.format(1, "returned error code: 404").replace("[7.0]", "[77.0]")
    node.slurmd.write_text(f"{old}\n{other}\n")
    assert node.report() == []


def entry_of(node: str) -> Evidence:
    return Evidence(node, 7, float(START), JobCause.IMAGE_PULL, "404", float(START))


def asked(node: str, *told_by: str, about: Evidence | None = None) -> tuple[bool, list[float]]:
    """Whether a node of a job of 40 finds it told, and for how long it waits."""
    slurm, pauses = FakeSlurm("n[1-40]"), []
    for name in told_by:
        word = replace(about or entry_of(name), node=name)
        slurm.peek_node(name).extra = write_evidence("", name, [word], float(START))
    return launch.is_told(slurm, entry_of(node), "n[1-40]", pauses.append), pauses


def test_the_first_nodes_of_a_job_speak_at_once() -> None:
    assert asked("n1", "n2") == (False, [])
    assert asked("n16", "n2") == (False, [])


def test_the_others_speak_if_none_of_the_first_did() -> None:
    assert asked("n17", "n2")[0]
    assert not asked("n17")[0]
    assert not asked("n40", "n30")[0]
    assert 1.0 <= asked("n40")[1][0] <= 11.0


def test_word_on_another_attempt_or_of_another_cause_is_not_this_one() -> None:
    assert not asked("n17", "n2", about=replace(entry_of("n2"), start=START - 100.0))[0]
    assert not asked("n17", "n2", about=replace(entry_of("n2"), cause=JobCause.UNKNOWN))[0]


def test_the_word_on_an_image_is_written_under_the_nodes_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm, alone = FakeSlurm(), list[bool]()

    def look_for_the_lock(*_: object) -> None:
        with files.locked(str(tmp_path / "node" / "lock"), 0) as free:
            alone.append(not free)

    monkeypatch.setattr(slurm, "update_node", look_for_the_lock)
    entry = Evidence("n1", 7, 5.0, JobCause.IMAGE_PULL, "no such image", 9.0)
    settings = replace(Settings(), state=StateSettings(directory=str(tmp_path)))
    launch._leave_word(slurm, entry, settings, pytest.fail)
    assert alone == [True]
