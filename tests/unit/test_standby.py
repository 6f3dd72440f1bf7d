"""Which of several controllers acts for Slurm now."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from fake_slurmctld import FakeSlurm

from slurm_failover.slurm.standby import Standby


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    """A Slurm with two controllers, ctl and ctl2."""
    slurm = FakeSlurm()
    slurm.parameters |= {
        "SlurmctldHost[0]": "ctl(10.0.0.1)",
        "SlurmctldHost[1]": "ctl2",
        "StateSaveLocation": str(tmp_path),
    }
    return slurm


def beat(folder: Path, actor: int) -> None:
    (folder / "heartbeat").write_bytes(struct.pack("!QQ", 1_795_973_275, actor))


@pytest.mark.parametrize(
    ("host", "actor", "is_standby"),
    [
        ("ctl", 0, False),
        ("ctl", 1, True),
        ("ctl2", 0, True),
        ("ctl2.example.org", 1, False),
    ],
)
def test_a_controller_is_on_standby_where_another_one_acts(
    slurm: FakeSlurm, tmp_path: Path, host: str, actor: int, is_standby: bool
) -> None:
    beat(tmp_path, actor)
    assert Standby(slurm, host).is_known() is is_standby


def test_a_takeover_is_seen_at_the_next_question_without_a_request(
    slurm: FakeSlurm, tmp_path: Path
) -> None:
    beat(tmp_path, 0)
    standby = Standby(slurm, "ctl")
    assert not standby.is_known()
    asked = len(slurm.calls)
    beat(tmp_path, 1)
    assert standby.is_known()
    assert len(slurm.calls) == asked


@pytest.mark.parametrize("beats", [None, b"", b"short", b"x" * 17, struct.pack("!QQ", 1, 7)])
def test_what_can_not_be_read_says_nothing(
    slurm: FakeSlurm, tmp_path: Path, beats: bytes | None
) -> None:
    if beats is not None:
        (tmp_path / "heartbeat").write_bytes(beats)
    assert not Standby(slurm, "ctl").is_known()


def test_a_controller_alone_is_never_on_standby_and_asks_once() -> None:
    slurm = FakeSlurm()
    standby = Standby(slurm, "ctl")
    assert [standby.is_known() for _ in range(3)] == [False] * 3
    assert slurm.calls == ["setting"]
