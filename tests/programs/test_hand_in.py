"""What the controller's hooks are in the shell: nothing for a job that is not flagged, and one
interpreter at a time for those that are. The interpreter is a stand-in that writes down its calls.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import tomllib
from pathlib import Path

import pytest

from slurm_failover import files
from slurm_failover.controller.arrivals import Arrival, Kind, Queue, from_environment

ROOT = Path(__file__).parent.parent.parent
INTERPRETER = """#!/bin/sh
echo "$4" >>"{home}/calls"
[ -z "${{SERVES-}}" ] || rm -f "$FAILOVER_QUEUE"/*slurmctld.*
"""
HOOKS = {"prolog_slurmctld": "prolog", "epilog_slurmctld": "epilog"}


class Installed:
    """The package's scripts as they are installed, with a state folder of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.share = home / "share" / "slurm-failover"
        self.queue = Queue(str(home / "state" / "controller" / "queue"))
        for folder in ("prolog", "epilog"):
            (self.share / folder).mkdir(parents=True)
        for name in ("hand_in.sh", "serve.sh"):
            shutil.copy(ROOT / "prolog" / name, self.share / name)
        for name, folder in HOOKS.items():
            shutil.copy(ROOT / folder / f"{name}.sh", self.share / folder)
        script = (self.share / "hand_in.sh").read_text()
        settings = home / "settings.toml"
        script = script.replace("/etc/slurm-failover/settings.toml", str(settings))
        script = script.replace("export PATH=", f"export PATH={home}/bin:")
        (self.share / "hand_in.sh").write_text(script)
        settings.write_text(
            '[other]\ndirectory = "/nowhere"\n[state]\nlog = "x"\n'
            f'  directory = "{home}/state"  # here\n[last]\ndirectory = "/nowhere"\n'
        )
        (home / "bin").mkdir()
        self.write_program("python3", INTERPRETER.format(home=home))
        self.write_program("logger", f'#!/bin/sh\necho "$5" >>"{home}/syslog"\n')
        (home / "lib" / "python3.11" / "site-packages" / "slurm_failover").mkdir(parents=True)

    def write_program(self, name: str, text: str) -> None:
        program = self.home / "bin" / name
        program.write_text(text)
        program.chmod(0o755)

    def start(self, hook: str, **told: str) -> subprocess.Popen[bytes]:
        script = self.share / HOOKS[hook] / f"{hook}.sh"
        return subprocess.Popen([script], env={"SLURM_JOB_ID": "7", **told})

    def run(self, hook: str, **told: str) -> int:
        return self.start(hook, **told).wait(60)

    def calls(self) -> list[str]:
        log = self.home / "calls"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("comment", ["", "words of the owner"])
def test_an_unflagged_job_costs_a_shell_and_no_interpreter(
    installed: Installed, hook: str, comment: str
) -> None:
    assert installed.run(hook, SLURM_JOB_COMMENT=comment) == 0
    assert installed.calls() == []
    assert not (installed.home / "state").exists()


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("told", [{"SLURM_JOB_COMMENT": "failover=2"}, {"SPANK_FAILOVER": "2"}])
def test_a_flagged_job_starts_its_interpreter_once(
    installed: Installed, hook: str, told: dict[str, str]
) -> None:
    assert installed.run(hook, **told) == 0
    assert installed.calls() == [hook]


@pytest.mark.parametrize("header", ["[state]", "  [state]", "\t[ state ] # ours"])
def test_the_shell_reads_the_table_of_the_state_folder_as_toml_lets_it_be_written(
    installed: Installed, header: str
) -> None:
    settings = installed.home / "settings.toml"
    text = settings.read_text().replace("[other]", " [other]").replace("[last]", "  [last]")
    settings.write_text(text.replace("[state]", header))
    assert tomllib.loads(settings.read_text())["state"]["directory"] == f"{installed.home}/state"
    assert installed.run("epilog_slurmctld", SPANK_FAILOVER="2", SLURM_JOB_NODELIST="n1") == 0
    assert len(installed.queue.read()) == 1


@pytest.mark.parametrize("hook", HOOKS)
def test_a_later_component_of_a_heterogeneous_job_is_its_leaders(
    installed: Installed, hook: str
) -> None:
    assert installed.run(hook, SPANK_FAILOVER="2", SLURM_HET_JOB_OFFSET="1") == 0
    assert installed.calls() == []


@pytest.mark.parametrize(
    "option",
    [None, "", "default", "3", "3; touch /tmp/x `id` $(id)", "two\nlines", "=", "q\"u'otes"],
)
@pytest.mark.parametrize("nodes", [{}, {"SLURM_HET_JOB_NODELIST": "n[1-4]"}])
def test_the_shell_hands_in_what_the_interpreter_would(
    installed: Installed, option: str | None, nodes: dict[str, str]
) -> None:
    told = {
        "SLURM_JOB_COMMENT": "failover",
        "SLURM_JOB_START_TIME": "1795973275",
        "SLURM_JOB_NODELIST": "n[1-2],n7",
        **nodes,
    }
    if option is not None:
        told["SPANK_FAILOVER"] = option
    assert installed.run("epilog_slurmctld", **told) == 0
    (arrival,) = installed.queue.read()
    assert arrival == from_environment(Kind.END, {"SLURM_JOB_ID": "7", **told})


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_can_not_hand_in_says_so_and_fails_no_job(
    installed: Installed, hook: str
) -> None:
    queue = installed.home / "state" / "controller" / "queue"
    (queue / f"{hook}.7.0.new").mkdir(parents=True)
    assert installed.run(hook, SPANK_FAILOVER="2") == 0
    assert installed.calls() == []
    said = (installed.home / "syslog").read_text()
    assert said == f"{hook}: job 7 is left to reconcile: {queue} takes nothing\n"


def test_a_hook_whose_disk_hangs_ends_in_its_time_and_leaves_the_job_to_reconcile(
    installed: Installed,
) -> None:
    script = installed.share / "hand_in.sh"
    assert "timeout -k 1 10 sh" in script.read_text()
    script.write_text(script.read_text().replace("timeout -k 1 10", "timeout -k 1 0.1"))
    installed.write_program("mkdir", "#!/bin/sh\nexec sleep 60\n")
    assert installed.run("epilog_slurmctld", SPANK_FAILOVER="2") == 0
    assert installed.calls() == []
    assert "job 7 is left to reconcile" in (installed.home / "syslog").read_text()


def test_an_arrival_comes_back_as_it_was_added_and_twice_is_once(installed: Installed) -> None:
    arrival = Arrival(Kind.END, "7", 12.0, "n1", "two\nlines")
    for _ in range(2):
        installed.queue.add(arrival)
    assert installed.queue.read() == [arrival]
    installed.queue.remove(arrival)
    installed.queue.remove(arrival)
    assert installed.queue.read() == []


def test_a_hook_whose_server_died_in_the_middle_is_served_by_its_own(installed: Installed) -> None:
    arrival = Arrival(Kind.END, "7", 12.0, "")
    installed.queue.add(arrival)
    installed.queue.remove(arrival)
    with files.locked(installed.queue.lock, 0):
        hook = installed.start(
            "epilog_slurmctld", SPANK_FAILOVER="2", SLURM_JOB_START_TIME="12", SERVES="all"
        )
        deadline = time.monotonic() + 60
        while not installed.queue.read():
            assert time.monotonic() < deadline, "the hook did not hand in"
            os.sched_yield()
        installed.queue.begin(arrival)
    assert hook.wait(60) == 0
    assert installed.calls() == ["epilog_slurmctld"]


def test_an_entry_that_is_none_is_taken_away(installed: Installed) -> None:
    installed.queue.add(Arrival(Kind.END, "7", 12.0, "n1"))
    folder = installed.home / "state" / "controller" / "queue"
    (folder / "nonsense").write_text("x")
    (folder / "epilog_slurmctld.8.5.new").write_text("half")
    assert [arrival.job_id for arrival in installed.queue.read()] == ["7"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "epilog_slurmctld.7.12",
        "epilog_slurmctld.8.5.new",
    ]


def test_many_ends_at_once_are_served_by_one_interpreter(installed: Installed) -> None:
    installed.queue.add(Arrival(Kind.END, "1", 1.0))
    with files.locked(installed.queue.lock, 0):
        hooks = [
            installed.start(
                "epilog_slurmctld", SPANK_FAILOVER="2", SLURM_JOB_ID=str(number), SERVES="all"
            )
            for number in range(2, 22)
        ]
        deadline = time.monotonic() + 60
        while len(installed.queue.read()) < 21:
            assert time.monotonic() < deadline, "not all hooks came to hand in"
            os.sched_yield()
        assert installed.calls() == []
    assert [hook.wait(60) for hook in hooks] == [0] * 20
    assert installed.calls() == ["epilog_slurmctld"]
    assert installed.queue.read() == []


def test_a_hook_never_fails_however_its_interpreter_ends(installed: Installed) -> None:
    (installed.home / "bin" / "python3").write_text("#!/bin/sh\nkill -9 $$\n")
    assert installed.run("prolog_slurmctld", SPANK_FAILOVER="2") == 0
    assert len(installed.queue.read()) == 1


def test_a_folder_that_is_not_ours_is_for_the_interpreter_to_say(installed: Installed) -> None:
    (installed.home / "state").write_text("a file in its place")
    assert installed.run("epilog_slurmctld", SPANK_FAILOVER="2") == 0
    assert installed.calls() == ["epilog_slurmctld"]
