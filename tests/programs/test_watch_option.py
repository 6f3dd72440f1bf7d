"""``--watch``: in a terminal, in a pipe, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_failover.cli import main
from slurm_failover.commands import watch
from slurm_failover.commands.watch import repeat
from slurm_failover.errors import SlurmUnavailable

DEADLINE = 30.0
NODE = {"name": "n1", "state": ["IDLE", "DRAIN"], "reason": "slurm-failover: Xid 79"}


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """slurm-failover before a Slurm with one node that we drained, as a process."""
    for program in ("scontrol", "squeue"):
        path = tmp_path / program
        path.write_text(
            f"#!/bin/sh\ncat <<'END'\n{json.dumps({'jobs': [], 'nodes': [NODE]})}\nEND\n"
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    settings = tmp_path / "settings.toml"
    settings.write_text(f'[slurm]\nbin = "{tmp_path}"\nclient = "scontrol"\n')
    code = "from slurm_failover.cli import main; main(prog_name='slurm-failover')"
    return [sys.executable, "-c", code, "--settings", str(settings)]


def read_until(handle: int, enough: Callable[[str], bool]) -> str:
    """What comes from a descriptor until it is enough; AssertionError after the deadline."""
    text, end = b"", time.monotonic() + DEADLINE
    while not enough(text.decode()):
        assert select.select([handle], [], [], max(0, end - time.monotonic()))[0], text
        text += os.read(handle, 1 << 16)
    return text.decode()


class OnTerminal:
    """A command on a terminal of 80 columns."""

    def __init__(self, argv: list[str], **environment: str) -> None:
        self.screen, inner = pty.openpty()
        self.process = subprocess.Popen(
            argv,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", **environment},
            start_new_session=True,
        )
        os.close(inner)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.screen)


@pytest.fixture
def terminals() -> Iterator[list[OnTerminal]]:
    made: list[OnTerminal] = []
    yield made
    for terminal in made:
        terminal.close()


def test_a_terminal_is_drawn_anew_and_left_as_it_was(
    command: list[str], terminals: list[OnTerminal]
) -> None:
    terminal = OnTerminal([*command, "nodes", "--watch", "0.5"])
    terminals.append(terminal)
    shown = read_until(terminal.screen, lambda text: text.count("Every 0.5 s") > 1)
    assert "\x1b[?1049h" in shown
    assert "\x1b[1m" in shown
    assert "Xid 79" in shown
    terminal.process.send_signal(signal.SIGINT)
    rest = read_until(terminal.screen, lambda text: "\x1b[?1049l" in text)
    assert terminal.process.wait(DEADLINE) == 0
    assert "Traceback" not in shown + rest
    assert "\x1b[?25h" in rest, "the cursor is shown again"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_what_is_killed_leaves_the_terminal_as_it_was(
    command: list[str], terminals: list[OnTerminal], number: signal.Signals
) -> None:
    terminal = OnTerminal([*command, "nodes", "--watch", "0.5"])
    terminals.append(terminal)
    read_until(terminal.screen, lambda text: "Xid 79" in text)
    terminal.process.send_signal(number)
    rest = read_until(terminal.screen, lambda text: "\x1b[?1049l" in text)
    assert terminal.process.wait(DEADLINE) == -number
    assert "\x1b[?25h" in rest, "the cursor is shown again"


class Screen:
    """A screen that writes down its pages, each while ``meanwhile`` happens."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.pages: list[str] = []
        self.meanwhile = meanwhile

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def update(self, page: object, *, refresh: bool) -> None:
        self.meanwhile()
        self.pages.append(f"{page}")


def watch_on(screen: Screen, draw: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "Live", lambda **_: screen)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    repeat(draw, 1.0, for_programs=False)


def test_a_signal_that_comes_while_the_screen_is_written_waits_for_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Screen(lambda: signal.raise_signal(signal.SIGINT))
    watch_on(screen, lambda: None, monkeypatch)
    assert "waiting for Slurm" in screen.pages[0]
    assert len(screen.pages) == 1


def test_a_signal_that_gets_lost_ends_the_watch_at_the_next_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lose_one() -> None:
        assert len(screen.pages) < 9
        with contextlib.suppress(BaseException):
            signal.raise_signal(signal.SIGINT)

    screen = Screen()
    watch_on(screen, lose_one, monkeypatch)
    assert len(screen.pages) == 2


def test_what_is_stopped_leaves_the_terminal_and_comes_back(
    command: list[str], terminals: list[OnTerminal]
) -> None:
    terminal = OnTerminal([*command, "nodes", "--watch", "0.5"])
    terminals.append(terminal)
    read_until(terminal.screen, lambda text: "Xid 79" in text)
    # The kernel stops no process that nobody could continue, and this one is alone: it goes on.
    terminal.process.send_signal(signal.SIGTSTP)
    read_until(terminal.screen, lambda text: "Xid 79" in text.partition("\x1b[?1049l")[2])


def test_a_row_wider_than_the_terminal_is_folded_and_not_cut(
    command: list[str], terminals: list[OnTerminal]
) -> None:
    terminal = OnTerminal([*command, "nodes", "--watch", "0.5"], COLUMNS="16")
    terminals.append(terminal)
    shown = read_until(terminal.screen, lambda text: text.count("Every 0.5 s") > 2)
    assert "yes" in shown, "what stands at the end of the row"


def test_a_slurm_that_is_away_is_shown_at_once(
    command: list[str], terminals: list[OnTerminal], tmp_path: Path
) -> None:
    (tmp_path / "settings.toml").open("a").write("patience = 3600\n")
    there, away = tmp_path / "scontrol", tmp_path / "away"
    there.rename(away)
    there.write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
    there.chmod(there.stat().st_mode | stat.S_IXUSR)
    terminal = OnTerminal([*command, "nodes", "--watch", "0.5"])
    terminals.append(terminal)
    read_until(terminal.screen, lambda text: "Unable to contact" in text)
    away.replace(there)
    read_until(terminal.screen, lambda text: "Xid 79" in text)


def test_no_color_leaves_the_text_without_colours(
    command: list[str], terminals: list[OnTerminal]
) -> None:
    terminal = OnTerminal([*command, "nodes"], NO_COLOR="1")
    terminals.append(terminal)
    shown = read_until(terminal.screen, lambda text: "Xid 79" in text)
    assert "\x1b" not in shown
    coloured = OnTerminal([*command, "nodes"], NO_COLOR="")
    terminals.append(coloured)
    assert "\x1b[1m" in read_until(coloured.screen, lambda text: "Xid 79" in text)


def test_a_pipe_gets_one_round_after_the_other_without_escapes(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    with subprocess.Popen(
        [*command, "nodes", "--watch=0.5"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        shown = read_until(process.stdout.fileno(), lambda text: text.count("Xid 79") > 1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE)
    assert (process.returncode, errors) == (0, b"")
    assert "\x1b" not in shown
    assert len(re.findall(r"(?m)^=== \d{4}-\d\d-\d\dT[\d:]{8}$", shown)) >= 2


class Rounds:
    """Something to draw that ends with Ctrl-C at its third round."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)
        self.drawn = 0

    def draw(self) -> None:
        self.drawn += 1
        if not self.errors:
            raise KeyboardInterrupt
        if (error := self.errors.pop(0)) is not None:
            raise error
        sys.stdout.write("{}\n")


def test_slurm_may_be_away_for_a_round(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    rounds = Rounds(SlurmUnavailable("no answer"), None)
    repeat(rounds.draw, 1.0, for_programs=True)
    told = capsys.readouterr()
    assert (told.out, told.err) == ("{}\n", "slurm-failover: no answer\n")
    assert rounds.drawn == 3


def test_an_error_of_a_round_can_not_steer_the_screen() -> None:
    assert "no\\x1b[2J answer" in watch._capture(Rounds(SlurmUnavailable("no\x1b[2J answer")).draw)


def test_without_the_option_it_is_drawn_once_and_its_errors_are_its_own() -> None:
    rounds = Rounds(SlurmUnavailable("no answer"))
    with pytest.raises(SlurmUnavailable):
        repeat(rounds.draw, None, for_programs=False)
    assert rounds.drawn == 1


@pytest.mark.parametrize("command_name", ["status", "nodes"])
def test_what_is_no_interval_is_refused(command_name: str) -> None:
    done = CliRunner().invoke(main, [command_name, "--watch", "471100"])
    assert done.exit_code == 2
    assert "0.5<=x<=3600" in done.output
