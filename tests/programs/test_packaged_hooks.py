"""What a package's scripts do to the files that Slurm calls: see packaging/files/hooks.sh."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "packaging" / "files" / "hooks.sh"
HOOKS = (
    *(f"prolog/{name}.sh" for name in ("prolog", "healthcheck", "task_prolog", "prolog_slurmctld")),
    *(f"epilog/{name}.sh" for name in ("epilog", "epilog_slurmctld")),
)
NAMED = "Prolog=/opt/slurm-failover/share/slurm-failover/prolog/prolog.sh"


class Home:
    """A host where the package's files lie, in a folder in place of /."""

    def __init__(self, root: Path) -> None:
        self.share = root / "opt/slurm-failover/share/slurm-failover"
        self.conf = root / "slurm.conf"
        self.programs = root / "bin"
        self.programs.mkdir()
        for name in HOOKS:
            self.write(self.share / "packaged" / name, "exit 3")
        text = SCRIPT.read_text().replace("/opt/slurm-failover", f"{root}/opt/slurm-failover")
        self.script = self.share / "packaged" / "hooks.sh"
        for place in ("/var/lib/", "/etc/slurm-failover/"):
            text = text.replace(place, f"{root}{place}")
        self.script.write_text(text.replace("/etc/slurm /run/slurm/conf", ""))
        self.root = root

    def write(self, path: Path, text: str) -> None:
        """A shell script that can be run."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def call(self, action: str, script: Path | None = None) -> str:
        """What the script says, which must succeed."""
        path = f"{self.programs}:/usr/bin:/bin"
        done = subprocess.run(
            ["sh", script or self.script, action],
            env={"PATH": path, "SLURM_CONF": str(self.conf)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    def slurm_says(self, text: str | None) -> None:
        """What scontrol tells of the configuration in force; None if slurmctld does not answer."""
        said = f"echo '{self.named(text)}'" if text is not None else "exit 1"
        self.write(self.programs / "scontrol", said)
        self.write(self.programs / "slurmd", "")

    def watch_for_gaps(self) -> None:
        """From now on each program that puts a file in place first notes what hooks are missing."""
        for name in ("ln", "mv"):
            looks = "\n".join(
                f"[ -x {hook} ] || echo {hook} >>{self.root}/gaps"
                for hook in (self.share / name for name in HOOKS)
            )
            self.write(self.programs / name, f'{looks}\nexec /usr/bin/{name} "$@"')

    def gaps(self) -> list[str]:
        file = self.root / "gaps"
        return file.read_text().split() if file.exists() else []

    def named(self, text: str) -> str:
        """A line of slurm.conf with the places of this host."""
        return text.replace("/opt", f"{self.root}/opt")

    def statuses(self) -> set[int]:
        """How the hooks that Slurm calls end: 3 are the package's."""
        return {
            subprocess.run([self.share / name], check=False).returncode
            for name in HOOKS
            if os.path.lexists(self.share / name)
        }


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A host where Slurm calls nothing of ours."""
    made = Home(tmp_path)
    made.slurm_says("Prolog=(null)")
    return made


def test_every_hook_leads_to_that_of_the_package(home: Home) -> None:
    home.write(home.share / "prolog/prolog.sh", "exit 4")
    home.call("place")
    home.call("place")
    assert home.statuses() == {3}
    assert all((home.share / name).is_symlink() for name in HOOKS)


def test_there_is_no_moment_without_a_hook(home: Home) -> None:
    home.slurm_says(NAMED)
    home.call("place")
    home.watch_for_gaps()
    for action in ("place", "leave", "place"):
        home.call(action)
    assert home.gaps() == []


@pytest.mark.parametrize("asked", ["the file", "slurmctld", "nobody answers"])
def test_hooks_that_slurm_may_call_stay_and_let_every_job_pass(home: Home, asked: str) -> None:
    home.call("place")
    if asked == "the file":
        home.conf.write_text(f"# ours\n{home.named(NAMED)}\n")
    else:
        home.slurm_says(NAMED if asked == "slurmctld" else None)
    assert "Slurm still calls our hooks" in home.call("leave")
    home.script.unlink()
    assert home.statuses() == {0}
    assert not [file for file in home.share.rglob("*") if file.stat().st_mode & 0o022]
    assert all((home.share / name).exists() for name in HOOKS)


def test_hooks_that_slurm_does_not_call_go(home: Home) -> None:
    home.conf.write_text(f"#{home.named(NAMED)}\nClusterName=one\n")
    home.call("place")
    assert home.call("leave") == ""
    assert not any(os.path.lexists(home.share / name) for name in HOOKS)


@pytest.mark.parametrize(
    ("state", "header"),
    [
        ("var/lib/slurm-failover", ""),
        ("srv/failover", "[state]"),
        ("srv/failover", "  [ state ]"),
    ],
)
@pytest.mark.parametrize("called", ["Prolog=(null)", NAMED])
def test_a_package_that_goes_acts_no_more_and_forgets_since_when_it_did(
    home: Home, called: str, state: str, header: str
) -> None:
    if header:
        settings = home.root / "etc/slurm-failover/settings.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(f'{header}\ndirectory = "{home.root}/{state}"\n')
    since = home.root / state / "controller" / "since"
    since.parent.mkdir(parents=True)
    since.write_text("1.0")
    home.slurm_says(called)
    home.call("place")
    assert since.exists()
    home.call("leave")
    assert [path.name for path in since.parent.parent.rglob("*")] == ["controller"]


def test_a_host_of_no_cluster_keeps_no_hooks(home: Home) -> None:
    for name in ("scontrol", "slurmd"):
        (home.programs / name).unlink()
    home.call("place")
    assert home.call("leave") == ""


def test_what_stayed_goes_when_slurm_calls_it_no_more(home: Home) -> None:
    home.call("place")
    home.slurm_says(NAMED)
    home.call("leave")
    left = home.share / "empty/hooks.sh"
    home.call("leave", left)
    assert home.statuses() == {0}, "Slurm still calls them"
    for file in (*home.share.glob("packaged/*/*"), home.script):
        file.unlink()
    for folder in (*home.share.glob("packaged/*"), home.share / "packaged"):
        folder.rmdir()
    home.slurm_says("Prolog=(null)")
    home.call("leave", left)
    assert not (home.root / "opt/slurm-failover").exists()


def test_a_package_that_comes_back_replaces_what_stayed(home: Home) -> None:
    home.slurm_says(NAMED)
    home.call("leave")
    home.call("place")
    assert home.statuses() == {3}
    assert not (home.share / "empty").exists()
