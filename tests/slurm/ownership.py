"""Whose containers, networks and volumes these are.

Everything that a cluster makes carries a label with the cluster's name and one with the process
that owns it, so that several clusters live side by side, and what a killed run left behind is
found and removed by the next. Nothing without our labels is ever touched.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from docker.errors import APIError, NotFound
from docker.models.containers import Container

import docker

_CLUSTER_LABEL = "slurm-failover.cluster"
_OWNER_LABEL = "slurm-failover.owner"
_KEPT = "kept"


def labels_of(cluster: str, keep: bool) -> dict[str, str]:
    """The labels of what this process makes; kept things outlive the process."""
    owner = _KEPT if keep else _owner_of(os.getpid())
    return {_CLUSTER_LABEL: cluster, _OWNER_LABEL: owner}


def exists(client: docker.DockerClient, cluster: str) -> bool:
    """Whether any container of a cluster is there, running or not."""
    ours = {"label": f"{_CLUSTER_LABEL}={cluster}"}
    return bool(_containers(client, ours))


def names_made_by(client: docker.DockerClient, pid: int) -> list[str]:
    """The names of all containers, networks and volumes that a process has made and not removed."""
    ours = {"label": f"{_OWNER_LABEL}={_owner_of(pid)}"}
    found = [
        *_containers(client, ours),
        *client.networks.list(filters=ours),
        *client.volumes.list(filters=ours),
    ]
    return [str(thing.name) for thing in found]


def remove_cluster(client: docker.DockerClient, cluster: str) -> int:
    """Remove all of one cluster; how many things there were."""
    return _remove(client, lambda labels: labels[_CLUSTER_LABEL] == cluster, NotFound)


def remove_stale(client: docker.DockerClient) -> int:
    """Remove what processes that are gone left behind; how many things there were.

    Another run may sweep at the same time: what can not be removed now is left to the next sweep.
    """
    return _remove(client, lambda labels: _is_stale(labels[_OWNER_LABEL]), APIError)


def _containers(client: docker.DockerClient, filters: dict[str, str]) -> list[Container]:
    # Without ignore_removed, one that vanishes between list and look is an error.
    found: list[Container] = client.containers.list(all=True, filters=filters, ignore_removed=True)
    return found


def _owner_of(pid: int) -> str:
    """A name for a process that no later process can have: namespace, pid and start time."""
    namespace = str(Path("/proc/self/ns/pid").readlink())
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return f"{boot}/{namespace}/{pid}/{started}"


def _is_stale(owner: str) -> bool:
    """Whether the owner named by a label is certainly gone; one elsewhere is not ours to judge."""
    if owner == _KEPT:
        return False
    boot, namespace, pid, _ = owner.split("/")
    mine = _owner_of(os.getpid()).split("/")
    if boot != mine[0]:
        return True
    if namespace != mine[1]:
        return False
    try:
        return _owner_of(int(pid)) != owner
    except OSError:
        return True


def _remove(
    client: docker.DockerClient,
    doomed: Callable[[dict[str, str]], bool],
    forgiven: type[APIError],
) -> int:
    ours = {"label": _CLUSTER_LABEL}
    # In this order: a network or volume in use can not be removed.
    removals: list[Callable[[], object]] = [
        *(
            partial(container.remove, force=True, v=True)
            for container in _containers(client, ours)
            if doomed(container.labels)
        ),
        *(n.remove for n in client.networks.list(filters=ours) if doomed(n.attrs["Labels"])),
        *(v.remove for v in client.volumes.list(filters=ours) if doomed(v.attrs["Labels"])),
    ]
    for remove in removals:
        with contextlib.suppress(forgiven):
            remove()
    return len(removals)
