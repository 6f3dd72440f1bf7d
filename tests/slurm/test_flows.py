"""The flows of the product, by the names that the README gives them, on real Slurm daemons."""

from __future__ import annotations

import pytest
from cluster import CONTROLLER, HOSTS, NODES, Cluster, each
from story import DOUBLE_BIT, GATED, LOST, PAGE_FAULT, Story, write_gate

pytestmark = pytest.mark.slurm

SETTINGS = "/etc/slurm-failover/settings.toml"


@pytest.fixture
def story(cluster: Cluster) -> Story:
    """The live cluster as the tests below talk to it."""
    return Story(cluster)


def test_success_a_hardware_fault_moves_the_job_to_other_nodes(story: Story) -> None:
    job = story.start(nodes=2)
    first = story.nodes(job)
    others = [node for node in NODES if node not in first]
    blocker = story.occupy(others)
    story.cluster.inject(first[0], LOST)
    story.end(job, 1)

    waiting = story.wait_shown(job, "Pending - failoverinprogress")
    reason = story.wait_drained(first[0])
    assert reason == (
        "slurm-failover: Xid 79 on GPU 0000:3b:00: GPU has fallen off the bus; "
        f"reboot needed (job {job})"
    )
    view = story.cluster.wait(
        lambda: v if (v := story.show(job))["retries"] == 1 else None, 30, "a counted retry"
    )
    assert waiting["slurm_state"] == "PENDING"
    assert (view["state"], view["max_retries"]) == ("failoverinprogress", 3)
    assert view["excluded_nodes"] == [first[0]]
    assert "failoverinprogress, retries 1/3" in story.comment(job)

    story.end(blocker, 0)
    second = story.wait_running(job, restarts=1)
    assert first[0] not in second
    resumed = story.show(job)
    assert (resumed["display"], resumed["state"], resumed["retries"]) == ("Running", "resumed", 1)
    assert resumed["cause"] == (f"{first[0]}: Xid 79 on GPU 0000:3b:00: GPU has fallen off the bus")
    assert [(a["attempt"], a["nodes"], a["outcome"]) for a in resumed["history"]] == [
        (1, first, "failover")
    ]
    assert story.drained() == [first[0]]
    story.end(job, 0)
    story.wait_shown(job, "Completed")
    rows = story.cluster.sacct(job, "State", "NodeList")
    assert [row["State"] for row in rows][-1] == "COMPLETED"
    assert len(rows) == 2


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (None, "the program ended with exit code 3, and no node shows a hardware fault"),
        (
            "NVRM: Xid (PCI:0000:3b:00): 13, pid=4711, name=python3, Graphics SM Warp Exception "
            "on (GPC 0, TPC 0, SM 0): Out Of Range Address",
            "Xid 13",
        ),
        (PAGE_FAULT, "Xid 31"),
        ("NVRM: Xid (PCI:0000:3b:00): 43, pid=4711, name=python3, Ch 00000010", "Xid 43"),
        ("Out of memory: Killed process 4711 (python3) total-vm:1kB, anon-rss:1kB", "memory"),
    ],
    ids=["no fault", "Xid 13", "Xid 31", "Xid 43", "out of memory"],
)
def test_denied_a_fault_of_the_job_itself_holds_it_with_one_sentence(
    story: Story, record: str | None, sentence: str
) -> None:
    job = story.start()
    if record:
        story.cluster.inject(story.nodes(job)[0], record)
    story.end(job, 3)

    view = story.wait_shown(job, "Pending - internalerror")
    assert sentence in view["because"]
    assert (view["retries"], view["state"]) == (0, "internalerror")
    assert story.cluster.job(job)["hold"] is True
    assert "internalerror, retries 0/3: " in story.comment(job)
    assert story.drained() == []


def test_not_configured_the_job_fails_and_the_node_is_drained_all_the_same(story: Story) -> None:
    job = story.start(comment=None)
    node = story.nodes(job)[0]
    story.cluster.inject(node, DOUBLE_BIT)
    story.end(job, 1)

    story.wait_shown(job, "Failed")
    assert story.wait_drained(node).startswith("slurm-failover: Xid 48 on GPU 0000:86:00")
    view = story.show(job)
    assert (view["display"], view["state"], view["retries"]) == ("Failed", None, 0)


@pytest.fixture
def tolerant_breaker(cluster: Cluster) -> None:
    """A circuit breaker that lets all nodes of a cluster as small as this one be faulty."""
    site = "\\n[breaker]\\nnodes = 4\\nattempts = 4\\n"
    each(lambda host: cluster.check(host, f"printf '{site}' >>{SETTINGS}"), HOSTS)


@pytest.mark.usefixtures("tolerant_breaker")
def test_exceeded_the_fourth_hardware_fault_holds_the_job(story: Story) -> None:
    job = story.start()
    used = []
    for restarts in range(4):
        (node,) = story.wait_running(job, restarts)
        used.append(node)
        story.cluster.inject(node, LOST)
        story.end(job, 1)
        if restarts < 3:
            story.cluster.wait(
                lambda done=restarts + 1: story.show(job)["retries"] == done, 30, "the next retry"
            )
    view = story.wait_shown(job, "Pending - maxretriesexceeded")
    assert sorted(used) == sorted(NODES)
    assert (view["retries"], view["max_retries"]) == (3, 3)
    assert view["because"].startswith(f"all 3 retries are used; last: {used[3]}: Xid 79")
    assert story.cluster.job(job)["hold"] is True
    assert story.drained() == sorted(NODES)
    assert [attempt["outcome"] for attempt in view["history"]] == ["failover"] * 3 + ["exceed"]


def test_a_user_may_lower_the_limit_and_never_raise_it(story: Story) -> None:
    fewer = story.start(comment="failover=1")
    more = story.start(comment="failover=99")
    assert story.show(fewer)["max_retries"] == 1
    assert story.show(more)["max_retries"] == 3


def test_hung_a_job_that_never_exits_is_found_by_the_health_check(story: Story) -> None:
    job = story.start(nodes=2)
    first = story.nodes(job)
    story.cluster.inject(first[1], LOST)

    second = story.wait_running(job, restarts=1)
    assert first[1] not in second
    view = story.show(job)
    assert (view["state"], view["retries"]) == ("resumed", 1)
    assert view["excluded_nodes"] == [first[1]]
    assert story.reason(first[1]).startswith("slurm-failover: Xid 79")


def test_left_alone_a_job_whose_owner_took_the_wish_back_while_it_ran(story: Story) -> None:
    job = story.start()
    [node] = story.nodes(job)
    story.cluster.check(CONTROLLER, f"scontrol update JobId={job} Comment='run 7'", "alice")
    story.cluster.inject(node, LOST)
    story.wait_drained(node)
    view = story.show(job)
    assert (view["state"], view["slurm_state"]) == (None, "RUNNING")
    assert view["because"] == "failover is off: the comment does not ask for it any more"

    story.end(job, 1)
    story.cluster.wait(lambda: "FAILED" in story.cluster.job_state(job), 30, "the job's end")
    assert story.cluster.job(job)["restart_cnt"] == 0


def test_hung_a_job_with_the_option_is_moved_whatever_its_comment_says_by_now(story: Story) -> None:
    job = story.start("--failover=2", comment="failover")
    [first] = story.nodes(job)
    story.cluster.check(CONTROLLER, f"scontrol update JobId={job} Comment='run 7'", "alice")
    story.cluster.inject(first, LOST)
    assert first not in story.wait_running(job, restarts=1)
    view = story.show(job)
    assert (view["state"], view["retries"], view["max_retries"]) == ("resumed", 1, 2)


def test_node_lost_is_counted_excluded_and_raised(story: Story) -> None:
    job = story.start(nodes=2)
    first = story.nodes(job)
    story.cluster.kill_daemon(first[1], "slurmd")

    second = story.wait_running(job, restarts=1, seconds=60)
    assert first[1] not in second
    view = story.show(job)
    assert (view["state"], view["retries"]) == ("resumed", 1)
    assert view["excluded_nodes"] == [first[1]]
    assert first[1] in view["cause"]
    assert story.cluster.job(job)["priority"]["number"] == 4294967293


def test_left_alone_scancel_with_a_fault_nearby(story: Story) -> None:
    job = story.start()
    node = story.nodes(job)[0]
    story.cluster.inject(node, LOST)
    story.cluster.check(CONTROLLER, ["scancel", str(job)], user="alice")
    story.wait_shown(job, "Cancelled")
    story.wait_drained(node)
    view = story.show(job)
    assert (view["display"], view["retries"]) == ("Cancelled", 0)


def test_left_alone_a_time_limit(story: Story) -> None:
    job = story.start("--time=1")
    story.wait_shown(job, "Timeout", seconds=150)
    assert story.show(job)["retries"] == 0


def test_left_alone_preemption(story: Story) -> None:
    setting = r"printf '\n[failover]\nspot_partitions = []\n' >>/etc/slurm-failover/settings.toml"
    story.cluster.check(CONTROLLER, setting)
    job = story.start("--partition=spot", "--nodelist=n1")
    story.start("--partition=urgent", "--nodelist=n1", "--exclusive", comment=None)
    view = story.wait_shown(job, "Pending")
    assert (view["state"], view["retries"], view["history"]) == ("armed", 0, [])


@pytest.mark.parametrize("user", ["root", "alice"])
def test_left_alone_a_requeue_by_hand(story: Story, user: str) -> None:
    job = story.start()
    story.cluster.check(CONTROLLER, ["scontrol", "requeue", str(job)], user=user)
    view = story.wait_shown(job, "Pending")
    assert (view["state"], view["retries"]) == ("armed", 0)
    assert story.cluster.job(job)["hold"] is False


@pytest.mark.parametrize("how", [["requeuehold"], ["requeuehold", "State=SpecialExit"]])
def test_left_alone_a_hold_by_hand(story: Story, how: list[str]) -> None:
    job = story.start()
    story.cluster.check(CONTROLLER, ["scontrol", *how, str(job)], user="alice")
    story.cluster.wait(
        lambda: "COMPLETING" not in story.cluster.job_state(job), 30, "the end of the job"
    )
    view = story.show(job)
    assert (view["display"], view["state"], view["retries"]) == ("Pending", "armed", 0)
    assert story.cluster.job(job)["hold"] is True


def test_left_alone_a_success_with_a_fault_nearby(story: Story) -> None:
    job = story.start()
    node = story.nodes(job)[0]
    story.end(job, 0)
    story.cluster.inject(node, LOST)
    story.wait_drained(node)
    view = story.wait_shown(job, "Completed")
    assert view["retries"] == 0


def test_two_nodes_of_a_job_fault_at_once_and_it_is_one_retry(story: Story) -> None:
    job = story.start(nodes=2)
    first = story.nodes(job)
    for node in first:
        story.cluster.inject(node, LOST)
    story.end(job, 1)

    second = story.wait_running(job, restarts=1)
    view = story.show(job)
    assert not set(first) & set(second)
    assert view["retries"] == 1
    assert view["excluded_nodes"] == first
    assert story.cluster.job(job)["restart_cnt"] == 1
    assert story.drained() == sorted(first)


def test_only_the_array_task_that_was_hit_is_moved(story: Story) -> None:
    array = story.submit("--array=0-1", nodes=1)
    tasks = [f"{array}_0", f"{array}_1"]
    for task in tasks:
        story.cluster.wait(
            lambda task=task: story.cluster.job_state(task) == ["RUNNING"], 30, f"task {task}"
        )
    node = story.nodes(tasks[1])[0]
    story.cluster.inject(node, LOST)
    story.cluster.wait(lambda: story.show(tasks[1])["retries"] == 1, 30, "a failover of the task")
    assert story.show(tasks[0])["retries"] == 0
    assert story.cluster.job(tasks[0])["restart_cnt"] == 0
    story.cluster.wait(
        lambda: story.cluster.job_state(tasks[1]) == ["RUNNING"], 30, "the task elsewhere"
    )
    assert story.nodes(tasks[1]) != [node]


def test_a_job_with_no_requeue_is_left_alone_and_told_so(story: Story) -> None:
    job = story.start("--no-requeue")
    node = story.nodes(job)[0]
    assert "off: the job was submitted with --no-requeue" in story.comment(job)
    story.cluster.inject(node, LOST)
    story.wait_drained(node)
    story.end(job, 1)
    view = story.wait_shown(job, "Failed")
    assert (view["state"], view["because"]) == (None, "the job was submitted with --no-requeue")


@pytest.mark.parametrize("program", ["srun", "salloc"])
def test_an_interactive_job_is_left_alone_and_told_so(story: Story, program: str) -> None:
    inner = "read -r status </shared/gate.interactive; exit $status"
    line = (
        f"rm -f /shared/gate.interactive; mkfifo -m 666 /shared/gate.interactive;"
        f"setsid {program} --comment=failover --gres=gpu:2 --job-name={program} "
        f"bash -c '{inner}' </dev/null >/dev/null 2>&1 &"
    )
    story.cluster.check(CONTROLLER, line, user="alice")
    named = ["squeue", "-h", f"--name={program}", "--states=RUNNING", "-o", "%A"]
    job = story.cluster.wait(
        lambda: story.cluster.check(CONTROLLER, named).strip(), 30, f"a running {program}"
    )
    told = "off: only batch jobs (sbatch) can be failed over"
    story.cluster.wait(lambda: told in story.comment(job), 30, "the refusal in the comment")
    node = story.nodes(job)[0]
    story.cluster.inject(node, LOST)
    story.wait_drained(node)
    story.cluster.check(CONTROLLER, write_gate("/shared/gate.interactive", "1"), timeout=10)
    story.cluster.wait(
        lambda: story.show(job)["display"] in ("Failed", "Completed"), 30, "the job's end"
    )
    assert story.show(job)["state"] is None


def test_a_drain_by_an_admin_keeps_its_reason_word_for_word(story: Story) -> None:
    job = story.start()
    node = story.nodes(job)[0]
    words = "ticket #4711: PSU swap, do not touch"
    story.cluster.check(
        CONTROLLER, ["scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={words}"]
    )
    story.cluster.inject(node, LOST)
    story.end(job, 1)
    second = story.wait_running(job, restarts=1)
    assert node not in second
    assert story.reason(node) == words


def test_the_failed_over_job_starts_before_all_that_wait(story: Story) -> None:
    job = story.start(nodes=2)
    first = story.nodes(job)
    others = [node for node in NODES if node not in first]
    blocker = story.occupy(others)
    waiting = [
        story.cluster.sbatch(GATED, "--nodes=1", "--exclusive", "--nice=0", user="bob")
        for _ in range(6)
    ]
    for node in first:
        story.cluster.inject(node, LOST)
    story.end(job, 1)
    story.cluster.wait(lambda: story.show(job)["retries"] == 1, 30, "the decision")
    story.end(blocker, 0)
    story.wait_running(job, restarts=1)
    assert all(story.cluster.job_state(other) == ["PENDING"] for other in waiting)


def test_foreign_words_in_the_comment_stay_byte_for_byte(story: Story) -> None:
    words = '{"APS": {"auto": true}} \'quoted\' "twice" schräg, failover=2; x'
    job = story.start(comment=words)
    story.cluster.inject(story.nodes(job)[0], LOST)
    story.end(job, 1)
    story.wait_running(job, restarts=1)
    comment = story.comment(job)
    assert comment.startswith(words + " [slurm-failover: resumed, retries 1/2")
