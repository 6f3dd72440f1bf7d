"""Over the fake slurmctld: the controller's clock is set by hours, at some step or (with
``--thorough``) at every one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import pytest
from play import Cluster
from promises import check
from steps import Clock, Machine, Steps
from stories import STORIES, Story

HOURS = (-3, 3)
FEW = 6
SET = "the clock is set"


def play(story: Story, at: int, by: float) -> tuple[Cluster, Steps]:
    """Play a story in which the controller's clock is set by so many seconds at a step, for good.

    On a node whose clock differs by more than five minutes munge lets nothing through.
    """
    steps, at_work = Steps({at: SET}), [""]
    process = Machine.process

    @contextmanager
    def noted(self: Machine, environment: Mapping[str, str]) -> Iterator[None]:
        at_work[0] = Path(self.settings.state.directory).parent.name
        with process(self, environment):
            yield

    def time(self: Clock) -> float:
        is_set = at_work[0] == "ctl" and len(steps.done) >= at
        return float(self._slurm.clock) + (by if is_set else 0.0)

    with (
        TemporaryDirectory() as folder,
        mock.patch.object(Clock, "time", time),
        mock.patch.object(Machine, "process", noted),
    ):
        return story.play(Path(folder), steps), steps


@pytest.mark.parametrize("hours", HOURS)
@pytest.mark.parametrize("name", STORIES)
def test_a_clock_that_is_set_by_hours_breaks_no_promise(
    name: str,
    hours: int,
    played: Callable[[int], None],
    request: pytest.FixtureRequest,
) -> None:
    story = STORIES[name]
    count = len(play(story, 10**9, 0.0)[1].done)
    every = 1 if request.config.getoption("--thorough") else 1 + count // FEW
    chosen = range(1, count + 1, every)
    for at in chosen:
        cluster, steps = play(story, at, hours * 3600.0)
        assert steps.met(SET)
        told = "\n".join([*steps.done, *cluster.said()])
        assert check(cluster) == [], f"{hours:+} h at {at}\n{told}"
    played(len(chosen))
