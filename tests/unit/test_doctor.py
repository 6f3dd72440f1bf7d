"""doctor: what is fit, what is not, and what to do about it."""

from __future__ import annotations

import json
import os
import pwd
import select
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_failover import files
from slurm_failover.cli import main
from slurm_failover.commands import doctor as doctor_command
from slurm_failover.controller.notes import Notes
from slurm_failover.doctor import cluster, hooks, notification, sources
from slurm_failover.doctor import host as host_module
from slurm_failover.doctor.config import (
    judge_jobs,
    judge_nodes,
    judge_release,
    judge_times,
    read_config,
    release_of,
)
from slurm_failover.doctor.finding import Finding, Level
from slurm_failover.doctor.host import Host
from slurm_failover.doctor.timer import check_timer
from slurm_failover.doctor.watcher import check_watcher
from slurm_failover.errors import SlurmUnavailable
from slurm_failover.gres import GresSlot
from slurm_failover.health.gpu_state import DriverDevice, Gpu, GpuState
from slurm_failover.install.wire import Config, Site, wire
from slurm_failover.model import JobFacts
from slurm_failover.node import caught
from slurm_failover.node.ask import Desk, Question
from slurm_failover.settings.protection import NotifySettings
from slurm_failover.settings.tables import (
    FailoverSettings,
    Settings,
    SourceSettings,
    StateSettings,
)
from slurm_failover.wiring import HOOKS, Role, hook_path

HOME = "/opt/slurm-failover"
GOOD = f"""Configuration data as of 2026-11-29T17:28:36
AccountingStorageType   = accounting_storage/slurmdbd
AccountingStoreFlags    = job_comment,job_env
BatchStartTimeout       = 60 sec
CliFilterPlugins        = (null)
Epilog[0]               = /etc/slurm/epilog.d/clean.sh
Epilog[1]               = {HOME}/share/slurm-failover/epilog/epilog.sh
HealthCheckInterval     = 30 sec
HealthCheckNodeState    = ANY
JobFileAppend           = 1
JobRequeue              = 1
JobSubmitPlugins        = lua
MessageTimeout          = 10 sec
PrologEpilogTimeout     = 65534
ReturnToService         = 1
SchedulerParameters     = bf_continue,nohold_on_prolog_fail
SlurmctldHost[0]        = ctl(10.0.0.1)
SlurmUser               = slurm(64030)
SLURM_VERSION           = 24.11.5

Slurmctld(primary) at ctl is UP
"""


def changed(**values: str) -> dict[str, tuple[str, ...]]:
    config = dict(read_config(GOOD))
    for name, value in values.items():
        config[name] = (value,)
    return config


def judged(config: dict[str, tuple[str, ...]], settings: Settings | None = None) -> list[Finding]:
    settings = settings or Settings()
    return [
        *judge_jobs(config, settings),
        *judge_times(config, settings),
        *judge_nodes(config),
    ]


def faults(findings: Iterable[Finding]) -> dict[str, Level]:
    return {f.check: f.level for f in findings if f.level is not Level.OK}


def test_slurm_s_own_print_of_its_configuration_is_read() -> None:
    config = read_config(GOOD)
    assert config["Epilog"][1] == f"{HOME}/share/slurm-failover/epilog/epilog.sh"
    assert "CliFilterPlugins" not in config
    assert config["SlurmctldHost"] == ("ctl(10.0.0.1)",)


def test_a_configuration_that_install_has_made_has_no_fault() -> None:
    assert faults(judged(changed())) == {}


@pytest.mark.parametrize(
    ("values", "check", "level", "words"),
    [
        ({"SchedulerParameters": "defer"}, "nohold_on_prolog_fail", Level.ERROR, "missing"),
        ({"JobRequeue": "0", "JobSubmitPlugins": "x"}, "JobRequeue", Level.ERROR, "--requeue"),
        ({"JobFileAppend": "0"}, "JobFileAppend", Level.WARNING, "overwrites"),
        ({"AccountingStoreFlags": "job_env"}, "AccountingStoreFlags", Level.WARNING, "in words"),
        ({"AccountingStorageType": "none"}, "AccountingStoreFlags", Level.WARNING, "no slurmdbd"),
        ({"PrologEpilogTimeout": "30 sec"}, "PrologEpilogTimeout", Level.ERROR, "drains the node"),
        ({"BatchStartTimeout": "10 sec"}, "BatchStartTimeout", Level.WARNING, "taken for lost"),
        ({"MessageTimeout": "20 sec"}, "MessageTimeout", Level.WARNING, "20 s"),
        ({"HealthCheckInterval": "0 sec"}, "HealthCheckInterval", Level.ERROR, "never runs"),
        ({"HealthCheckTimeout": "50 sec"}, "HealthCheckInterval", Level.WARNING, "is 50 s: Slurm"),
        ({"HealthCheckNodeState": "IDLE"}, "HealthCheckNodeState", Level.WARNING, "hung job"),
        ({"HealthCheckNodeState": "CYCLE,IDLE"}, "HealthCheckNodeState", Level.WARNING, "hung"),
        ({"ReturnToService": "2"}, "ReturnToService", Level.WARNING, "takes jobs again"),
    ],
)
def test_a_setting_that_does_not_fit_is_named_with_its_remedy(
    values: dict[str, str], check: str, level: Level, words: str
) -> None:
    findings = judged(changed(**values))
    assert faults(findings) == {check: level}
    (finding,) = (f for f in findings if f.level is not Level.OK)
    assert words in finding.found
    assert finding.remedy


def installed(release: tuple[int, int], text: str = "") -> list[str]:
    """What install puts into a slurm.conf for a release of Slurm."""
    wired = wire(
        Config("/etc/slurm/slurm.conf", {"/etc/slurm/slurm.conf": text}), Site(HOME, release)
    )
    return wired.texts[wired.main].splitlines()


@pytest.mark.parametrize("version", ["24.11.5", "26.05.5"])
@pytest.mark.parametrize(
    ("values", "text", "names"),
    [
        ({"HealthCheckInterval": "0 sec"}, "", ("HealthCheckInterval", "HealthCheckTimeout")),
        ({"BatchStartTimeout": "10 sec"}, "", ("BatchStartTimeout",)),
        ({"JobFileAppend": "0"}, "", ("JobFileAppend",)),
        ({"JobRequeue": "0", "JobSubmitPlugins": "x"}, "", ("JobSubmitPlugins",)),
        ({"SchedulerParameters": "defer"}, "", ()),
        (
            {"AccountingStoreFlags": "job_env"},
            "AccountingStorageType=accounting_storage/slurmdbd\n",
            (),
        ),
    ],
)
def test_the_remedy_for_what_install_sets_is_what_it_would_write_on_that_release(
    version: str, values: dict[str, str], text: str, names: tuple[str, ...]
) -> None:
    [finding] = (
        f for f in judged(changed(SLURM_VERSION=version, **values)) if f.level is not Level.OK
    )
    written = [line for line in installed(release_of(version), text) if line.startswith(names)]
    assert "slurm-failover install --apply" in finding.remedy
    assert finding.remedy.startswith(" and ".join(written) if names else "add it to ")


@pytest.mark.parametrize("version", ["24.11.5", "26.05.5"])
def test_what_install_writes_for_a_release_has_no_fault_there(version: str) -> None:
    lines = dict(line.split("=", 1) for line in installed(release_of(version)) if line[0] != "#")
    assert faults(judged(changed(SLURM_VERSION=version, **lines))) == {}


@pytest.mark.parametrize(
    "values",
    [
        {"JobRequeue": "0"},
        {"JobFileAppend": "0", "CliFilterPlugins": "lua"},
        {"PrologEpilogTimeout": "120 sec"},
        {"HealthCheckNodeState": "ALLOC,MIXED,IDLE,CYCLE"},
        {"HealthCheckNodeState": "CYCLE"},
        {"HealthCheckInterval": "60 sec", "HealthCheckTimeout": "55 sec"},
        {"HealthCheckInterval": "30 sec", "HealthCheckTimeout": "0 sec"},
        {"SchedulerParameters": "nohold_on_prolog_fail,requeue_delay=5"},
    ],
)
def test_what_serves_as_well_is_no_fault(values: dict[str, str]) -> None:
    assert faults(judged(changed(**values))) == {}


def test_observe_mode_is_told() -> None:
    settings = Settings(failover=FailoverSettings(mode="observe"))
    assert any("nothing is changed" in f.found for f in judged(changed(), settings))


@pytest.mark.parametrize(
    ("local", "controller", "level"),
    [
        ("24.11.5", "24.11.5", Level.OK),
        ("24.11.5", "26.05.5", Level.OK),
        ("26.05.5", "24.11.5", Level.ERROR),
        ("23.11.4", "23.11.4", Level.ERROR),
    ],
)
def test_an_old_slurm_or_one_newer_than_its_controller_is_told(
    local: str, controller: str, level: Level
) -> None:
    assert judge_release(local, controller).level is level
    assert release_of("slurm 24.11.5-1") == (24, 11)


# --- hooks -------------------------------------------------------------------------------------


@pytest.fixture
def home() -> Iterator[Path]:
    """An installation that every user can read, which pytest's own folder is not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        for hook in HOOKS:
            path = Path(hook_path(folder, hook))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("#!/bin/sh\n")
            path.chmod(0o755)
        Path(folder, "share/slurm-failover/hook.sh").write_text("#!/bin/sh\n# copy\n")
        yield Path(folder)


def on(home: Path, settings: Settings | None = None, **programs: str) -> Host:
    """A node whose slurm.conf names our hooks, or other programs for some of them."""
    config = changed(SlurmUser="root(0)")
    config |= {hook.setting: (hook_path(str(home), hook),) for hook in HOOKS}
    config |= {name: tuple(paths.split()) for name, paths in programs.items()}
    roles = frozenset({Role.NODE})
    return Host(settings or Settings(), config, roles, node="n1", home=str(home))


def hook_faults(host: Host) -> dict[str, str]:
    findings = [f for f in hooks.check_hooks(host) if f.check != "Python"]
    assert {f.check for f in findings} == {"Prolog", "Epilog", "TaskProlog", "HealthCheckProgram"}
    return {f.check: f.found for f in findings if f.level is Level.ERROR}


def test_hooks_that_slurm_calls_and_can_run_are_fit(home: Path) -> None:
    assert hook_faults(on(home)) == {}


def test_a_hook_that_slurm_does_not_call_is_told_whatever_slurm_conf_says_by_now(
    home: Path,
) -> None:
    assert hook_faults(on(home, Epilog="/a /b")) == {
        "Epilog": "Slurm calls /a, /b, and not our hook"
    }
    uncalled = on(home, Epilog="")
    assert hook_faults(uncalled) == {"Epilog": "Slurm calls no Epilog"}
    [remedy] = [f.remedy for f in hooks.check_hooks(uncalled) if f.check == "Epilog"]
    assert remedy == "slurm-failover install --apply, then scontrol reconfigure"


def test_our_hook_counts_in_a_folder_in_a_copy_and_behind_a_script_of_the_site_s(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/90").symlink_to(hook_path(str(home), HOOKS[0]))
    copy = tmp_path / "epilog.sh"
    copy.write_text("#!/bin/sh\n# copy\n")
    chain = tmp_path / "chain"
    chain.write_text(f"#!/bin/sh\n/usr/sbin/nhc\n'{hook_path(str(home), HOOKS[3])}'\n")
    for path in (copy, chain):
        path.chmod(0o755)
    host = on(home, Prolog=f"/a {tmp_path}/d/*", Epilog=str(copy), HealthCheckProgram=str(chain))
    assert hook_faults(host) == {}
    chain.write_text(f"#!/bin/sh\n# {hook_path(str(home), HOOKS[3])}\n")
    assert list(hook_faults(host)) == ["HealthCheckProgram"], "a remark calls nothing"


def test_a_hook_that_is_gone_can_not_be_run_or_can_be_changed_by_users_is_told(home: Path) -> None:
    paths = [Path(hook_path(str(home), hook)) for hook in HOOKS]
    paths[0].unlink()
    paths[1].chmod(0o777)
    paths[3].chmod(0o644)
    found = hook_faults(on(home))
    assert "no such file" in found["Prolog"]
    assert "can be changed by others than root" in found["Epilog"]
    assert "can not be run by root" in found["HealthCheckProgram"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try as another user")
def test_a_task_prolog_that_only_root_may_run_is_told(home: Path) -> None:
    Path(hook_path(str(home), HOOKS[2])).chmod(0o700)
    assert "can not be run by every user" in hook_faults(on(home))["TaskProlog"]


def test_a_python_that_can_not_run_the_hooks_is_told(home: Path) -> None:
    (finding,) = (f for f in hooks.check_hooks(on(home)) if f.check == "Python")
    assert (finding.level, "No such file" in finding.found) == (Level.ERROR, True)
    (home / "bin").mkdir()
    (home / "bin/python3").write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    (home / "bin/python3").chmod(0o755)
    (finding,) = (f for f in hooks.check_hooks(on(home)) if f.check == "Python")
    assert "can not run the hooks: broken" in finding.found
    (home / "bin/python3").unlink()
    (home / "bin/python3").symlink_to(os.path.realpath("/proc/self/exe"))
    (finding,) = (f for f in hooks.check_hooks(on(home)) if f.check == "Python")
    assert finding.level is Level.OK, finding


def test_the_state_folder_must_be_its_user_s(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    settings = Settings(state=StateSettings(directory=str(folder)))
    host = on(tmp_path, settings)
    controller = Host(settings, host.config, frozenset({Role.CONTROLLER}))
    assert [f.level for f in hooks.check_state(host)] == [Level.OK], "a hook makes it as root"
    assert [f.level for f in hooks.check_state(controller)] == [Level.ERROR]
    folder.mkdir(mode=0o755)
    own = [f.level for f in hooks.check_state(controller)] == [Level.OK]
    assert own == (os.geteuid() == 0)
    folder.chmod(0o777)
    (finding,) = hooks.check_state(host)
    assert finding.level is Level.ERROR


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make folders of two owners")
def test_a_controllers_folder_that_is_not_slurm_users_is_told(tmp_path: Path) -> None:
    inner = tmp_path / "controller"
    inner.mkdir()
    tmp_path.chmod(0o755)
    settings = Settings(state=StateSettings(directory=str(tmp_path)))
    host = Host(settings, changed(SlurmUser="root(0)"), frozenset({Role.CONTROLLER}))
    assert [f.level for f in hooks.check_state(host)] == [Level.OK]
    os.chown(inner, 12345, 12345)
    (finding,) = hooks.check_state(host)
    assert finding.level is Level.ERROR
    assert finding.remedy == f"chown -hR root {inner}"


def test_a_log_that_logrotate_passes_over_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs").mkdir(mode=0o755)
    monkeypatch.setattr(hooks, "_LOGROTATE", str(tmp_path / "logrotate"))
    state = StateSettings(directory=str(tmp_path / "state"), log=f"{tmp_path}/logs/hooks.log")

    def check() -> Finding:
        (finding,) = hooks.check_log(on(tmp_path, Settings(state=state)))
        return finding

    assert check().level is Level.OK
    (tmp_path / "logs").chmod(0o777)
    assert "logrotate passes over it" in check().found
    (tmp_path / "logrotate").write_text("# su is not this\n/a {\n\tsu slurm slurm\n}\n")
    assert check().level is Level.OK


def test_hooks_that_speak_to_nobody_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syslog = tmp_path / "log"
    monkeypatch.setattr(hooks, "_SYSLOG", str(syslog))
    (finding,) = hooks.check_log(on(tmp_path, Settings()))
    assert (finding.level, "set [state] log" in finding.remedy) == (Level.WARNING, True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
        daemon.bind(str(syslog))
        (finding,) = hooks.check_log(on(tmp_path, Settings()))
    assert finding.level is Level.OK
    (finding,) = hooks.check_log(on(tmp_path, Settings()))
    assert "Connection refused" in finding.found, "the daemon is gone, and its socket is not"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try what others may")
def test_a_log_that_slurm_user_can_not_write_on_a_controller_is_told(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    log = tmp_path / "hooks.log"
    settings = Settings(state=StateSettings(directory=str(tmp_path / "state"), log=str(log)))
    daemon = pwd.getpwuid(1)
    config = changed(SlurmUser=f"{daemon.pw_name}({daemon.pw_uid})")

    def check(role: Role = Role.CONTROLLER) -> Finding:
        (finding,) = hooks.check_log(Host(settings, config, frozenset({role})))
        return finding

    assert check(Role.NODE).level is Level.OK, "root makes it"
    assert (check().level, check().remedy) == (Level.WARNING, f"touch {log} && chown daemon {log}")
    log.touch()
    assert check().level is Level.WARNING
    os.chown(log, daemon.pw_uid, daemon.pw_gid)
    assert check().level is Level.OK


# --- notifications -----------------------------------------------------------------------------


def told(home: Path, *command: str) -> Finding:
    """What doctor says of a notification program on a node."""
    host = on(home, Settings(notify=NotifySettings(command)))
    (finding,) = notification.check_notifications(host)
    return finding


def test_without_a_notification_program_there_is_nothing_to_say(home: Path) -> None:
    assert list(notification.check_notifications(on(home))) == []


@pytest.mark.parametrize("word", ["/bin/true", "true"])
def test_a_notification_program_out_of_users_hands_is_fit(home: Path, word: str) -> None:
    assert told(home, word, "arguments count for nothing").level is Level.OK


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files that are root's")
def test_a_notification_program_that_is_missing_or_can_not_be_run_is_told(home: Path) -> None:
    program = home / "tell"
    missing = told(home, str(program))
    assert (missing.level, missing.found) == (Level.WARNING, f"{program}: no such file")
    assert told(home, "no-such-program").found == "no-such-program: no such file"
    program.touch(mode=0o644)
    assert told(home, str(program)).found == f"{program} can not be run by root"
    program.chmod(0o755)
    assert told(home, str(program)).level is Level.OK


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_a_notification_program_must_be_root_s_or_the_user_s_who_runs_it(home: Path) -> None:
    daemon = pwd.getpwuid(1)
    program = home / "tell"
    program.touch(mode=0o755)
    os.chown(program, daemon.pw_uid, daemon.pw_gid)
    found = told(home, str(program))
    assert (found.level, found.found, found.remedy) == (
        Level.ERROR,
        f"{program} is not run: {program}: belongs to user {daemon.pw_uid}",
        f"chown root {program}, or set [notify] command",
    )
    settings = Settings(notify=NotifySettings((str(program),)))
    user = {"SlurmUser": (f"{daemon.pw_name}({daemon.pw_uid})",)}
    for roles, level in (
        ({Role.CONTROLLER}, Level.OK),
        ({Role.CONTROLLER, Role.NODE}, Level.ERROR),
    ):
        (found,) = notification.check_notifications(
            Host(settings, {**changed(), **user}, frozenset(roles))
        )
        assert found.level is level, found


# --- sources -----------------------------------------------------------------------------------


def logs(tmp_path: Path, **changes: str) -> Host:
    for name in ("kmsg", "slurmd.log"):
        (tmp_path / name).touch()
    read = {
        "kmsg": f"{tmp_path}/kmsg",
        "slurmd_log": f"{tmp_path}/slurmd.log",
        "sysfs": str(tmp_path),
        "ipmitool": "",
        "journalctl": f"{tmp_path}/journalctl",
    }
    host = on(tmp_path, Settings(sources=SourceSettings(**{**read, **changes})))  # type: ignore[arg-type]
    return Host(
        host.settings,
        {**host.config, "SlurmdLogFile": (f"{tmp_path}/slurm%n.log",)},
        host.roles,
        node="d",
    )


def test_sources_that_are_there_and_out_of_users_hands_are_fit(tmp_path: Path) -> None:
    assert faults(sources.check_sources(logs(tmp_path))) == {}


def test_a_kernel_log_that_users_can_write_is_no_source(tmp_path: Path) -> None:
    host = logs(tmp_path)
    (tmp_path / "kmsg").chmod(0o666)
    found = {f.check: f for f in sources.check_sources(host)}
    assert "is no evidence" in found["kernel log"].found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads the kernel's log")
def test_the_journal_serves_where_the_kernel_log_can_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = logs(tmp_path)
    (tmp_path / "kmsg").unlink()
    found = {f.check: f for f in sources.check_sources(host)}
    assert "nor can the journal" in found["kernel log"].found
    monkeypatch.setattr(sources, "read_journal", lambda *_: [])
    found = {f.check: f for f in sources.check_sources(host)}
    assert found["kernel log"].level is Level.OK
    without = logs(tmp_path, journalctl="", kmsg=f"{tmp_path}/none")
    found = {f.check: f for f in sources.check_sources(without)}
    assert "No such file" in found["kernel log"].found


def test_a_log_that_slurmd_does_not_write_to_is_told_with_the_setting(tmp_path: Path) -> None:
    (tmp_path / "other.log").touch()
    host = logs(tmp_path, slurmd_log=f"{tmp_path}/other.log")
    found = {f.check: f for f in sources.check_sources(host)}
    remedy = f"{tmp_path}/slurm%n.log"
    assert found["slurmd's log"].remedy == f'[sources] slurmd_log = "{remedy}" in settings.toml'
    followed = {f.check: f for f in sources.check_sources(logs(tmp_path, slurmd_log=remedy))}
    assert followed["slurmd's log"].level is Level.OK


@contextmanager
def watcher_that_answers(folder: Path, word: str) -> Iterator[None]:
    """A watcher's lock, and its desk; with no word it is silent."""
    desk = Desk(str(folder))

    def serve() -> None:
        for question in read_question(desk):
            desk.answer(question, word)

    served = threading.Thread(target=serve)
    with files.locked(f"{folder}/lock", 0):
        if word:
            served.start()
        yield
    if word:
        served.join()
    desk.close()


def read_question(desk: Desk) -> list[Question]:
    ready, _, _ = select.select([desk], [], [], 10)
    return desk.questions() if ready else []


@pytest.mark.parametrize(
    ("word", "level", "found"),
    [
        ("clean", Level.OK, "answers: clean"),
        ("busy", Level.OK, "answers: busy"),
        ("blind", Level.ERROR, "it lives, and its checks judge nothing"),
        ("", Level.ERROR, "it runs and does not answer"),
    ],
)
def test_a_watcher_that_gets_no_work_done_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, level: Level, found: str
) -> None:
    monkeypatch.setattr(caught, "FOLDER", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with watcher_that_answers(tmp_path, word):
        [finding] = check_watcher(on(tmp_path))
    assert (finding.level, finding.found) == (level, found)


def test_a_node_without_a_watcher_is_fit_and_its_health_checks_pace_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caught, "FOLDER", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    [finding] = check_watcher(on(tmp_path))
    told = "none runs: the health check does its work, every 30 s"
    assert (finding.level, finding.found) == (Level.OK, told)


def test_only_root_can_ask_the_watcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    [finding] = check_watcher(on(tmp_path))
    assert (finding.level, finding.remedy) == (Level.WARNING, "run this as root to be sure")


def test_broken_settings_and_rules_are_errors(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("[x]\nnonsense = 1\n")
    settings = Settings(sources=SourceSettings(rules=str(tmp_path)))
    host = Host(settings, {}, frozenset({Role.LOGIN}), problem="settings.toml: line 3: …")
    assert faults(sources.check_rules(host)) == {"settings": Level.ERROR, "rules": Level.ERROR}


def test_settings_and_rules_that_others_can_write_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, rules = tmp_path / "settings.toml", tmp_path / "rules.d"
    rules.mkdir()
    for path in (file, rules / "site.toml"):
        path.touch(mode=0o644)
    monkeypatch.setattr(sources, "DEFAULT_PATH", str(file))
    host = on(tmp_path, Settings(sources=SourceSettings(rules=str(rules))))
    assert faults(sources.check_rules(host)) == {}
    for path in (file, rules / "site.toml"):
        path.chmod(0o666)
    remedies = {f.check: f.remedy for f in sources.check_rules(host)}
    assert remedies == {
        "settings": f"chmod go-w {file}",
        "rules": f"chmod go-w {rules}/site.toml",
    }


SEEN = Gpu(0, pci="0000:01:00", minor=0)


@pytest.mark.parametrize(
    ("state", "slots", "level"),
    [
        (GpuState(gpus=(SEEN, replace(SEEN, pci="0000:02:00", minor=1))), 2, Level.OK),
        (GpuState(gpus=(SEEN,)), 2, Level.WARNING),
        (GpuState(unreadable="NVML is not installed"), 2, Level.WARNING),
        (GpuState(unreadable="NVML is not installed"), 0, Level.OK),
    ],
)
def test_nvml_must_show_the_gpus_that_slurm_gives_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state: GpuState, slots: int, level: Level
) -> None:
    given_out = tuple(GresSlot(minor) for minor in range(slots))
    monkeypatch.setattr(sources, "read_slots", lambda *_: given_out)
    monkeypatch.setattr(sources, "read_state", lambda *_, **__: state)
    (finding,) = sources.check_gpus(on(tmp_path))
    assert finding.level is level


def names(*minors: int, unreadable: str | None = None) -> GpuState:
    """What is seen where nothing but the driver lists its GPUs, by their minor numbers."""
    devices = tuple(DriverDevice(f"0000:0{minor}:00", minor) for minor in minors)
    return GpuState(driver_devices=devices, unreadable=unreadable)


SLOTS = (GresSlot(1), GresSlot(0))
MUTE = "NVML does not start"
NO_LIST = "/proc/driver/nvidia/gpus lists none, while Slurm gives out 2 GPUs here"
ANOTHER = "/proc/driver/nvidia/gpus does not list those of gres.conf, while Slurm gives out 2 GPUs"


@pytest.mark.parametrize(
    ("nvml", "state", "slots", "found"),
    [
        (False, names(0, 1), SLOTS, ""),
        (False, names(), SLOTS, f"not asked, by [sources] nvml, and {NO_LIST}"),
        (False, names(0, 2), SLOTS, f"not asked, by [sources] nvml, and {ANOTHER}"),
        (False, names(), (), ""),
        (False, names(), None, ""),
        (True, names(unreadable=MUTE), SLOTS, f"{MUTE}, and {NO_LIST}"),
        (True, names(0, 1, unreadable=MUTE), SLOTS, f"{MUTE}, and Slurm gives out GPUs here"),
    ],
)
def test_a_node_on_which_no_map_leads_from_a_gpu_to_its_job_is_told_what_that_costs(
    *,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    nvml: bool,
    state: GpuState,
    slots: tuple[GresSlot, ...] | None,
    found: str,
) -> None:
    asked = []
    monkeypatch.setattr(sources, "read_slots", lambda *_: slots)
    monkeypatch.setattr(sources, "read_state", lambda *_, **how: asked.append(how["nvml"]) or state)
    host = on(tmp_path, Settings(sources=SourceSettings(nvml=nvml)))
    (finding,) = sources.check_gpus(host)
    assert asked == [nvml]
    assert finding.level is (Level.WARNING if found else Level.OK)
    assert finding.found.startswith(found or "not asked, by [sources] nvml")
    costs = ": a GPU's fault moves a job that holds them all, and no other"
    assert finding.found.endswith(costs) is (NO_LIST in found)
    costs_more = ": no GPU's fault moves a job that holds one that is missing there"
    assert finding.found.endswith(costs_more) is (ANOTHER in found)
    # What costs that much is no remedy.
    assert ("nvml = false" in finding.remedy) is (state.driver_devices != () and nvml)


@pytest.mark.parametrize(
    ("slots", "costs"),
    [
        ((GresSlot(), GresSlot()), "a GPU's fault moves a job that holds them all, and no other"),
        ((GresSlot(),), "no GPU's fault moves a job that holds one that is missing there"),
        ((GresSlot(7), GresSlot(8)), "no GPU's fault moves a job that holds one that is missing"),
    ],
    ids=["no files", "one GPU is outside GRES", "files of other names"],
)
def test_gpus_that_nvml_shows_and_gres_conf_does_not_name_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, slots: tuple[GresSlot, ...], costs: str
) -> None:
    state = GpuState(gpus=(SEEN, replace(SEEN, pci="0000:02:00", minor=1)), driver="570")
    monkeypatch.setattr(sources, "read_slots", lambda *_: slots)
    monkeypatch.setattr(sources, "read_state", lambda *_, **__: state)
    (finding,) = sources.check_gpus(on(tmp_path))
    assert finding.level is Level.WARNING
    assert f"NVML does not list those of gres.conf, while Slurm gives out {len(slots)} GPUs" in (
        finding.found
    )
    assert costs in finding.found
    assert finding.remedy == "have gres.conf name /dev/nvidiaN"


def test_a_slurmd_in_another_time_zone_is_told() -> None:
    now = time.time()
    here = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now))
    there = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now + 7200))
    assert sources.judge_zone(here, now).level is Level.OK
    assert "2.0 h ahead" in sources.judge_zone(there, now).found


# --- the cluster -------------------------------------------------------------------------------


def test_a_flagged_job_of_another_auto_resume_is_told() -> None:
    waits = frozenset({"PENDING"})
    ours = JobFacts(1, "1", comment="failover", states=waits)
    both = JobFacts(2, "2", comment='failover {"APS": {"auto_resume": 1}}', states=waits)
    theirs = JobFacts(3, "3", comment='{"APS": {}}', states=waits)
    odd = JobFacts(4, "4", comment="failover {" * 3, states=waits)
    ended = replace(both, states=frozenset({"CANCELLED"}))
    assert cluster.judge_rivals([ours, odd, ended]).level is Level.OK
    assert "by job 2:" in cluster.judge_rivals([ours, both, odd]).found
    assert not any(map(cluster.is_flagged, [theirs]))


def asked(monkeypatch: pytest.MonkeyPatch, answer: str) -> Host:
    monkeypatch.setattr(host_module, "ask", lambda *_: answer)
    return Host(Settings(), changed(), frozenset({Role.LOGIN}))


@pytest.mark.parametrize(
    ("ahead", "level"), [(0, Level.OK), (-3600, Level.ERROR), (60, Level.ERROR)]
)
def test_a_clock_that_differs_from_the_controller_s_is_told(
    monkeypatch: pytest.MonkeyPatch, ahead: int, level: Level
) -> None:
    answer = f"sdiag output at Sun Nov 29 17:28:38 2026 ({int(time.time()) + ahead})\n"
    (finding,) = cluster.check_clock(asked(monkeypatch, answer))
    assert finding.level is level


@pytest.mark.parametrize(
    ("said", "level"),
    [
        ("  --failover=N  after a hardware fault", Level.OK),
        ("  --requeue", Level.OK),
        ("sbatch: error: spank: /x/slurm_failover.so: Incompatible plugin version", Level.ERROR),
        ("sbatch: plugin_load: Incompatible Slurm plugin /x/slurm_failover.so", Level.ERROR),
    ],
)
def test_the_option_must_be_known_to_this_release(
    monkeypatch: pytest.MonkeyPatch, said: str, level: Level
) -> None:
    (finding,) = cluster.check_option(asked(monkeypatch, said))
    assert finding.level is level


def test_a_plugin_that_is_there_and_is_not_loaded_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plugin = tmp_path / "slurm_failover.so"
    monkeypatch.setattr(cluster, "SPANK_PLUGIN", str(plugin))
    (absent,) = cluster.check_option(asked(monkeypatch, "  --requeue"))
    assert (absent.level, absent.remedy) == (Level.OK, "")
    plugin.touch()
    (idle,) = cluster.check_option(asked(monkeypatch, "  --requeue"))
    assert (idle.level, idle.remedy) == (Level.WARNING, "slurm-failover install --apply")


def test_lua_scripts_that_slurm_loads_must_call_ours(tmp_path: Path, home: Path) -> None:
    config = changed(CliFilterPlugins="lua", SLURM_CONF=f"{tmp_path}/slurm.conf")
    host = Host(Settings(), config, frozenset({Role.CONTROLLER}), home=str(home))
    (tmp_path / "job_submit.lua").write_text("-- the site's own\n")
    found = {f.check: f.level for f in cluster.check_lua(host)}
    assert found == {"job_submit.lua": Level.WARNING, "cli_filter.lua": Level.ERROR}
    for name in found:
        module = home / "share/slurm-failover/lua" / f"slurm_failover_{name}"
        module.parent.mkdir(exist_ok=True)
        module.touch()
        (tmp_path / name).write_text(f'dofile("{module}")\n')
    assert {f.level for f in cluster.check_lua(host)} == {Level.OK}


def keeping_state_in(folder: Path) -> Host:
    settings = Settings(state=StateSettings(directory=str(folder)))
    return Host(settings, changed(), frozenset({Role.CONTROLLER}))


@pytest.mark.parametrize(
    ("ago", "level", "words"),
    [
        (None, Level.WARNING, "has not run here yet"),
        (5, Level.OK, "was through 5 s ago"),
        (599, Level.OK, "s ago"),
        (7200, Level.WARNING, "last through 120 min ago"),
        (-60, Level.WARNING, "has not run here yet"),
    ],
)
def test_a_reconcile_that_nobody_runs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ago: int | None, level: Level, words: str
) -> None:
    notes = Notes(str(tmp_path))
    notes.open()
    now = time.time()
    if ago is not None:
        monkeypatch.setattr(time, "time", lambda: now - ago)
        notes.mark_reconciled()
    monkeypatch.setattr(time, "time", lambda: now)
    (finding,) = check_timer(keeping_state_in(tmp_path))
    assert (finding.level, words in finding.found) == (level, True), finding
    assert bool(finding.remedy) is (level is not Level.OK)


def test_who_may_not_see_when_reconcile_ran_is_told_who_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> str:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(files, "read_whole", refuse)
    (finding,) = check_timer(keeping_state_in(tmp_path))
    assert (finding.level, finding.remedy) == (Level.WARNING, "run this as root")


# --- the command -------------------------------------------------------------------------------


def call(monkeypatch: pytest.MonkeyPatch, findings: list[Finding], *words: str) -> Result:
    monkeypatch.setattr(doctor_command, "look_around", lambda *_: None)
    monkeypatch.setattr(doctor_command, "examine", lambda *_: iter(findings))
    return CliRunner().invoke(main, ["doctor", *words])


FINE = Finding("clock", Level.OK, "as slurmctld's")
WARN = Finding("BMC", Level.WARNING, "not there", "install ipmitool")
BAD = Finding("Prolog", Level.ERROR, "not named", "slurm-failover install")


@pytest.mark.parametrize(
    ("findings", "status"), [([FINE], 0), ([FINE, WARN], 1), ([BAD, WARN, FINE], 2), ([], 0)]
)
def test_the_exit_status_is_the_worst_line(
    monkeypatch: pytest.MonkeyPatch, findings: list[Finding], status: int
) -> None:
    done = call(monkeypatch, findings)
    assert done.exit_code == status
    assert done.output.count("\n") == sum(1 + bool(f.remedy) for f in findings)


def test_each_line_is_one_object_of_json(monkeypatch: pytest.MonkeyPatch) -> None:
    done = call(monkeypatch, [FINE, BAD], "--json")
    assert json.loads(done.output)[1] == {
        "check": "Prolog",
        "level": "error",
        "found": "not named",
        "remedy": "slurm-failover install",
    }


def test_a_slurmctld_that_does_not_answer_is_the_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object) -> Host:
        raise SlurmUnavailable("scontrol show config: Unable to contact slurm controller")

    monkeypatch.setattr(doctor_command, "look_around", silent)
    done = CliRunner().invoke(main, ["doctor"])
    assert done.exit_code == 2
    assert done.output.startswith("error   slurmctld: scontrol show config: Unable to contact")


def test_without_slurms_commands_the_remedy_is_the_setting_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(f'[slurm]\nbin = "{tmp_path}"\n')
    done = CliRunner().invoke(main, ["--settings", f"{tmp_path}/s.toml", "doctor"])
    assert done.exit_code == 2
    assert done.output == (
        f"error   Slurm's commands: {tmp_path}/scontrol can not be run: No such file or directory\n"
        "        -> set [slurm] bin to its folder\n"
    )


def test_a_broken_settings_file_is_told_where_slurm_can_not_be_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def silent(*_: object) -> Host:
        raise SlurmUnavailable("scontrol show config: no answer")

    monkeypatch.setattr(doctor_command, "look_around", silent)
    (tmp_path / "s.toml").write_text("[slurm\n")
    done = CliRunner().invoke(main, ["--settings", f"{tmp_path}/s.toml", "doctor", "--json"])
    first, second = json.loads(done.output)
    assert (first["check"], first["level"], second["check"]) == ("settings", "error", "slurmctld")
    assert f"{tmp_path}/s.toml" in first["found"]


def test_a_broken_settings_file_is_a_line_and_not_the_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "s.toml").write_text("[failover]\nmode = 3\n")
    told: list[str] = []
    monkeypatch.setattr(doctor_command, "look_around", lambda *words: told.append(words[2]))
    monkeypatch.setattr(doctor_command, "examine", lambda *_: iter([FINE]))
    done = CliRunner().invoke(main, ["--settings", f"{tmp_path}/s.toml", "doctor"])
    assert done.exit_code == 0
    assert "line 2: [failover] mode: must be a string" in told[0]


def test_a_check_that_can_not_be_made_does_not_end_the_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from slurm_failover.doctor import rounds

    def broken(_: Host) -> Iterable[Finding]:
        raise SlurmUnavailable("no answer")

    def fit(_: Host) -> Iterable[Finding]:
        return iter([FINE])

    everyone = frozenset(Role)
    monkeypatch.setattr(
        rounds, "CHECKS", (("a", everyone, broken), ("b", frozenset(), fit), ("c", everyone, fit))
    )
    begun: list[str] = []
    found = list(rounds.examine(on(Path("/")), begun.append))
    assert [f.level for f in found] == [Level.ERROR, Level.OK]
    assert begun == ["a", "c"]


def test_a_look_that_takes_long_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import threading

    told = threading.Event()
    monkeypatch.setattr(doctor_command, "_PATIENCE", 0.0)
    slow = doctor_command._Slow()
    monkeypatch.setattr(slow, "_tell", lambda name: (print(name), told.set()))
    slow.begin("NVML")
    assert told.wait(10)
    assert capsys.readouterr().out == "NVML\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_a_folder_of_slurm_user_s_is_no_user_s(tmp_path: Path) -> None:
    daemon = pwd.getpwuid(1)
    host = logs(tmp_path)
    (tmp_path / "log").mkdir()
    (tmp_path / "log").chmod(0o775)
    os.chown(tmp_path / "log", daemon.pw_uid, daemon.pw_gid)
    host = replace(
        logs(tmp_path, slurmd_log=f"{tmp_path}/log/slurmd.log", kmsg=f"{tmp_path}/log/kmsg"),
        config={
            **host.config,
            "SlurmdLogFile": (f"{tmp_path}/log/slurmd.log",),
            "SlurmUser": (f"{daemon.pw_name}({daemon.pw_uid})",),
        },
    )
    for name in ("kmsg", "slurmd.log"):
        (tmp_path / "log" / name).touch()
    found = {f.check: f for f in sources.check_sources(host)}
    assert found["slurmd's log"].level is Level.OK
    assert found["kernel log"].found.startswith(f"{tmp_path}/log can be changed by others")
    assert found["kernel log"].remedy == f"chown root {tmp_path}/log, or set [sources] kmsg"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_who_may_not_look_into_the_state_folder_is_told_of_the_rest() -> None:
    state = Path(tempfile.mkdtemp(prefix="state"))
    (state / "controller").mkdir()
    settings = Settings(state=StateSettings(directory=str(state)))
    host = Host(settings, changed(SlurmUser="root(0)"), frozenset({Role.CONTROLLER}))
    os.seteuid(65534)
    try:
        assert [f.level for f in hooks.check_state(host)] == [Level.OK]
    finally:
        os.seteuid(0)
        shutil.rmtree(state)
