"""The flag: who asked for failover, and how often."""

from __future__ import annotations

import pytest

from slurm_failover.optin import OptIn, has_wish, read_opt_in, read_refusal, strip_mirror


@pytest.mark.parametrize(
    ("comment", "wish"),
    [
        ("failover", OptIn()),
        ("failover=2", OptIn(retries=2)),
        ("my words, failover=1; and more", OptIn(retries=1)),
        ("wandb,failover", OptIn()),
        ("a\nfailover\nb", OptIn()),
        ("", None),
        ("nofailover", None),
        ("failover2", None),
        ("failovers", None),
        ("FAILOVER", None),
        ("x=failover", None),
        ("failover.yaml", None),
    ],
)
def test_the_wish_is_a_word_of_its_own_in_the_comment(comment: str, wish: OptIn | None) -> None:
    assert read_opt_in(comment) == wish


@pytest.mark.parametrize("number", ["", "-1", "two", "1.5", "٣", "1e3"])
def test_a_wish_without_a_usable_number_is_void_and_says_why(number: str) -> None:
    wish = read_opt_in(f"failover={number}")
    assert wish is not None
    assert wish.retries is None
    assert "whole number" in wish.problem


@pytest.mark.parametrize(
    ("option", "wish"),
    [("default", OptIn()), ("2", OptIn(retries=2))],
)
def test_the_option_beats_the_comment(option: str, wish: OptIn | None) -> None:
    assert read_opt_in("failover=1", option) == wish


@pytest.mark.parametrize("word", ["0", "00", "off", "OFF", "no", "none", "false", "never"])
def test_a_wish_for_none_is_void_and_says_so(word: str) -> None:
    assert read_opt_in(f"failover={word}") == OptIn(problem=f"failover={word} asks for no failover")
    assert not has_wish(f"failover={word}")


@pytest.mark.parametrize("number", ["9999999999", "9" * 5000])
def test_a_wish_for_more_than_can_be_counted_is_void_and_says_so(number: str) -> None:
    wish = read_opt_in("", number)
    assert wish is not None
    assert wish.problem == f"--failover={number[:20]} asks for too many retries"


def test_leading_zeros_change_no_number() -> None:
    assert read_opt_in("failover=0000000000002") == OptIn(retries=2)
    assert read_opt_in("", "0" * 5000 + "2") == OptIn(retries=2)


def test_why_failover_is_off_is_read_from_our_own_words_alone() -> None:
    assert read_refusal("words [slurm-failover: off: no batch job]") == "no batch job"
    assert read_refusal("words [slurm-failover: armed, retries 0/3]") == ""
    assert read_refusal("[slurm-failover: off: x] words") == ""


def test_an_option_that_is_no_number_is_void() -> None:
    wish = read_opt_in("failover", "many")
    assert wish is not None
    assert wish.problem


def test_the_state_that_we_show_in_a_comment_is_no_wish() -> None:
    assert read_opt_in("words [slurm-failover: off: failover is not for you]") is None


@pytest.mark.parametrize(
    ("comment", "own"),
    [
        ("words [slurm-failover: armed, retries 0/3]", "words"),
        ("[slurm-failover: armed]", ""),
        ("[slurm-failover: armed] behind it", "[slurm-failover: armed] behind it"),
        ("two  [slurm-failover: armed]", "two "),
        ("words", "words"),
    ],
)
def test_only_our_own_text_at_the_end_is_taken_off(comment: str, own: str) -> None:
    assert strip_mirror(comment) == own
