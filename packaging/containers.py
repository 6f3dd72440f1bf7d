#!/usr/bin/env python3
"""Build packages in containers: ``containers.py [--suite SUITE]…``; prints the files it has made.

Each suite's packages are built on a host of that suite, by its own Python and against its Slurm,
and without a network.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import docker

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docker"))

import image  # noqa: E402

SUITES = ("trixie", "forky")
STAGES = ("builder", "host")
"""The stages of our Dockerfile."""
OUT = ROOT / "dist"
FOLDERS = ("packaging", "completions")
"""What packages need besides the files of the wheel."""
BUILD = (
    "exec >&2; cd /build/source && packaging/make deb /build/out && packaging/make rpm /build/out"
)
FROM_WHEELS = {
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": "/build/wheels",
    "WHEEL": "slurm-failover",
}


def image_name(suite: str, stage: str) -> str:
    """The name of the image of one stage of our Dockerfile for a suite."""
    return f"slurm-failover/packages-{stage}:{suite}"


def ensure_image(client: docker.DockerClient, suite: str, stage: str) -> str:
    """Build such an image if need be; its id."""
    base = {"BASE": image.ensure_system(client, suite)}
    tag = image_name(suite, stage)
    with tempfile.TemporaryDirectory(prefix="slurm-failover-packaging-") as folder:
        shutil.copy(ROOT / "packaging" / "Dockerfile", folder)
        return image.build(client, Path(folder), target=stage, buildargs=base, tag=tag)


def source_files() -> list[Path]:
    """The files that packages are made of."""
    more = (file for name in FOLDERS for file in image.files_under(ROOT / name))
    return [*image.package_files(), *more]


def lay_out(python: str, work: Path) -> None:
    """Put sources, wheels and an empty folder for the packages into ``work``."""
    for file in source_files():
        copy = work / "source" / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy)
    image.fetch(python, image.required("install_requires"), (), work / "wheels")
    image.build_wheel(work / "wheels")
    (work / "out").mkdir()


def build_packages(suite: str) -> list[Path]:
    """Build one suite's packages, unless they are those of the sources as they are; their paths.

    SystemExit with what was said where that fails.
    """
    target = OUT / suite
    made_from = image.digest(suite, source_files())
    stamp = target / "made-from"
    if stamp.is_file() and stamp.read_text() == made_from:
        return packages_in(target)
    client = docker.from_env(timeout=600)
    builder = ensure_image(client, suite, "builder")
    with tempfile.TemporaryDirectory(prefix="slurm-failover-packages-") as folder:
        work = Path(folder)
        lay_out(image.python_version(client, builder), work)
        run_build(client, builder, work)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for file in (*(work / "out").iterdir(), *(work / "wheels").glob("slurm_failover-*.whl")):
            shutil.copy(file, target)
    stamp.write_text(made_from)
    return packages_in(target)


def packages_in(folder: Path) -> list[Path]:
    """The packages that lie in a folder."""
    return sorted(path for path in folder.iterdir() if path.name != "made-from")


def run_build(client: docker.DockerClient, builder: str, work: Path) -> None:
    """Run the build in a container of the builder's image."""
    image.say("building packages")
    try:
        client.containers.run(
            builder,
            ["bash", "-c", BUILD],
            entrypoint="",
            environment=FROM_WHEELS,
            network_mode="none",
            volumes={str(work): {"bind": "/build", "mode": "rw"}},
            remove=True,
            stderr=True,
        )
    except docker.errors.ContainerError as error:
        raise SystemExit(f"packages: {error.stderr.decode()[-6000:]}") from error


def main() -> None:
    """Build the packages of the suites that were asked for, or of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", action="append", choices=SUITES)
    for suite in parser.parse_args().suite or SUITES:
        for path in build_packages(suite):
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
