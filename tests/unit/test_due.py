"""Which source a node looks at, and when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_failover.node.due import Sources
from slurm_failover.node.ledger import Ledger, SourceNote
from slurm_failover.settings.tables import Settings, SourceSettings, StateSettings
from slurm_failover.sources import kmsg


@pytest.mark.parametrize(("boot", "looks"), [("this boot", 0), ("an earlier boot", 1)])
def test_the_gpus_names_are_read_once_in_a_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: str, looks: int
) -> None:
    (tmp_path / "driver/nvidia/gpus/0000:3b:00.0").mkdir(parents=True)
    monkeypatch.setattr(kmsg, "boot_id", lambda *_: "this boot")
    sources = replace(SourceSettings(), proc=str(tmp_path), nvml=False)
    settings = Settings(sources=sources, state=StateSettings(directory=str(tmp_path)))
    ledger = Ledger(boot, sources={"driver": SourceNote(memory='{"0000:3b:00.0": {}}')})
    assert len(list(Sources(settings, str(tmp_path)).gpus(ledger))) == looks
