"""The site's policy at submission, as slurmctld calls it."""

from fnmatch import fnmatchcase

import pytest
from lua_host import ERROR, LUA, NO_VAL, NO_VAL16, SUCCESS, VERSIONS, LuaHost

from slurm_failover.record import read_record

PARTITIONS = {
    "gpu": {"flag_default": 1, "priority_tier": 10},
    "spot": {"flag_default": 0},
    "spot-a100": {"flag_default": 0},
    "hotspot": {"flag_default": 0},
    "cheap": {"flag_default": 0, "qos": "preemptible"},
}
ALICE = 2001
GLOBS = (
    *("spot[12]", "spot[!12]", "spot[1-3]x", "[]s]pot", "spot[", "spot[]", "s[%]]ot", "s[^p]ot"),
    *("sp.t", "s-ot", "s+ot", "%a", "^spot", "spot$", "*", "?", "", "(s)", 's"ot', "[!]a]"),
)
NAMES = (
    *("spot", "spot1", "spot3", "spot1x", "spot[", "spot[]", "]pot", "s%ot", "s%]ot", "s^ot"),
    *("spxt", "sp.t", "s-ot", "s+ot", "a", "^spot", "spot$", "(s)", 's"ot', "]"),
)
# Only the site's settings file is another one than in production.
REDIRECT = """
function(open, path)
    return function(name, mode)
        if name == "/etc/slurm-failover/settings.toml" then name = path end
        return open(name, mode)
    end
end
"""


class Controller:
    """Slurm's side of job_submit/lua, with the site's settings in a file."""

    def __init__(self, version, settings):
        self.host = LuaHost(version)
        self.settings = settings
        redirect = self.host.lua.eval(REDIRECT)
        self.host.lua.globals().io.open = redirect(self.host.lua.globals().io.open, str(settings))
        self.module = self.host.load("slurm_failover_job_submit")
        self.parts = self.host.table(PARTITIONS)

    def job(self, option=None, **changes):
        job = {
            "script": "#!/bin/sh",
            "requeue": NO_VAL16,
            "het_job_offset": NO_VAL,
            "default_qos": "normal",
            "spank_job_env_size": 0,
        }
        if option is not None:
            environment = {0: "_SLURM_SPANK_OPTION_failover_failover=x", 1: f"FAILOVER={option}"}
            job |= {"spank_job_env": environment, "spank_job_env_size": 2}
        job |= changes
        return self.host.table({key: value for key, value in job.items() if value is not None})

    def submit(self, option=None, **changes):
        job = self.job(option, **changes)
        return self.module.submit(job, self.parts), job

    def refused(self, option=None, **changes):
        """What the user reads of a refusal; the job is left as it was."""
        code, job = self.submit(option, **changes)
        assert code == ERROR
        assert job.requeue == changes.get("requeue", NO_VAL16)
        [message] = self.host.told
        return message

    def change(self, record, uid=ALICE, **changes):
        change = self.host.table({"requeue": NO_VAL16} | changes)
        rec = self.host.table({"user_id": ALICE, "partition": "gpu", "qos": "normal"} | record)
        return self.module.modify(change, rec, self.parts, uid), change


@pytest.fixture(params=VERSIONS)
def controller(request, tmp_path):
    return Controller(request.param, tmp_path / "settings.toml")


FLAGGED = {"spank_job_env": {0: "FAILOVER=default"}, "spank_job_env_size": 1}


def test_a_flagged_job_is_made_requeueable(controller):
    for job in ({"option": "default"}, {"option": "3"}, {"comment": "x failover=2"}):
        code, desc = controller.submit(**job)
        assert (code, desc.requeue) == (SUCCESS, 1)
    assert controller.host.told == []


def test_the_comment_stays_byte_for_byte(controller):
    comment = ' {"APS": 1}\t"é" ,failover=2;; '
    code, desc = controller.submit(comment=comment)
    assert (code, desc.comment) == (SUCCESS, comment)


def test_a_job_that_did_not_ask_is_left_alone(controller):
    for job in ({"partition": "spot"}, {"requeue": 0}, {"comment": "failovers"}):
        code, desc = controller.submit(**job)
        assert (code, desc.requeue) == (SUCCESS, job.get("requeue", NO_VAL16))
    assert controller.host.told == []


@pytest.mark.parametrize("partition", ["spot", "spot-a100", "gpu,spot"])
def test_a_spot_partition_refuses_the_flag_and_says_why(controller, partition):
    message = controller.refused("default", partition=partition)
    assert message.startswith('job failover needs on-demand resources: partition "spot')
    assert message.endswith("leave out --failover")


def test_a_partition_that_only_contains_the_word_is_no_spot_partition(controller):
    assert controller.submit("default", partition="hotspot")[0] == SUCCESS


def test_a_spot_qos_refuses_the_flag_wherever_it_comes_from(controller):
    needs = "job failover needs on-demand resources: "
    for job, what in (
        ({"qos": "normal,spot"}, 'QOS "spot"'),
        ({"qos": "normal,SPOT"}, 'QOS "SPOT"'),
        ({"default_qos": "preemptible"}, 'QOS "preemptible"'),
        ({"partition": "gpu,cheap"}, 'QOS of partition cheap "preemptible"'),
    ):
        controller.host.told.clear()
        assert needs + what in controller.refused("2", **job)


def test_the_default_partition_is_judged_where_the_user_named_none(controller):
    controller.settings.write_text('[failover]\nspot_partitions = ["g?u"]\n')
    assert 'partition "gpu"' in controller.refused("default")


def test_the_sites_lists_replace_the_default_ones(controller):
    controller.settings.write_text('[failover]\nspot_partitions = ["a.c", "*-low"]\nspot_qos=[]\n')
    for partition in ("spot", "abc", "low"):
        assert controller.submit("1", partition=partition)[0] == SUCCESS
    assert 'partition "x-low"' in controller.refused("1", partition="x-low")


def test_no_requeue_and_failover_exclude_each_other(controller):
    assert "--no-requeue" in controller.refused("default", requeue=0)


def test_more_failovers_than_the_site_allows_are_refused(controller):
    controller.settings.write_text("[failover]\nmax_retries = 5\n")
    assert controller.submit("5")[0] == SUCCESS
    assert controller.refused("6").startswith("--failover=6: this site allows at most 5 failovers")


def test_a_count_that_the_plugin_would_not_let_through_is_refused_all_the_same(controller):
    message = controller.refused("9;reboot")
    assert message.startswith("--failover=9;reboot: write N as a whole number")


def test_the_word_on_a_job_that_is_not_batch_has_no_effect_and_is_told_so(controller):
    code, desc = controller.submit(comment="failover", script=None, partition="spot")
    assert (code, desc.requeue) == (SUCCESS, NO_VAL16)
    [message] = controller.host.told
    assert message.startswith("--comment=failover has no effect here: only batch jobs")


def test_a_later_component_of_a_heterogeneous_batch_job_is_judged(controller):
    message = controller.refused("default", script=None, het_job_offset=1, partition="spot")
    assert "on-demand" in message


def test_what_the_first_component_asks_for_is_judged_in_all_of_them(controller):
    for first in ({"option": "2"}, {"comment": "failover"}):
        controller.host.told.clear()
        assert controller.submit(**first, het_job_offset=0, user_id=ALICE)[0] == SUCCESS
        assert controller.submit(script=None, het_job_offset=1, user_id=ALICE)[0] == SUCCESS
        later = {"script": None, "comment": "x", "het_job_offset": 2, "partition": "spot"}
        assert "on-demand" in controller.refused(**later, user_id=ALICE)
        assert controller.submit(**later, user_id=ALICE + 1)[0] == SUCCESS
    assert controller.submit(het_job_offset=0, user_id=ALICE)[0] == SUCCESS
    assert controller.submit(**later, user_id=ALICE)[0] == SUCCESS


@pytest.mark.parametrize("glob", GLOBS)
def test_globs_mean_what_they_mean_when_the_job_starts(controller, glob):
    controller.settings.write_text(f"[failover]\nspot_partitions = ['{glob}']\n")
    for name in NAMES:
        fits = controller.submit("1", partition=name)[0] == ERROR
        assert fits is fnmatchcase(name, glob), name


def test_a_record_of_ours_can_not_be_brought_along(controller):
    for admin_comment in ('{"slurm-failover":{"v":1}}', 'x slurm-failover:{"v":1}'):
        controller.host.told.clear()
        assert "AdminComment" in controller.refused(admin_comment=admin_comment)
    assert controller.submit(admin_comment="audited")[0] == SUCCESS


def test_a_broken_settings_file_is_logged_and_stops_nobody(controller):
    controller.settings.write_text("[failover]\nmax_retries = many\n")
    assert controller.submit("3")[0] == SUCCESS
    [line] = controller.host.logged
    assert "max_retries must be a whole number" in line
    assert "default settings apply" in line


def test_a_fault_of_ours_is_logged_and_stops_nobody(controller):
    assert controller.submit("3", spank_job_env=7)[0] == SUCCESS
    assert controller.host.logged[0].startswith("slurm-failover: job_submit: ")


def test_an_owner_can_not_move_a_flagged_job_to_spot_or_forbid_its_requeue(controller):
    for change, why in (
        ({"partition": "spot"}, "on-demand"),
        ({"qos": "spot"}, "on-demand"),
        ({"requeue": 0}, "Requeue=0"),
    ):
        controller.host.told.clear()
        assert controller.change(FLAGGED, **change)[0] == ERROR
        assert why in controller.host.told[0]


def test_an_owner_can_flag_a_waiting_job_by_its_comment(controller):
    code, change = controller.change({}, comment="failover=2")
    assert (code, change.requeue) == (SUCCESS, 1)


@pytest.mark.parametrize("comment", ["failover=4", "failover=0", "failover=x"])
def test_an_owner_can_not_write_a_count_that_submission_refuses(controller, comment):
    assert controller.change({}, comment=comment)[0] == ERROR


def test_an_owner_can_not_flag_a_job_that_waits_in_a_spot_partition(controller):
    assert controller.change({"partition": "spot"}, comment="failover")[0] == ERROR
    assert controller.change({"partition": "spot"}, comment="failover", partition="gpu")[0] == 0


def test_an_owner_is_told_what_is_wrong_with_the_change_itself(controller):
    assert controller.change(FLAGGED | {"partition": "spot"}, requeue=0)[0] == ERROR
    assert "Requeue=0" in controller.host.told[0]
    assert controller.change(FLAGGED | {"partition": "spot"}, comment="a note")[0] == SUCCESS


def test_an_owner_can_drop_the_word_or_change_what_is_not_ours(controller):
    record = {"comment": "failover"}
    assert controller.change(record, comment="x", requeue=0)[0] == SUCCESS
    assert controller.change(record, priority=1)[0] == SUCCESS
    assert controller.change({"comment": ""}, partition="spot")[0] == SUCCESS


def test_what_an_operator_changes_passes(controller):
    code, change = controller.change(FLAGGED, uid=0, partition="spot", comment="failover=99")
    assert (code, change.requeue) == (SUCCESS, NO_VAL16)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_ready_made_script_applies_the_policy(version):
    scripts = (host := LuaHost(version)).run_ready_made("job_submit", LUA)
    void = host.table({"script": "x", "comment": "failover=0"})
    assert scripts.slurm_job_submit(void, host.table({}), 1) == ERROR
    record = host.table({"user_id": 1, "qos": "normal"})
    assert scripts.slurm_job_modify(void, record, host.table({}), 1) == ERROR


@pytest.mark.parametrize("version", VERSIONS)
def test_the_ready_made_script_passes_every_job_where_we_are_not_installed(version, tmp_path):
    scripts = (host := LuaHost(version)).run_ready_made("job_submit", tmp_path)
    void = host.table({"script": "x", "comment": "failover=0"})
    assert scripts.slurm_job_submit(void, host.table({}), 1) == SUCCESS
    assert scripts.slurm_job_modify(void, host.table({"user_id": 1}), None, 1) == SUCCESS
    assert "not in force" in host.logged[0]


def test_a_job_flagged_by_the_option_has_its_record_before_it_starts(controller):
    _, desc = controller.submit("2")
    record = read_record(desc.admin_comment)
    assert (record.state.value, record.retries, record.max_retries) == ("armed", 0, 2)
    _, bare = controller.submit("default")
    assert read_record(bare.admin_comment).max_retries == 3
    for job in ({"comment": "failover"}, {}, {"option": "2", "admin_comment": "ticket 4711"}):
        _, desc = controller.submit(**job)
        assert desc.admin_comment == job.get("admin_comment")
