"""What ``history`` and ``report`` tell, of flows that real Slurm daemons have played."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from cluster import CONTROLLER, Cluster
from story import LOST, Story

pytestmark = pytest.mark.slurm


@pytest.fixture
def story(cluster: Cluster) -> Story:
    """The live cluster as the tests below talk to it."""
    return Story(cluster)


def events(story: Story, *words: str, user: str = "alice") -> list[dict[str, Any]]:
    """What ``history`` tells a user."""
    argv = ["slurm-failover", "history", "--json", *words]
    return list(json.loads(story.cluster.check(CONTROLLER, argv, user)))


def fail_over(story: Story) -> tuple[int, str]:
    """Play the success flow on two nodes; the job that then runs on others, and the bad node."""
    job = story.start(nodes=2)
    bad = story.nodes(job)[0]
    story.cluster.inject(bad, LOST)
    story.end(job, 1)
    story.wait_running(job, restarts=1)
    return job, bad


def deny(story: Story) -> int:
    """Play the denied flow; the job, which is held."""
    job = story.start("--job-name=<script>alert(1)</script>")
    story.end(job, 3)
    story.wait_shown(job, "Pending - internalerror")
    return job


def test_history_tells_a_failover_a_denial_and_a_drain_as_they_were(story: Story) -> None:
    began = time.time()
    moved, bad = fail_over(story)
    held = deny(story)
    drain = story.wait_drained(bad)

    told = story.cluster.wait(
        lambda: t if len(t := events(story, str(moved), str(held))) == 2 else None,
        60,
        "two events of the two jobs",
    )
    failover, denial = told
    rows = story.cluster.sacct(moved, "Start", "End", "NodeList")
    assert (failover["event"], failover["job"], failover["attempt"]) == ("failover", str(moved), 1)
    assert failover["because"] == f"{bad}: Xid 79 on GPU 0000:3b:00: GPU has fallen off the bus"
    assert bad in failover["nodes"]
    assert (failover["gpus"], failover["user"], len(rows)) == (4, "alice", 2)
    assert 0 <= failover["restart_seconds"] < 60
    ran = failover["ran_seconds"] + failover["restart_seconds"]
    assert failover["gpu_seconds_lost"] == 4 * ran
    assert (denial["event"], denial["job"]) == ("denied", str(held))
    assert "exit code 3" in denial["because"]
    assert denial["restart_seconds"] is None

    drains = story.cluster.wait(
        lambda: [
            e
            for e in events(story, "--since", "now-1hour", "--node", bad)
            if e["event"] == "drain" and e["time"] >= int(began)
        ],
        60,
        f"a drain of {bad} in the history",
    )
    assert [f"slurm-failover: {entry['because']}" for entry in drains] == [drain]
    assert events(story, "--user", "bob", user="bob") == []


def test_history_of_a_span_and_of_a_node_tells_that_a_node_was_lost(story: Story) -> None:
    job = story.start(nodes=2)
    lost = story.nodes(job)[1]
    story.cluster.kill_daemon(lost, "slurmd")
    story.wait_running(job, restarts=1, seconds=60)
    of_the_job = story.cluster.wait(lambda: events(story, str(job)), 60, "the job's failover")
    assert of_the_job[0]["because"] == f"{lost}: Slurm lost the node"
    for words in ([], ["--node", lost], ["--user", "alice"]):
        told = [event for event in events(story, *words) if event["job"] == str(job)]
        assert told == of_the_job, words


def test_history_and_report_refuse_a_time_that_sacct_does_not_know(story: Story) -> None:
    for words in (["history"], ["report", "--html", "/tmp/report.html"]):
        done = story.cluster.run(CONTROLLER, ["slurm-failover", *words, "--since", "tomorrowish"])
        assert done.rc == 2
        assert "--since: 'tomorrowish' is no time: write now-7days, 2026-01-31" in done.stderr
        assert "Traceback" not in done.stderr


def test_report_is_one_safe_page_of_what_happened(story: Story) -> None:
    moved, bad = fail_over(story)
    held = deny(story)
    path = f"/tmp/report-{moved}.html"
    argv = ["slurm-failover", "report", "--html", path, "--since", "now-1hour"]

    def page() -> str:
        story.cluster.check(CONTROLLER, [*argv, "--force"], "alice")
        text = story.cluster.read(CONTROLLER, path)
        return text if f">{moved}<" in text and f">{held}<" in text else ""

    text = story.cluster.wait(page, 60, "a report with both jobs")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script" not in text
    assert f"{bad} GPU 0000:3b:00" in text
    refused = story.cluster.run(CONTROLLER, argv, "alice")
    assert refused.rc == 1
    assert "--force replaces it" in refused.stderr


def test_history_works_while_slurmctld_is_away(story: Story) -> None:
    moved, _ = fail_over(story)
    story.end(moved, 0)
    story.cluster.wait(
        lambda: story.cluster.sacct(moved, "State")[-1]["State"] == "COMPLETED",
        60,
        "the end of the job in the accounting",
    )
    story.cluster.kill_daemon(CONTROLLER, "slurmctld")
    try:
        argv = ["slurm-failover", "history", "--json", str(moved)]
        done = story.cluster.run(CONTROLLER, argv, "alice", timeout=120)
        unknown = story.cluster.run(CONTROLLER, [*argv[:3], "424242"], "alice", timeout=120)
    finally:
        story.cluster.start_daemon(CONTROLLER, "slurmctld")
    assert done.rc == 0
    assert [entry["event"] for entry in json.loads(done.stdout)] == ["failover"]
    assert "without what only slurmctld knows" in done.stderr
    assert (unknown.rc, json.loads(unknown.stdout)) == (0, [])


def test_history_tells_what_nobody_knows_from_what_nothing_happened_to(story: Story) -> None:
    # A slurmctld that was killed may give the number of a job that it forgot to another.
    begun = story.cluster.check(CONTROLLER, "date +%FT%T").strip()
    array = story.cluster.sbatch("exit 0", "--hold", "--array=3-5", "--gres=gpu:1")
    gone = story.cluster.sbatch("exit 0", "--hold")
    story.cluster.check(CONTROLLER, ["scancel", str(gone)], "alice")
    ended = story.cluster.sbatch("exit 0", "--array=0-1")
    story.cluster.wait(
        lambda: [r["State"] for r in story.cluster.sacct(ended, "State")] == ["COMPLETED"] * 2,
        60,
        "the end of two tasks in the accounting",
    )
    raw = story.cluster.sacct(f"{ended}_0", "JobIDRaw")[0]["JobIDRaw"]
    quiet = (array, f"{array}_[3-5]", f"{array}_4", gone, ended, f"{ended}_[0-1]", raw)
    for words in map(str, quiet):
        assert events(story, words, "--since", begun, "--until", "now") == []
        assert events(story, words, "--since", "now") == []
    assert all("n1" in event["nodes"] for event in events(story, "--node=n1"))
    for words, said in (
        ("424242", "neither Slurm nor its accounting knows job 424242,"),
        (f"{ended}_7", f"neither Slurm nor its accounting knows job {ended}_7,"),
        ("--node=n[1,99]", "Slurm does not know node n99,"),
        ("--user=nosuch", "nosuch"),
    ):
        done = story.cluster.run(CONTROLLER, ["slurm-failover", "history", words], "alice")
        assert done.rc == 1
        assert said in done.stderr
    story.cluster.check(CONTROLLER, ["scancel", str(array)])
