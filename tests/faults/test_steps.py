"""Over the fake slurmctld: trouble at every point between two side effects, and nothing is lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from play import Cluster, Script
from promises import check
from steps import KINDS, Steps
from stories import FAULT, HANG, MEDDLED, STORIES, WELL, Ending, Story, endings

Sample = Callable[[Sequence[Any]], Sequence[Any]]
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where a play's files are: thousands of plays would wait for a disk."""
PARTS = 8
"""Into so many tests the longest scenario is cut, for those who run several at once."""


def play(story: Story, troubles: dict[int, str]) -> tuple[Cluster, Steps]:
    """Play a story with its troubles; files are of no use after it."""
    steps = Steps(troubles)
    with TemporaryDirectory(dir=MEMORY) as folder:
        return story.play(Path(folder), steps), steps


def points(story: Story) -> int:
    """How many side effects a story has where nothing goes wrong."""
    return len(play(story, {})[1].done)


def tell(cluster: Cluster, steps: Steps) -> str:
    """What to read where a promise was broken."""
    return "\n".join([*steps.done, *cluster.said()])


@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_well_where_nothing_goes_wrong(name: str) -> None:
    story = STORIES[name]
    cluster, steps = play(story, {})
    assert endings(cluster) == story.endings or not story.endings, tell(cluster, steps)
    assert check(cluster) == [], tell(cluster, steps)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_the_same_whatever_happens_at_any_one_step(
    name: str, kind: str, played: Callable[[int], None]
) -> None:
    story = STORIES[name]
    count = points(story)
    for at in range(1, count + 1):
        cluster, steps = play(story, {at: kind})
        assert steps.met(kind)
        assert check(cluster) == [], tell(cluster, steps)
        ended = endings(cluster) == story.endings or not story.endings
        assert ended, f"{kind} at {at}\n{tell(cluster, steps)}"
    played(count)


def pairs(count: int) -> Iterator[dict[int, str]]:
    """Two deaths at any two steps; the second may be a step of what takes up the first."""
    for first, second in itertools.combinations(range(1, count + 1), 2):
        yield {first: "killed_before", second: "killed_after"}


@pytest.mark.parametrize("name", ["a fault ends the job", "a fault, and the job hangs"])
def test_two_deaths_break_no_promise(
    name: str, played: Callable[[int], None], sample: Sample
) -> None:
    story = STORIES[name]
    plays = sample(list(pairs(points(story))))
    for troubles in plays:
        cluster, steps = play(story, troubles)
        assert check(cluster) == [], f"{troubles}\n{tell(cluster, steps)}"
    played(len(plays))


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", ["none", "killed_after"])
def test_whoever_acts_at_whatever_moment_every_promise_holds(
    kind: str, part: int, played: Callable[[int], None], sample: Sample
) -> None:
    plays = [
        (name, at)
        for name, story in MEDDLED.items()
        for at in range(1, 1 + (kind == "none" or points(story)))
    ]
    chosen = sample(plays)[part::PARTS]
    for name, at in chosen:
        cluster, steps = play(MEDDLED[name], {at: kind} if kind != "none" else {})
        assert check(cluster) == [], f"{name}, {kind} at {at}\n{tell(cluster, steps)}"
    played(len(chosen))


DEATHS = (
    ("release", "killed_after"),
    ("write prolog_slurmctld", "killed_before"),
    ("write epilog_slurmctld", "killed_before"),
)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_hold_that_nobody_has_judged_is_not_released(count: int) -> None:
    """The decider dies once it has released the job, nobody lives to record that it starts, a node
    stops it, and nobody lives to record that either.
    """
    story = Story((Script((FAULT, replace(HANG, soon=True), WELL)),))
    troubles: dict[int, str] = {}
    for begins, kind in DEATHS[:count]:
        done = play(story, troubles)[1].done
        later = range(max(troubles, default=0), len(done))
        troubles[next(at for at in later if done[at].startswith(begins)) + 1] = kind
    cluster, steps = play(story, troubles)
    assert check(cluster) == [], tell(cluster, steps)
    assert endings(cluster) == (Ending("COMPLETED", "resumed", 2),), tell(cluster, steps)
