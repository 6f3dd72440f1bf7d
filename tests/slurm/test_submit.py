"""`sbatch --failover` and the site's policy at submission, as users meet them on real Slurm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import CONTROLLER, HOSTS, SHARED, Cluster, each
from story import GATED, LOST, Story

LUA = "/opt/slurm-failover/share/slurm-failover/lua"
ENABLE = f"""set -e
install -m 644 {LUA}/job_submit.lua {LUA}/cli_filter.lua /etc/slurm
sed -i s/^JobFileAppend=1/JobFileAppend=0/ /etc/slurm/slurm.conf
printf 'JobSubmitPlugins=lua\\nCliFilterPlugins=lua\\n' >>/etc/slurm/slurm.conf
"""
RAW_SUBMIT = r"""
#include <errno.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* submit admin_comment|spank_job_env TEXT: what sbatch has no option for. */
int main(int argc, char **argv)
{
    char *environment[] = { "PATH=/usr/bin", NULL };
    submit_response_msg_t *response = NULL;
    job_desc_msg_t job;

    slurm_init(NULL);
    slurm_init_job_desc_msg(&job);
    job.script = "#!/bin/sh\ntrue\n";
    job.user_id = getuid();
    job.group_id = getgid();
    job.work_dir = "/shared";
    job.environment = environment;
    job.env_size = 1;
    job.min_nodes = 1;
    if (!strcmp(argv[1], "admin_comment"))
        job.admin_comment = argv[2];
    job.spank_job_env = &argv[2];
    job.spank_job_env_size = !strcmp(argv[1], "spank_job_env");
    if (!slurm_submit_batch_job(&job, &response))
        return 0;
    fprintf(stderr, "%s\n", slurm_strerror(errno));
    return 1;
}
"""


@pytest.fixture(scope="module")
def _scripts(_running_cluster: Cluster) -> Iterator[None]:
    """Both scripts on every host, and JobFileAppend off."""
    cluster = _running_cluster
    cluster.reset()
    with cluster.own_configuration():
        each(lambda host: cluster.check(host, ENABLE), HOSTS)
        cluster.check(CONTROLLER, ["scontrol", "reconfigure"])
        yield


@pytest.fixture
def story(_scripts: None, cluster: Cluster) -> Story:
    """The live cluster, with the plugins."""
    return Story(cluster)


def refused(story: Story, *options: str, script: str = "true") -> str:
    """What alice reads when sbatch refuses her job; nothing was submitted."""
    argv = ["sbatch", *options, "--wrap", script]
    done = story.cluster.run(CONTROLLER, argv, "alice")
    assert done.rc != 0, done
    assert story.cluster.check(CONTROLLER, ["squeue", "-h"]) == ""
    return done.stderr


def wait_armed(story: Story, job: int | str, retries: int) -> None:
    story.cluster.wait(
        lambda: (view := story.show(job))["state"] == "armed" and view["max_retries"] == retries,
        30,
        f"job {job} armed for {retries} failovers",
    )


@pytest.mark.parametrize(
    ("options", "directive", "retries"),
    [
        (["--failover"], "", 3),
        (["--failover=2"], "", 2),
        ([], "#SBATCH --failover", 3),
        ([], "#SBATCH --failover=1", 1),
        (["--failover=2"], "#SBATCH --failover=1", 2),
        (["--failover=2", "--comment=failover=1"], "", 2),
        (["--comment=x, failover=1; y"], "", 1),
        (["--failover=1", "--export=NIL"], "", 1),
    ],
)
def test_a_job_is_flagged_by_option_directive_or_comment(
    story: Story, options: list[str], directive: str, retries: int
) -> None:
    script = GATED.replace("#!/bin/bash", f"#!/bin/bash\n{directive}")
    job = story.cluster.sbatch(script, *options)
    story.wait_running(job)
    wait_armed(story, job, retries)
    assert story.cluster.job(job)["requeue"] is True


def test_a_job_that_waits_with_the_option_alone_is_listed_with_its_limit(story: Story) -> None:
    job = story.submit("--failover=2", "--hold", comment=None)
    view = story.show(job)
    assert (view["display"], view["state"], view["max_retries"]) == ("Pending", "armed", 2)
    table = story.cluster.check(CONTROLLER, ["slurm-failover", "status"], "bob")
    assert str(job) in [line.split()[0] for line in table.splitlines()[1:]]


def test_a_job_flagged_by_the_option_alone_is_failed_over_into_one_log(story: Story) -> None:
    job = story.start("--failover=1", comment=None)
    [first] = story.nodes(job)
    story.cluster.inject(first, LOST)
    story.end(job, 1)
    [second] = story.wait_running(job, restarts=1, seconds=60)
    view = story.wait_shown(job, "Running")
    assert (view["state"], view["retries"], view["max_retries"]) == ("resumed", 1, 1)
    lines = story.cluster.output(job).splitlines()
    attempts = [line for line in lines if line.startswith("attempt")]
    assert attempts == [f"attempt 0 on {first}", f"attempt 1 on {second}"]


def test_the_users_own_open_mode_stays(story: Story) -> None:
    job = story.start("--failover=1", "--open-mode=truncate", comment=None)
    story.cluster.inject(story.nodes(job)[0], LOST)
    story.end(job, 1)
    story.wait_running(job, restarts=1, seconds=60)
    assert "attempt 0" not in story.cluster.output(job)


def test_a_qos_is_spot_in_capitals_as_well(story: Story) -> None:
    message = refused(story, "--failover", "--qos=SPOTTED")
    assert 'needs on-demand resources: QOS "SPOTTED" is spot' in message


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("0", "to submit without failover, leave the option out"),
        ("off", "to submit without failover, leave the option out"),
        ("-1", "write --failover, or --failover=N with N from 1 to 1000"),
        ("99999999999999999999", "at most 1000 failovers can be asked for"),
        ("garbage", "write --failover, or --failover=N with N from 1 to 1000"),
        ("", "write --failover, or --failover=N with N from 1 to 1000"),
    ],
)
def test_a_count_that_is_none_is_refused_with_the_option_and_the_remedy(
    story: Story, text: str, remedy: str
) -> None:
    assert f"sbatch: error: --failover={text}: {remedy}\n" in refused(story, f"--failover={text}")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("$(head -c 100000 /dev/zero | tr '\\0' 9)", id="a hundred thousand digits"),
        pytest.param("$(printf '1\\377')", id="a byte that is no UTF-8"),
        pytest.param("$(printf '1\\n2')", id="a new line"),
        pytest.param("²", id="a digit that is none of ours"),
        pytest.param("2 --failover=x", id="a second one that is none"),
    ],
)
def test_an_odd_count_is_refused_and_slurm_goes_on(story: Story, text: str) -> None:
    submit = f'sbatch --failover="{text}" --wrap true'.replace(' --failover=x"', '" --failover=x')
    done = story.cluster.run(CONTROLLER, submit, "alice")
    assert done.rc in (1, 255), done
    assert "sbatch: error: --failover=" in done.stderr
    assert story.cluster.check(CONTROLLER, ["squeue", "-h"]) == ""


def test_of_two_flags_the_last_counts(story: Story) -> None:
    job = story.start("--failover=1", "--failover=2", comment=None)
    wait_armed(story, job, 2)


def test_a_comment_full_of_wishes_is_one_wish(story: Story) -> None:
    wishes = ";".join(["failover=2", *["failover=9"] * 91])
    job = story.start(comment=wishes)
    wait_armed(story, job, 2)
    assert story.comment(job).startswith(wishes)


def test_the_same_count_in_the_comment_is_refused_in_the_same_way(story: Story) -> None:
    message = refused(story, "--comment=a;failover=0")
    assert (
        "sbatch: error: --comment=failover=0: to submit without failover, leave it out" in message
    )


@pytest.mark.parametrize("flag", ["--failover", "--failover=2", "--comment=failover"])
@pytest.mark.parametrize("partition", ["spot", "gpu,spot"])
def test_a_spot_partition_refuses_the_flag_and_says_why(
    story: Story, flag: str, partition: str
) -> None:
    message = refused(story, flag, f"--partition={partition}")
    assert 'sbatch: error: job failover needs on-demand resources: partition "spot"' in message


def test_a_spot_qos_refuses_the_flag_and_says_why(story: Story) -> None:
    setting = r"printf '\n[failover]\nspot_qos = [\"fail*\"]\n' >>/etc/slurm-failover/settings.toml"
    story.cluster.check(CONTROLLER, setting)
    message = refused(story, "--failover", "--qos=failover")
    assert 'sbatch: error: job failover needs on-demand resources: QOS "failover"' in message


def test_a_flagged_job_that_must_not_be_requeued_is_refused(story: Story) -> None:
    assert "--no-requeue" in refused(story, "--failover", "--no-requeue")


def test_more_failovers_than_the_site_allows_are_refused(story: Story) -> None:
    assert "this site allows at most 3 failovers" in refused(story, "--failover=4")
    setting = r"printf '\n[failover]\nmax_retries = 4\n' >>/etc/slurm-failover/settings.toml"
    story.cluster.check(CONTROLLER, setting)
    job = story.start("--failover=4", comment=None)
    wait_armed(story, job, 4)


def test_an_unflagged_job_is_left_alone(story: Story) -> None:
    job = story.start("--partition=spot", "--no-requeue", comment=None)
    assert story.show(job)["state"] is None
    assert story.cluster.job(job)["requeue"] is False


@pytest.mark.parametrize("flag", ["--failover=2", "--comment=failover=2"])
@pytest.mark.parametrize("command", ["salloc", "srun"])
def test_salloc_and_srun_are_told_once_that_only_batch_jobs_are_failed_over(
    story: Story, command: str, flag: str
) -> None:
    inner = "sbatch --parsable --wrap true; srun true" if command == "salloc" else "true"
    argv = [command, flag, "bash", "-c", inner]
    done = story.cluster.run(CONTROLLER, argv, "alice")
    assert done.rc == 0, done
    notice = "has no effect here: only batch jobs, submitted with sbatch, are failed over"
    assert done.stderr.count(notice) == 1
    assert "failover" in done.stderr.split(notice, maxsplit=1)[0]


def test_a_nested_sbatch_does_not_inherit_the_flag(story: Story) -> None:
    submit = f"sbatch --parsable --output={SHARED}/%j.inner"
    inner = f"{submit} --wrap 'srun true'; {submit} --failover=1 --wrap 'srun true'"
    outer = story.cluster.sbatch(f"{inner}\n{GATED.removeprefix('#!/bin/bash')}", "--failover=2")
    story.wait_running(outer)
    plain, flagged = story.cluster.output(outer).split()[:2]
    wait_armed(story, outer, 2)
    story.cluster.wait(lambda: story.show(flagged)["max_retries"] == 1, 30, "flagged inner job")
    story.wait_shown(plain, "Completed")
    assert story.show(plain)["state"] is None
    assert "no effect" not in story.cluster.read(CONTROLLER, f"{SHARED}/{plain}.inner")


def test_a_heterogeneous_job_is_flagged_in_its_first_component(story: Story) -> None:
    argv = ["sbatch", "-n1", "--wrap", "true", ":", "-n1", "--failover"]
    done = story.cluster.run(CONTROLLER, argv, "alice")
    assert done.rc != 0
    assert "ask in the first component of a heterogeneous job" in done.stderr


def test_an_owner_can_not_move_a_flagged_job_where_it_would_have_been_refused(
    story: Story,
) -> None:
    job = story.submit("--failover", "--hold", comment=None)
    for change, why in (
        ("Partition=spot", "job failover needs on-demand resources"),
        ("Requeue=0", "a failover requeues the job"),
    ):
        update = ["scontrol", "update", f"JobId={job}", change]
        done = story.cluster.run(CONTROLLER, update, "alice")
        assert done.rc != 0
        assert why in done.stderr
        assert story.cluster.run(CONTROLLER, update).rc == 0, "an operator may"


def test_a_user_can_not_bring_a_record_or_an_unchecked_flag_by_slurms_api(story: Story) -> None:
    build = f'cd /tmp && cat >raw.c <<<"$1" && gcc -o {SHARED}/raw raw.c -lslurm'
    story.cluster.check(CONTROLLER, ["bash", "-c", build, "", RAW_SUBMIT])
    forged = '{"slurm-failover":{"v":1,"state":"armed","retries":0,"max":99}}'
    for user in ("alice", "root"):
        done = story.cluster.run(CONTROLLER, [f"{SHARED}/raw", "admin_comment", forged], user)
        assert done.rc != 0, f"{user} submitted a record"
    assert "AdminComment: a job can not bring a record" in done.stderr
    raw = [f"{SHARED}/raw", "spank_job_env", "FAILOVER=9; reboot"]
    done = story.cluster.run(CONTROLLER, raw, "alice")
    assert done.rc != 0
    assert "--failover=9; reboot: write N as a whole number" in done.stderr
    assert story.cluster.check(CONTROLLER, ["squeue", "-h"]) == ""


def test_without_the_package_the_scripts_pass_every_job(story: Story) -> None:
    each(lambda host: story.cluster.check(host, ["mv", LUA, f"{LUA}.away"]), HOSTS)
    try:
        story.cluster.check(CONTROLLER, ["scontrol", "reconfigure"])
        job = story.cluster.wait(
            lambda: story.cluster.sbatch("true", "--comment=failover=0"), 20, "a submission"
        )
        story.wait_shown(job, "Completed")
    finally:
        each(lambda host: story.cluster.check(host, ["mv", f"{LUA}.away", LUA]), HOSTS)
        story.cluster.check(CONTROLLER, ["scontrol", "reconfigure"])
