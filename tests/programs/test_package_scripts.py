"""What the packages' own scripts do where something fails: no harmless thing stops a package."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

PACKAGING = Path(__file__).parents[2] / "packaging"
SPEC = PACKAGING / "rpm" / "slurm-failover.spec"
HOME = "/opt/slurm-failover"
HOOKS = f"{HOME}/share/slurm-failover/packaged/hooks.sh"
STATE = "/var/lib/slurm-failover"


def script_of(name: str) -> str:
    """A script of the .deb by its name, or a section of the .rpm's recipe by its mark."""
    if not name.startswith("%"):
        return (PACKAGING / "debian" / f"slurm-failover.{name}").read_text()
    section = SPEC.read_text().split(f"\n{name}\n")[1]
    body = re.split(r"(?m)^%[a-z]+(?: |$)", section)[0]
    for macro, value in {"home": HOME, "hooks": HOOKS, "units": "a.timer b.service"}.items():
        body = body.replace(f"%{{{macro}}}", value)
    assert "%{" not in body
    return body


class Root:
    """A folder in place of /, with systemd, whose programs can be made to fail."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / "bin"
        for path in (self.programs, self.at("/run/systemd/system"), self.at(STATE)):
            path.mkdir(parents=True)
        self.hooks_end(0)

    def at(self, path: str) -> Path:
        return self.folder / path.lstrip("/")

    def fails(self, program: str) -> None:
        (self.programs / program).write_text("#!/bin/sh\nexit 7\n")
        (self.programs / program).chmod(0o755)

    def hooks_end(self, status: int) -> None:
        hooks = self.at(HOOKS)
        hooks.parent.mkdir(parents=True, exist_ok=True)
        hooks.write_text(f'echo "$1" >>{self.folder}/asked\nexit {status}\n')

    def asked(self) -> str:
        """What hooks.sh was asked for."""
        file = self.folder / "asked"
        return file.read_text().strip() if file.exists() else ""

    def call(self, name: str, argument: str) -> int:
        """The status of a script, as dpkg and rpm see it."""
        text = re.sub(r"(?<![\w.])/(?=(?:opt|var|run)/)", f"{self.folder}/", script_of(name))
        path = f"{self.programs}:{os.environ['PATH']}"
        argv = ["sh", "-c", text, name, argument]
        return subprocess.run(argv, env={"PATH": path}, check=False).returncode


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


PLACING = [("postinst", "configure"), ("%post", "1"), ("%post", "2")]
LEAVING = [("prerm", "remove"), ("%preun", "0")]


@pytest.mark.parametrize(("name", "argument"), PLACING + LEAVING + [("%postun", "1")])
def test_a_systemd_that_fails_stops_no_package(root: Root, name: str, argument: str) -> None:
    root.fails("systemctl")
    assert root.call(name, argument) == 0


@pytest.mark.parametrize(("name", "argument"), PLACING)
def test_a_state_folder_that_can_not_be_made_stops_no_package(
    root: Root, name: str, argument: str
) -> None:
    root.at(STATE).rmdir()
    root.at(STATE).symlink_to("not-mounted/yet")
    assert root.call(name, argument) == 0
    assert root.asked() == "place"


@pytest.mark.parametrize(("name", "argument"), PLACING)
def test_the_state_folder_is_made_where_there_is_none_and_none_but_root_may_write_to_it(
    root: Root, name: str, argument: str
) -> None:
    root.at(STATE).rmdir()
    assert root.call(name, argument) == 0
    assert stat.S_IMODE(root.at(STATE).stat().st_mode) == 0o755


@pytest.mark.parametrize(
    "script", ["tree", "files/hooks.sh", "files/logrotate", "rpm/slurm-failover.spec"]
)
def test_no_file_of_a_package_may_be_written_by_others(script: str) -> None:
    text = (PACKAGING / script).read_text()
    modes = re.findall(r"(?:\bchmod|-m|\bcreate|%attr\(|%defattr\()[ \t]*([0-7]{3,4})\b", text)
    assert [mode for mode in modes if int(mode, 8) & 0o022] == []
    assert "install -m 755" in text or script != "tree"
    assert not re.search(r"\bchmod +(-R +)?[ugoa]*[+=]", text)


@pytest.mark.parametrize(("name", "argument"), PLACING + LEAVING)
def test_hooks_that_are_not_in_place_are_told_to_the_package_manager(
    root: Root, name: str, argument: str
) -> None:
    root.hooks_end(1)
    assert root.call(name, argument) != 0


@pytest.mark.parametrize(("name", "argument"), LEAVING)
def test_a_package_whose_files_someone_deleted_can_still_be_removed(
    root: Root, name: str, argument: str
) -> None:
    root.at(HOOKS).unlink()
    assert root.call(name, argument) == 0


def test_a_state_folder_that_can_not_be_deleted_stops_no_purge(root: Root) -> None:
    root.fails("rm")
    assert root.call("postrm", "purge") == 0
