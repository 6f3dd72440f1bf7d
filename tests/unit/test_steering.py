"""What others wrote is shown, and no terminal obeys it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from fake_slurmctld import FakeSlurm

from slurm_failover import embed
from slurm_failover.breaker import read_notes
from slurm_failover.cli import say_to_terminal
from slurm_failover.commands import complete
from slurm_failover.evidence import REASON_PREFIX, read_evidence
from slurm_failover.history import entries
from slurm_failover.history.runs import Outage
from slurm_failover.model import NodeFacts
from slurm_failover.render import print_table
from slurm_failover.settings.tables import Settings
from slurm_failover.view.node import view_node
from slurm_failover.waiting import what_drained

WILD = "a\x1b[2J\x07b\nc"
NODE = NodeFacts("n1", reason=REASON_PREFIX + WILD)
OUTAGE = Outage("n1", 5.0, reason=NODE.reason)
WORD = {"job": 7, "start": 5, "cause": "hardware", "because": WILD, "time": 5}
NOTE = {"time": 5, "code": WILD, "because": WILD}


def in_extra(member: str, value: object) -> str:
    return embed.put("", {"v": 1, member: [value]})


SHOWN: dict[str, Callable[[], str]] = {
    "a node's reason": lambda: view_node(NODE).reason,
    "why a node is waited for": lambda: what_drained(NODE),
    "an outage of the past": lambda: entries._of_outage(OUTAGE).because,
    "a node's word on a job": lambda: read_evidence("n1", in_extra("jobs", WORD))[0].because,
    "a noted fault": lambda: read_notes("n1", in_extra("faults", NOTE))[0].because,
    "a noted fault's code": lambda: read_notes("n1", in_extra("faults", NOTE))[0].code,
}


@pytest.mark.parametrize("show", SHOWN.values(), ids=SHOWN)
def test_words_from_slurm_come_without_control_characters(show: Callable[[], str]) -> None:
    shown = show()
    assert shown.isprintable()
    assert shown.endswith("c")


def test_a_completion_offers_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = FakeSlurm()
    job = replace(slurm.job(slurm.submit("failover")), name=WILD)
    monkeypatch.setattr(slurm, "jobs", lambda: [job])
    monkeypatch.setattr(complete, "_connect", lambda _: slurm)
    assert all(words.isprintable() for _, words in complete._find_jobs(Settings()))


def test_what_a_person_is_told_holds_no_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say_to_terminal(WILD)
    assert capsys.readouterr().err == "slurm-failover: a\\x1b[2J\\x07b\nc\n"


def test_a_cell_of_a_table_is_text_and_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME",), [("[red]mine[/red]",)], "nothing")
    assert "[red]mine[/red]" in capsys.readouterr().out
