"""Node n1 with two GPUs, which its hooks see through the real bindings on the stand-in library."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from nvml_stand_in import TWO_GPUS, stand_in_library  # noqa: F401 - a fixture
from test_checks import Node

from slurm_failover.evidence import read_evidence
from slurm_failover.model import JobCause
from slurm_failover.settings.tables import NodeSettings

FAULTY = "0000:3b:00"
HELD = "gpu:1(IDX:0)"
"""GRES 0 is minor 0, which is GPU 3b and NVML's index 1."""
HEALTHY_BMC = "PS1 Status | C8h | ok | 10.1 | Presence detected\n"


class GpuNode(Node):
    """Node n1 with two GPUs, of which its job holds the one that will fail."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, library: Path) -> None:
        super().__init__(folder, monkeypatch)
        self.folder = folder
        self.answers = folder / "answers"
        monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
        monkeypatch.setenv("NVML_STAND_IN", str(self.answers))
        self.facts: dict[str, object] = dict(TWO_GPUS)
        self.gpus()
        self.gres(0, 1)
        self.sources(nvml=True, proc=str(folder / "proc"))
        self.boot("boot-1")
        ask = self.slurm.jobs_on
        monkeypatch.setattr(
            self.slurm,
            "jobs_on",
            lambda name: [
                replace(job, gres_detail=(HELD,), allocated=("n1",)) for job in ask(name)
            ],
        )

    def sources(self, **changes: object) -> None:
        sources = replace(self.settings.sources, **changes)
        self.settings = replace(self.settings, sources=sources)

    def boot(self, name: str) -> None:
        """The kernel's id of this boot, and a log that begins."""
        path = self.folder / "proc/sys/kernel/random/boot_id"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name + "\n")
        self.log.write_text("")

    def repairs_itself(self) -> None:
        self.settings = replace(self.settings, nodes=NodeSettings(resume_after_repair=True))

    @property
    def is_drained(self) -> bool:
        return self.slurm.nodes("n1")[0].has("DRAIN")

    def gpus(self, **facts: object) -> None:
        """Change some of NVML's answers."""
        self.facts.update({key.replace("__", "."): value for key, value in facts.items()})
        self.answers.write_text("".join(f"{key} {value}\n" for key, value in self.facts.items()))

    def gres(self, *minors: int, status: int = 0) -> None:
        """What slurmd says of the node's GRES."""
        lines = (f"slurmd: Gres Name=gpu Count=1 Index={n} File=/dev/nvidia{n}" for n in minors)
        text = "\n".join(f"echo '{line}' >&2" for line in lines)
        Path(self.settings.slurm.slurmd).write_text(f"#!/bin/sh\n{text}\nexit {status}\n")

    def run_job(self, comment: str = "failover", size: int = 1) -> str:
        self.environment["SLURM_JOB_GPUS"] = "0"
        return super().run_job(comment, size)

    def evidence(self) -> list[tuple[JobCause, str]]:
        entries = read_evidence("n1", self.slurm.peek_node("n1").extra)
        return [(entry.cause, entry.because) for entry in entries]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in_library: Path) -> GpuNode:  # noqa: F811
    return GpuNode(tmp_path, monkeypatch, stand_in_library)
