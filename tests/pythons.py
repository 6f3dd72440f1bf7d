"""The unit tests on each release of Python: see tests/pythons."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import docker

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docker"))

import image  # noqa: E402

RELEASES = ("3.11", "3.12", "3.13", "3.14")
SUITES = ("trixie", "forky")
ASK = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
WORK = "/work-of-tests"
"""Where a container has the folder of the wheels."""
STEPS = """set -e
"$PYTHON" -m venv "$WORK/venv"
pip() { "$WORK/venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }
pip install --no-index --find-links "$WORK/wheels" slurm-failover[test]
bindings=$(echo tests/programs/test_{node_sources,nvml,nvml_health,listener}.py)
exec "$WORK/venv/bin/python" -B -m pytest -q -n 2 tests/unit $bindings
"""
Run = Callable[[Path], tuple[int, str]]
"""Runs the steps with wheels that lie in a folder: their exit status, and what they said."""


def interpreters(release: str) -> Iterator[str]:
    """What may be that release on this machine: ours, the path's, and pyenv's."""
    yield sys.executable
    yield from filter(None, [shutil.which(f"python{release}")])
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    yield from map(str, sorted(pyenv.glob(f"versions/{release}.*/bin/python3")))


def is_release(python: str, release: str) -> bool:
    """Whether an interpreter is of that release and can make virtual environments."""
    done = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=False)
    return done.stdout.strip() == release


@cache
def images() -> dict[str, str]:
    """The image of a Debian suite for each release of Python that one has; none without Docker."""
    try:
        client = docker.from_env(timeout=600)
    except docker.errors.DockerException:
        return {}
    systems = [image.ensure_system(client, suite) for suite in SUITES]
    return {image.python_version(client, system): system for system in systems}


def on_this_machine(python: str) -> Run:
    """The steps with an interpreter of this machine."""

    def run(work: Path) -> tuple[int, str]:
        environment = {**os.environ, "PYTHON": python, "WORK": str(work)}
        done = subprocess.run(
            ["bash", "-c", STEPS],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    return run


def in_a_container(system: str) -> Run:
    """The steps in a container with the sources as they are, which they can not change."""

    def run(work: Path) -> tuple[int, str]:
        container = docker.from_env(timeout=3600).containers.run(
            system,
            ["bash", "-c", STEPS],
            environment={"PYTHON": "/usr/bin/python3", "WORK": WORK, "LANG": "C.UTF-8"},
            volumes={
                str(ROOT): {"bind": "/source", "mode": "ro"},
                str(work): {"bind": WORK, "mode": "rw"},
            },
            working_dir="/source",
            network_mode="none",
            init=True,
            detach=True,
        )
        try:
            return int(container.wait()["StatusCode"]), container.logs().decode(errors="replace")
        finally:
            container.remove(force=True)

    return run


def find(release: str) -> tuple[str, Run] | None:
    """Where a release is, in words, and how to run the steps there; None where it is nowhere."""
    for python in interpreters(release):
        if is_release(python, release):
            return "this machine's", on_this_machine(python)
    system = images().get(release)
    return ("in a container", in_a_container(system)) if system else None


def try_release(release: str) -> bool:
    """Run the unit tests on a release, and tell how it went; False where one failed."""
    found = find(release)
    if found is None:
        print(f"Python {release}: left out: neither this machine nor a Debian suite of ours has it")
        return True
    where, run = found
    with tempfile.TemporaryDirectory(prefix="slurm-failover-pythons-") as folder:
        work = Path(folder)
        wanted = image.required("install_requires")
        wanted += image.required("test", "options.extras_require")
        image.fetch(release, wanted, (), work / "wheels")
        image.build_wheel(work / "wheels")
        status, said = run(work)
    if status:
        print(said)
    print(f"Python {release}, {where}: {said.strip().splitlines()[-1]}", flush=True)
    return status == 0


def main() -> None:
    """Try the releases that were asked for, or all."""
    sys.exit(not all([try_release(release) for release in sys.argv[1:] or RELEASES]))


if __name__ == "__main__":
    main()
