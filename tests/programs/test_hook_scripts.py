"""What the calls of Slurm and systemd become in the shell: an interpreter that no environment leads
astray, asked again where it was killed, and words that are never commands.
"""

from __future__ import annotations

import configparser
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOOKS = {
    "prolog": "prolog/prolog.sh",
    "healthcheck": "prolog/healthcheck.sh",
    "epilog": "epilog/epilog.sh",
    "prolog_slurmctld": "prolog/prolog_slurmctld.sh",
    "epilog_slurmctld": "epilog/epilog_slurmctld.sh",
}
SHARED = ("hand_in.sh", "serve.sh", "ask_watcher.sh", "hook.sh")
PROGRAMS = "date flock logger mkdir mkfifo mv python3 rm sed sh timeout"
MODULES = "json os signal sitecustomize tomllib usercustomize"
TOLD = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1", "SLURM_JOB_COMMENT": "failover"}
REPORT = """
import json, os, sys
flags, umask = [sys.flags.isolated, sys.flags.no_site], os.umask(0)
told = [sys.argv[1], flags, sys.path, os.environ["PATH"], os.environ["LC_ALL"], umask]
open({path!r}, "w").write(json.dumps(told))
os._exit(0)
"""


class Installed:
    """The package's scripts as they are installed, below a folder in place of /."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "opt/slurm-failover"
        self.share = self.home / "share/slurm-failover"
        self.library = self.home / "lib/python3.11/site-packages"
        (self.library / "slurm_failover").mkdir(parents=True)
        (root / "run/slurm-failover").mkdir(parents=True)
        for script in (*ROOT.glob("prolog/*.sh"), *ROOT.glob("epilog/*.sh")):
            folder = "" if script.name in SHARED else script.parent.name
            self.write(self.share / folder / script.name, self.placed(script.read_text()))
        settings = root / "etc/slurm-failover/settings.toml"
        self.write(settings, f'[state]\ndirectory = "{root}/state"\n')

    def placed(self, text: str) -> str:
        """The text with the places of this host."""
        for place in ("/opt/slurm-failover", "/etc/slurm-failover", "/run/slurm-failover"):
            text = text.replace(place, f"{self.root}{place}")
        return text

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def interpreter(self, text: str) -> None:
        self.write(self.home / "bin/python3", f"#!/bin/sh\n{text}\n")

    def run(self, *argv: str, umask: int = -1, **told: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            argv, env=TOLD | told, umask=umask, capture_output=True, timeout=30, check=False
        )

    def hook(self, name: str, umask: int = -1, **told: str) -> int:
        return self.run(str(self.share / HOOKS[name]), umask=umask, **told).returncode


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


@pytest.fixture
def astray(tmp_path: Path) -> dict[str, str]:
    """An environment that leads to programs and modules which leave the file "astray" behind."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    for name in PROGRAMS.split():
        (folder / name).write_text(f"#!/bin/sh\n: >{tmp_path}/astray\n")
        (folder / name).chmod(0o755)
    for name in MODULES.split():
        (folder / f"{name}.py").write_text(f'open("{tmp_path}/astray", "w")\n')
    (folder / "rc").write_text(f": >{tmp_path}/astray\n")
    leads = {"PATH": f"{folder}:{os.environ['PATH']}", "IFS": "/37", "LC_ALL": "tr_TR.UTF-8"}
    leads |= dict.fromkeys(("BASH_ENV", "ENV"), f"{folder}/rc")
    return leads | {"PYTHONPATH": str(folder), "PYTHONSTARTUP": f"{folder}/json.py"}


@pytest.mark.parametrize("name", [*HOOKS, "watch"])
def test_nothing_in_the_environment_leads_a_hook_or_the_watcher_astray(
    installed: Installed, astray: dict[str, str], name: str
) -> None:
    report = installed.root / "report"
    shutil.copy(ROOT / "slurm_failover/hooks.py", installed.library / "slurm_failover")
    log = installed.library / "slurm_failover/log.py"
    installed.write(log, REPORT.format(path=str(report)))
    installed.interpreter(f'exec {sys.executable} "$@"')
    if name == "watch":
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.read(ROOT / "systemd/slurm-failover-watch.service")
        sets = dict(word.split("=", 1) for word in unit["Service"]["Environment"].split())
        argv = shlex.split(installed.placed(unit["Service"]["ExecStart"]))
        installed.run(*argv, umask=int(unit["Service"].get("UMask", "0"), 8), **(astray | sets))
    else:
        assert installed.hook(name, umask=0, **astray) == 0
    told, flags, modules, *rest = json.loads(report.read_text())
    assert (told, flags) == (name, [1, 1])
    assert modules[0] == str(installed.library)
    assert astray["PYTHONPATH"] not in modules
    assert rest == ["/usr/sbin:/usr/bin:/sbin:/bin", "C", 0o077]
    assert not (installed.root / "astray").exists()


@pytest.mark.parametrize(("second", "status"), [("exit 100", 1), ("exit 0", 0), ("kill -9 $$", 0)])
def test_an_epilog_that_was_killed_at_once_looks_a_second_time(
    installed: Installed, second: str, status: int
) -> None:
    looks = installed.root / "looks"
    installed.interpreter(f"echo x >>{looks}; [ $(wc -l <{looks}) = 1 ] && kill -9 $$\n{second}")
    assert installed.hook("epilog") == status
    assert looks.read_text() == "x\nx\n"


def test_a_copy_beside_slurm_conf_runs_our_hook_and_lets_every_job_pass_without_it(
    installed: Installed,
) -> None:
    copy = installed.root / "etc/slurm/prolog.sh"
    installed.write(copy, (installed.share / "hook.sh").read_text())
    ours = installed.share / "prolog/prolog.sh"
    installed.write(ours, "#!/bin/sh\nexit 1\n")
    assert installed.run(str(copy)).returncode == 1
    ours.unlink()
    assert installed.run(str(copy)).returncode == 0
    shutil.rmtree(installed.home)
    assert installed.run(str(copy)).returncode == 0


def test_what_a_task_is_told_is_never_taken_for_a_command(installed: Installed) -> None:
    told = b"export A=$(touch x) `id` $HOME; * 'q\" \\n\\\n  export B=two  blanks \t\n"
    (installed.root / "run/slurm-failover/7").write_bytes(told)
    task_prolog = str(installed.share / "prolog/task_prolog.sh")
    assert installed.run(task_prolog).stdout == told
    assert installed.run(task_prolog, SLURM_JOB_ID="8").stdout == b""
