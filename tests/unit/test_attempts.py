"""What a job sees of its attempts, and what that costs a job that is well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_failover.errors import HookEnded
from slurm_failover.node import attempts, telling
from slurm_failover.settings.tables import FailoverSettings, Settings

ROOT = Path(__file__).parents[2]
TOLD = {"SLURM_JOB_ID": "7", "SLURM_JOB_COMMENT": "failover", "SLURM_JOB_RESTART_COUNT": "0"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(attempts, "FOLDER", str(tmp_path / "run"))
    return tmp_path / "run"


def test_a_first_attempt_has_its_variables_and_loses_them_at_its_end(folder: Path) -> None:
    attempts.open_attempt(TOLD, Settings(), pytest.fail)
    laid = folder / "7"
    assert laid.read_text().splitlines() == [
        "export SLURM_FAILOVER_ATTEMPT=1",
        "export SLURM_FAILOVER_REASON=",
        "export SLURM_FAILOVER_EXCLUDED_NODES=",
    ]
    assert laid.stat().st_mode & 0o777 == 0o644
    attempts.close_attempt({**TOLD, "SLURM_JOB_EXIT_CODE": "0"}, Settings(), pytest.fail)
    assert not laid.exists()


@pytest.mark.parametrize("umask", [0o077, 0o022])
def test_the_jobs_user_can_read_them_whatever_the_umask(folder: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        attempts.open_attempt(TOLD, Settings(), pytest.fail)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    "told", [{"SLURM_JOB_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": "0,1"}, {}], ids=["two", "none"]
)
@pytest.mark.parametrize("mode", ["act", "observe"])
def test_what_slurmd_tells_of_a_jobs_gpus_at_its_start_is_known_until_its_end(
    folder: Path, told: dict[str, str], mode: str
) -> None:
    start = {"SLURM_JOB_ID": "7", "SLURM_JOB_START_TIME": "1700000000"}
    told = {**TOLD, **start, **told}
    settings = Settings(failover=FailoverSettings(mode=mode))
    attempts.open_attempt(told, settings, pytest.fail)
    held = {key: text for key, text in told.items() if key not in TOLD}
    assert attempts.told_at_start("7") == {**start, **held}
    assert (folder / "7.start").stat().st_mode & 0o777 == 0o600
    attempts.close_attempt({**told, "SLURM_JOB_EXIT_CODE": "0"}, settings, pytest.fail)
    assert attempts.told_at_start("7") == {}
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "damaged",
    [
        *("SLURM_JOB_GPUS", "\udcff", "", "SLURM_JOB_ID=\n", "SLURM_JOB_ID=7\0\n"),
        "SLURM_JOB_ID=7\nSLURM_JOB_START_TIME=soon\n",
        "SLURM_JOB_ID=8\nSLURM_JOB_START_TIME=1700000000\n",
    ],
)
def test_a_damaged_note_of_a_start_says_nothing(folder: Path, damaged: str) -> None:
    folder.mkdir()
    (folder / "7.start").write_text(damaged, errors="surrogateescape")
    assert attempts.told_at_start("7") == {}


@pytest.mark.parametrize("comment", ["", "failover-test", "failover=0"])
def test_a_job_that_did_not_ask_has_none(folder: Path, comment: str) -> None:
    attempts.open_attempt({**TOLD, "SLURM_JOB_COMMENT": comment}, Settings(), pytest.fail)
    assert not folder.exists()


def test_a_folder_that_can_not_be_made_is_said_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(attempts, "FOLDER", str(tmp_path / "file" / "run"))
    said: list[str] = []
    attempts.open_attempt(TOLD, Settings(), said.append)
    assert said[0].startswith("job 7: its attempt is not announced: ")


def test_a_job_that_is_well_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import json, sys\n"
        f"sys.path[:0] = [{str(ROOT)!r}]\n"
        "from slurm_failover.node import attempts\n"
        "from slurm_failover.settings.tables import Settings\n"
        f"told = {TOLD!r}\n"
        "attempts.FOLDER = sys.argv[1]\n"
        "attempts.open_attempt(told, Settings(), print)\n"
        "attempts.close_attempt({**told, 'SLURM_JOB_EXIT_CODE': '0'}, Settings(), print)\n"
        "names = {name.partition('.')[0] for name in list(sys.modules)}\n"
        "heavy = {'subprocess', 'ClusterShell', 'tenacity', 'click', 'tomllib', 'socket'}\n"
        "print(json.dumps(sorted(names & heavy)))"
    )
    argv = [sys.executable, "-I", "-S", "-c", code, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize(
    "trouble", [OSError(28, "No space left on device"), HookEnded("time over")], ids=str
)
def test_an_end_that_can_not_be_followed_up_is_said_and_no_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise trouble

    monkeypatch.setattr(telling, "follow_up", fail)
    said: list[str] = []
    attempts.close_attempt({**TOLD, "SLURM_JOB_EXIT_CODE": "256"}, Settings(), said.append)
    assert said[0].startswith("job 7: its end is not followed up: ")
