"""What a user wrote in --failover or --comment, as the submission scripts read it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lua_host import VERSIONS, LuaHost

from slurm_failover.optin import read_opt_in

HOSTS = {version: LuaHost(version) for version in VERSIONS}
REQUESTS = {version: host.load("slurm_failover_request") for version, host in HOSTS.items()}

WORDS = """
failover failover=3 failover=0 failover=x failover= failover=007 failover=-1 failover=3=4 x é =
Failover failovers failover=999999999999999999999 xfailover {"APS": "failover"}
"""
MIRROR = "[slurm-failover: resumed, retries 1/3: failover]"
words = st.sampled_from([*WORDS.split(), MIRROR])
separators = st.sampled_from([" ", ",", ";", "\n", "\t", "", ", "])
comments = st.lists(st.tuples(words, separators)).map(lambda p: "".join(w + s for w, s in p))


@pytest.fixture(params=VERSIONS)
def requests(request):
    return REQUESTS[request.param]


@pytest.mark.parametrize(
    ("comment", "retries"),
    [
        ("failover", None),
        ("failover=2", 2),
        ("run 7, failover=2; mail", 2),
        ("a;failover,b", None),
        ("failover=2 failover=9", 2),
        ("note [slurm-failover: off: no] failover=4", 4),
    ],
)
def test_the_word_in_a_comment_is_a_request(requests, comment, retries):
    request = requests.read(None, comment)
    assert (request.retries, request.problem) == (retries, None)


@pytest.mark.parametrize(
    "comment",
    [
        None,
        "",
        "failovers",
        "no-failover",
        "FAILOVER",
        '{"APS": "failover"}',
        "x [slurm-failover: resumed, retries 1/3: a failover was made]",
    ],
)
def test_other_text_in_a_comment_is_no_request(requests, comment):
    assert requests.read(None, comment) is None


@pytest.mark.parametrize("bare", ["default", "set", "(null)"])
def test_a_bare_option_asks_for_the_sites_default(requests, bare):
    request = requests.read(bare, "failover=0")
    assert (request.asked_by, request.retries, request.problem) == ("--failover", None, None)


@pytest.mark.parametrize(
    ("count", "remedy"),
    [
        ("0", "leave it out"),
        ("off", "leave it out"),
        ("No", "leave it out"),
        ("-1", "whole number from 1 to 1000"),
        ("", "whole number from 1 to 1000"),
        ("1.5", "whole number from 1 to 1000"),
        ("0x10", "whole number from 1 to 1000"),
        ("3;reboot", "whole number from 1 to 1000"),
        ("1001", "at most 1000"),
        ("9" * 400, "at most 1000"),
    ],
)
def test_a_count_that_is_none_is_named_with_its_remedy(requests, count, remedy):
    request = requests.read(count, None)
    assert remedy in request.problem
    assert request.asked_by == f"--failover={count[:40]}"
    assert request.retries is None


def test_a_users_escapes_do_not_reach_the_terminal(requests):
    assert requests.read("\x1b[2J\n", None).asked_by == "--failover=?[2J?"


@given(comment=comments)
def test_submission_and_hooks_read_a_comment_alike(comment):
    hook = read_opt_in(comment)
    for requests in REQUESTS.values():
        submission = requests.read(None, comment)
        assert (submission is None) == (hook is None)
        if submission is None or submission.problem:
            continue
        assert not hook.problem
        assert submission.retries == hook.retries
