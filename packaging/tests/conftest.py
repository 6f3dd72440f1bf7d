"""The packages, and fresh hosts to try them on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
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


def pytest_sessionstart(session: pytest.Session) -> None:
    """Build packages and hosts, before processes share out the tests: all try the same packages."""
    if hasattr(session.config, "workerinput"):
        return
    suite = str(session.config.getoption("--suite"))
    containers.build_packages(suite)
    for stage in containers.STAGES:
        containers.ensure_image(docker.from_env(timeout=600), suite, stage)


@pytest.fixture(scope="session")
def suite(request: pytest.FixtureRequest) -> str:
    """The Debian suite that the packages are for."""
    return str(request.config.getoption("--suite"))


@pytest.fixture(scope="session")
def packages(suite: str) -> Path:
    """The folder with the packages."""
    return containers.OUT / suite


@pytest.fixture
def host(suite: str, packages: Path) -> Iterator[Host]:
    """A fresh host with Slurm, where an admin has the package manager's tools."""
    yield from fresh(containers.image_name(suite, "host"), packages)


@pytest.fixture
def builder(suite: str, packages: Path) -> Iterator[Host]:
    """A fresh host that has lintian, rpm and dnf as well."""
    yield from fresh(containers.image_name(suite, "builder"), packages)


def fresh(image: str, packages: Path) -> Iterator[Host]:
    """A host of an image, which is removed after use."""
    made = Host(image, packages)
    yield made
    made.remove()
