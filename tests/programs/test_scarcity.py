"""When the machine has nothing left to give, hooks judge less and never wrongly; none is lost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ClusterShell
import pytest
from fake_slurmctld import FakeSlurm

from slurm_failover import hooks
from slurm_failover.log import Log
from slurm_failover.node.ledger import read_ledger
from slurm_failover.settings import file as settings_file
from slurm_failover.slurm import connect

ROOT = Path(__file__).parents[2]
LOST = "NVRM: Xid (PCI:0000:3b:00): 79, pid=42, GPU has fallen off the bus."
HOOKS = ("prolog", "healthcheck", "epilog")
LIBRARIES = str(Path(ClusterShell.__file__).parents[1])
HOOK = """
import os, sys
sys.path[:0] = sys.argv[1].split(":")
from slurm_failover.node import alone
from slurm_failover.settings import file
alone.FOLDER = sys.argv[2] + ".locks"
file.load_settings.__defaults__ = (sys.argv[2],)
from slurm_failover import hooks
os._exit(hooks.main([sys.argv[3]]))
"""
IN_A_MOUNT = 'mount -t tmpfs -o size=64k,{options} tmpfs "$0" && {fill} exec "$@"'


class Node:
    """A node's files; its hooks run as processes of their own, under limits of the kernel's."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.state.mkdir()
        self.log, self.settings, self.kmsg = folder / "log", folder / "settings.toml", folder / "k"
        self.kmsg.write_text("6,1,100,-;usb 1-1: new device\n")
        slurmd = folder / "slurmd"
        slurmd.write_text("#!/bin/sh\n")
        slurmd.chmod(0o755)
        self.settings.write_text(
            f'[sources]\nkmsg = "{self.kmsg}"\nrules = "{folder}/rules"\nnvml = false\n'
            f'sysfs = ""\nipmitool = ""\nslurmd_log = ""\n'
            f'[slurm]\nbin = "{folder}/no-slurm"\nslurmd = "{slurmd}"\npatience = 1\n'
            f'[state]\ndirectory = "{self.state}"\nlog = "{self.log}"\n'
        )

    def break_gpu(self) -> None:
        micros = int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)
        with self.kmsg.open("a") as file:
            file.write(f"3,2,{micros},-;{LOST}\n")

    def run(self, name: str, *before: str, handles: int = 0) -> int:
        """A hook's exit status; ``before`` is what starts it, ``handles`` all it may have open."""
        told = [f"{ROOT}:{LIBRARIES}", str(self.settings), name]
        done = subprocess.run(
            [*before, sys.executable, "-I", "-S", "-c", HOOK, *told],
            env={"PATH": os.environ["PATH"], "SLURMD_NODENAME": "n1", "SLURM_JOB_ID": "100"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
            preexec_fn=lambda: _allow(handles),
        )
        return done.returncode

    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""


def _allow(handles: int) -> None:
    if handles:
        resource.setrlimit(resource.RLIMIT_NOFILE, (handles, handles))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


# --- file descriptors -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOOKS)
def test_without_file_descriptors_a_healthy_node_gets_no_verdict(node: Node, name: str) -> None:
    assert hooks.VERDICT not in {node.run(name, handles=handles) for handles in (3, 5, 6, 7)}


@pytest.mark.parametrize("name", ["healthcheck", "epilog"])
def test_what_was_not_seen_for_want_of_file_descriptors_is_found_later(
    node: Node, name: str
) -> None:
    node.run("healthcheck")
    node.break_gpu()
    for handles in (4, 6, 8, 10):
        node.run(name, handles=handles)
    assert node.run(name) == hooks.VERDICT
    assert "the verdict stands, and Slurm can not be told" in node.said()


# --- the disk -------------------------------------------------------------------------------------


def may_mount() -> bool:
    argv = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(argv, stderr=subprocess.DEVNULL, check=False).returncode == 0


mounts = pytest.mark.skipif(not may_mount(), reason="needs the right to mount")


def on_a_disk_that_is(what: str, node: Node) -> list[str]:
    """The beginning of a command that runs where the state folder is full, or read-only."""
    options, fill = {
        "full": ("rw", 'head -c 100000 /dev/zero >"$0/fill" 2>/dev/null; '),
        "read-only": ("ro", ""),
    }[what]
    script = IN_A_MOUNT.format(options=options, fill=fill)
    return ["unshare", "--mount", "sh", "-c", script, str(node.state)]


@mounts
@pytest.mark.parametrize("what", ["full", "read-only"])
@pytest.mark.parametrize("name", HOOKS)
def test_where_no_state_can_be_kept_a_healthy_node_gets_no_verdict(
    node: Node, name: str, what: str
) -> None:
    assert node.run(name, *on_a_disk_that_is(what, node)) == 0


@mounts
@pytest.mark.parametrize("what", ["full", "read-only"])
@pytest.mark.parametrize("name", ["healthcheck", "epilog"])
def test_a_fault_that_met_no_room_for_the_state_is_judged_again_when_there_is(
    node: Node, name: str, what: str
) -> None:
    node.run("healthcheck")
    node.break_gpu()
    node.run(name, *on_a_disk_that_is(what, node))
    assert node.said()
    assert node.run(name) == hooks.VERDICT


@contextmanager
def no_room() -> Iterator[None]:
    """As on a full disk: no file may grow."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


@pytest.fixture
def slurm(node: Node, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    slurm = FakeSlurm(now=int(time.time()) - 100)
    load = settings_file.load_settings
    monkeypatch.setattr(settings_file, "load_settings", lambda: load(str(node.settings)))
    monkeypatch.setattr(connect, "connect", lambda *_: slurm)
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    return slurm


def test_a_node_that_can_not_note_its_drain_is_drained_once(node: Node, slurm: FakeSlurm) -> None:
    hooks.main(["healthcheck"])
    before = (node.state / "node" / "ledger.json").read_text()
    node.break_gpu()
    with no_room():
        assert hooks.main(["healthcheck"]) == hooks.VERDICT
    reason = slurm.peek_node("n1").reason
    assert reason.startswith("slurm-failover: Xid 79")
    assert (node.state / "node" / "ledger.json").read_text() == before
    slurm.calls.clear()
    hooks.main(["healthcheck"])
    assert slurm.peek_node("n1").reason == reason
    assert read_ledger((node.state / "node" / "ledger.json").read_text()).cursor == 2
    assert hooks.main(["healthcheck"]) == 0


def test_a_verdict_does_not_need_anyone_to_hear_of_it(node: Node) -> None:
    node.log.mkdir()
    node.break_gpu()
    assert node.run("healthcheck", "sh", "-c", 'exec "$@" 2>&-', "sh") == hooks.VERDICT
    assert node.run("healthcheck", "sh", "-c", 'exec "$@" 2>/dev/full', "sh") == hooks.VERDICT


# --- what is not what it should be ----------------------------------------------------------------


def test_a_pipe_in_place_of_the_ledger_or_the_log_holds_nothing_up(
    node: Node, slurm: FakeSlurm
) -> None:
    (node.state / "node").mkdir()
    os.mkfifo(node.state / "node" / "ledger.json")
    node.break_gpu()
    assert hooks.main(["healthcheck"]) == hooks.VERDICT
    assert "can not be read, so this is a first look" in node.said()
    os.mkfifo(node.log.with_name("pipe"))
    Log("test", str(node.log.with_name("pipe"))).say("nobody listens")


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"[sources]\nkmsg = ", b"\x00" * 4096])
@pytest.mark.parametrize("name", HOOKS)
def test_settings_of_which_a_crash_left_half_are_no_verdict(
    node: Node, name: str, raw: bytes
) -> None:
    node.break_gpu()
    node.settings.write_bytes(raw)
    assert node.run(name) == 0


def test_a_folder_in_place_of_the_settings_is_no_verdict(node: Node) -> None:
    node.break_gpu()
    node.settings.unlink()
    node.settings.mkdir()
    assert [node.run(name) for name in HOOKS] == [0, 0, 0]
