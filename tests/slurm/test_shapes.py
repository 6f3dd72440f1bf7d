"""Jobs of every shape, and what a site may choose, on real Slurm daemons."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from cluster import CONTROLLER, HOSTS, NODES, SHARED, Cluster, each
from story import GATED, LOST, Story

pytestmark = pytest.mark.slurm

SETTINGS = "/etc/slurm-failover/settings.toml"
SPOT = 'job failover needs on-demand resources: partition "spot" is spot or preemptible'


@pytest.fixture
def story(cluster: Cluster) -> Story:
    """The live cluster as the tests below talk to it."""
    return Story(cluster)


def choose(story: Story, *lines: str) -> None:
    """Add keys of [failover] to the settings on every host."""
    text = r"\n".join(("", "[failover]", *lines, ""))
    each(lambda host: story.cluster.check(host, f"printf '{text}' >>{SETTINGS}"), HOSTS)


def fail_with_a_fault(story: Story, job: int, node: str | None = None) -> str:
    node = node or story.nodes(job)[0]
    story.cluster.inject(node, LOST)
    story.end(job, 1)
    return node


# --- where a job may be failed over -----------------------------------------------------------


def test_a_job_on_spot_resources_is_told_so_and_fails_as_ever(story: Story) -> None:
    job = story.start("--partition=spot")
    assert story.comment(job) == f"failover [slurm-failover: off: {SPOT}]"
    view = story.show(job)
    assert (view["state"], view["because"]) == (None, SPOT)
    fail_with_a_fault(story, job)
    story.wait_shown(job, "Failed")


def test_a_running_job_on_spot_resources_is_not_stopped_by_its_node(story: Story) -> None:
    job = story.start("--partition=spot")
    story.cluster.inject(story.nodes(job)[0], LOST)
    story.wait_drained(story.nodes(job)[0])
    assert "RUNNING" in story.cluster.job_state(job)


def test_a_job_that_may_start_on_spot_resources_is_denied(story: Story) -> None:
    job = story.start("--partition=gpu,spot")
    fail_with_a_fault(story, job)
    view = story.wait_shown(job, "Pending - internalerror")
    assert (view["because"], view["retries"]) == (SPOT, 0)


def test_a_job_in_a_spot_qos_is_told_so(story: Story) -> None:
    choose(story, 'spot_qos = ["fail*"]')
    job = story.start("--qos=failover")
    told = 'job failover needs on-demand resources: QOS "failover" is spot or preemptible'
    assert story.comment(job) == f"failover [slurm-failover: off: {told}]"
    fail_with_a_fault(story, job)
    story.wait_shown(job, "Failed")


def test_an_owner_gains_no_retry_by_what_they_write_into_the_comment(story: Story) -> None:
    job = story.start(comment="failover=1")
    first = fail_with_a_fault(story, job)
    [second] = story.wait_running(job, restarts=1)
    forged = "failover=99 [slurm-failover: armed, retries 0/99]"
    update = ["scontrol", "update", f"JobId={job}", f"Comment={forged}"]
    story.cluster.check(CONTROLLER, update, "alice")
    assert (story.show(job)["retries"], story.show(job)["max_retries"]) == (1, 1)
    fail_with_a_fault(story, job, second)
    view = story.wait_shown(job, "Pending - maxretriesexceeded")
    assert view["because"].startswith(f"its only retry is used; last: {second}: Xid 79")
    assert story.comment(job).startswith("failover=99 [slurm-failover: maxretriesexceeded, ")
    assert story.drained() == sorted((first, second))


@pytest.mark.parametrize("comment", [None, ""], ids=["as it was", "emptied"])
def test_an_owner_who_requeues_a_job_that_was_failed_over_waits_in_line(
    story: Story, comment: str | None
) -> None:
    job = story.start()
    [node] = story.nodes(job)
    story.cluster.inject(node, LOST)
    story.end(job, 1)
    story.wait_running(job, restarts=1)
    if comment is not None:
        story.cluster.check(
            CONTROLLER, ["scontrol", "update", f"JobId={job}", f"Comment={comment}"], "alice"
        )
    story.cluster.check(CONTROLLER, ["slurm-failover", "reconcile"], "slurm")
    assert story.cluster.job_state(job) == ["RUNNING"]
    story.cluster.check(CONTROLLER, ["scontrol", "requeue", str(job)], "alice")
    story.cluster.wait(lambda: story.cluster.job_state(job) == ["PENDING"], 30, "the requeue")
    shown = story.cluster.job(job)
    assert (shown["hold"], shown["restart_cnt"]) == (False, 2)
    assert 0 < shown["priority"]["number"] < 4294967293


def test_a_job_flagged_by_the_option_alone_is_listed(story: Story) -> None:
    job = story.start("--failover=2", comment=None)
    listed = story.cluster.check(CONTROLLER, ["slurm-failover", "status", "--json"], "bob")
    [view] = [view for view in json.loads(listed) if view["job_id"] == job]
    assert (view["state"], view["max_retries"]) == ("armed", 2)


def test_an_arrays_waiting_tasks_are_listed_as_squeue_lists_them(story: Story) -> None:
    array = story.submit("--array=3-6%2", "--hold")
    named = story.cluster.check(CONTROLLER, ["squeue", "-h", "-o", "%i", "-j", str(array)]).strip()
    assert named == f"{array}_[3-6%2]"
    for words in ([], [str(array)]):
        table = story.cluster.check(CONTROLLER, ["slurm-failover", "status", *words], "alice")
        assert f"{array}_[3-6] " in table
    story.cluster.check(CONTROLLER, ["scancel", str(array)], "alice")


def test_how_a_run_ended_that_was_no_failure_is_told_in_slurms_words(story: Story) -> None:
    done, cancelled, waited = (story.start("--gres=gpu:1") for _ in range(3))
    story.end(done, 0)
    story.cluster.check(CONTROLLER, ["scancel", str(cancelled)], "alice")
    story.cluster.check(CONTROLLER, ["scontrol", "requeue", str(waited)], "alice")
    story.cluster.wait(lambda: story.cluster.job_state(waited) == ["PENDING"], 30, "the requeue")

    def row(job: int) -> list[str]:
        table = story.cluster.check(CONTROLLER, ["slurm-failover", "status", str(job)], "alice")
        return table.splitlines()[-1].split()[-2:]

    story.wait_shown(done, "Completed")
    story.wait_shown(cancelled, "Cancelled")
    assert row(done) == ["completed", "-"]
    assert row(cancelled) == ["cancelled", "-"]
    assert row(waited) == ["requeued", "-"]
    story.cluster.check(CONTROLLER, ["scancel", str(waited)], "alice")
    story.wait_shown(waited, "Cancelled")
    assert row(waited) == ["requeued", "-"]


def test_a_job_that_must_not_be_requeued_is_told_so_and_listed(story: Story) -> None:
    job = story.start("--no-requeue")
    told = "the job was submitted with --no-requeue"
    assert story.comment(job) == f"failover [slurm-failover: off: {told}]"
    table = story.cluster.check(CONTROLLER, ["slurm-failover", "status"], "bob")
    [line] = [line for line in table.splitlines() if line.startswith(f"{job} ")]
    assert " off " in line
    assert line.endswith(told)


@pytest.mark.parametrize("word", ["0", "off", "-1", "many"])
def test_a_wish_that_is_none_is_told_the_way_out_which_works(story: Story, word: str) -> None:
    job = story.start(comment=f"failover={word}")
    remedy = f"scontrol update JobId={job} Comment=failover=2"
    assert story.comment(job).startswith(f"failover={word} [slurm-failover: off: failover={word} ")
    assert story.comment(job).endswith(f"; to ask for it: {remedy}]")
    assert story.show(job)["because"].endswith(remedy)
    story.cluster.check(CONTROLLER, remedy, "alice")
    first = fail_with_a_fault(story, job)
    assert story.wait_running(job, restarts=1) != [first]
    assert (story.show(job)["retries"], story.show(job)["max_retries"]) == (1, 2)


@pytest.fixture
def federation(story: Story) -> Iterator[None]:
    """The cluster as the member of a federation."""
    story.cluster.check(CONTROLLER, "sacctmgr -i add federation fed clusters=failover")
    shown = ["scontrol", "show", "federation"]
    cluster = story.cluster
    cluster.wait(lambda: "fed" in cluster.check(CONTROLLER, shown), 20, "a federation")
    yield
    cluster.check(CONTROLLER, "squeue -h -o %A | xargs -r scancel")
    cluster.wait(lambda: not cluster.check(CONTROLLER, ["squeue", "-h"]), 30, "an empty queue")
    cluster.check(CONTROLLER, "sacctmgr -i delete federation fed")
    cluster.wait(lambda: "fed" not in cluster.check(CONTROLLER, shown), 20, "no federation")


@pytest.mark.usefixtures("federation")
def test_a_job_of_a_federation_is_told_so_and_fails_as_ever(story: Story) -> None:
    job = story.start()
    told = "jobs of a federation can not be failed over: each cluster sees its own part only"
    assert story.comment(job) == f"failover [slurm-failover: off: {told}]"
    assert (story.show(job)["state"], story.show(job)["because"]) == (None, told)
    node = fail_with_a_fault(story, job)
    story.wait_shown(job, "Failed")
    story.wait_drained(node)


FEW_IDS = """set -e
sed -i s/^MinJobAge=.*/MinJobAge=2/ /etc/slurm/slurm.conf
printf 'FirstJobId=900000\nMaxJobId=900003\n' >>/etc/slurm/slurm.conf
"""


@pytest.fixture
def few_ids(story: Story) -> Iterator[None]:
    """A cluster that soon comes to the end of its job ids, and forgets old jobs."""
    cluster = story.cluster
    with cluster.own_configuration():
        each(lambda host: cluster.check(host, FEW_IDS), HOSTS)
        cluster.check(CONTROLLER, ["scontrol", "reconfigure"])
        yield
    cluster.check(CONTROLLER, f"rm -f {SHARED}/slurm-90000?.out {SHARED}/gate.90000?")


@pytest.mark.usefixtures("few_ids")
def test_a_job_is_not_taken_for_an_older_one_with_the_same_id(story: Story) -> None:
    cluster = story.cluster
    old = cluster.wait(lambda: story.start("--nodes=1"), 60, "a job")
    first = fail_with_a_fault(story, old)
    story.wait_running(old, restarts=1)
    assert story.show(old)["retries"] == 1
    cluster.check(CONTROLLER, ["scancel", str(old)])
    forgotten = ["scontrol", "show", "job", str(old)]
    cluster.wait(lambda: cluster.run(CONTROLLER, forgotten).rc != 0, 150, "the old job's removal")
    assert f'"job":{old},' in cluster.node(first)["extra"], "the node still remembers the old one"
    cluster.check(CONTROLLER, ["scontrol", "update", f"NodeName={first}", "State=RESUME"])

    others = ",".join(node for node in NODES if node != first)
    options = ("--gres=gpu:2", f"--exclude={others}", f"--output={SHARED}/wrapped.out")
    while (job := cluster.sbatch(GATED, "--comment=failover", *options)) != old:
        cluster.check(CONTROLLER, ["scancel", str(job)])
    cluster.wait(lambda: "RUNNING" in cluster.job_state(job), 30, "the new job")
    view = story.show(job)
    assert (view["state"], view["retries"], view["history"]) == ("armed", 0, [])
    story.end(job, 3)
    view = story.wait_shown(job, "Pending - internalerror")
    assert view["because"] == (
        "the program ended with exit code 3, and no node shows a hardware fault"
    )
    assert [attempt["nodes"] for attempt in view["history"]] == [[first]]


# --- hold or cancel -----------------------------------------------------------------------------


def test_a_denied_job_is_cancelled_where_the_site_wants_an_end(story: Story) -> None:
    choose(story, 'on_denial = "cancel"')
    job = story.start()
    after = story.cluster.sbatch("true", f"--dependency=afternotok:{job}")
    story.end(job, 3)
    view = story.wait_shown(job, "Cancelled - internalerror")
    told = "the program ended with exit code 3, and no node shows a hardware fault"
    assert view["because"] == told
    story.wait_shown(after, "Completed")
    row = story.cluster.wait(
        lambda: (
            rows[-1]
            if "CANCELLED"
            in (rows := story.cluster.sacct(job, "State", "AdminComment"))[-1]["State"]
            else None
        ),
        20,
        "the end in the accounting",
    )
    assert told in row["AdminComment"]
    story.cluster.wait(
        lambda: "the job is cancelled ===" in story.cluster.output(job), 20, "the end in the log"
    )


def test_an_exceeded_limit_cancels_where_the_site_wants_an_end(story: Story) -> None:
    choose(story, 'on_exceeded = "cancel"', "max_retries = 1")
    job = story.start()
    first = fail_with_a_fault(story, job)
    [second] = story.wait_running(job, restarts=1)
    fail_with_a_fault(story, job, second)
    view = story.wait_shown(job, "Cancelled - maxretriesexceeded")
    assert view["because"].startswith(f"its only retry is used; last: {second}: Xid 79")
    assert story.drained() == sorted((first, second))


# --- shapes -------------------------------------------------------------------------------------

HET = """#!/bin/bash
#SBATCH --comment=failover --nodes=1 --gres=gpu:2
#SBATCH hetjob
#SBATCH --nodes=1 --gres=gpu:2
""" + GATED.removeprefix("#!/bin/bash\n")


def components(story: Story, job: int) -> list[dict]:
    return [story.cluster.job(str(job + offset)) for offset in (0, 1)]


@pytest.fixture
def het(story: Story) -> Iterator[int]:
    """A heterogeneous job of two components."""
    job = story.cluster.sbatch(HET)
    story.wait_running(job)
    yield job
    story.cluster.run(CONTROLLER, ["scancel", str(job)])
    story.cluster.wait(lambda: not story.cluster.check(CONTROLLER, ["squeue", "-h"]), 30, "end")


def test_a_heterogeneous_job_moves_as_one(story: Story, het: int) -> None:
    first = story.nodes(het)
    assert len(first) == 2
    story.cluster.inject(first[1], LOST)
    story.end(het, 1)
    second = story.wait_running(het, restarts=1)
    view = story.show(het)
    assert first[1] not in second
    assert (view["retries"], view["excluded_nodes"]) == (1, [first[1]])
    assert first[1] in view["cause"]
    for part in components(story, het):
        assert (part["job_state"], part["restart_cnt"]) == (["RUNNING"], 1)
        assert part["excluded_nodes"] == first[1]


def test_a_hung_heterogeneous_job_is_stopped_by_the_node_of_a_component(
    story: Story, het: int
) -> None:
    first = story.nodes(het)
    story.cluster.inject(first[1], LOST)
    second = story.wait_running(het, restarts=1)
    view = story.show(het)
    assert first[1] not in second
    assert (view["retries"], view["excluded_nodes"]) == (1, [first[1]])


def test_a_heterogeneous_job_with_a_component_on_spot_is_told_that_failover_is_off(
    story: Story,
) -> None:
    spot = "hetjob\n#SBATCH --comment=mine --partition=spot"
    job = story.cluster.sbatch(HET.replace("hetjob\n#SBATCH", spot))
    story.wait_running(job)
    why = 'job failover needs on-demand resources: partition "spot" is spot or preemptible'
    story.cluster.wait(lambda: story.show(job)["because"] == why, 30, "word on the spot partition")
    story.cluster.check(CONTROLLER, ["scancel", str(job)])


def test_a_word_in_a_later_component_alone_stops_no_heterogeneous_job(story: Story) -> None:
    told = HET.replace("--comment=failover ", "", 1).replace(
        "hetjob\n#SBATCH", "hetjob\n#SBATCH --comment=failover"
    )
    job = story.cluster.sbatch(told)
    story.wait_running(job)
    hit = str(story.cluster.job(str(job + 1))["nodes"])
    story.cluster.inject(hit, LOST)
    story.wait_drained(hit)
    assert [part["job_state"] for part in components(story, job)] == [["RUNNING"]] * 2
    story.end(job, 1)
    story.wait_shown(job, "Failed")


def test_a_denied_heterogeneous_job_holds_all_components(story: Story, het: int) -> None:
    story.end(het, 3)
    view = story.wait_shown(het, "Pending - internalerror")
    assert view["retries"] == 0
    assert [part["hold"] for part in components(story, het)] == [True, True]


def test_a_job_that_asks_for_the_faulty_node_by_name_is_told_so(story: Story) -> None:
    job = story.start("--nodelist=n1")
    fail_with_a_fault(story, job)
    view = story.wait_shown(job, "Pending - internalerror")
    assert view["because"] == (
        "n1: Xid 79 on GPU 0000:3b:00: GPU has fallen off the bus; "
        "no healthy nodes: the job asks for n1 (--nodelist)"
    )
    assert (view["retries"], story.drained()) == (0, ["n1"])


def test_a_job_with_too_few_healthy_nodes_waits_and_says_so(story: Story) -> None:
    job = story.start(nodes=3)
    first = story.nodes(job)
    for node in first[:2]:
        story.cluster.inject(node, LOST)
    story.end(job, 1)
    story.cluster.wait(lambda: story.show(job)["retries"] == 1, 30, "the failover")
    view = story.wait_shown(job, "Pending - failoverinprogress")
    assert view["because"] == (
        "no healthy nodes: the job needs 3 in gpu, 2 left "
        f"(excluded {first[0][0]}[{first[0][1]}-{first[1][1]}])"
    )
    table = story.cluster.check(CONTROLLER, ["slurm-failover", "status"], "alice")
    assert "no healthy nodes: the job needs 3 in gpu" in table
    for node in first[:2]:
        story.cluster.check(CONTROLLER, f"scontrol update NodeName={node} State=RESUME")
    story.cluster.wait(
        lambda: story.cluster.job(job)["state_reason"] == "BadConstraints", 60, "Slurm's next look"
    )
    assert story.show(job)["because"] == view["because"]
    story.cluster.check(CONTROLLER, ["slurm-failover", "reconcile"], "slurm")
    story.wait_running(job, restarts=1)


def test_afterok_survives_a_failover_and_afternotok_does_not_fire(story: Story) -> None:
    job = story.start()
    good = story.cluster.sbatch("true", f"--dependency=afterok:{job}")
    bad = story.cluster.sbatch("true", f"--dependency=afternotok:{job}")
    fail_with_a_fault(story, job)
    story.wait_running(job, restarts=1)
    assert story.cluster.job_state(good) == ["PENDING"]
    assert story.cluster.job_state(bad) == ["PENDING"]
    assert story.show(job)["retries"] == 1
    story.end(job, 0)
    story.wait_shown(good, "Completed")
    assert not story.cluster.sacct(bad, "State")[-1]["State"].startswith("COMPLETED")


def test_what_waits_for_the_failure_of_a_held_job_waits_on_whenever_it_was_submitted(
    story: Story,
) -> None:
    job = story.start()
    early = story.cluster.sbatch("true", f"--dependency=afternotok:{job}", user="bob")
    story.end(job, 3)
    story.wait_shown(job, "Pending - internalerror")
    late = story.cluster.sbatch("true", f"--dependency=afternotok:{job}", user="bob")
    probe = story.cluster.sbatch("true", user="bob")
    story.wait_shown(probe, "Completed")
    assert [story.cluster.job_state(after) for after in (early, late)] == [["PENDING"]] * 2
    story.cluster.check(CONTROLLER, ["scancel", str(job)], "alice")
    for after in (early, late):
        story.wait_shown(after, "Completed")


def test_a_job_in_a_reservation_stays_in_it(story: Story) -> None:
    create = (
        "scontrol create reservation ReservationName=r1 StartTime=now Duration=60 "
        "Users=alice Nodes=n[1-3]"
    )
    story.cluster.check(CONTROLLER, create)
    try:
        job = story.start("--reservation=r1")
        first = fail_with_a_fault(story, job)
        [second] = story.wait_running(job, restarts=1)
        assert second in {"n1", "n2", "n3"} - {first}
        assert story.cluster.job(job)["resv_name"] == "r1"
    finally:
        story.cluster.run(CONTROLLER, "squeue -h -o %A | xargs -r scancel")
        delete = ["scontrol", "delete", "ReservationName=r1"]
        story.cluster.wait(lambda: story.cluster.run(CONTROLLER, delete).rc == 0, 30, "its end")


def test_a_suspended_job_is_moved_when_its_node_breaks(story: Story) -> None:
    job = story.start()
    [node] = story.nodes(job)
    story.cluster.check(CONTROLLER, ["scontrol", "suspend", str(job)])
    story.cluster.inject(node, LOST)
    assert story.wait_running(job, restarts=1) != [node]
    assert story.show(job)["retries"] == 1


def test_a_held_job_that_never_ran_is_nobodys_business(story: Story) -> None:
    job = story.submit("--hold")
    story.cluster.check(CONTROLLER, ["slurm-failover", "reconcile"], "slurm")
    view = story.show(job)
    assert (view["display"], view["state"]) == ("Pending", "armed")
    assert story.cluster.job(job)["hold"] is True


# --- what others wrote --------------------------------------------------------------------------

FOREIGN = {
    "JSON of another tool": '{"APS": {"auto": true}, "note": "failover=2 "}; failover',
    "quotes": 'failover it\'s "quoted" \\ `tick` $HOME ;',
    "newline": "failover\nsecond line\ttab",
    "UTF-8": "failover schräg 火 \u00a0 é",
    "1,024 bytes": "failover " + "x" * 1015,
    "no room for a state": "failover " + "é" * 500,
}


@pytest.mark.parametrize("name", FOREIGN)
def test_the_owners_comment_stays_byte_for_byte(story: Story, name: str) -> None:
    words = FOREIGN[name]
    job = story.start(comment=words)
    assert story.show(job)["state"] == "armed"
    story.end(job, 3)
    story.wait_shown(job, "Pending - internalerror")
    comment = story.cluster.job(job)["comment"]
    assert comment.startswith(words)
    rest = comment.removeprefix(words)
    assert rest == "" or rest.startswith(" [slurm-failover: internalerror")
    assert len(comment.encode()) <= 1024


# --- without us ---------------------------------------------------------------------------------

PACKAGE = "/opt/slurm-failover"
HOOK = f"{PACKAGE}/share/slurm-failover/hook.sh"
COPIES = ("prolog", "epilog", "prolog_slurmctld", "epilog_slurmctld", "healthcheck", "task_prolog")
USE_COPIES = f"""set -e
for name in {" ".join(COPIES)}; do install -m 755 {HOOK} /etc/slurm/$name.sh; done
sed -i -E 's#={PACKAGE}/share/slurm-failover/[a-z]+/#=/etc/slurm/#' /etc/slurm/slurm.conf
"""
BREAKS = {
    "uninstalled": f"mv {PACKAGE} {PACKAGE}.away",
    "no Python": f"mv {PACKAGE}/bin/python3 {PACKAGE}/bin/python3.away",
    "broken Python": f"cp -a {PACKAGE}/bin/python3 {PACKAGE}/bin/python3.away; "
    f"rm {PACKAGE}/bin/python3; printf '#!/bin/sh\\nkill -SEGV $$\\n' >{PACKAGE}/bin/python3; "
    f"chmod 755 {PACKAGE}/bin/python3",
    "broken package": f"for f in {PACKAGE}/lib/python3*/site-packages/slurm_failover/"
    "settings/tables.py; do mv $f $f.away; done",
}
MENDS = {
    "uninstalled": f"mv {PACKAGE}.away {PACKAGE}",
    "no Python": f"mv {PACKAGE}/bin/python3.away {PACKAGE}/bin/python3",
    "broken Python": f"mv -f {PACKAGE}/bin/python3.away {PACKAGE}/bin/python3",
    "broken package": f"for f in {PACKAGE}/lib/python3*/site-packages/slurm_failover/"
    "settings/tables.py.away; do mv $f ${f%.away}; done",
}


@pytest.fixture(params=BREAKS)
def broken(request: pytest.FixtureRequest, story: Story) -> Iterator[str]:
    """The package broken on every host, its hooks called through the site's own copies."""
    cluster = story.cluster
    with cluster.own_configuration():
        each(lambda host: cluster.check(host, USE_COPIES), HOSTS)
        cluster.check(CONTROLLER, ["scontrol", "reconfigure"])
        each(lambda host: cluster.check(host, BREAKS[request.param]), HOSTS)
        yield request.param
        each(lambda host: cluster.check(host, MENDS[request.param]), HOSTS)


@pytest.mark.usefixtures("broken")
def test_without_the_package_jobs_start_run_and_end_as_ever(story: Story) -> None:
    fine = story.cluster.sbatch("srun hostname", "--nodes=4", "--comment=failover")
    bad = story.cluster.sbatch("exit 3", "--nodes=4", "--comment=failover")
    for job, state in ((fine, "COMPLETED"), (bad, "FAILED")):
        story.cluster.wait(
            lambda job=job, state=state: story.cluster.job_state(job) == [state],
            60,
            f"a {state} job",
        )
        assert story.cluster.job(job)["restart_cnt"] == 0
    assert sorted(story.cluster.output(fine).split()) == list(NODES)
    assert story.drained() == []


def test_the_sites_own_copies_of_the_hooks_do_the_same_work(story: Story) -> None:
    cluster = story.cluster
    with cluster.own_configuration():
        each(lambda host: cluster.check(host, USE_COPIES), HOSTS)
        cluster.check(CONTROLLER, ["scontrol", "reconfigure"])
        job = cluster.wait(story.start, 30, "a job after the reconfiguration")
        first = fail_with_a_fault(story, job)
        assert story.wait_running(job, restarts=1) != [first]
        assert f"{SHARED}/slurm-{job}.out" in cluster.job(job)["standard_output"]
