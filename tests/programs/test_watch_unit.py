"""The systemd units agree with the watcher, with systemd, and with what the pages say of them."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest
from doc_pages import commands

from slurm_failover.node.caught import FOLDER
from slurm_failover.node.watch import BEAT
from slurm_failover.settings.tables import StateSettings

UNIT = Path(__file__).parents[2] / "systemd" / "slurm-failover-watch.service"


@pytest.fixture
def service() -> dict[str, str]:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return dict(parser["Service"])


def test_the_watchers_folder_is_made_for_root_alone_and_outlives_a_restart(
    service: dict[str, str],
) -> None:
    assert f"/run/{service['RuntimeDirectory']}" == FOLDER
    assert service["RuntimeDirectoryMode"] == "0700"
    assert service["RuntimeDirectoryPreserve"] == "yes"


def test_a_watcher_that_beats_is_left_alone_and_one_that_hangs_is_not(
    service: dict[str, str],
) -> None:
    assert service["Type"] == "notify"
    assert 3 * BEAT <= float(service["WatchdogSec"]) <= 12 * BEAT
    assert service["Restart"] == "always"


def test_a_check_that_is_under_way_outlives_the_watcher(service: dict[str, str]) -> None:
    assert service["KillMode"] == "process"


def test_what_hooks_write_can_be_written(service: dict[str, str]) -> None:
    writable = [path.removeprefix("-") for path in service["ReadWritePaths"].split()]
    for path in (StateSettings().directory, "/var/log/slurm/slurm-failover.log", FOLDER):
        assert any(path.startswith(folder) for folder in writable), path


def test_reconcile_is_slurms_user_and_what_it_writes_is_its_own() -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read(UNIT.with_name("slurm-failover-reconcile.service"))
    assert (parser["Service"]["User"], parser["Service"]["UMask"]) == ("slurm", "0077")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
def test_systemd_understands_the_unit() -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", str(UNIT)], capture_output=True, text=True, check=False
    )
    mine = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert mine == []


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
def test_the_unit_is_exposed_to_little() -> None:
    argv = ["systemd-analyze", "security", "--offline=true", "--threshold=40", str(UNIT)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if "offline" in done.stderr:
        pytest.skip("this systemd-analyze reads no unit files")
    assert done.returncode == 0, done.stdout[-300:]


@pytest.mark.skipif(not shutil.which("systemctl"), reason="no systemctl here")
def test_the_units_are_enabled_and_disabled_by_the_commands_that_the_pages_tell(
    tmp_path: Path,
) -> None:
    """In a system of its own, whose systemd does not run: so nothing starts ``--now``."""
    home = tmp_path / "opt"
    shutil.copytree(UNIT.parent, home)
    (tmp_path / "usr/lib/systemd/system").mkdir(parents=True)
    (tmp_path / "usr/lib/systemd/system/timers.target").touch()
    told = [words for _, call in commands() if (words := call.split())[0] == "systemctl"]
    timer, service = "slurm-failover-reconcile.timer", "slurm-failover-reconcile.service"

    def units_after(calls: list[list[str]]) -> set[str]:
        for words in calls:
            argv = [word.replace("$PWD", "/opt") for word in words[1:] if word != "--now"]
            subprocess.run(["systemctl", f"--root={tmp_path}", *argv], check=True)
        return {path.name for path in tmp_path.glob("etc/systemd/system/**/*") if path.is_symlink()}

    assert units_after([words for words in told if "disable" not in words]) == {timer, service}
    assert timer not in units_after([words for words in told if "disable" in words])
