"""Every command of the documentation does what its page says: none ends with an error."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator

import pytest
from cluster import CONTROLLER, NODES, SHARED, Cluster
from doc_pages import ROOT, blocks, commands
from story import LOST, Story

ELSEWHERE = {
    "docker/demo": ("tests/slurm/test_demo.py", '"demo.py"'),
    "tests/run": (".ci/run", "tests/run"),
    "tests/bench/run": ("tests/bench/run", "tests/bench/$name"),
    "python3 -m pip wheel": ("docker/image.py", '"wheel"'),
    "python3 -m venv /opt/slurm-failover": ("docker/Dockerfile", "venv /opt/slurm-failover"),
    "/opt/slurm-failover/bin/pip install": ("docker/Dockerfile", "pip install --no-index"),
    "ln -s /opt/slurm-failover/bin": (
        "docker/Dockerfile",
        "/usr/bin/slurm-failover",
    ),
    "make -C plugins/spank": ("docker/Dockerfile", "make -s -C /tmp/spank check install"),
    "cd /opt/slurm-failover/share/slurm-failover/systemd": ("README.md", "systemctl link $PWD"),
    "packaging/build": ("packaging/tests/conftest.py", "containers.build_packages"),
    "apt install ./slurm-failover": (
        "packaging/tests/test_packages.py",
        "apt-get install -qy /pack",
    ),
    "dnf install ./slurm-failover": (
        "packaging/tests/test_rpms.py",
        "dnf install -y /packages",
    ),
    "systemctl": ("tests/programs/test_watch_unit.py", "systemctl"),
    "slurm-failover install --apply": ("tests/slurm/test_site.py", '"install", "--apply"'),
    "slurm-failover uninstall --apply": ("tests/slurm/test_site.py", '"uninstall", "--apply"'),
}
"""Commands that make the cluster of these tests, run them or are run where a stock cluster stands:
the file that runs them, and its words for it.
"""
ROOTS = ("resume", "doctor", "breaker", "reconcile")
"""Commands of ours that are an admin's."""
SUDO = 'sudo() { runuser "$1" "$2" -- "${@:3}"; }; '
LOG = f"{SHARED}/kernel.log"
RULES = "/etc/slurm-failover/rules.d"


@pytest.fixture
def story(cluster: Cluster) -> Iterator[Story]:
    """A cluster whose configuration may be changed."""
    with cluster.own_configuration():
        yield Story(cluster)
    cluster.check(CONTROLLER, f"rm -rf {RULES}")


def fail_over(story: Story) -> int:
    """A job of alice's that has moved once and runs."""
    job = story.start("--failover", comment=None)
    story.cluster.inject(story.nodes(job)[0], LOST)
    story.end(job, 1)
    story.wait_running(job, restarts=1, seconds=60)
    return job


def user_of(command: str) -> str:
    """Whose command it is: an ordinary user's, or root's."""
    words = shlex.split(command)
    is_ours = words[0] == "slurm-failover" and words[1] not in ROOTS
    return "alice" if is_ours or words[0] in ("sbatch", "squeue") else "root"


def run_told(cluster: Cluster, command: str) -> str:
    """Run a command as its page tells it; what is wrong, or nothing."""
    user = user_of(command)
    home = "cd ~ && " if user == "alice" else ""
    host = NODES[3] if "resume" in command else CONTROLLER
    done = cluster.run(host, f"set -e; {SUDO}{home}{command}", user)
    worst = 1 if command == "slurm-failover doctor" else 0
    return "" if done.rc <= worst else f"{command}: {done.rc}: {done.stderr}{done.stdout}"


def add_rule(cluster: Cluster) -> None:
    """Write the rule of five minutes as its page tells."""
    (rule,) = (block.text for block in blocks() if "[acme-fan]" in block.text)
    write = 'mkdir -p "$1" && printf %s "$2" >"$1"/acme.toml'
    cluster.check(CONTROLLER, ["bash", "-c", write, "write", RULES, textwrap.dedent(rule)])


def test_every_command_of_the_documentation_works(story: Story) -> None:
    cluster, job = story.cluster, fail_over(story)
    add_rule(cluster)
    script = "for name in train.sh job.sh; do printf '#!/bin/bash\\ntrue\\n' >~/$name; done"
    cluster.check(CONTROLLER, script, "alice")
    cluster.check(CONTROLLER, ["bash", "-c", 'echo "[ 12.5] $1" >$2', "write", LOST, LOG])
    here = [told for told in commands() if not told[1].startswith(tuple(ELSEWHERE))]
    wrong = {
        where: said
        for where, command in here
        if (said := run_told(cluster, command.replace("4711", str(job)).replace("FILE", LOG)))
    }
    assert len(here) > 20
    assert not wrong


@pytest.mark.parametrize(("command", "there"), ELSEWHERE.items())
def test_what_is_not_run_here_is_run_there(command: str, there: tuple[str, str]) -> None:
    assert any(told.startswith(command) for _, told in commands()), "no page says so any more"
    file, words = there
    assert words in (ROOT / file).read_text()
