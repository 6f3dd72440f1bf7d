#!/usr/bin/env python3
"""Build the test cluster's image: ``image.py [--suite trixie]``; the tag is the one line on stdout.

The base comes from debootstrap and our package from a wheel of the working tree, so neither an
image registry nor a network inside the container's Python is needed. The tag is a hash of
everything that goes in: where it exists, nothing is built.
"""

from __future__ import annotations

import argparse
import configparser
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from docker.errors import ImageNotFound

import docker

ROOT = Path(__file__).resolve().parent.parent
REPOSITORY = "slurm-failover/cluster"
KEEP_IMAGES = 4
PACKAGE_SOURCES = ("setup.cfg", "pyproject.toml", "LICENSE", "README.md", "MANIFEST.in")
PACKAGE_FOLDERS = (
    "slurm_failover",
    "prolog",
    "epilog",
    "plugins",
    "systemd",
    "monitoring",
    "examples",
    "docs/man",
    "completions",
)
IMAGE_SOURCES = ("Dockerfile", "bin", "config", "nvml", "pyslurm")
WITH_PYSLURM = ("forky",)
"""The suites whose Slurm is new enough for the pyslurm that the package index has."""
BUILD_TOOLS = ("cython", "packaging", "setuptools", "wheel")


def say(text: str) -> None:
    """One line of progress, apart from the result on stdout."""
    print(f"image: {text}", file=sys.stderr, flush=True)


def files_under(path: Path) -> Iterator[Path]:
    """The file itself, or every file below the folder, in one order, without build products."""
    if path.is_file():
        yield path
    for child in sorted(path.rglob("*")) if path.is_dir() else ():
        if (
            child.is_file()
            and "__pycache__" not in child.parts
            and child.suffix not in {".o", ".so"}
        ):
            yield child


def package_files() -> list[Path]:
    """The files that our wheel is made of."""
    return [f for name in PACKAGE_SOURCES + PACKAGE_FOLDERS for f in files_under(ROOT / name)]


def image_files() -> list[Path]:
    """The files that the image is made of, besides the wheel."""
    return [f for name in IMAGE_SOURCES for f in files_under(ROOT / "docker" / name)]


def digest(suite: str, files: list[Path]) -> str:
    """A short hash of names, modes and bytes."""
    state = hashlib.sha256(suite.encode())
    for file in files:
        mode = file.stat().st_mode & 0o111
        state.update(f"\0{file.relative_to(ROOT)}\0{mode}\0".encode() + file.read_bytes())
    return state.hexdigest()[:12]


def ensure_base(client: docker.DockerClient, suite: str) -> str:
    """The tag of a minimal Debian of that suite, made by debootstrap on first use."""
    tag = f"slurm-failover/base:{suite}"
    try:
        client.images.get(tag)
    except ImageNotFound:
        say(f"debootstrap {suite} (about half a minute, once)")
        make_base(client, suite)
    return tag


def make_base(client: docker.DockerClient, suite: str) -> None:
    """Bootstrap a suite into a folder and import it as an image. Needs root."""
    # debootstrap makes device files, and a /tmp in memory is mounted without (Debian 13's is).
    with tempfile.TemporaryDirectory(prefix="slurm-failover-base-", dir="/var/tmp") as folder:
        # Every Debian suite bootstraps like sid; a host's debootstrap may not know the newest name.
        script = "/usr/share/debootstrap/scripts/sid"
        command = ["debootstrap", "--variant=minbase", suite, folder, "", script]
        run_quietly(command)
        shutil.rmtree(Path(folder, "var/cache/apt/archives"), ignore_errors=True)
        archive = Path(folder).with_suffix(".tar")
        try:
            run_quietly(["tar", "-C", folder, "-cf", str(archive), "."])
            client.api.import_image(str(archive), repository="slurm-failover/base", tag=suite)
        finally:
            archive.unlink(missing_ok=True)


def build(client: docker.DockerClient, context: Path, **options: object) -> str:
    """Build one stage with the classic builder, printing its steps; the image's id."""
    image = ""
    stream = client.api.build(
        path=str(context), rm=True, forcerm=True, decode=True, network_mode="host", **options
    )
    tail: list[str] = []
    for message in stream:
        if "error" in message:
            raise SystemExit("image: build failed\n" + "".join(tail[-60:]) + message["error"])
        text = message.get("stream", "")
        tail.append(text)
        if text.startswith("Step "):
            say(text.split("\n")[0][:100])
        image = message.get("aux", {}).get("ID", image)
    return image


def ensure_system(client: docker.DockerClient, suite: str) -> str:
    """The image with Slurm alone, the first stage of the Dockerfile: its id."""
    base = {"BASE": ensure_base(client, suite)}
    with tempfile.TemporaryDirectory(prefix="slurm-failover-system-") as folder:
        shutil.copy(ROOT / "docker" / "Dockerfile", folder)
        return build(client, Path(folder), target="system", buildargs=base)


def python_version(client: docker.DockerClient, image: str) -> str:
    """The X.Y of the Python inside an image."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    output = client.containers.run(image, ["python3", "-c", code], entrypoint="", remove=True)
    return str(output.decode().strip())


def run_quietly(command: list[str]) -> None:
    """Run a command whose output matters only if it fails; then SystemExit shows its end."""
    done = subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"image: {' '.join(command)} failed:\n{done.stdout[-4000:]}")


def pip(*arguments: str | Path) -> None:
    """Run pip with the host's own settings."""
    run_quietly([sys.executable, "-m", "pip", *map(str, arguments)])


def required(option: str, section: str = "options") -> list[str]:
    """What our package requires, by an option of setup.cfg."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    return setup[section][option].split("\n")[1:]


def cache_folder() -> Path:
    """What is kept between builds."""
    home = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    return _made(home / "slurm-failover")


@contextmanager
def building_alone() -> Iterator[None]:
    """Wait for any other build: two at once prune, and fill the cache, under each other's feet."""
    with (cache_folder() / "image.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another build")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fetch(python: str, wheels: Sequence[str], sources: Sequence[str], target: Path) -> None:
    """Copy wheels for the image's Python and source packages to a folder, from a cache if there."""
    wanted = f"{python} {platform.machine()} {wheels} {sources}"
    cache = cache_folder() / f"wheels-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    if not cache.is_dir():
        say(f"downloading {', '.join((*wheels, *sources))} for Python {python}")
        partial = Path(tempfile.mkdtemp(dir=cache.parent))
        options = ("--only-binary=:all:", "--python-version", python, "--dest", partial)
        pip("download", *options, *wheels)
        if sources:
            pip("download", "--no-deps", "--no-binary=:all:", "--dest", partial, *sources)
        partial.rename(cache)
    shutil.copytree(cache, target)


def fetch_packages(suite: str, python: str, context: Path) -> None:
    """Put our dependencies, and pyslurm's sources where they can be built, into the context."""
    fetch(python, required("install_requires"), (), context / "dependencies")
    if suite in WITH_PYSLURM:
        pyslurm = required("pyslurm", "options.extras_require")
        fetch(python, BUILD_TOOLS, pyslurm, context / "bindings")
    else:
        _made(context / "bindings")


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def build_wheel(target: Path) -> None:
    """Build our wheel from a copy of exactly the files that the tag's hash covers."""
    with tempfile.TemporaryDirectory(prefix="slurm-failover-wheel-") as folder:
        for file in package_files():
            copy = Path(folder) / file.relative_to(ROOT)
            _made(copy.parent)
            shutil.copy(file, copy)
        pip("wheel", "--no-deps", "--wheel-dir", target, folder)


def prune(client: docker.DockerClient, suite: str) -> None:
    """Remove all but our newest images of a suite; one that a container uses stays."""
    images = [i for i in client.images.list(REPOSITORY) if any(f":{suite}-" in t for t in i.tags)]
    images.sort(key=lambda image: str(image.attrs["Created"]), reverse=True)
    for image in images[KEEP_IMAGES:]:
        for tag in image.tags:
            try:
                client.images.remove(tag)
            except docker.errors.APIError as error:
                say(f"kept {tag}: {error.explanation}")


def ensure(suite: str) -> str:
    """The tag of the image for the working tree as it is now, built if need be."""
    client = docker.from_env(timeout=600)
    key = digest(suite, image_files() + package_files())
    tag = f"{REPOSITORY}:{suite}-{key}"
    try:
        client.images.get(tag).tag(REPOSITORY, suite)
        return tag
    except ImageNotFound:
        say(f"building {tag}")
    started = time.monotonic()
    base = {"BASE": ensure_base(client, suite)}
    with tempfile.TemporaryDirectory(prefix="slurm-failover-image-") as folder:
        context = Path(folder)
        for name in IMAGE_SOURCES:
            source = ROOT / "docker" / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, context / name)
        products = shutil.ignore_patterns("*.o", "*.so", "test_failover_option", "test_launcher")
        shutil.copytree(ROOT / "plugins" / "spank", context / "spank", ignore=products)
        system = ensure_system(client, suite)
        build_wheel(context / "package")
        fetch_packages(suite, python_version(client, system), context)
        build(client, context, tag=tag, buildargs=base)
    client.images.get(tag).tag(REPOSITORY, suite)
    prune(client, suite)
    say(f"built in {time.monotonic() - started:.0f} s")
    return tag


def main() -> None:
    """Print the tag of the image for one Debian suite."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", default="trixie", help="Debian suite (trixie: Slurm 24.11)")
    suite = parser.parse_args().suite
    with building_alone():
        tag = ensure(suite)
    print(tag)


if __name__ == "__main__":
    main()
