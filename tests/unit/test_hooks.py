"""The hooks' boundary: what exit status Slurm sees, and what a healthy run costs."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_slurmctld import FakeSlurm

from slurm_failover import hooks
from slurm_failover.errors import SlurmUnavailable
from slurm_failover.evidence import read_evidence
from slurm_failover.model import JobCause, NodeFacts
from slurm_failover.node import attempts
from slurm_failover.node.checks import NodeChecks
from slurm_failover.settings import file as settings_file
from slurm_failover.settings.tables import Settings
from slurm_failover.slurm import connect

ROOT = Path(__file__).parent.parent.parent
COSTLY = ("pathlib", "dataclasses", "inspect")
HEAVY = (
    *("subprocess", "click", "tenacity", "ClusterShell", "pynvml", "rich", "logging", "asyncio"),
    *(
        "socket",
        "ssl",
        "http",
        "email",
        "tempfile",
        "shutil",
        "traceback",
        "threading",
        "random",
    ),
    *("slurm_failover.classify", "slurm_failover.catalogue", "slurm_failover.slurm"),
    *("slurm_failover.policy", "slurm_failover.record", "slurm_failover.evidence"),
)


class Site:
    """A node's files: settings, kernel log, state, and the hooks' log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kmsg = folder / "kmsg"
        self.kmsg.touch()
        self.log = folder / "log"
        self.log.touch()
        self.settings = folder / "settings.toml"
        slurmd = folder / "slurmd"
        slurmd.write_text("#!/bin/sh\n")
        slurmd.chmod(0o755)
        self.write_settings()

    def write_settings(self, more: str = "") -> None:
        folder = self.folder
        self.settings.write_text(
            f'[sources]\nkmsg = "{self.kmsg}"\nrules = "{folder}/rules"\nnvml = false\n'
            f'sysfs = ""\nipmitool = ""\nslurmd_log = ""\n'
            f'[slurm]\nbin = "{folder}/no-slurm"\nslurmd = "{folder}/slurmd"\n'
            f'[state]\ndirectory = "{folder}/state"\nlog = "{self.log}"\n{more}'
        )

    def record(self, text: str) -> None:
        number = len(self.kmsg.read_text().splitlines()) + 1
        micros = int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)
        with self.kmsg.open("a") as file:
            file.write(f"3,{number},{micros},-;{text}\n")

    def said(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    site = Site(tmp_path)
    load: Callable[[str], Settings] = settings_file.load_settings
    monkeypatch.setattr(settings_file, "load_settings", lambda: load(str(site.settings)))
    for name in [name for name in os.environ if name.startswith(("SLURM", "SPANK"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    monkeypatch.setenv("SLURM_JOB_ID", "100")
    return site


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    slurm = FakeSlurm(now=int(time.time()) - 100)
    monkeypatch.setattr(connect, "connect", lambda *_: slurm)
    monkeypatch.setattr(connect, "connect_for_many", lambda *_: slurm)
    return slurm


@pytest.fixture
def to_syslog(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    lines: list[str] = []
    monkeypatch.setattr("syslog.syslog", lambda _, line: lines.append(line))
    yield lines


NODE_HOOKS = ["prolog", "healthcheck", "epilog"]
ALL_HOOKS = [*NODE_HOOKS, "prolog_slurmctld", "epilog_slurmctld"]


@pytest.mark.parametrize("name", ["healthcheck", "epilog"])
def test_a_new_hardware_fault_is_a_verdict_and_the_same_one_is_not(
    site: Site, slurm: FakeSlurm, name: str
) -> None:
    site.record("NVRM: Xid (PCI:0000:3b:00): 79, pid=42, GPU has fallen off the bus.")
    assert hooks.main([name]) == hooks.VERDICT
    assert slurm.peek_node("n1").reason.startswith("slurm-failover: ")
    assert hooks.main([name]) == 0


def test_word_on_the_job_that_ends_is_left_before_slurm_falls_silent(
    site: Site, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = time.time() - 60
    for name, value in (
        ("SLURM_JOB_COMMENT", "failover"),
        ("SLURM_JOB_NODELIST", "n1"),
        ("SLURM_JOB_START_TIME", f"{start:.0f}"),
        ("SLURM_JOB_EXIT_CODE", "256"),
    ):
        monkeypatch.setenv(name, value)
    site.record("NVRM: Xid (PCI:0000:3b:00): 79, pid=42, GPU has fallen off the bus.")
    ask = slurm.nodes

    def ask_for_one(names: str = "") -> list[NodeFacts]:
        if not names:
            raise SlurmUnavailable("Socket timed out")
        return ask(names)

    monkeypatch.setattr(slurm, "nodes", ask_for_one)
    assert hooks.main(["epilog"]) == hooks.VERDICT
    (word,) = read_evidence("n1", slurm.peek_node("n1").extra)
    assert (word.job_id, word.cause) == (100, JobCause.HARDWARE)


def test_an_application_fault_is_no_verdict(site: Site, slurm: FakeSlurm) -> None:
    site.record("NVRM: Xid (PCI:0000:3b:00): 13, pid=42, Graphics Exception")
    assert [hooks.main([name]) for name in ("epilog", "healthcheck")] == [0, 0]
    assert slurm.peek_node("n1").reason == ""


@pytest.mark.parametrize("name", ALL_HOOKS)
def test_a_bug_of_ours_is_no_verdict_and_is_logged_with_its_traceback(
    site: Site, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def bug(*_: object) -> bool:
        raise ZeroDivisionError("a bug")

    monkeypatch.setitem(hooks.HOOKS, name, bug)
    assert hooks.main([name]) == 0
    assert len(site.said()) == 1
    assert f"{name}: no verdict: Traceback" in site.said()[0]
    assert "ZeroDivisionError: a bug" in site.said()[0]


@pytest.mark.parametrize("name", ["prolog_slurmctld", "epilog_slurmctld", "prolog"])
def test_a_missing_variable_of_slurm_is_no_verdict(
    site: Site, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID")
    assert hooks.main([name]) == 0
    assert "SLURM_JOB_ID" in site.said()[0]


@pytest.mark.parametrize("name", ALL_HOOKS)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[failover]\nmax_retrys = 1\n", "line 2: [failover] max_retrys: unknown key"),
        ("[failover\n", "not valid TOML"),
    ],
)
def test_bad_settings_are_no_verdict_and_named_in_syslog(
    site: Site, to_syslog: list[str], name: str, text: str, words: str
) -> None:
    site.record("NVRM: Xid (PCI:0000:3b:00): 79, pid=42, GPU has fallen off the bus.")
    site.settings.write_text(text)
    assert hooks.main([name]) == 0
    assert len(to_syslog) == 1
    assert to_syslog[0].startswith(f"{name}: no verdict: {site.settings}: ")
    assert words in to_syslog[0]


@pytest.mark.parametrize("name", NODE_HOOKS)
def test_a_kernel_log_that_can_not_be_read_is_no_verdict(site: Site, name: str) -> None:
    site.kmsg.unlink()
    assert hooks.main([name]) == 0
    assert "no verdict: the kernel log" in site.said()[0]
    assert "Traceback" not in site.said()[0]


@pytest.mark.parametrize("arguments", [[], ["nonsense"]])
def test_an_unknown_hook_is_no_verdict(site: Site, arguments: list[str]) -> None:
    assert hooks.main(arguments) == 0
    assert "no verdict" in site.said()[0]


def test_a_fault_is_a_verdict_also_where_the_state_folder_can_not_be_written(site: Site) -> None:
    (site.folder / "state").write_text("a file in its place")
    site.record("NVRM: Xid (PCI:0000:3b:00): 79, pid=42, GPU has fallen off the bus.")
    assert hooks.main(["healthcheck"]) == hooks.VERDICT
    assert any("can not be written" in line for line in site.said())


def test_an_observing_site_gets_no_verdict(site: Site, slurm: FakeSlurm) -> None:
    site.write_settings('[failover]\nmode = "observe"\n')
    site.record("NVRM: Xid (PCI:0000:3b:00): 79, pid=42, GPU has fallen off the bus.")
    assert hooks.main(["epilog"]) == 0
    told = [line.split("epilog (observes only): ")[1] for line in site.said()]
    assert [line.split(": slurm-failover")[0] for line in told if "drain: " in line] == [
        "in act mode: drain"
    ]


# --- the healthy path -----------------------------------------------------------------------------

CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
from slurm_failover.settings import file as settings_file
settings_file.load_settings.__defaults__ = (sys.argv[2],)
from slurm_failover import hooks
hooks.OPENED = sys.argv[4]
if sys.argv[3] == "healthcheck":
    from slurm_failover.node import alone
    alone.FOLDER = sys.argv[4]
print(json.dumps([hooks.main([sys.argv[3]]), sorted(sys.modules)]))
"""


@pytest.mark.parametrize("name", NODE_HOOKS)
def test_a_healthy_run_asks_nobody_and_imports_nothing_heavy(site: Site, name: str) -> None:
    site.kmsg.write_text("6,1,100,-;usb 1-1: new device\n")
    checks = NodeChecks({"SLURMD_NODENAME": "n1"}, settings_file.load_settings(), print)
    assert not checks.check_health()
    run = str(site.settings.parent / "run")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", CHILD, str(ROOT), str(site.settings), name, run],
        env={"SLURM_JOB_ID": "100", "SLURMD_NODENAME": "n1", "PYTHONPATH": "/nowhere"},
        capture_output=True,
        text=True,
        check=True,
    )
    status, modules = json.loads(done.stdout)
    assert status == 0
    assert site.said() == []
    assert "slurm_failover.node.checks" in modules
    # The health check reads sysfs as well.
    heavy = HEAVY if name == "healthcheck" else (*HEAVY, *COSTLY)
    assert [module for module in modules if module.startswith(heavy)] == []


def test_a_hook_whose_time_is_over_says_so_and_is_no_verdict(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(*_: object) -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
        return True

    monkeypatch.setitem(hooks.HOOKS, "prolog", hang)
    before = signal.signal(signal.SIGTERM, hooks.give_up)
    try:
        assert hooks.main(["prolog"]) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert site.said()[0].endswith("prolog: no verdict: the hook was ended before it was done")


LATE = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.kill(os.getppid(), signal.SIGALRM)
signal.sigwait([signal.SIGTERM])
sys.exit({status})
"""
"""A hook whose time is over: timeout(1), which runs it, has that told by this signal."""


@pytest.mark.parametrize("name", ["prolog", "epilog"])
@pytest.mark.parametrize(("status", "fails"), [(hooks.VERDICT, True), (0, False)])
def test_a_verdict_that_comes_as_the_time_runs_out_is_one(
    tmp_path: Path, name: str, status: int, fails: bool
) -> None:
    share, package = tmp_path / "share/slurm-failover", tmp_path / "lib/python3/site-packages"
    for path in (share / name, package / "slurm_failover", tmp_path / "bin"):
        path.mkdir(parents=True)
    (tmp_path / "bin/python3").symlink_to(sys.executable)
    (package / "slurm_failover/hooks.py").write_text(LATE.format(status=status))
    (share / "ask_watcher.sh").write_text("is_vouched_for() { false; }\n")
    hook = share / name / f"{name}.sh"
    hook.write_text((ROOT / name / hook.name).read_text())
    clean = {"PATH": os.environ["PATH"]}
    assert (subprocess.run(["sh", str(hook)], env=clean, check=False).returncode != 0) is fails


STARTED = {
    "SLURM_JOB_COMMENT": "failover",
    "SLURM_JOB_START_TIME": "1700000000",
    "SLURM_JOB_GPUS": "0",
    "SLURM_JOB_RESTART_COUNT": "0",
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this node's attempts."""
    for module, name in ((hooks, "OPENED"), (attempts, "FOLDER")):
        monkeypatch.setattr(module, name, str(tmp_path / "run"))
    return tmp_path / "run"


@pytest.mark.parametrize("fails", [SlurmUnavailable("Socket timed out"), ZeroDivisionError()])
def test_a_job_that_starts_without_a_verdict_is_opened_like_any_other(
    site: Site, run: Path, monkeypatch: pytest.MonkeyPatch, fails: Exception
) -> None:
    def fail(_: NodeChecks) -> bool:
        raise fails

    for name, told in STARTED.items():
        monkeypatch.setenv(name, told)
    monkeypatch.setattr(NodeChecks, "check_job_start", fail)
    assert hooks.main(["prolog"]) == 0
    assert {path.name for path in run.iterdir()} == {"100", "100.start"}
    assert "no verdict" in site.said()[-1] or "ZeroDivisionError" in site.said()[-1]


def test_a_job_that_is_sent_back_is_not_opened(
    site: Site, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, told in STARTED.items():
        monkeypatch.setenv(name, told)
    monkeypatch.setattr(NodeChecks, "check_job_start", lambda _: True)
    assert hooks.main(["prolog"]) == hooks.VERDICT
    assert not run.exists()


def test_what_was_laid_out_for_a_job_goes_though_its_owner_took_the_word_back(
    site: Site, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, told in STARTED.items():
        monkeypatch.setenv(name, told)
    assert hooks.main(["prolog"]) == 0
    assert list(run.iterdir())
    monkeypatch.setenv("SLURM_JOB_COMMENT", "words of mine")
    assert hooks.main(["epilog"]) == 0
    assert list(run.iterdir()) == []


@pytest.mark.parametrize("agrees", [True, False])
def test_a_queue_that_the_shell_takes_from_settings_as_nobody_else_does_is_told(
    site: Site, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, agrees: bool
) -> None:
    label = slurm.submit("failover")
    slurm.schedule()
    told = {"SLURM_JOB_ID": label, "SLURM_JOB_COMMENT": "failover", "SLURM_JOB_NODELIST": "n1"}
    state = "state" if agrees else "elsewhere"
    queue = f"{site.folder}/{state}/controller/queue"
    start = f"{slurm.peek(label).start:.0f}"
    for name, text in {**told, "SLURM_JOB_START_TIME": start, "FAILOVER_QUEUE": queue}.items():
        monkeypatch.setenv(name, text)
    assert hooks.main(["prolog_slurmctld"]) == 0
    assert any(f"the hooks' shell takes {queue} for " in line for line in site.said()) is not agrees


def test_a_hook_without_a_handle_left_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as without_handles:
        without_handles.setattr(os, "open", refuse)
        hooks.let_go_of_output()
