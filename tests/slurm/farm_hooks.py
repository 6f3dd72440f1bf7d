"""The nodes' hooks of one container of the farm, in one resident interpreter that forks for each.

The code and its requests are the real ones. What is left out are the interpreter's start, the
imports and the reading of the rules, which a site has once on each of its nodes and a farm would
have hundreds of times on one host.

A hook writes its name and its environment, separated by NUL and ended by an empty one, to a local
port, and reads the exit status.
"""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import signal
import socket
import sys
from collections.abc import Mapping
from functools import cache

PORT = 7979
HOME = sys.argv[1]
PACKAGE = sys.argv[2]
sys.path.insert(0, PACKAGE)

from slurm_failover import catalogue, detach, hooks  # noqa: E402
from slurm_failover.settings import file as settings_file  # noqa: E402


def main() -> None:
    """Serve for ever."""
    catalogue.load_rules = cache(catalogue.load_rules)
    catalogue.load_rules(None)
    detach.start_detached = start_detached
    for folder in ("node", "sources", "slurm", "parse", "classify", "health"):
        path = [f"{PACKAGE}/slurm_failover/{folder}"]
        for module in pkgutil.walk_packages(path, f"slurm_failover.{folder}."):
            if "pyslurm" not in module.name:
                importlib.import_module(module.name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.create_server(("127.0.0.1", PORT), backlog=512) as server:
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                serve(connection)
            connection.close()


def serve(connection: socket.socket) -> None:
    """One hook, in a process of its own."""
    told = b""
    while not told.endswith(b"\0\0"):
        told += connection.recv(1 << 16)
    name, *variables = told[:-2].split(b"\0")
    pairs = [os.fsdecode(variable).partition("=") for variable in variables]
    status = run(name.decode(), {key: value for key, _, value in pairs})
    connection.sendall(b"%d\n" % status)
    os._exit(0)


def run(name: str, variables: Mapping[str, str]) -> int:
    """The hook's exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(variables)
    node = variables["SLURMD_NODENAME"]
    settings_file.load_settings.__defaults__ = (f"{HOME}/{node}/settings.toml",)
    return hooks.main([name])


def start_detached(hook: str, variables: Mapping[str, str] | None = None) -> None:
    """In place of detach.start_detached: a fork in place of an interpreter."""
    if os.fork() == 0:
        os.setsid()
        os.closerange(3, 1024)
        os._exit(run(hook, {**os.environ, **(variables or {})}))


main()
