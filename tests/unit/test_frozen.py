"""The dataclasses of healthy hooks behave like the standard module's."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

from slurm_failover.frozen import made

VALUES = {"name": "a", "size": 2, "words": ("x",), "notes": {"k": 1}}


def declare(module: Any) -> Any:
    """The same class, by either module."""

    @module.dataclass(frozen=True, slots=True)
    class Thing:
        name: str
        size: int = 1
        words: tuple[str, ...] = module.field(default=(), metadata={"doc": "what it says"})
        notes: dict[str, int] = module.field(default_factory=dict)

        @property
        def twice(self) -> int:
            return 2 * self.size

    return Thing


OURS, STANDARD = declare(made), declare(dataclasses)


@pytest.mark.parametrize("kind", [OURS, STANDARD])
def test_values_come_by_place_by_name_and_by_default(kind: Any) -> None:
    assert [vars_of(kind("a")), kind("a").twice] == [
        {**VALUES, "size": 1, "words": (), "notes": {}},
        2,
    ]
    assert vars_of(kind("a", 2, words=("x",), notes={"k": 1})) == VALUES
    assert kind("a").notes is not kind("a").notes
    assert repr(kind("a")).endswith("Thing(name='a', size=1, words=(), notes={})")


def vars_of(thing: Any) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in VALUES}


@pytest.mark.parametrize("kind", [OURS, STANDARD])
@pytest.mark.parametrize(
    ("positional", "named"),
    [((), {}), (("a", 1, (), {}, "more"), {}), (("a",), {"name": "b"}), (("a",), {"odd": 1})],
)
def test_what_fits_no_field_is_refused(
    kind: Any, positional: tuple[Any, ...], named: dict[str, Any]
) -> None:
    with pytest.raises(TypeError):
        kind(*positional, **named)


@pytest.mark.parametrize("kind", [OURS, STANDARD])
def test_nothing_in_it_can_be_changed(kind: Any) -> None:
    thing = kind("a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        thing.size = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        del thing.size
    assert thing.size == 1


@pytest.mark.parametrize("kind", [OURS, STANDARD])
def test_things_of_one_kind_and_content_are_equal(kind: Any) -> None:
    assert (kind("a") == kind("a"), kind("a") == kind("b")) == (True, False)
    assert kind("a") != declare(dataclasses)("a")
    without = dataclasses.replace(kind("a"), notes=())
    assert hash(without) == hash(dataclasses.replace(kind("a"), notes=()))
    assert copy.deepcopy(kind("a")) == kind("a")


def test_the_standard_module_takes_it_for_one_of_its_own() -> None:
    ours = OURS(**VALUES)
    assert dataclasses.is_dataclass(ours)
    assert dataclasses.asdict(ours) == VALUES
    assert dataclasses.astuple(ours) == tuple(VALUES.values())
    assert (
        dataclasses.replace(ours, size=5)
        == made.replace(ours, size=5)
        == OURS(**{**VALUES, "size": 5})
    )
    theirs = {one.name: one for one in dataclasses.fields(STANDARD)}
    for one in dataclasses.fields(OURS):
        same = theirs[one.name]
        assert (one.type, one.default) == (same.type, same.default)
        assert (one.default_factory, one.metadata) == (same.default_factory, same.metadata)


def test_a_case_can_match_its_places() -> None:
    match OURS("a", 7):
        case OURS(name, size):
            assert (name, size) == ("a", 7)
        case _:
            pytest.fail("no match")


def test_our_own_fields_are_those_that_were_declared() -> None:
    assert [(one.name, one.type) for one in made.fields(OURS)] == [
        (one.name, one.type) for one in dataclasses.fields(STANDARD)
    ]
    assert made.fields(OURS)[2].metadata == {"doc": "what it says"}
