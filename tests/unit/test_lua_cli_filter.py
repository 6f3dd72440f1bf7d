"""What the submitting host does for a flagged job."""

import pytest
from lua_host import ERROR, LUA, SUCCESS, VERSIONS, LuaHost


@pytest.fixture(params=VERSIONS)
def host(request):
    return LuaHost(request.param)


@pytest.fixture
def module(host):
    return host.load("slurm_failover_cli_filter")


def options(host, flag=None, kind="sbatch", **others):
    plugin = {} if flag is None else {"failover": flag}
    return host.table({"type": kind, "spank": {"failover": plugin}} | others)


def test_the_attempts_of_a_flagged_job_go_to_one_file(host, module):
    for flagged in (options(host, "set"), options(host, "3"), options(host, comment="x;failover")):
        assert module.pre_submit(flagged, 0) == SUCCESS
        assert flagged["open-mode"] == "append"


def test_an_open_mode_that_the_user_chose_stays(host, module):
    flagged = options(host, "set", **{"open-mode": "t"})
    assert module.pre_submit(flagged, 0) == SUCCESS
    assert flagged["open-mode"] == "t"


def test_other_submissions_are_left_alone(host, module):
    for other in (
        options(host),
        options(host, comment="failovers"),
        options(host, "set", kind="srun"),
        options(host, "set", kind="salloc"),
        host.table({"type": "sbatch"}),
        host.table({"type": "sbatch", "spank": {}}),
    ):
        assert module.pre_submit(other, 0) == SUCCESS
        assert other["open-mode"] is None


def test_a_heterogeneous_job_is_flagged_as_a_whole_or_not_at_all(host, module):
    assert module.pre_submit(options(host), 0) == SUCCESS
    assert module.pre_submit(options(host, "set"), 1) == ERROR
    assert "first component" in host.logged[0]


def test_a_heterogeneous_job_that_asks_in_its_first_component_passes(host, module):
    assert module.pre_submit(options(host, comment="failover"), 0) == SUCCESS
    assert module.pre_submit(options(host, "(null)"), 1) == SUCCESS
    assert module.pre_submit(options(host), 2) == SUCCESS


def test_a_fault_of_ours_stops_nobody(host, module):
    assert module.pre_submit(options(host, comment=host.table({})), 0) == SUCCESS
    assert host.logged[0].startswith("slurm-failover: cli_filter: ")


def test_the_ready_made_script_does_the_same(host):
    scripts = host.run_ready_made("cli_filter", LUA)
    flagged = options(host, "set")
    assert scripts.slurm_cli_setup_defaults(flagged, 1) == SUCCESS
    assert scripts.slurm_cli_pre_submit(flagged, 0) == SUCCESS
    assert scripts.slurm_cli_post_submit(0, 1, 0) == SUCCESS
    assert flagged["open-mode"] == "append"


def test_the_ready_made_script_passes_every_job_where_we_are_not_installed(host, tmp_path):
    scripts = host.run_ready_made("cli_filter", tmp_path)
    flagged = options(host, "set")
    assert scripts.slurm_cli_pre_submit(flagged, 1) == SUCCESS
    assert flagged["open-mode"] is None
