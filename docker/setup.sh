#!/bin/bash
# setup.sh [--fast]: everything that tests and demo need, on a fresh Debian or Ubuntu as root:
# .venv with this package and its test tools; unless --fast also a Docker Engine that answers
# (the distribution's own, if there is none) and the test cluster's image.
# What is there already is left as it is.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

quietly() { # quietly COMMAND…: its output matters only if it fails
    "$@" </dev/null >.cache/setup.log 2>&1 && return
    tail -n 30 .cache/setup.log >&2
    fail "failed: $*"
}

apt_install() { # apt_install PACKAGE…
    [ "$(id -u)" = 0 ] || fail "needs $*: install them, or run this as root"
    say "installing $*"
    export DEBIAN_FRONTEND=noninteractive
    quietly apt-get update -q
    quietly apt-get install -qy --no-install-recommends "$@"
}

usable_python() { # the first Python that is new enough and can make a virtual environment
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    return 1
}

make_venv() {
    local python version wanted
    usable_python >/dev/null || apt_install python3 python3-venv
    python=$(usable_python) || fail "needs Python 3.11 or newer with its venv module"
    version=$("$python" -V)
    wanted=$(sha256sum setup.cfg pyproject.toml)
    if [ "$(.venv/bin/python -V 2>/dev/null)" != "$version" ]; then
        say "making .venv with $version"
        quietly "$python" -m venv --clear .venv
    elif [ "$(cat .venv/made-from 2>/dev/null)" = "$wanted" ]; then
        return
    fi
    say "installing the package and its test tools into .venv"
    quietly .venv/bin/python -m pip install --editable '.[test]'
    echo "$wanted" >.venv/made-from
}

install_compiler() { # tests build a stand-in for NVIDIA's library
    if command -v cc >/dev/null && command -v make >/dev/null; then return; fi
    apt_install gcc libc6-dev make
}

fetch_promtool() { # one program of a package, without its service; tests check our metrics with it
    if command -v promtool >/dev/null || [ -x .cache/promtool/promtool ]; then return; fi
    command -v dpkg-deb >/dev/null && [ "$(id -u)" = 0 ] || return 0
    say "fetching promtool"
    rm -rf .cache/promtool && mkdir -p .cache/promtool/unpacked
    (cd .cache/promtool && apt-get update -q && apt-get download prometheus &&
        dpkg-deb -x prometheus_*.deb unpacked && mv unpacked/usr/bin/promtool . &&
        rm -r unpacked prometheus_*.deb) </dev/null >.cache/setup.log 2>&1 ||
        say "there is no promtool, so the tests that need it are skipped"
}

install_seeing() { # tests press TAB in shells, and look at the report with a browser
    local name
    [ "$(id -u)" = 0 ] || return 0
    for name in zsh fish chromium; do
        if command -v "$name" >/dev/null; then continue; fi
        (apt_install "$name") || say "there is no $name, so the tests that need it are skipped"
    done
}

docker_answers() {
    .venv/bin/python -c 'import docker; docker.from_env(timeout=10).ping()' 2>/dev/null
}

wait_for_docker() { # wait_for_docker SECONDS
    local end=$((SECONDS + $1))
    until docker_answers; do
        ((SECONDS < end)) || return 1
        sleep 0.5
    done
}

forget_dead() { # forget_dead PIDFILE NAME: a killed daemon's number may be another process's now
    local pid
    pid=$(cat "$1" 2>/dev/null) || return 0
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] || rm -f "$1"
}

start_service() {
    if [ -d /run/systemd/system ]; then
        systemctl start docker
    else
        service docker start
    fi </dev/null >/dev/null 2>&1
}

start_docker() {
    [ -z "${DOCKER_HOST:-}" ] || fail "no Docker Engine answers at DOCKER_HOST=$DOCKER_HOST"
    [ "$(id -u)" = 0 ] || fail "no Docker Engine answers: start it, or run this as root"
    say "starting the Docker Engine"
    forget_dead /var/run/docker.pid dockerd
    forget_dead /var/run/docker/containerd/containerd.pid containerd
    if start_service; then wait_for_docker 30 && return; fi
    if ! pidof dockerd >/dev/null; then
        setsid dockerd </dev/null >/var/log/dockerd.log 2>&1 &
    fi
    wait_for_docker 60 || { tail -n 20 /var/log/dockerd.log >&2; fail "dockerd does not answer"; }
}

install_engine() {
    apt_install docker.io
    # Some releases have the command line in a package of its own.
    if apt-cache show docker-cli >/dev/null 2>&1; then apt_install docker-cli; fi
}

make_cluster_image() {
    local image
    if ! docker_answers; then
        command -v dockerd >/dev/null || install_engine
        docker_answers || start_docker 9>&- # the daemon must not inherit our lock
    fi
    command -v debootstrap >/dev/null || apt_install debootstrap debian-archive-keyring
    image=$(.venv/bin/python docker/image.py) || fail "the test cluster's image could not be built"
    say "image $image"
}

mkdir -p .cache
exec 9>.cache/setup.lock
flock 9
make_venv
install_compiler
fetch_promtool
install_seeing
[ "${1:-}" = --fast ] || make_cluster_image
