"""The packages, and fresh hosts to try them on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
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


@pytest.fixture(scope="session")
def image(suite: str) -> Callable[[str], str]:
    """The image of a stage, ``host`` or ``builder``."""
    client = docker.from_env(timeout=600)
    return cache(lambda stage: containers.ensure_image(client, suite, stage))


@pytest.fixture
def host(image: Callable[[str], str], packages: Path) -> Iterator[Host]:
    """A fresh host with Slurm, where an admin has the package manager's tools."""
    yield from fresh(image("host"), packages)


@pytest.fixture
def builder(image: Callable[[str], str], packages: Path) -> Iterator[Host]:
    """A fresh host that has lintian, rpm and dnf as well."""
    yield from fresh(image("builder"), packages)


def fresh(image: str, packages: Path) -> Iterator[Host]:
    """A host of an image, which is removed after use."""
    made = Host(image, packages)
    yield made
    made.remove()
