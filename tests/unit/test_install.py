"""install and uninstall: what a site has stays, byte for byte, whatever its files look like."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import example, given
from hypothesis import strategies as st
from lua_host import LUA, SUCCESS, VERSIONS, LuaHost

from slurm_failover.cli import main
from slurm_failover.commands import install as install_command
from slurm_failover.commands import uninstall as uninstall_command
from slurm_failover.errors import InstallError
from slurm_failover.install import host, scripts
from slurm_failover.install.files import Change, apply_change, prepare
from slurm_failover.install.host import find_covered, find_roles, load_config
from slurm_failover.install.plan import plan_install, plan_uninstall
from slurm_failover.install.wire import Config, Site, unwire, wire
from slurm_failover.trust import Owners
from slurm_failover.wiring import HOOKS, Role, hook_path

HOME = "/opt/slurm-failover"
SHARE = f"{HOME}/share/slurm-failover"
MAIN = "/etc/slurm/slurm.conf"
PLAIN = "ClusterName=c\nSlurmctldHost=ctl\nNodeName=n[1-4] CPUs=4\nPartitionName=p Nodes=ALL\n"


def wired(text: str, site: Site | None = None, **others: str) -> Config:
    texts = {MAIN: text} | {f"/etc/slurm/{name}.conf": body for name, body in others.items()}
    return wire(Config(MAIN, texts), site or Site())


def effective(config: Config) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for _, setting in config.walk():
        found.setdefault(setting.name, []).append(setting.value)
    return found


def test_a_plain_slurm_conf_gets_every_hook_and_setting_at_its_end() -> None:
    config = wired(PLAIN)
    assert config.texts[MAIN].startswith(PLAIN)
    assert config.texts[MAIN][len(PLAIN) :].splitlines()[1:-1] == [
        f"Prolog={SHARE}/prolog/prolog.sh",
        f"Epilog={SHARE}/epilog/epilog.sh",
        f"TaskProlog={SHARE}/prolog/task_prolog.sh",
        f"HealthCheckProgram={SHARE}/prolog/healthcheck.sh",
        f"PrologSlurmctld={SHARE}/prolog/prolog_slurmctld.sh",
        f"EpilogSlurmctld={SHARE}/epilog/epilog_slurmctld.sh",
        "HealthCheckInterval=30",
        "BatchStartTimeout=60",
        "JobFileAppend=1",
        "SchedulerParameters=nohold_on_prolog_fail",
        "JobSubmitPlugins=lua",
    ]


def test_on_26_05_the_health_check_s_own_limit_lies_below_its_interval() -> None:
    config = wired(PLAIN, Site(release=(26, 5)))
    assert config.value("HealthCheckInterval") == "60"
    assert config.value("HealthCheckTimeout") == "55"
    own = wired("HealthCheckInterval=30\n", Site(release=(26, 5)))
    assert own.value("HealthCheckTimeout") == ""


def test_the_site_s_own_prologs_stay_and_run_before_ours() -> None:
    config = wired("Prolog=/etc/slurm/prolog.d/*\nEpilog=/a\nEpilog=/b\n")
    assert effective(config)["prolog"] == ["/etc/slurm/prolog.d/*", f"{SHARE}/prolog/prolog.sh"]
    assert effective(config)["epilog"] == ["/a", "/b", f"{SHARE}/epilog/epilog.sh"]


def test_the_site_s_health_check_is_called_by_a_script_that_calls_ours_as_well() -> None:
    config = wired("HealthCheckProgram = /usr/sbin/nhc  # ours since 2019\nTaskProlog=/t\n")
    chain = "/etc/slurm/slurm-failover-healthcheck.sh"
    assert f"HealthCheckProgram = {chain}  # ours since 2019\n" in config.texts[MAIN]
    assert len(effective(config)["healthcheckprogram"]) == 1
    assert config.chains == {
        chain: "/usr/sbin/nhc",
        "/etc/slurm/slurm-failover-task_prolog.sh": "/t",
    }
    again = wire(config, Site())
    assert (again.texts, again.chains) == (config.texts, config.chains)


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        (
            "SchedulerParameters=a,b # why\n",
            "SchedulerParameters=a,b,nohold_on_prolog_fail # why\n",
        ),
        ('schedulerparameters="a,b"\n', 'schedulerparameters="a,b,nohold_on_prolog_fail"\n'),
        (
            "SchedulerParameters=a,\\\nb\n",
            "SchedulerParameters=a,\\\nb,nohold_on_prolog_fail\n",
        ),
        ("SchedulerParameters=a\\#b\n", "SchedulerParameters=a\\#b,nohold_on_prolog_fail\n"),
        (
            "SchedulerParameters=x\nSchedulerParameters=y\n",
            "SchedulerParameters=x\nSchedulerParameters=y,nohold_on_prolog_fail\n",
        ),
        ("#SchedulerParameters=x\n", "#SchedulerParameters=x\n"),
        (
            "SchedulerParameters=nohold_on_prolog_fail\n",
            "SchedulerParameters=nohold_on_prolog_fail\n",
        ),
    ],
)
def test_an_item_is_added_to_the_site_s_list_where_it_stands(line: str, becomes: str) -> None:
    config = wired(line)
    assert config.texts[MAIN].startswith(becomes)
    assert unwire(config).texts[MAIN] == line


def test_lists_in_an_included_file_are_changed_there() -> None:
    config = wired(
        "Include sched.conf\n", sched="SchedulerParameters=a\nJobSubmitPlugins=throttle\n"
    )
    assert config.texts["/etc/slurm/sched.conf"] == (
        "SchedulerParameters=a,nohold_on_prolog_fail\nJobSubmitPlugins=throttle,lua\n"
    )
    assert unwire(config).texts["/etc/slurm/sched.conf"] == (
        "SchedulerParameters=a\nJobSubmitPlugins=throttle\n"
    )


def test_the_cluster_s_name_is_filled_into_an_include() -> None:
    config = wired("ClusterName=c1\nInclude %c.conf\n", c1="SchedulerParameters=a\n")
    assert config.texts["/etc/slurm/c1.conf"] == "SchedulerParameters=a,nohold_on_prolog_fail\n"


def test_what_the_site_has_decided_stays() -> None:
    text = "JobRequeue=0\nJobFileAppend=0\nHealthCheckNodeState=IDLE\nBatchStartTimeout=5\n"
    found = effective(wired(text))
    assert found["jobrequeue"] == ["0"]
    assert found["jobfileappend"] == ["0"]
    assert found["healthchecknodestate"] == ["IDLE"]
    assert found["batchstarttimeout"] == ["5"]
    assert found["clifilterplugins"] == ["lua"], "the one log then needs the cli_filter"


def test_a_health_check_that_was_switched_off_is_switched_on_and_off_again() -> None:
    config = wired("HealthCheckInterval=0\n")
    assert effective(config)["healthcheckinterval"] == ["30"]
    assert unwire(config).texts[MAIN] == "HealthCheckInterval=0\n"


def test_the_words_of_attempts_reach_the_accounting_where_there_is_one() -> None:
    assert wired(PLAIN).value("AccountingStoreFlags") == ""
    storage = "AccountingStorageType=accounting_storage/slurmdbd\n"
    assert wired(storage).value("AccountingStoreFlags") == "job_comment"
    flags = wired(storage + "AccountingStoreFlags=job_script\n").value("AccountingStoreFlags")
    assert flags == "job_script,job_comment"


LINES = st.sampled_from(
    [
        "# a remark",
        "",
        "   ",
        "Prolog=/p",
        "Epilog=/etc/slurm/epilog.d/*",
        "HealthCheckProgram=/usr/sbin/nhc",
        'TaskProlog="/t p"',
        "HealthCheckInterval=0",
        "HealthCheckInterval=300 # rarely",
        "SchedulerParameters=bf_continue,\\\n  defer",
        "SchedulerParameters=defer\\",
        'SCHEDULERPARAMETERS = "a,b"',
        "SchedulerParameters=a,nohold_on_prolog_fail,b",
        "JobSubmitPlugins=lua,throttle",
        "CliFilterPlugins=user_defaults",
        "JobFileAppend=0",
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStoreFlags=job_env",
        "Include sub.conf",
        "NodeName=n1 CPUs=4 # \udcff",
    ]
)
TEXTS = st.builds(
    lambda lines, newline, ended: newline.join(lines) + newline * ended,
    st.lists(LINES, max_size=12),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
RELEASES = st.sampled_from([(24, 11), (26, 5)])


@given(TEXTS, TEXTS.filter(lambda text: "Include" not in text), RELEASES)
@example("ClusterName=one\n# cut off\r", "", (24, 11))
def test_uninstall_gives_back_every_byte(
    main_text: str, sub: str, release: tuple[int, int]
) -> None:
    texts = {MAIN: main_text, "/etc/slurm/sub.conf": sub}
    site = Site(release=release)
    once = wire(Config(MAIN, dict(texts)), site)
    assert unwire(once).texts == texts
    assert wire(once, site).texts == once.texts, "a second install changes nothing"


@given(TEXTS.filter(lambda text: text.endswith("\n") and "defer\\" not in text), TEXTS)
def test_what_an_admin_adds_later_stays(first: str, later: str) -> None:
    later = later.replace("Include sub.conf", "#").replace("\r", "")
    first = first.replace("Include sub.conf", "#").replace("\r", "")
    texts = wire(Config(MAIN, {MAIN: first}), Site()).texts
    addition = "".join(f"X{line}\n" for line in later.splitlines() if "=" not in line)
    edited = {MAIN: f"{addition}{texts[MAIN]}{addition}"}
    assert unwire(Config(MAIN, edited)).texts[MAIN] == f"{addition}{first}{addition}"


def test_a_value_of_ours_that_an_admin_changed_is_theirs() -> None:
    config = wired("HealthCheckProgram=/usr/sbin/nhc\nSchedulerParameters=a\n")
    text = config.texts[MAIN].replace("/etc/slurm/slurm-failover-healthcheck.sh\n", "/new\n", 1)
    text = text.replace("SchedulerParameters=a,", "SchedulerParameters=a,z,", 1)
    bare = unwire(Config(MAIN, {MAIN: text}))
    assert bare.texts[MAIN] == "HealthCheckProgram=/new\nSchedulerParameters=a,z\n"


def test_half_of_our_lines_are_not_guessed_at() -> None:
    text = wired(PLAIN).texts[MAIN]
    with pytest.raises(InstallError, match=r"slurm\.conf: one of the lines"):
        unwire(Config(MAIN, {MAIN: re.sub(r"# slurm-failover: end.*\n", "", text)}))


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "edit",
    [
        lambda text, end: text.replace("JobFileAppend=1", f"JobFileAppend=1{end}MinJobAge=900"),
        lambda text, end: text.replace("HealthCheckInterval=30", "HealthCheckInterval=300"),
        lambda text, end: text.replace(f"BatchStartTimeout=60{end}", ""),
    ],
)
def test_a_line_that_an_admin_wrote_among_ours_is_never_taken_away(
    edit: Callable[[str, str], str], newline: str
) -> None:
    text = wired(PLAIN.replace("\n", newline)).texts[MAIN]
    edited = edit(text, newline)
    assert edited != text
    for action in (unwire, lambda config: wire(config, Site())):
        with pytest.raises(InstallError, match=r"slurm\.conf: line 5: .* move what is yours out"):
            action(Config(MAIN, {MAIN: edited}))


def test_a_script_of_ours_whose_origin_is_gone_never_calls_itself() -> None:
    text = "HealthCheckProgram=/etc/slurm/slurm-failover-healthcheck.sh\n"
    with pytest.raises(InstallError, match="put the site's own program back"):
        wired(text)


# --- the scripts beside slurm.conf -------------------------------------------------------------


SITE_LUA = """function slurm_job_submit(job_desc, part_list, submit_uid)
	asked = (asked or 0) + 1
	if job_desc.name == "bad" then return slurm.ERROR end
	return slurm.SUCCESS
end
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
	return slurm.SUCCESS
end
slurm.log_error("initialized")
return slurm.SUCCESS
"""


@pytest.mark.parametrize(
    "text",
    [
        SITE_LUA,
        SITE_LUA.removesuffix("\n"),
        SITE_LUA.replace("\n", "\r\n"),
        SITE_LUA.removesuffix("return slurm.SUCCESS\n"),
        SITE_LUA.removesuffix("\nreturn slurm.SUCCESS\n"),
        SITE_LUA + "\n-- the end\n",
    ],
)
def test_a_lua_script_of_the_site_s_gets_one_line_and_loses_it_again(text: str) -> None:
    path = "/etc/slurm/job_submit.lua"
    once = scripts.put_lua(text, "slurm_failover_job_submit.lua", HOME, path)
    assert len(once.split("\n")) == len(text.split("\n")) + 1
    assert scripts.take_lua(once) == text
    assert scripts.put_lua(once, "slurm_failover_job_submit.lua", HOME, path) == once


def test_a_script_whose_end_is_not_seen_is_left_to_its_admin() -> None:
    with pytest.raises(InstallError, match="line 1: can not tell where the script ends"):
        scripts.put_lua("return {\n}\n", "slurm_failover_job_submit.lua", HOME, "/x.lua")


@pytest.fixture
def home(tmp_path: Path) -> str:
    """An installation whose Lua files are those of this checkout."""
    share = tmp_path / "home/share/slurm-failover"
    share.mkdir(parents=True)
    (share / "lua").symlink_to(LUA)
    for folder in ("prolog", "epilog"):
        (share / folder).symlink_to(LUA.parent.parent / folder)
    (share / "hook.sh").symlink_to(LUA.parent.parent / "prolog/hook.sh")
    return str(tmp_path / "home")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_line_lets_the_site_refuse_first_and_us_afterwards(version: str, home: str) -> None:
    lua = LuaHost(version)
    lua.lua.execute(scripts.put_lua(SITE_LUA, "slurm_failover_job_submit.lua", home, "/x"))
    submit = lua.lua.globals().slurm_job_submit
    parts = lua.table({})

    def status(**job: object) -> int:
        fields = {"script": "#!/bin/sh", "default_qos": "normal", "spank_job_env_size": 0}
        return int(submit(lua.table(fields | job), parts, 1))

    assert status() == SUCCESS
    assert status(name="bad", comment="failover=0") != SUCCESS
    assert lua.told == [], "what the site refuses never reaches us"
    assert status(comment="failover=0") != SUCCESS
    assert "leave it out" in lua.told[0]
    assert lua.lua.globals().asked == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_the_line_does_nothing_where_the_package_is_gone(version: str) -> None:
    lua = LuaHost(version)
    lua.lua.execute(scripts.put_lua(SITE_LUA, "slurm_failover_job_submit.lua", "/nowhere", "/x"))
    assert lua.lua.globals().slurm_job_submit(lua.table({"comment": "failover=0"}), 1, 1) == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_the_cli_filter_s_line_follows_the_site_s_own_filter(version: str, home: str) -> None:
    lua = LuaHost(version)
    site = "function slurm_cli_pre_submit(options, offset) seen = true return slurm.SUCCESS end\n"
    lua.lua.execute(scripts.put_lua(site, "slurm_failover_cli_filter.lua", home, "/x"))
    options = lua.table({"type": "sbatch", "comment": "failover"})
    assert lua.lua.globals().slurm_cli_pre_submit(options, 0) == SUCCESS
    assert options["open-mode"] == "append"
    assert lua.lua.globals().seen


# --- on a host ---------------------------------------------------------------------------------


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "slurm.conf").write_text(PLAIN)
    return folder


@pytest.fixture
def host_of(home: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This test's machine is node n1 of a 24.11 cluster, with the installation in ``home``."""
    monkeypatch.setattr(install_command.sys, "prefix", home)
    monkeypatch.setattr(install_command, "read_release", lambda _: (24, 11))
    monkeypatch.setattr(install_command, "host_name", lambda: "ctl")
    monkeypatch.setattr(uninstall_command, "ask", lambda *_: "")
    settings = tmp_path / "settings.toml"
    settings.write_text(f'[state]\ndirectory = "{tmp_path}/state"\n')


def call(etc: Path, *words: str) -> Result:
    settings = ["--settings", str(etc.parent / "settings.toml")]
    conf = ["--slurm-conf", str(etc / "slurm.conf")]
    return CliRunner().invoke(main, [*settings, *words, *conf])


def picture(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file's bytes and mode."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.usefixtures("host_of")
def test_nothing_is_written_unless_told(etc: Path) -> None:
    before = picture(etc.parent)
    done = call(etc, "install")
    assert done.exit_code == 0, done.output
    assert "+SchedulerParameters=nohold_on_prolog_fail" in done.output
    assert "Nothing was changed." in done.output
    assert picture(etc.parent) == before


@pytest.mark.usefixtures("host_of")
def test_install_and_uninstall_leave_no_trace_in_the_configuration(etc: Path) -> None:
    (etc / "slurm.conf").write_bytes(
        b"HealthCheckProgram=/usr/sbin/nhc\r\nJobFileAppend=0\r\nPrologFlags=Alloc # \xff"
    )
    (etc / "job_submit.lua").write_text(SITE_LUA)
    (etc / "plugstack.conf").write_text("")
    (etc / "slurm.conf").chmod(0o640)
    before = picture(etc)
    plugin = etc.parent / "slurm_failover.so"
    plugin.touch()
    words = ("install", "--apply", "--role=node", "--role=controller", f"--plugin={plugin}")

    first = call(etc, *words)
    assert first.exit_code == 0, first.output
    assert set(picture(etc)) - set(before) == {"cli_filter.lua", "slurm-failover-healthcheck.sh"}
    assert os.access(etc / "slurm-failover-healthcheck.sh", os.X_OK)
    assert stat.S_IMODE((etc / "slurm.conf").stat().st_mode) == 0o640
    assert f"optional {plugin}" in (etc / "plugstack.conf").read_text()
    backup = Path(re.findall(r"copies from before this run: (\S+)", first.output)[0])
    assert (backup / str(etc / "slurm.conf")[1:]).read_bytes() == before["slurm.conf"][0]

    again = call(etc, *words)
    assert "all in place for controller and node" in again.output
    gone = call(etc, "uninstall", "--apply")
    assert gone.exit_code == 0, gone.output
    assert picture(etc) == before
    assert "nothing of slurm-failover is in it" in call(etc, "uninstall", "--apply").output


@pytest.mark.usefixtures("host_of")
def test_files_that_install_made_go_and_files_that_it_found_stay(etc: Path) -> None:
    plugin = etc.parent / "slurm_failover.so"
    plugin.touch()
    call(etc, "install", "--apply", "--role=controller", f"--plugin={plugin}")
    assert {"job_submit.lua", "plugstack.conf"} <= set(picture(etc))
    with (etc / "plugstack.conf").open("a") as file:
        file.write("optional /site.so\n")
    call(etc, "uninstall", "--apply")
    assert set(picture(etc)) == {"slurm.conf", "plugstack.conf"}
    assert (etc / "plugstack.conf").read_text().endswith("optional /site.so\n")


@pytest.mark.usefixtures("host_of")
def test_the_lua_scripts_that_install_wrote_tell_no_reader_to_do_what_it_has_done(
    etc: Path,
) -> None:
    with (etc / "slurm.conf").open("a") as file:
        file.write("\nJobFileAppend=0\n")
    call(etc, "install", "--apply", "--role=controller")
    for name, setting in (("job_submit", "JobSubmit"), ("cli_filter", "CliFilter")):
        written = (etc / f"{name}.lua").read_text()
        remark = " ".join(written.partition("\n\n")[0].replace("\n--", "").split())
        assert "`slurm-failover install` puts it there and sets that" in remark
        assert not re.search(r"copy this|set \w+Plugins", remark)
        assert f"{setting}Plugins=lua" in (etc / "slurm.conf").read_text()


@pytest.mark.usefixtures("host_of")
@pytest.mark.parametrize("quote", ["", '"'])
def test_the_plugin_is_named_where_slurm_looks_for_it(etc: Path, quote: str) -> None:
    plugin, stack = etc.parent / "slurm_failover.so", etc / "spank" / "stack.conf"
    plugin.touch()
    stack.parent.mkdir()
    stack.write_text("optional /site.so\n")
    with (etc / "slurm.conf").open("a") as file:
        file.write(f"plugstackconfig={quote}{stack}{quote}\n")
    before = picture(etc)
    done = call(etc, "install", "--apply", "--role=controller", f"--plugin={plugin}")
    assert f"optional {plugin}" in stack.read_text(), done.output
    assert not (etc / "plugstack.conf").exists()
    call(etc, "uninstall", "--apply")
    assert picture(etc) == before


@pytest.mark.usefixtures("host_of")
@pytest.mark.parametrize(
    ("stack", "inner", "is_named"),
    [
        ("optional {plugin}\n", "", True),
        ("include stack.d/*.conf\n", "optional {plugin}\n", True),
        ("include {etc}/stack.d/site.conf # ours", "required {plugin} with=arguments", True),
        ("optional slurm_failover.so\n", "", True),
        ("include stack.d/*.conf\n", "include *.conf\n", False),
        ("include stack.d/*.conf\n", "optional /site.so\n", False),
        ("#include stack.d/site.conf\n", "optional {plugin}\n", False),
        ("Include stack.d/site.conf\n", "optional {plugin}\n", False),
        ("optional /gone/slurm_failover.so\n", "", False),
        ("optional /site.so slurm_failover.so\n", "", False),
    ],
)
def test_the_plugin_is_not_named_twice(
    etc: Path, monkeypatch: pytest.MonkeyPatch, stack: str, inner: str, is_named: bool
) -> None:
    monkeypatch.chdir("/")
    plugin = etc.parent / "plugins" / "slurm_failover.so"
    (etc / "stack.d").mkdir()
    plugin.parent.mkdir()
    plugin.touch()
    with (etc / "slurm.conf").open("a") as file:
        file.write(f"PluginDir=/nowhere:{plugin.parent}\n")
    (etc / "plugstack.conf").write_text(stack.format(plugin=plugin, etc=etc))
    (etc / "stack.d/site.conf").write_text(inner.format(plugin=plugin))
    before = picture(etc)
    done = call(etc, "install", "--apply", "--role=login", f"--plugin={plugin}")
    assert done.exit_code == 0, done.output
    is_as_it_was = picture(etc)["plugstack.conf"] == before["plugstack.conf"]
    assert is_as_it_was == is_named, (etc / "plugstack.conf").read_text()
    call(etc, "uninstall", "--apply")
    assert picture(etc) == before


@pytest.mark.usefixtures("host_of")
def test_a_plugin_that_slurm_can_not_find_by_its_bare_name_is_named_as_well(etc: Path) -> None:
    plugin = etc.parent / "slurm_failover.so"
    plugin.touch()
    (etc / "plugstack.conf").write_text("optional slurm_failover.so\n")
    call(etc, "install", "--apply", "--role=login", f"--plugin={plugin}")
    assert f"optional {plugin}" in (etc / "plugstack.conf").read_text()


@pytest.mark.usefixtures("host_of")
def test_a_plugin_stack_that_slurm_would_seek_anywhere_is_refused(etc: Path) -> None:
    (etc.parent / "slurm_failover.so").touch()
    with (etc / "slurm.conf").open("a") as file:
        file.write("PlugStackConfig=stack.conf\n")
    before = picture(etc)
    words = ("install", "--apply", "--role=controller", f"--plugin={etc.parent}/slurm_failover.so")
    done = call(etc, *words)
    assert (done.exit_code, "slurm.conf: PlugStackConfig=stack.conf: write" in done.output) == (
        1,
        True,
    )
    assert picture(etc) == before


@pytest.mark.usefixtures("host_of")
@pytest.mark.parametrize("since", ["/else/where.conf", "relative.conf"])
def test_the_plugin_goes_from_where_it_was_named_before_the_stack_was_moved(
    etc: Path, since: str
) -> None:
    plugin = etc.parent / "slurm_failover.so"
    plugin.touch()
    call(etc, "install", "--apply", "--role=controller", f"--plugin={plugin}")
    assert (etc / "plugstack.conf").exists()
    before = f"PlugStackConfig={since}\n"
    (etc / "slurm.conf").write_text(before + (etc / "slurm.conf").read_text())
    done = call(etc, "uninstall", "--apply")
    assert done.exit_code == 0, done.output
    assert set(picture(etc)) == {"slurm.conf"}
    assert (etc / "slurm.conf").read_text() == before + PLAIN


@pytest.mark.usefixtures("host_of")
def test_a_link_to_the_real_configuration_stays_a_link(etc: Path) -> None:
    real = etc.parent / "shared.conf"
    real.write_text(PLAIN)
    (etc / "slurm.conf").unlink()
    (etc / "slurm.conf").symlink_to("../shared.conf")
    assert call(etc, "install", "--apply").exit_code == 0
    assert (etc / "slurm.conf").is_symlink()
    assert "EpilogSlurmctld=" in real.read_text()
    assert call(etc, "uninstall", "--apply").exit_code == 0
    assert real.read_text() == PLAIN


@pytest.mark.usefixtures("host_of")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
@pytest.mark.parametrize("culprit", ["link", "folder", "file"])
def test_root_never_writes_where_a_user_leads_it(etc: Path, culprit: str) -> None:
    real = etc.parent / "users"
    real.mkdir()
    (real / "slurm.conf").write_text(PLAIN)
    (etc / "slurm.conf").unlink()
    (etc / "slurm.conf").symlink_to(real / "slurm.conf")
    owned = {"link": etc / "slurm.conf", "folder": real, "file": real / "slurm.conf"}[culprit]
    os.chown(owned, 12345, 12345, follow_symlinks=False)
    done = call(etc, "install", "--apply")
    assert done.exit_code == 1
    assert f"{owned}: belongs to user 12345" in done.output
    assert (real / "slurm.conf").read_text() == PLAIN


def test_a_file_that_all_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("x")
    (tmp_path / "slurm.conf").chmod(0o666)
    owners = Owners({0, os.geteuid()})
    with pytest.raises(InstallError, match="others may write there; `chmod go-w"):
        prepare(Change(str(tmp_path / "slurm.conf"), "x", "y"), owners)


def test_a_file_that_changed_since_it_was_read_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("newer")
    with pytest.raises(InstallError, match="was changed in between"):
        prepare(Change(str(tmp_path / "slurm.conf"), "older", "ours"), Owners({0, os.geteuid()}))


def test_what_can_not_be_written_is_said_and_stays(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    with pytest.raises(InstallError, match="can not be written"):
        prepare(Change(str(folder / "slurm.conf"), None, "y"), Owners({0, os.geteuid()}))
    (tmp_path / "f").write_text("x")
    with pytest.raises(InstallError, match="can not be written"):
        apply_change(Change(str(tmp_path / "f"), "x", "y"), "/proc/nowhere/f", str(tmp_path / "b"))
    assert (tmp_path / "f").read_text() == "x"


def test_a_copy_from_before_is_its_writers_alone(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("secret")
    (tmp_path / "f").chmod(0o644)
    apply_change(Change(str(tmp_path / "f"), "secret", "y"), str(tmp_path / "f"), f"{tmp_path}/b")
    copy = Path(f"{tmp_path}/b{tmp_path}/f")
    assert (copy.read_text(), stat.S_IMODE(copy.stat().st_mode)) == ("secret", 0o600)


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_lies_where_a_file_is_prepared_is_never_written_to(tmp_path: Path, kind: str) -> None:
    target, own = tmp_path / "f", tmp_path / "own"
    target.write_text("x")
    own.write_text("precious")
    lies = Path(f"{target}.slurm-failover.{os.getpid()}")
    lies.symlink_to(own) if kind == "link" else lies.hardlink_to(own)
    with pytest.raises(InstallError, match="can not be written"):
        apply_change(Change(str(target), "x", "y"), str(target), str(tmp_path / "b"))
    assert (target.read_text(), own.read_text()) == ("x", "precious")


@pytest.mark.usefixtures("host_of")
@pytest.mark.parametrize("fails", [0, 1])
def test_an_installation_that_stops_half_way_names_what_is_changed_and_the_backup(
    etc: Path, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    (etc / "job_submit.lua").write_text(SITE_LUA)
    calls: list[str] = []

    def replace(old: str, new: str) -> None:
        calls.append(new)
        if len(calls) > fails:
            raise OSError(errno.ENOSPC, "No space left on device")
        Path(old).rename(new)

    monkeypatch.setattr("slurm_failover.install.files.os.replace", replace)
    done = call(etc, "install", "--apply", "--role=controller")
    assert (done.exit_code, calls[0]) == (1, str(etc / "job_submit.lua"))
    copies = "copies from before this run:"
    said = f"{calls[-1]}: can not be written: No space left on device; "
    if not fails:
        assert f"{said}nothing was changed" in done.output
        return
    assert f"{said}changed already: {calls[0]}; {copies} {etc.parent}/state" in done.output
    (backup,) = (etc.parent / "state/backup").rglob("job_submit.lua")
    assert f"{copies} {str(backup).removesuffix(str(etc / 'job_submit.lua'))};" in done.output
    assert backup.read_text() == SITE_LUA
    assert (etc / "slurm.conf").read_text() == PLAIN
    assert not [name for name in picture(etc) if ".slurm-failover." in name]


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        ("ctl", {Role.CONTROLLER}),
        ("n3", {Role.NODE}),
        ("elsewhere", {Role.LOGIN}),
        ("real7", {Role.NODE}),
    ],
)
def test_slurm_conf_says_what_a_host_is(name: str, roles: set[Role]) -> None:
    text = PLAIN.replace("=ctl", "=ctl(10.0.0.1)")
    text += "NodeName=v[1-9] NodeHostName=real[1-9]\nNodeName=DEFAULT CPUs=1\n"
    assert find_roles(Config(MAIN, {MAIN: text}), name) == roles


def test_hooks_that_the_site_names_already_are_not_named_twice(etc: Path, home: str) -> None:
    prologs = etc / "prolog.d"
    prologs.mkdir()
    (prologs / "90-failover").symlink_to(hook_path(home, HOOKS[0]))
    (etc / "epilog.sh").write_bytes((Path(home) / "share/slurm-failover/hook.sh").read_bytes())
    text = f"{PLAIN}Prolog={prologs}/*\nEpilog={etc}/epilog.sh\nTaskProlog=/other\n"
    (etc / "slurm.conf").write_text(text)
    config = load_config(str(etc / "slurm.conf"))
    assert find_covered(config, home) == {hook_path(home, HOOKS[0]), hook_path(home, HOOKS[1])}


def test_an_include_that_is_not_there_is_named(etc: Path) -> None:
    (etc / "slurm.conf").write_text("Include gone.conf\n")
    with pytest.raises(InstallError) as raised:
        load_config(str(etc / "slurm.conf"))
    assert str(raised.value) == (
        f"{etc}/gone.conf: no such file, though {etc}/slurm.conf includes it"
    )


@pytest.mark.usefixtures("host_of")
@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_slurm_conf_that_is_not_there_is_named_with_the_option(etc: Path, command: str) -> None:
    (etc / "slurm.conf").unlink()
    done = call(etc, command)
    assert done.exit_code == 1
    assert (
        f"--slurm-conf {etc}/slurm.conf: no such file; name the slurm.conf that Slurm reads on "
        "this host, such as /etc/slurm/slurm.conf"
    ) in done.output


def test_a_node_that_gets_its_configuration_has_only_its_scripts_written(
    etc: Path, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (etc / "slurm.conf").write_text("HealthCheckProgram=/usr/sbin/nhc\n")
    at_controller = wire(load_config(str(etc / "slurm.conf")), Site(home))
    (etc.parent / "run").mkdir()
    (etc.parent / "run/slurm.conf").write_text(at_controller.texts[at_controller.main])
    config = load_config(f"{etc.parent}/run/slurm.conf")
    monkeypatch.setattr("slurm_failover.install.plan.FETCHED", config.main)
    changes = plan_install(config, {Role.NODE}, home=home, release=(24, 11), plugin="/none")
    assert [change.path for change in changes] == [str(etc / "slurm-failover-healthcheck.sh")]
    assert "'/usr/sbin/nhc' &" in (changes[0].after or "")
    apply_change(changes[0], changes[0].path, str(etc / "backup"))
    assert [(c.path, c.after) for c in plan_uninstall(config)] == [(changes[0].path, None)]


def test_slurm_conf_is_found_as_slurm_finds_it(etc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(etc / "slurm.conf"))
    assert host.find_conf() == str(etc / "slurm.conf")
    monkeypatch.setenv("SLURM_CONF", str(etc / "gone"))
    with pytest.raises(InstallError, match=rf"SLURM_CONF={etc}/gone: no such file; name"):
        host.find_conf()
    monkeypatch.delenv("SLURM_CONF")
    monkeypatch.setattr(host, "_CONF", str(etc / "none"))
    monkeypatch.setattr(host, "FETCHED", str(etc / "none"))
    with pytest.raises(InstallError, match="--slurm-conf FILE"):
        host.find_conf()


def test_both_health_checks_run_and_the_site_s_status_counts(tmp_path: Path) -> None:
    import subprocess

    share = tmp_path / "share/slurm-failover/prolog"
    share.mkdir(parents=True)
    ours, theirs = share / "healthcheck.sh", tmp_path / "n h'c"
    ours.write_text("#!/bin/sh\necho ours\n")
    theirs.write_text("#!/bin/sh\necho theirs\nexit 7\n")
    path = f"{tmp_path}/slurm-failover-healthcheck.sh"
    Path(path).write_text(scripts.chain_script(str(tmp_path), str(tmp_path), path, str(theirs)))
    for script in (ours, theirs, Path(path)):
        script.chmod(0o755)
    done = subprocess.run([path], capture_output=True, text=True, check=False)
    assert sorted(done.stdout.split()) == ["ours", "theirs"]
    assert done.returncode == 7


def test_the_lines_in_the_readme_are_those_that_install_writes() -> None:
    readme = (LUA.parent.parent / "README.md").read_text()
    shown = readme.split("at the end of slurm.conf:\n\n```conf\n")[1].split("```")[0]
    assert shown.splitlines() == wired(PLAIN).texts[MAIN][len(PLAIN) :].splitlines()[1:-1]


@pytest.mark.usefixtures("host_of")
def test_a_script_that_slurm_still_calls_stays_until_it_does_not(
    etc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (etc / "slurm.conf").write_text("TaskProlog=/site-task\n")
    before = picture(etc)
    call(etc, "install", "--apply", "--role=node")
    script = etc / "slurm-failover-task_prolog.sh"
    monkeypatch.setattr(uninstall_command, "ask", lambda *_: f"TaskProlog  = {script}\n")
    assert f"{script} stays until" in call(etc, "uninstall", "--apply").output
    assert (etc / "slurm.conf").read_bytes() == before["slurm.conf"][0]
    assert script.exists(), "a task would fail without it"
    monkeypatch.setattr(uninstall_command, "ask", lambda *_: "TaskProlog  = /site-task\n")
    second = call(etc, "uninstall", "--apply").output
    assert picture(etc) == before
    assert "1 file changed" in second
    assert "scontrol reconfigure" not in second, "Slurm's daemons have nothing to read anew"


@pytest.mark.usefixtures("host_of")
@pytest.mark.parametrize("changed", ["slurm.conf", "plugstack.conf"])
def test_uninstall_says_to_reconfigure_where_slurm_must_read_anew(etc: Path, changed: str) -> None:
    plugin = etc.parent / "slurm_failover.so"
    plugin.touch()
    before = {path: path.read_bytes() for path in etc.iterdir()}
    call(etc, "install", "--apply", "--role=login", f"--plugin={plugin}")
    for path in set(etc.iterdir()) - {etc / changed}:
        path.write_bytes(before.get(path, b""))
    done = call(etc, "uninstall", "--apply")
    assert "Next, when every host is done: scontrol reconfigure" in done.output


@pytest.mark.parametrize("command", ["install", "uninstall"])
@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("none", "no such file; name the slurm.conf that Slurm reads"),
        ("folder", "can not be read: it is a folder, and no file"),
        ("pipe", "can not be read: it is a pipe, and no file"),
    ],
)
def test_a_slurm_conf_that_is_none_is_named_and_not_waited_for(
    tmp_path: Path, command: str, kind: str, told: str
) -> None:
    path = tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    done = CliRunner().invoke(main, [command, "--slurm-conf", str(path)])
    assert done.exit_code == 1
    assert f"{path}: {told}" in done.output


def test_a_folder_is_no_plugin(etc: Path) -> None:
    conf = ["--slurm-conf", str(etc / "slurm.conf")]
    done = CliRunner().invoke(main, ["install", *conf, "--plugin", str(etc)])
    assert done.exit_code == 2
    assert f"--plugin: {etc} is a folder: name the plugin in it" in " ".join(done.output.split())
