"""The signal and the grace that a job may ask for."""

from __future__ import annotations

import pytest

from slurm_failover.checkpoint import Checkpoint, read_checkpoint
from slurm_failover.settings.tables import CheckpointSettings

SITE = CheckpointSettings(signal="USR1", grace=60, longest_grace=120)
NONE = CheckpointSettings()


@pytest.mark.parametrize(
    ("comment", "wish"),
    [
        ("failover checkpoint=USR2@30", Checkpoint("USR2", False, 30)),
        ("checkpoint=B:SIGTERM@5;failover", Checkpoint("TERM", True, 5)),
        ("failover,checkpoint=10", Checkpoint("10", False, 60)),
        ("checkpoint=USR1@9999", Checkpoint("USR1", False, 120)),
        ("failover", Checkpoint("USR1", False, 60)),
        ("checkpoint=$(reboot)", Checkpoint("USR1", False, 60)),
        ("checkpoint=USR1@-1", Checkpoint("USR1", False, 60)),
        ("my_checkpoint=USR2@30", Checkpoint("USR1", False, 60)),
        ("checkpoint=none", None),
    ],
)
def test_the_job_chooses_and_the_site_gives_the_rest(comment: str, wish: Checkpoint | None) -> None:
    assert read_checkpoint(comment, SITE) == wish


def test_without_a_choice_and_a_setting_the_job_is_requeued_at_once() -> None:
    assert read_checkpoint("failover", NONE) is None
    assert read_checkpoint("failover [slurm-failover: checkpoint=USR1]", NONE) is None
