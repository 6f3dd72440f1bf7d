"""A node with GPUs of our own making: the stand-in library, and the file it answers from."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

from slurm_failover.catalogue import load_rules
from slurm_failover.health.gpu import judge_gpus, remember
from slurm_failover.health.gpu_state import GpuState
from slurm_failover.health.memory import Memory
from slurm_failover.model import Event
from slurm_failover.settings.thresholds import GpuThresholds
from slurm_failover.sources.nvml import read_state

SOURCES = Path(__file__).parents[2] / "docker" / "nvml"

# Two GPUs whose NVML order, minors and PCI order all differ from one another.
TWO_GPUS = {
    "count": 2,
    "gpu0.pci": "00000000:9B:00.0",
    "gpu0.uuid": "GPU-aaaaaaaa-0000-0000-0000-000000000000",
    "gpu0.minor": 1,
    "gpu1.pci": "00000000:3B:00.0",
    "gpu1.uuid": "GPU-bbbbbbbb-0000-0000-0000-000000000000",
    "gpu1.minor": 0,
}
FIRST, SECOND = "0000:9b:00", "0000:3b:00"


@cache
def rule_book():
    return load_rules()


@pytest.fixture(scope="session")
def stand_in_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nvml")
    subprocess.run(["make", "-s", "-C", str(SOURCES), f"OUT={folder}"], check=True)
    return folder


class Node:
    """A node that is looked at again and again, as the health check does."""

    def __init__(self, folder: Path) -> None:
        self.answers = folder / "answers"
        self.proc = folder / "proc"
        (self.proc / "sys/kernel/random").mkdir(parents=True)
        self.boot("boot-1")
        self.facts: dict[str, object] = dict(TWO_GPUS)
        self.memory: Memory | None = None
        self.clock = 1000.0
        self.expected: int | None = 2
        self.limits = GpuThresholds()

    def boot(self, boot_id: str) -> None:
        (self.proc / "sys/kernel/random/boot_id").write_text(boot_id + "\n")

    def driver_lists(self, pci: str, minor: int, *more: str) -> None:
        folder = self.proc / "driver/nvidia/gpus" / pci
        folder.mkdir(parents=True, exist_ok=True)
        lines = [
            f"Model: \t\t Stand-in\nBus Location: \t {pci}",
            f"Device Minor: \t {minor}",
            *more,
        ]
        (folder / "information").write_text("\n".join(lines) + "\n")

    def read(self, timeout: float = 10.0, **more: Path) -> GpuState:
        lines = (f"{key} {value}" for key, value in self.facts.items())
        self.answers.write_text("# a comment\n" + "\n".join(lines) + "\n")
        return read_state(timeout, proc=self.proc, **more)

    def look(self, seconds_later: float = 60.0, **facts: object) -> list[Event]:
        """Change some answers, let time pass, look, judge, and remember what was seen."""
        self.facts.update({key.replace("__", "."): value for key, value in facts.items()})
        self.clock += seconds_later
        state = self.read()
        state = GpuState.from_json(state.to_json())
        state = GpuState(**{**_fields(state), "time": self.clock})
        events = judge_gpus(state, self.memory, self.limits, self.expected, rule_book().rule)
        self.memory = Memory.from_json(remember(state, self.memory, self.limits).to_json())
        return events


def _fields(state: GpuState) -> dict[str, object]:
    return {name: getattr(state, name) for name in GpuState.__dataclass_fields__}


@pytest.fixture
def node(tmp_path: Path, stand_in_library: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(stand_in_library))
    monkeypatch.setenv("NVML_STAND_IN", str(made.answers))
    return made
