"""What TAB offers, in bash, zsh and fish themselves, and that it never holds a shell up."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from slurm_failover.cli import COMMANDS, main
from slurm_failover.commands import complete
from slurm_failover.commands.completion import SHELLS, script

ROOT = Path(__file__).parent.parent.parent
DEADLINE = 30.0


def a_job(number: int, comment: str, name: str = "train") -> dict[str, object]:
    state = {"job_state": ["RUNNING"], "comment": comment}
    return {"job_id": number, "name": name, "user_name": "alice", **state}


JOBS = [a_job(4711, "failover", "a\nplain,x\x1b[2J"), a_job(4712, "failover"), a_job(5000, "")]
NODES = [{"name": name, "state": ["IDLE"]} for name in ("gpu-a1", "gpu-a2", "cpu1")]


class Site:
    """A folder with a Slurm and our command, as a user finds them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = folder / "settings.toml"
        self.settings.write_text(f'[slurm]\nbin = "{folder}"\n')
        self.answer(f"cat <<'END'\n{json.dumps({'jobs': JOBS, 'nodes': NODES})}\nEND")
        self.write(
            "slurm-failover",
            f"exec {sys.executable} -c 'from slurm_failover.cli import main; "
            'main(prog_name="slurm-failover")\' "$@"',
        )

    def answer(self, body: str) -> None:
        for program in ("squeue", "scontrol"):
            self.write(program, body)

    def write(self, name: str, body: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.folder}:{os.environ['PATH']}"
        own = {"PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(self.folder), "TERM": "dumb"}
        return {**os.environ, **own}

    def offers(self, *words: str) -> list[str]:
        """What is offered after these words; the last one is incomplete."""
        *done, last = words
        shell = ShellComplete(main, {}, "slurm-failover", "_SLURM_FAILOVER_COMPLETE")
        typed = ["--settings", str(self.settings), *done]
        return [item.value for item in shell.get_completions(typed, last)]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_the_jobs_with_failover_on_are_offered(site: Site) -> None:
    for command in ("status", "logs", "history"):
        assert site.offers(command, "") == ["4711", "4712"]
        assert site.offers(command, "4712") == ["4712"]
    assert site.offers("status", "4712", "47") == ["4711", "4712"]


def test_nodes_and_rules_are_offered(site: Site) -> None:
    assert site.offers("nodes", "gpu") == ["gpu-a1", "gpu-a2"]
    assert site.offers("history", "--node", "cpu") == ["cpu1"]
    assert site.offers("resume", "cpu") == ["cpu1"]
    assert site.offers("explain", "xid-79") == ["xid-79"]


def test_commands_are_offered(site: Site) -> None:
    assert site.offers("") == sorted(COMMANDS)


@pytest.mark.parametrize(
    "body", ["exit 1", "echo no JSON", "echo error >&2; kill -9 $$", "echo '{\"jobs\": 5}'"]
)
def test_a_slurm_that_does_not_answer_well_offers_nothing(site: Site, body: str) -> None:
    site.answer(body)
    assert site.offers("status", "") == []


def test_bad_settings_offer_nothing(site: Site) -> None:
    site.settings.write_text("[failover]\nmode = 'maybe'\n")
    assert site.offers("status", "") == []
    site.settings.write_text(f'[sources]\nrules = "{site.folder}"\n')
    (site.folder / "bad.toml").write_text("no TOML")
    assert site.offers("explain", "xid") == []


def test_what_hangs_is_left_after_its_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complete, "PATIENCE", 0.2)
    site.answer("exec sleep 600")
    before = time.monotonic()
    assert site.offers("status", "") == []
    site.settings.unlink()
    os.mkfifo(site.settings)
    assert site.offers("nodes", "") == []
    assert time.monotonic() - before < DEADLINE


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_a_shell_is_printed_with_any_settings(shell: str, site: Site) -> None:
    site.settings.write_text("broken")
    done = CliRunner().invoke(main, ["--settings", str(site.settings), "completion", shell])
    assert (done.exit_code, done.output) == (0, script(shell))


# --- the shells themselves ----------------------------------------------------------------------


class Typing:
    """A shell on a terminal, into which a person types."""

    def __init__(self, argv: list[str], site: Site) -> None:
        self.screen, inner = pty.openpty()
        self.process = subprocess.Popen(
            argv,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            cwd=site.folder,
            env=site.environment,
            start_new_session=True,
        )
        os.close(inner)
        self.shown = ""

    def type(self, keys: str, enough: Callable[[str], bool]) -> str:
        """What the screen shows after these keys, once it is enough."""
        os.write(self.screen, keys.encode())
        end, start = time.monotonic() + DEADLINE, len(self.shown)
        while not enough(self.shown[start:]):
            left = max(0, end - time.monotonic())
            assert select.select([self.screen], [], [], left)[0], self.shown
            self.shown += os.read(self.screen, 1 << 16).decode(errors="replace")
        return self.shown[start:]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.screen)


@pytest.fixture
def open_shell(site: Site) -> Iterator[Callable[..., Typing]]:
    opened: list[Typing] = []

    def start(*argv: str) -> Typing:
        opened.append(Typing(list(argv), site))
        return opened[-1]

    yield start
    for shell in opened:
        shell.close()


LOADS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(slurm-failover completion bash)"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -U compinit; compinit -u -D; source <(slurm-failover completion zsh)",
    ),
    "zsh, as installed": (
        ["zsh", "-f", "-i"],
        f"fpath=({ROOT}/completions $fpath); autoload -U compinit; compinit -u -D",
    ),
    "bash, as installed": (
        ["bash", "--norc", "--noprofile", "-i"],
        f"source {ROOT}/completions/slurm-failover.bash",
    ),
}


@pytest.mark.parametrize("name", LOADS)
def test_tab_in_a_real_shell(name: str, open_shell: Callable[..., Typing]) -> None:
    argv, load = LOADS[name]
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]} is not installed")
    shell = open_shell(*argv)
    shell.type(f"{load}; echo lo''aded\n", lambda text: "loaded" in text)
    start = "slurm-failover --settings settings.toml"
    shell.type(f"{start} nodes cp\t", lambda text: "cpu1" in text)
    tabs = "\t\t" if argv[0] == "bash" else "\t"
    rub_out = "\x15"
    listed = shell.type(f"{rub_out}{start} status 471{tabs}", lambda t: "4711" in t and "4712" in t)
    assert "5000" not in listed
    assert "\x1b[2J" not in listed
    assert "Traceback" not in shell.shown


def test_bash_takes_no_offer_for_a_pattern(site: Site, open_shell: Callable[..., Typing]) -> None:
    site.answer("""echo '{"nodes": [{"name": "gpu[1]", "state": ["IDLE"]}]}'""")
    (site.folder / "gpu1").touch()
    argv, load = LOADS["bash, as installed"]
    shell = open_shell(*argv)
    shell.type(f"shopt -s failglob; {load}; echo lo''aded\n", lambda text: "loaded" in text)
    line = "slurm-failover --settings settings.toml nodes g"
    assert "no match" not in shell.type(f"{line}\t", lambda text: "gpu[1]" in text)


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_tab_in_fish(site: Site) -> None:
    line = f"slurm-failover --settings {site.settings} status 47"
    asked = f"slurm-failover completion fish | source; complete -C '{line}'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", asked],
        capture_output=True,
        text=True,
        env=site.environment,
        timeout=DEADLINE,
        check=True,
    )
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["4711", "4712"]
    assert "\x1b" not in done.stdout
    assert "plain,x" in done.stdout, "nothing is cut at a comma"
