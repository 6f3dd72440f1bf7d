"""Who is told what: the event on a program's standard input, in bounded time, without a shell."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from slurm_failover import notify as notify_module
from slurm_failover.happening import Happening, Kind
from slurm_failover.notify import judge_program, notify, run_program
from slurm_failover.settings.protection import NotifySettings
from slurm_failover.settings.tables import Settings

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "notify"
EVENT = Happening(Kind.DRAIN, "Xid 79; $(reboot) `id`", node="n1", code="xid-79", jobs=(7,))


def settings(*command: str, timeout: int = 5) -> Settings:
    return replace(Settings(), notify=NotifySettings(command, timeout))


def started(monkeypatch: pytest.MonkeyPatch, *command: str) -> list[Any]:
    calls: list[Any] = []
    monkeypatch.setattr(notify_module, "start_detached", lambda *words: calls.append(words))
    notify(settings(*command), EVENT)
    return calls


def script(folder: Path, body: str) -> str:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def run(*command: str, timeout: int = 5) -> list[str]:
    said: list[str] = []
    event = json.dumps(EVENT.as_json(time=1.0, host="n1", mode="act"))
    run_program({"FAILOVER_EVENT": event}, settings(*command, timeout=timeout), said.append)
    return said


def test_an_event_starts_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    [(hook, variables)] = started(monkeypatch, "/bin/program")
    event = json.loads(variables["FAILOVER_EVENT"])
    assert hook == "notify"
    assert (event["event"], event["node"], event["jobs"], event["mode"]) == (
        "drain",
        "n1",
        [7],
        "act",
    )
    assert "retries" not in event


def test_without_a_program_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    assert started(monkeypatch) == []


def test_the_program_gets_one_json_object_and_a_bare_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/evil")
    program = script(
        tmp_path, f'cat >{tmp_path}/event; env >{tmp_path}/env; echo "$@" >{tmp_path}/a'
    )
    assert run(program, "one $(id)", "two") == []
    assert json.loads((tmp_path / "event").read_text())["because"] == EVENT.because
    assert "PYTHONPATH" not in (tmp_path / "env").read_text()
    assert (tmp_path / "a").read_text() == "one $(id) two\n"


def test_a_program_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    program = script(tmp_path, f"sleep 300 & echo $! >{tmp_path}/child; wait")
    [said] = run(program, timeout=1)
    assert "did not end in 1 s and was killed" in said
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 10
    while _is_alive(child):
        assert time.monotonic() < deadline


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("body", "words"),
    [("echo no relay >&2; exit 3", "failed with status 3: no relay"), ("exit 1", "without a word")],
)
def test_a_program_that_fails_is_said(tmp_path: Path, body: str, words: str) -> None:
    [said] = run(script(tmp_path, body))
    assert words in said


def test_a_program_that_is_not_there_is_said_with_its_setting() -> None:
    [said] = run("/nowhere/program")
    assert said.startswith("/nowhere/program can not be run, [notify] command names it")


@pytest.mark.parametrize("culprit", ["inner/program", "inner", "links"])
@pytest.mark.parametrize("mode", [0o757, 0o775])
def test_a_program_that_others_could_change_is_not_run(
    tmp_path: Path, culprit: str, mode: int
) -> None:
    for folder in ("inner", "links"):
        (tmp_path / folder).mkdir(mode=0o755)
    link = tmp_path / "links/tell"
    link.symlink_to(script(tmp_path / "inner", f"touch {tmp_path}/ran"))
    assert run(str(link)) == []
    (tmp_path / "ran").unlink()

    weak = tmp_path / culprit
    weak.chmod(mode)
    if os.geteuid() == 0:
        os.chown(weak, 0, 54321)
    [said] = run(str(link))
    assert said == (
        f"{link} is not run, [notify] command names it: {weak}: others may write there; "
        f"`chmod go-w {weak}`"
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
@pytest.mark.parametrize("culprit", ["program", "folder", "link"])
def test_a_program_of_another_user_s_is_not_run(tmp_path: Path, culprit: str) -> None:
    (tmp_path / "folder").mkdir(mode=0o755)
    program = script(tmp_path / "folder", f"touch {tmp_path}/ran")
    link = tmp_path / "link"
    link.symlink_to(program)
    weak = {"program": program, "folder": f"{tmp_path}/folder", "link": str(link)}[culprit]
    os.chown(weak, 54321, 0, follow_symlinks=False)
    [said] = run(str(link))
    option = "-h " * (culprit == "link")
    assert f"{weak}: belongs to user 54321; `chown {option}root {weak}`" in said
    assert not (tmp_path / "ran").exists()
    subprocess.run(f"chown {option}root {weak}", shell=True, check=True)
    assert run(str(link)) == [], "the remedy is one"
    assert (tmp_path / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as another user")
def test_slurm_user_s_own_program_is_run_by_slurm_user_and_not_by_root(tmp_path: Path) -> None:
    daemon = 1
    program = script(tmp_path, "exit 0")
    os.chown(program, daemon, daemon)
    assert judge_program(program, daemon) is None
    assert judge_program(program, 0) is not None


def test_a_program_in_a_circle_of_links_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert run(f"{tmp_path}/a") == [
        f"{tmp_path}/a is not run, [notify] command names it: too many links"
    ]


def test_a_program_by_its_bare_name_is_sought_where_it_is_run_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = script(tmp_path, f"touch {tmp_path}/ran")
    monkeypatch.setattr(notify_module, "_PATH", f"/nowhere:{tmp_path}:/usr/bin:/bin")
    assert run("program") == []
    (tmp_path / "ran").unlink()
    Path(program).chmod(0o777)
    [said] = run("program")
    assert said.startswith(f"program is not run, [notify] command names it: {program}: others")
    assert not (tmp_path / "ran").exists()


def test_a_program_that_says_more_than_there_is_memory_is_heard_to_its_end(
    tmp_path: Path,
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    noisy = "head -c 300000000 /dev/zero >&2; echo no relay >&2; exit 3"
    [said] = run(script(tmp_path, noisy), timeout=60)
    assert said.endswith("no relay")
    assert len(said) < 500
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100_000  # KiB


def test_what_a_program_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    program = script(tmp_path, f"sleep 300 & echo $! >{tmp_path}/child; exit 0")
    assert run(program, timeout=20) == []
    child = int((tmp_path / "child").read_text())
    assert _is_alive(child)
    os.kill(child, signal.SIGKILL)


def test_a_program_that_reads_nothing_is_no_trouble(tmp_path: Path) -> None:
    assert run(script(tmp_path, "exec <&-; exit 0")) == []


# --- the examples ---------------------------------------------------------------------------------


def test_the_mail_example_sends_the_event(tmp_path: Path) -> None:
    sendmail = script(tmp_path, f'echo "$@" >{tmp_path}/to; cat >{tmp_path}/mail')
    event = json.dumps(EVENT.as_json(time=1.0, host="n1", mode="act"))
    argv = [str(EXAMPLES / "mail"), "root@localhost"]
    environment = {**os.environ, "SENDMAIL": sendmail}
    subprocess.run(argv, input=event, text=True, check=True, env=environment)
    head, _, body = (tmp_path / "mail").read_text().partition("\n\n")
    assert "Subject: [slurm-failover] drain on " in head
    assert json.loads(body)["because"] == EVENT.because
    assert (tmp_path / "to").read_text() == "-- root@localhost\n"


@pytest.mark.parametrize("member", ["", "text"])
def test_the_webhook_example_posts_the_event(member: str) -> None:
    got: list[bytes] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    event = json.dumps(EVENT.as_json(time=1.0, host="n1", mode="act"))
    url = f"http://127.0.0.1:{server.server_address[1]}/"
    argv = [sys.executable, "-I", str(EXAMPLES / "webhook"), url, *([member] if member else [])]
    subprocess.run(argv, input=event, text=True, check=True)
    thread.join(10)
    server.server_close()
    sent = json.loads(got[0])
    if member:
        assert sent["text"].startswith("slurm-failover: drain · n1 · n1 · Xid 79")
    else:
        assert sent["event"] == "drain"


def test_a_restart_within_the_second_tells_how_long_it_took() -> None:
    told = Happening(Kind.RESUMED, "attempt 2 runs on n2", seconds=0.0)
    assert told.as_json(time=1.0, host="ctl", mode="act")["seconds"] == 0.0
    assert "seconds" not in EVENT.as_json(time=1.0, host="n1", mode="act")
