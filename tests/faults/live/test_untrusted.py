"""On real daemons: nothing that a user can write is believed, run, followed or printed raw."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import CONTROLLER, HOSTS, NODES, SHARED, Cluster, each
from rig import Rig

ENEMY = r"""#!/bin/bash
fault="NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
mkdir -p /tmp/enemy /shared/enemy
for name in python3 scontrol squeue timeout flock sed mkdir rm date mkfifo; do
    printf '#!/bin/sh\n: >/shared/enemy/ran.%s\n' $name >/tmp/enemy/$name
    chmod 755 /tmp/enemy/$name
done
echo 'open("/shared/enemy/ran.sitecustomize", "w")' >/tmp/enemy/sitecustomize.py
echo "$fault"
logger -p kern.emerg "$fault"
echo "3,1,1,-;$fault" >>/var/lib/slurm-failover-test/kmsg
echo "<3>$fault" >/dev/kmsg
printf '\033]0;owned\007\033[2J%s\n' "$fault"
head -c 8000000 /dev/zero | tr '\0' x
mkdir -p /run/slurm-failover/watch
ln -sf /etc/passwd /run/slurm-failover/$SLURM_JOB_ID
exit 1
"""
ENVIRONMENT = (
    "PATH=/tmp/enemy:/usr/bin:/bin PYTHONPATH=/tmp/enemy PYTHONSTARTUP=/tmp/enemy/sitecustomize.py "
    "PYTHONHOME=/tmp/enemy LD_PRELOAD=/tmp/enemy/no.so "
    "BASH_ENV=/tmp/enemy/python3 ENV=/tmp/enemy/sed "
    "SLURM_JOB_START_TIME=0 FAILOVER_QUEUE=/tmp/enemy FAILOVER_STOP=/etc/passwd IFS=x"
)
FOUL = "a\nb\x1b[31m$(touch /shared/enemy/ran.shell)`touch /shared/enemy/ran.tick`;'\"%s"
FOLDERS = "/var/lib/slurm-failover /run/slurm-failover"


def submit_enemy(rig: Rig) -> int:
    """A flagged job of alice that does all it can to be believed, or to have something run."""
    line = f'script=$1; shift; printf "%s\\n" "$script" | env {ENVIRONMENT} /usr/bin/sbatch "$@"'
    options = [
        *("--parsable", "--nodes=1", "--gres=gpu:2", f"--job-name={FOUL}", "--export=ALL"),
        f"--comment=failover {FOUL}",
        f"--output={SHARED}/enemy-%j-{FOUL.replace('/', '_')}",
    ]
    done = rig.cluster.check(
        CONTROLLER, ["bash", "-c", line, "sbatch", ENEMY, *options], user="alice"
    )
    return int(done.split(";")[0])


def test_a_job_that_lies_with_all_it_has_is_denied_and_harms_nobody(rig: Rig) -> None:
    rig.cluster.check(CONTROLLER, f"rm -rf {SHARED}/enemy; install -d -m 777 {SHARED}/enemy")
    job = submit_enemy(rig)
    view = rig.wait_shown(job, "Pending - internalerror", seconds=60)
    assert "exit code 1, and no node shows a hardware fault" in view["because"]
    assert rig.drained() == []
    assert rig.cluster.check(CONTROLLER, f"ls {SHARED}/enemy") == ""
    for command in (
        f"slurm-failover status {job}",
        "slurm-failover status",
        "slurm-failover nodes",
    ):
        shown = rig.cluster.check(CONTROLLER, command)
        assert "\x1b" not in shown
        assert "\x07" not in shown
    for host in HOSTS:
        logged = rig.cluster.run(host, "grep -c $'\\x1b' /var/log/slurm/slurm-failover.log").stdout
        assert logged.strip() == "0"


def test_what_we_make_as_root_is_roots_and_nobody_elses_to_write(rig: Rig) -> None:
    job = rig.start(nodes=2)
    rig.end_broken(job)
    rig.bring_back(job)
    for host in HOSTS:
        owner = "slurm" if host == CONTROLLER else "root"
        odd = f"find {FOLDERS} ( -perm /022 -o -not -user {owner} ) -not -type l"
        found = rig.cluster.run(host, odd.replace("(", "\\(").replace(")", "\\)")).stdout
        assert found.replace("/var/lib/slurm-failover\n", "") == ""
    rig.check_moved(job)


@pytest.mark.parametrize("link", ["-s", ""], ids=["symbolic link", "hard link"])
def test_no_link_in_place_of_a_jobs_output_is_written_through(rig: Rig, link: str) -> None:
    job = rig.start()
    log, secret = f"{SHARED}/slurm-{job}.out", f"{SHARED}/roots"
    change = f"rm -f {secret}; echo kept >{secret}; chmod 600 {secret}; ln -f {link} {secret} {log}"
    rig.cluster.check(CONTROLLER, change)
    rig.end(job, 3)
    rig.wait_shown(job, "Pending - internalerror")
    (node,) = rig.nodes_at_rest[job]
    rig.cluster.wait(
        lambda: (
            "not in its log" in rig.said(node) or rig.cluster.read(CONTROLLER, secret) != "kept\n"
        ),
        60,
        "a try to write to the job's log",
    )
    assert rig.cluster.read(CONTROLLER, secret) == "kept\n"


@pytest.fixture
def private(cluster: Cluster) -> Iterator[Rig]:
    """A cluster whose users see their own jobs only, and no nodes."""
    change = "echo PrivateData=jobs,nodes >>/etc/slurm/slurm.conf"
    with cluster.own_configuration():
        each(lambda host: cluster.check(host, change), HOSTS)
        cluster.check(CONTROLLER, ["scontrol", "reconfigure"])
        yield Rig(cluster)


def test_where_jobs_are_private_a_user_sees_of_others_what_squeue_shows_nothing(
    private: Rig,
) -> None:
    job = private.start()
    cluster = private.cluster
    assert cluster.check(CONTROLLER, ["squeue", "-h"], user="bob") == ""
    for command in (["status"], ["status", str(job)], ["logs", str(job)]):
        done = cluster.run(CONTROLLER, ["slurm-failover", *command], user="bob")
        assert "alice" not in done.stdout + done.stderr
        assert "attempt 0" not in done.stdout
        assert "Traceback" not in done.stderr
    for command in (["status"], ["status", str(job)], ["history"], ["logs", str(job)]):
        told = cluster.run(CONTROLLER, ["slurm-failover", *command], user="alice")
        assert (told.rc, str(job) in told.stdout or command[0] != "status") == (0, True), told
    assert "denied" in cluster.run(CONTROLLER, ["slurm-failover", "nodes"], user="alice").stderr
    private.end_broken(job)
    private.bring_back(job)
    private.check_moved(job)


def test_an_ordinary_user_changes_nothing_with_our_commands(rig: Rig) -> None:
    job = rig.start()
    node = NODES[0]
    for command in (["reconcile"], ["resume"], ["breaker", "open"], ["breaker", "close"]):
        done = rig.cluster.run(CONTROLLER, ["slurm-failover", *command], user="bob")
        assert done.rc != 0
        assert "Traceback" not in done.stderr
    assert rig.cluster.job_state(job) == ["RUNNING"]
    assert rig.cluster.node(node)["reason"] == ""
