"""Hooks whose state lies on a disk that never answers: Slurm sees each of them end in its time and
without a verdict, and no more processes than one sleep there for the health check.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import ClusterShell
import pytest
import silent_disk

from slurm_failover.sources.bounded import run_bounded

ROOT = Path(__file__).parents[2]
LIBRARIES = Path(ClusterShell.__file__).parents[1]
HOOK = """
import runpy, sys
sys.path[:0] = [{root!r}, {libraries!r}]
from slurm_failover.node import alone
from slurm_failover.settings import file
alone.FOLDER = {folder!r}
file.load_settings.__defaults__ = ({settings!r},)
sys.argv = ["hooks.py", sys.argv[1]]
runpy.run_path({hooks!r}, run_name="__main__")
"""
SHORTER = {
    "-k 5 45": "-k 1 5",
    "look 45": "look 5",
    '-k 5 "$1"': '-k 1 "$1"',
    "-gt 30": "-gt 3",
    "-k 1 10": "-k 1 5",
}
"""The scripts' times, so that nobody waits for them here."""
HOOKS = {
    "prolog": "prolog/prolog.sh",
    "healthcheck": "prolog/healthcheck.sh",
    "epilog": "epilog/epilog.sh",
    "prolog_slurmctld": "prolog/prolog_slurmctld.sh",
    "epilog_slurmctld": "epilog/epilog_slurmctld.sh",
}
TOLD = {
    "PATH": os.environ["PATH"],
    "SLURMD_NODENAME": "n1",
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "n1",
    "SLURM_JOB_START_TIME": "100",
    "SLURM_JOB_EXIT_CODE": "256",
    "SLURM_JOB_COMMENT": "failover",
}
DEADLINE = 40


def may_mount() -> bool:
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    done = subprocess.run(probe, stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0 and os.access(silent_disk.DEVICE, os.R_OK | os.W_OK)


pytestmark = pytest.mark.skipif(not may_mount(), reason="needs the right to mount, and /dev/fuse")


class Host:
    """The package as it is installed, on a host with a disk of its own below ``state``."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"
        self.state.mkdir()
        self.settings = folder / "settings.toml"
        self.settings.write_text(
            f'[sources]\nkmsg = "{folder}/kmsg"\nnvml = false\nsysfs = ""\nipmitool = ""\n'
            f'[state]\ndirectory = "{self.state}"\nlog = "{folder}/log"\n'
        )
        (folder / "kmsg").write_text("6,1,100,-;usb 1-1: new device\n")
        for script in (*ROOT.glob("prolog/*.sh"), *ROOT.glob("epilog/*.sh")):
            self._install(script)
        self._write("bin/logger", f'#!/bin/sh\necho "$*" >>{folder}/syslog\n')
        told = {"root": ROOT, "libraries": LIBRARIES, "folder": folder / "run"}
        told |= {"settings": self.settings, "hooks": ROOT / "slurm_failover" / "hooks.py"}
        code = HOOK.format(**{name: str(path) for name, path in told.items()})
        self._write("hook.py", code)
        call = f'echo "$4" >>{folder}/calls; exec {sys.executable} -I -S {folder}/hook.py "$4"'
        self._write("bin/python3", f"#!/bin/sh\n{call}\n")
        (folder / "lib/python3/site-packages/slurm_failover").mkdir(parents=True)
        self._server = subprocess.Popen(
            ["unshare", "--mount", sys.executable, silent_disk.__file__, str(self.state)],
            stdout=subprocess.PIPE,
        )
        assert self._server.stdout is not None
        assert self._server.stdout.readline() == b"mounted\n"
        self.within = ("nsenter", f"--mount=/proc/{self._server.pid}/ns/mnt")

    def _install(self, script: Path) -> None:
        text = script.read_text().replace("/etc/slurm-failover/settings.toml", str(self.settings))
        text = text.replace("export PATH=", f"export PATH={self.folder}/bin:")
        for long, short in SHORTER.items():
            text = text.replace(long, short)
        shared = script.name in ("hand_in.sh", "serve.sh", "ask_watcher.sh")
        self._write(
            f"share/slurm-failover/{'' if shared else script.parent.name}/{script.name}", text
        )

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run(self, name: str) -> int:
        """A hook's exit status, once it has ended and nothing of it keeps its output open, which is
        what Slurm waits for.
        """
        script = self.folder / "share" / "slurm-failover" / HOOKS[name]
        hook = subprocess.Popen(
            [*self.within, script], env=TOLD, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        hook.communicate(timeout=DEADLINE)
        return hook.returncode

    def leaves_asleep(self, count: int) -> bool:
        """Whether so many of our processes sleep so that nothing wakes them, as soon as what was
        killed a moment ago does: it was waiting for an answer, and signals could still reach it.
        """
        end = time.monotonic() + DEADLINE
        while self._asleep() != count and time.monotonic() < end:
            time.sleep(0.05)
        return self._asleep() == count

    def _asleep(self) -> int:
        return sum(self._sleeps(path) for path in Path("/proc").glob("[0-9]*"))

    def _sleeps(self, process: Path) -> bool:
        try:
            ours = str(self.folder).encode() in (process / "cmdline").read_bytes()
            return ours and (process / "stat").read_text().rpartition(")")[2].split()[0] == "D"
        except OSError:
            return False

    def calls(self) -> list[str]:
        """The interpreters that were started."""
        return (self.folder / "calls").read_text().split()

    def said(self) -> str:
        """What went to syslog."""
        return (self.folder / "syslog").read_text()

    def close(self) -> None:
        """The disk is gone, and whoever slept wakes."""
        if self._server.poll() is None:
            self._server.kill()
            self._server.communicate()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path)
    yield host
    host.close()


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_ends_without_a_verdict_and_slurm_waits_for_nothing_of_it(
    host: Host, name: str
) -> None:
    assert host.run(name) == 0
    assert host.leaves_asleep(1)
    assert name in host.said()


def test_health_checks_do_not_pile_up(host: Host) -> None:
    assert [host.run("healthcheck") for _ in range(3)] == [0, 0, 0]
    assert host.calls() == ["healthcheck"] * 3
    assert host.leaves_asleep(1)
    assert (host.folder / "log").read_text().count("another health check is still at work") == 1


def test_looks_at_a_source_that_hangs_leave_one_process_behind(host: Host) -> None:
    lock = str(host.folder / "lock")
    look = [*host.within, "cat", str(host.state / "counter")]
    assert [run_bounded(look, 1.0, lock=lock).timed_out for _ in range(3)] == [True] * 3
    assert host.leaves_asleep(1)
    assert not run_bounded(["true"], 1.0, lock=str(host.folder / "another")).timed_out
    host.close()
    assert run_bounded(["echo", "there"], 10.0, lock=lock).output == "there\n"


def test_an_epilog_that_hung_is_not_tried_again(host: Host) -> None:
    assert host.run("epilog") == 0
    assert host.calls() == ["epilog"]
