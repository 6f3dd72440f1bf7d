"""The packages, and fresh hosts to try them on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from host import Host

import docker

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import containers  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which packages are tried."""
    parser.addoption(
        "--suite",
        default=containers.SUITES[0],
        choices=containers.SUITES,
        help="Debian suite that the packages are built for and tried on",
    )


@pytest.fixture(scope="session")
def suite(request: pytest.FixtureRequest) -> str:
    """The Debian suite that the packages are for."""
    return str(request.config.getoption("--suite"))


@pytest.fixture(scope="session")
def packages(suite: str) -> Path:
    """The folder with the packages of the working tree as it is."""
    return containers.build_packages(suite)[0].parent


@pytest.fixture
def new_host(suite: str, packages: Path) -> Iterator[Callable[[str], Host]]:
    """Makes hosts of an image's stage, ``host`` or ``builder``, and removes them."""
    client = docker.from_env(timeout=600)
    hosts: list[Host] = []

    def make(stage: str) -> Host:
        hosts.append(Host(containers.ensure_image(client, suite, stage), packages))
        return hosts[-1]

    yield make
    for made in hosts:
        made.remove()


@pytest.fixture
def host(new_host: Callable[[str], Host]) -> Host:
    """A fresh host with Slurm, where an admin has the package manager's tools."""
    return new_host("host")


@pytest.fixture
def builder(new_host: Callable[[str], Host]) -> Host:
    """A fresh host that has lintian and rpm as well."""
    return new_host("builder")
