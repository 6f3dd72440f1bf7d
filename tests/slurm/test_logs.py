"""One log for all attempts of a job, and `slurm-failover logs`, on real Slurm daemons."""

from __future__ import annotations

import pytest
from cluster import CONTROLLER, SHARED, Cluster
from story import GATED, LOST, Story

pytestmark = pytest.mark.slurm

HOME = f"{SHARED}/home/alice"
HOOK_LOG = "/var/log/slurm/slurm-failover.log"


@pytest.fixture
def story(cluster: Cluster) -> Story:
    """The live cluster as the tests below talk to it."""
    return Story(cluster)


def move(story: Story, job: int, attempt: int = 1) -> tuple[str, str]:
    """Break the job's node; where it ran and where it runs now."""
    [first] = story.nodes(job)
    story.cluster.inject(first, LOST)
    story.end(job, 1)
    [second] = story.wait_running(job, restarts=attempt)
    return first, second


def logs(story: Story, job: int | str, *options: str, user: str = "alice") -> str:
    return story.cluster.check(CONTROLLER, ["slurm-failover", "logs", str(job), *options], user)


def test_each_attempt_after_the_first_begins_with_a_line_that_says_why(story: Story) -> None:
    job = story.start()
    first, second = move(story, job)
    lines = story.cluster.output(job).splitlines()
    assert lines[0] == f"attempt 0 on {first}"
    assert lines[-1] == f"attempt 1 on {second}"
    [mark] = [line for line in lines if line.startswith("=== slurm-failover: ")]
    assert lines.index(mark) == len(lines) - 2
    assert mark.startswith(f"=== slurm-failover: attempt 2 of job {job} started 20")
    assert mark.endswith(
        f" on {second}; attempt 1 ended: {first}: Xid 79 on GPU 0000:3b:00: "
        "GPU has fallen off the bus ==="
    )
    owner = story.cluster.check(CONTROLLER, ["stat", "-c", "%U", f"{SHARED}/slurm-{job}.out"])
    assert owner == "alice\n"


def test_logs_marks_the_attempts_and_shows_one_of_them(story: Story) -> None:
    job = story.start()
    first, second = move(story, job)
    lines = logs(story, job).splitlines()
    assert lines[0].startswith(f"=== slurm-failover: attempt 1 of job {job} started 20")
    assert lines[1] == f"attempt 0 on {first}"
    one = logs(story, job, "--attempt", "1")
    two = logs(story, job, "--attempt", "2")
    assert f"attempt 0 on {first}" in one
    assert "attempt 1 on" not in one
    assert f"attempt 1 on {second}" in two
    assert "attempt 0 on" not in two


def test_logs_follows_the_job_through_its_attempts_to_its_end(story: Story) -> None:
    job = story.start()
    seen = f"{HOME}/followed"
    follow = f"setsid slurm-failover logs -f {job} >{seen} 2>&1 </dev/null & echo $!"
    process = story.cluster.check(CONTROLLER, follow, "alice").strip()
    story.cluster.wait(lambda: "attempt 0 on" in story.cluster.read(CONTROLLER, seen), 10, "output")
    _, second = move(story, job)
    story.cluster.wait(
        lambda: f"attempt 1 on {second}" in story.cluster.read(CONTROLLER, seen), 20, "attempt 2"
    )
    story.end(job, 0)
    gone = ["bash", "-c", f"! kill -0 {process}"]
    story.cluster.wait(lambda: story.cluster.run(CONTROLLER, gone).rc == 0, 30, "end of following")


def test_a_denial_stands_in_the_log_with_its_reason(story: Story) -> None:
    job = story.start()
    story.end(job, 3)
    story.wait_shown(job, "Pending - internalerror")
    told = "internalerror: the program ended with exit code 3, and no node shows a hardware fault"
    line = story.cluster.wait(
        lambda: [text for text in story.cluster.output(job).splitlines() if told in text],
        20,
        "the denial in the log",
    )
    assert line[0].startswith(f"=== slurm-failover: attempt 1 of job {job} ended 20")
    assert line[0].endswith("; the job is held ===")


def test_a_denial_of_a_job_that_its_node_stopped_stands_in_the_log(story: Story) -> None:
    job = story.start("--nodelist=n1")
    story.cluster.inject("n1", LOST)
    story.wait_shown(job, "Pending - internalerror", seconds=60)
    told = "internalerror: n1: Xid 79"
    line = story.cluster.wait(
        lambda: [text for text in story.cluster.output(job).splitlines() if told in text],
        90,
        "the denial in the log",
    )
    assert line[0].startswith(f"=== slurm-failover: attempt 1 of job {job} ended 20")
    assert line[0].endswith("; the job is held ===")


def test_a_log_that_the_job_truncates_is_said_to_be_so(story: Story) -> None:
    job = story.start("--open-mode=truncate")
    _, second = move(story, job)
    done = story.cluster.run(CONTROLLER, ["slurm-failover", "logs", str(job)], "alice")
    assert done.rc == 0
    assert f"attempt 1 on {second}" in done.stdout
    assert (
        f"attempt 1: not in {SHARED}/slurm-{job}.out. A later attempt truncated it" in done.stderr
    )


BECOME = {
    "a link": "ln -s {secret} {log}",
    "a pipe": "mkfifo -m 666 {log}",
    "nothing": "true",
    "another's file": "cp {secret} {log}; chmod 600 {log}",
}


@pytest.mark.parametrize("kind", BECOME)
def test_a_log_that_became_something_else_takes_no_line(story: Story, kind: str) -> None:
    job = story.start()
    log, secret = f"{SHARED}/slurm-{job}.out", f"{SHARED}/secret"
    [node] = story.nodes(job)
    change = BECOME[kind].format(secret=secret, log=log)
    story.cluster.check(CONTROLLER, f"echo kept >{secret}; chmod 600 {secret}; rm {log}; {change}")
    listing = f"ls -l --time-style=+ {SHARED}"
    listed = story.cluster.check(CONTROLLER, listing)
    story.end(job, 3)
    story.wait_shown(job, "Pending - internalerror")
    word = f"job {job}: not in its log: === slurm-failover: attempt 1"
    story.cluster.wait(lambda: word in story.cluster.read(node, HOOK_LOG), 30, "a word on the log")
    assert story.cluster.read(CONTROLLER, secret) == "kept\n"
    assert story.cluster.check(CONTROLLER, listing) == listed


def test_a_user_reads_only_what_is_theirs_to_read(story: Story) -> None:
    story.cluster.check(CONTROLLER, f"install -d -m 700 -o alice {HOME}/private", "root")
    job = story.cluster.sbatch(GATED, f"--output={HOME}/private/log", "--comment=failover")
    story.cluster.wait(lambda: story.cluster.job_state(job) == ["RUNNING"], 30, "the job")
    done = story.cluster.run(CONTROLLER, ["slurm-failover", "logs", str(job)], "bob")
    assert done.rc == 1
    assert f"{HOME}/private/log: Permission denied" in done.stderr
    assert "Traceback" not in done.stderr
