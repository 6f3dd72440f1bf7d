"""install, doctor, a failover, uninstall: on a cluster whose configuration knows nothing of us."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from cluster import CONTROLLER, HOSTS, NODES, Cluster, each
from story import LOST, Story

# What docker/config/slurm.conf has of us; without it, this is a stock slurm.conf.
PLAIN = r"""set -e
cp -a /etc/slurm /root/slurm.before
cd /etc/slurm
rm -rf plugstack.conf plugstack.conf.d /var/lib/slurm-failover
install -d /var/lib/slurm-failover-test/sys
sed -i -E '/slurm-failover/d; s/,nohold_on_prolog_fail//
    /^(PrologFlags|HealthCheck|JobRequeue|JobFileAppend|ReturnToService|Acc.*Flags)/d' slurm.conf
"""
RESTORE = """set -e
rm -rf /etc/slurm && mv /root/slurm.before /etc/slurm
install -d /var/lib/slurm-failover /var/lib/slurm-failover-test
[ "$(hostname)" != ctl ] || chown slurm: /var/lib/slurm-failover
"""
SITE = r"""set -e
cd /etc/slurm
mkdir epilog.d
printf '#!/bin/sh\necho "$SLURM_JOB_ID" >>/tmp/site-epilog\n' >epilog.d/10-site
printf '#!/bin/sh\ndate +%%s >>/tmp/site-check\n' >site-check
printf '#!/bin/sh\necho export SITE=yes\n' >site-task
chmod 755 epilog.d/10-site site-check site-task
sed -i '/^SchedulerParameters/d' slurm.conf
printf 'SchedulerParameters="sched_interval=2,bf_interval=2" # quick\n' >sched.conf
printf '%s\n' >>slurm.conf 'Include sched.conf' 'Epilog=/etc/slurm/epilog.d/*' \
    'HealthCheckProgram = /etc/slurm/site-check  # since 2019' HealthCheckInterval=15 \
    TaskProlog=/etc/slurm/site-task JobSubmitPlugins=lua CliFilterPlugins=lua
printf '%s' JobFileAppend=0 >>slurm.conf
cat >job_submit.lua <<'LUA'
function slurm_job_submit(job_desc, part_list, submit_uid)
	if job_desc.name == "bad" then
		slurm.log_user("the site says no")
		return slurm.ERROR
	end
	return slurm.SUCCESS
end
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
	return slurm.SUCCESS
end
return slurm.SUCCESS
LUA
cat >cli_filter.lua <<'LUA'
function slurm_cli_setup_defaults(options, early_pass) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, pack_offset) return slurm.SUCCESS end
function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end
LUA
"""
# A plugin of the site's, in PluginDir and by its bare name, in a file that plugstack.conf includes.
STACK = r"""set -e
cd /etc/slurm
mkdir stack.d
echo 'include stack.d/*.conf' >plugstack.conf
echo 'optional site_spank.so' >stack.d/site.conf
folder=$(scontrol show config | sed -n 's/^PluginDir *= //p')
gcc -shared -fPIC -o $folder/site_spank.so -xc - <<'C'
#include <slurm/spank.h>
SPANK_PLUGIN(site, 1)
int slurm_spank_init(spank_t spank, int count, char **words)
{
	struct spank_option option = {"site-option", 0, "of the site's", 0, 0, 0};
	return spank_option_register(spank, &option);
}
C
"""
OURS_BY_ITS_NAME = r"""set -e
folder=$(scontrol show config | sed -n 's/^PluginDir *= //p')
cp /usr/lib/slurm-failover/slurm_failover.so $folder
echo PluginDir=$folder >>/etc/slurm/slurm.conf
echo 'optional slurm_failover.so' >>/etc/slurm/stack.d/site.conf
"""
NO_STACK = r"""cd $(scontrol show config | sed -n 's/^PluginDir *= //p') &&
rm -f site_spank.so slurm_failover.so
"""
PICTURE = """cd /etc/slurm
find . -exec stat -c '%n %F %a %U %G' {} + | sort
find . -type f | sort | xargs sha256sum
"""


def reconfigure(cluster: Cluster) -> None:
    """Let every daemon read its configuration anew."""
    cluster.check(CONTROLLER, ["scontrol", "reconfigure"])
    cluster.wait(cluster._all_idle, 60, "four idle nodes after reconfigure")


@pytest.fixture
def story(cluster: Cluster) -> Iterator[Story]:
    """A cluster with a stock slurm.conf, on which the package is installed and nothing else."""
    each(lambda host: cluster.check(host, PLAIN), HOSTS)
    try:
        reconfigure(cluster)
        yield Story(cluster)
    finally:
        cluster.run(CONTROLLER, "squeue -h -o %A | xargs -r scancel")
        each(lambda host: cluster.check(host, RESTORE), HOSTS)
        cluster.check(CONTROLLER, ["scontrol", "reconfigure"])


def pictures(cluster: Cluster) -> dict[str, str]:
    """Name, kind, mode, owner and bytes of all configuration on every host."""
    return each(lambda host: cluster.check(host, PICTURE), HOSTS)


def install(cluster: Cluster) -> None:
    """As the README says: every node, then the controller, then reconfigure, and reconcile from
    time to time.
    """
    for host in (*NODES, CONTROLLER):
        cluster.check(host, ["slurm-failover", "install", "--apply"])
    reconfigure(cluster)
    cluster.check(CONTROLLER, ["runuser", "-u", "slurm", "--", "slurm-failover", "reconcile"])


def uninstall(cluster: Cluster) -> None:
    """As the README says: every host, reconfigure, and again where a script was still called."""
    command = ["slurm-failover", "uninstall", "--apply"]
    told = each(lambda host: cluster.check(host, command), HOSTS)
    reconfigure(cluster)
    for host in (host for host in HOSTS if "run this again" in told[host]):
        cluster.check(host, command)


def fail_over(story: Story, comment: str | None = None) -> int:
    """The success flow, asked for by the option or else by the comment; the job's id."""
    job = story.start(*(() if comment else ("--failover",)), comment=comment, nodes=2)
    first = story.nodes(job)
    story.cluster.inject(first[0], LOST)
    story.end(job, 1)
    assert first[0] not in story.wait_running(job, restarts=1, seconds=120)
    assert story.wait_drained(first[0]).startswith("slurm-failover: Xid 79")
    assert story.drained() == [first[0]]
    story.end(job, 0)
    story.wait_shown(job, "Completed")
    assert "attempt 0 on" in story.cluster.output(job), "one log for both attempts"
    story.cluster.check(CONTROLLER, ["scontrol", "update", f"NodeName={first[0]}", "State=RESUME"])
    return job


def ask_doctor(cluster: Cluster) -> None:
    """On controller, nodes and login host all is well."""
    for host, user, *role in (
        (CONTROLLER, "root"),
        ("n1", "root"),
        ("n4", "root"),
        (CONTROLLER, "alice", "--role", "login"),
    ):
        done = cluster.run(host, ["slurm-failover", "doctor", *role], user)
        assert (done.rc, "warning" in done.stdout) == (0, False), done.stdout + done.stderr


def run_plainly(story: Story) -> str:
    """What an ordinary job prints, once it has completed."""
    job = story.cluster.sbatch('srun env | grep "^SITE=" || echo plain')
    story.cluster.wait(lambda: "COMPLETED" in story.cluster.job_state(job), 30, f"end of job {job}")
    return story.cluster.output(job)


def test_a_new_admin_installs_looks_fails_over_and_uninstalls(story: Story) -> None:
    cluster = story.cluster
    before = pictures(cluster)
    shown = cluster.check(CONTROLLER, ["slurm-failover", "install"])
    assert "+EpilogSlurmctld=" in shown
    assert pictures(cluster) == before, "nothing is written unless told"

    install(cluster)
    ask_doctor(cluster)
    fail_over(story)
    assert "all in place" in cluster.check(CONTROLLER, ["slurm-failover", "install", "--apply"])

    uninstall(cluster)
    assert pictures(cluster) == before
    assert run_plainly(story) == "plain\n"
    assert "--failover" not in cluster.check(CONTROLLER, ["sbatch", "--help"])


def test_a_site_without_the_plugin_is_all_right_and_asks_by_the_comment(story: Story) -> None:
    cluster, folder = story.cluster, "/usr/lib/slurm-failover"
    each(lambda host: cluster.check(host, f"mv {folder} {folder}.away"), HOSTS)
    try:
        install(cluster)
        ask_doctor(cluster)
        fail_over(story, comment="failover")
        uninstall(cluster)
    finally:
        each(lambda host: cluster.check(host, f"mv {folder}.away {folder}"), HOSTS)


def test_what_a_site_has_works_beside_us_and_after_us(story: Story) -> None:
    cluster = story.cluster
    each(lambda host: cluster.check(host, SITE), HOSTS)
    reconfigure(cluster)
    before = pictures(cluster)
    assert run_plainly(story) == "SITE=yes\n"

    install(cluster)
    assert run_plainly(story) == "SITE=yes\n"
    job = fail_over(story)
    nodes = [node for node in NODES if str(job) in cluster.read(node, "/tmp/site-epilog").split()]
    assert len(nodes) >= 2, "the site's Epilog ran on the job's nodes"
    each(lambda node: cluster.check(node, "rm -f /tmp/site-check"), NODES)
    cluster.wait(lambda: cluster.read("n1", "/tmp/site-check"), 60, "the site's health check")
    for options, answer in ((["-J", "bad"], "the site says no"), (["--failover=0"], "leave")):
        refused = cluster.run(CONTROLLER, ["sbatch", *options, "--wrap", "true"], "alice")
        assert refused.rc != 0
        assert answer in refused.stderr
    levels = {
        line["check"]: line["level"]
        for line in json.loads(cluster.run("n1", ["slurm-failover", "doctor", "--json"]).stdout)
    }
    assert set(levels.values()) == {"ok"}, levels

    edit = "sed -i '1i # by an admin, later' /etc/slurm/slurm.conf"
    each(lambda host: cluster.check(host, edit), HOSTS)
    uninstall(cluster)
    each(lambda host: cluster.check(host, "sed -i 1d /etc/slurm/slurm.conf"), HOSTS)
    assert pictures(cluster) == before
    assert run_plainly(story) == "SITE=yes\n"
    each(lambda node: cluster.check(node, "rm -f /tmp/site-check"), NODES)
    cluster.wait(lambda: cluster.read("n1", "/tmp/site-check"), 60, "the site's health check")


def options(cluster: Cluster, folder: str = "/") -> set[str]:
    """Which of the options of SPANK plugins sbatch knows, when called in a folder."""
    known = cluster.check(CONTROLLER, f"cd {folder} && sbatch --help")
    return {option for option in ("--failover", "--site-option") if option in known}


def test_a_plugin_stack_of_names_that_are_no_whole_paths_is_read_as_slurm_reads_it(
    story: Story,
) -> None:
    cluster = story.cluster
    try:
        each(lambda host: cluster.check(host, STACK), HOSTS)
        before = pictures(cluster)
        assert options(cluster) == {"--site-option"}
        install(cluster)
        assert options(cluster) == {"--site-option", "--failover"}
        fail_over(story)
        uninstall(cluster)
        assert pictures(cluster) == before

        each(lambda host: cluster.check(host, OURS_BY_ITS_NAME), HOSTS)
        before = pictures(cluster)
        install(cluster)
        assert cluster.read("n1", "/etc/slurm/plugstack.conf") == "include stack.d/*.conf\n"
        fail_over(story)
        uninstall(cluster)
        assert pictures(cluster) == before
    finally:
        each(lambda host: cluster.check(host, NO_STACK), HOSTS)


def test_a_plugin_stack_that_slurm_seeks_in_whatever_folder_is_refused(story: Story) -> None:
    cluster = story.cluster
    stack = "optional /usr/lib/slurm-failover/slurm_failover.so"
    cluster.check(
        CONTROLLER,
        f"cd /etc/slurm; echo {stack} >rel.conf; echo PlugStackConfig=rel.conf >>slurm.conf",
    )
    assert options(cluster, "/etc/slurm") == {"--failover"}
    assert options(cluster) == set()
    done = cluster.run(CONTROLLER, ["slurm-failover", "install", "--apply"])
    assert (done.rc, "PlugStackConfig=rel.conf: write the whole path" in done.stderr) == (1, True)
