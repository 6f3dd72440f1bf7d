"""The packages, and fresh hosts to try them on."""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from host import ROOT, Host

import docker

sys.path.insert(0, str(ROOT / "packaging"))

import containers


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


@contextmanager
def in_turn() -> Iterator[None]:
    """One process of the tests at a time: what the first has built, the next one finds."""
    lock = ROOT / ".cache" / "packages.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def packages(suite: str) -> Path:
    """The folder with the packages of the working tree as it is."""
    with in_turn():
        return containers.build_packages(suite)[0].parent


@pytest.fixture(scope="session")
def image(suite: str) -> Callable[[str], str]:
    """The image of a stage, ``host`` or ``builder``."""
    client = docker.from_env(timeout=600)

    @cache
    def build(stage: str) -> str:
        with in_turn():
            return containers.ensure_image(client, suite, stage)

    return build


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
