"""Our value inside a text of others."""

from __future__ import annotations

import json

import pytest

from slurm_failover import embed

VALUE = {"v": 1, "words": 'a "b" }{'}


def test_alone_our_value_makes_a_json_object() -> None:
    text = embed.put("", VALUE)
    assert json.loads(text) == {"slurm-failover": VALUE}
    assert embed.take(text) == VALUE
    assert embed.strip(text) == ""


@pytest.mark.parametrize(
    "foreign",
    ['{"APS": {"x": [1, 2]}}', '{ "a" : 1 }', '{"a":"}","b":"\\u00fc"}', '\n{\n  "a": 1\n}\n'],
)
def test_in_a_json_object_our_value_is_the_last_member_and_the_rest_is_not_rewritten(
    foreign: str,
) -> None:
    text = embed.put(foreign, VALUE)
    assert json.loads(text) == json.loads(foreign) | {"slurm-failover": VALUE}
    assert text.startswith(foreign[: foreign.rindex("}")])
    assert embed.strip(text) == foreign


@pytest.mark.parametrize("foreign", ["plain words", "[1, 2]", '{"broken": ', "ü \t", '{"a":1} x'])
def test_beside_any_other_text_our_value_is_a_suffix(foreign: str) -> None:
    text = embed.put(foreign, VALUE)
    assert text.startswith(foreign)
    assert embed.take(text) == VALUE


def test_our_value_takes_the_place_of_an_earlier_one() -> None:
    for foreign in ("", '{"a":1}', "words"):
        text = embed.put(embed.put(foreign, {"old": 1}), VALUE)
        assert text == embed.put(foreign, VALUE)


def test_a_member_that_another_tool_adds_behind_ours_is_kept() -> None:
    text = '{"slurm-failover":{"v":1},"later":2}'
    assert embed.take(text) == {"v": 1}
    assert embed.strip(text) == '{"later":2}'
    assert json.loads(embed.put(text, VALUE)) == {"later": 2, "slurm-failover": VALUE}


def test_a_member_between_two_others_goes_with_its_comma() -> None:
    text = '{"a":1,"slurm-failover":{"v":1},"b":2}'
    assert embed.strip(text) == '{"a":1,"b":2}'


@pytest.mark.parametrize(
    "text", ["", "words", "slurm-failover:", "slurm-failover:{", "slurm-failover:12", '{"a":1}']
)
def test_a_text_without_our_value_is_all_foreign(text: str) -> None:
    assert embed.take(text) is None
    assert embed.strip(text) == text


def test_a_value_nested_too_deep_is_foreign_text_and_no_error() -> None:
    deep = "[" * 100_000
    assert embed.take(f"slurm-failover:{{{deep}") is None
    assert embed.take(f'{{"slurm-failover":{deep}') is None
