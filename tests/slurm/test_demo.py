"""The demo does what the README promises, and leaves nothing behind."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster import HOSTS, poll
from ownership import names_made_by

import docker

DEMO = [sys.executable, str(Path(__file__).parents[2] / "docker" / "demo.py")]
MADE = len(HOSTS) + 2  # with a network and a volume


@pytest.fixture
def suite(request: pytest.FixtureRequest) -> str:
    """The Slurm that the demo is played on."""
    return str(request.config.getoption("--suite"))


@contextmanager
def running_demo(suite: str) -> Iterator[subprocess.Popen[str]]:
    """A demo whose cluster is up; at the end nothing of it may be left."""
    client, command = docker.from_env(), [*DEMO, "--suite", suite]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        names = poll(lambda: len(made := names_made_by(client, demo.pid)) == MADE and made, 120)
        assert names
        yield demo
    containers = {c.name for c in client.containers.list(all=True, ignore_removed=True)}
    networks = {n.name for n in client.networks.list()}
    volumes = {v.name for v in client.volumes.list()}
    assert not (containers | networks | volumes) & set(names)


def test_the_demo_shows_a_job_moving_to_healthy_nodes_and_removes_its_cluster(
    suite: str,
) -> None:
    with running_demo(suite) as demo:
        stdout, stderr = demo.communicate(timeout=300)
    assert demo.returncode == 0, stderr
    assert "failoverinprogress" in stdout
    assert "run 2 on n[3-4]" in stdout
    assert "training done" in stdout


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_removes_its_cluster(how: signal.Signals, suite: str) -> None:
    with running_demo(suite) as demo:
        demo.send_signal(how)
        demo.communicate(timeout=60)
    assert demo.returncode != 0
