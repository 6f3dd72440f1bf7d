"""A host that systemd has booted, so that units run as they do on a site: in their sandbox."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from host import Host

UP = ("running", "degraded")
OTHERS = ("munge", "slurmctld", "slurmd", "slurmdbd", "mariadb")
"""The distribution's units of what the test starts by itself."""


class NoCgroups(Exception):
    """This machine has no cgroups of version 2 to give away."""


class Booted(Host):
    """A container with systemd as its first process; it needs a cgroup of version 2 of its own."""

    def __init__(self, image: str, packages: Path) -> None:
        """Raises NoCgroups."""
        self._mounted = _mount_cgroups()
        self._cgroup = self._mounted / f"slurm-failover-{secrets.token_hex(3)}"
        self._cgroup.mkdir()
        masks = " ".join(f"systemd.mask={name}.service" for name in OTHERS)
        more: dict[str, Any] = {
            "command": ["/lib/systemd/systemd"],
            "init": False,
            "cap_add": ["SYS_ADMIN"],
            "security_opt": ["seccomp=unconfined"],
            "tmpfs": {"/run": "", "/tmp": "exec"},
            "environment": {"container": "docker", "SYSTEMD_PROC_CMDLINE": masks},
            "volumes": {str(self._cgroup): {"bind": "/sys/fs/cgroup", "mode": "rw"}},
        }
        super().__init__(image, packages, **more)

    def boot(self) -> None:
        """Wait until all is up."""
        self.wait(self._is_up, "systemd that is up")

    def remove(self) -> None:
        """End it, and leave no cgroup behind."""
        super().remove()
        for folder, _, _ in os.walk(self._cgroup, topdown=False):
            Path(folder).rmdir()
        if self._mounted != Path("/sys/fs/cgroup"):
            subprocess.run(["umount", self._mounted], check=True)
            self._mounted.rmdir()

    def _is_up(self) -> bool:
        return self.run("systemctl is-system-running")[1].strip() in UP


def _mount_cgroups() -> Path:
    """Where cgroups of version 2 are, on a machine that may use those of version 1 itself."""
    usual = Path("/sys/fs/cgroup")
    if (usual / "cgroup.controllers").exists():
        return usual
    folder = tempfile.mkdtemp(prefix="slurm-failover-cgroups-")
    done = subprocess.run(
        ["mount", "-t", "cgroup2", "none", folder], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        Path(folder).rmdir()
        raise NoCgroups(done.stderr.strip())
    return Path(folder)
