"""What users see of jobs and nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_failover.breaker import FaultNote, write_notes
from slurm_failover.evidence import write_evidence
from slurm_failover.model import Evidence, JobCause, JobFacts, Limits, NodeFacts
from slurm_failover.record import Attempt, Record, State, Step, write_record
from slurm_failover.view.job import is_flagged, view_job
from slurm_failover.view.node import has_findings, view_node

KEYS = {
    *("job_id", "label", "user", "name", "slurm_state", "state", "display", "retries"),
    *("max_retries", "nodes", "excluded_nodes", "cause", "because", "history"),
    *("mode", "foreseen"),
}
JOB = JobFacts(
    7, "7", name="train", user="alice", comment="failover", states=frozenset({"PENDING"})
)


def shown(state: State, *flags: str, held: bool = False, step: Step = Step.NONE) -> list[object]:
    record = Record(state, step, 1, 3, attempt=Attempt(1, "n1", 5.0, 6.0, "failover", "x"))
    job = replace(JOB, states=frozenset(flags), held=held, admin_comment=write_record("", record))
    view = view_job(job, Limits())
    return [view.display, view.state]


@pytest.mark.parametrize("step", [Step.HELD, Step.DECIDED])
@pytest.mark.parametrize("held", [True, False])
def test_of_a_job_that_was_cancelled_while_it_waited_nothing_is_in_progress(
    step: Step, held: bool
) -> None:
    told = shown(State.FAILOVERINPROGRESS, "CANCELLED", held=held, step=step)
    assert told == ["Cancelled", State.ARMED]


def test_the_words_of_every_flow() -> None:
    assert shown(State.ARMED, "RUNNING") == ["Running", State.ARMED]
    assert shown(
        State.FAILOVERINPROGRESS, "PENDING", "SPECIAL_EXIT", "COMPLETING", held=True, step=Step.HELD
    ) == ["Pending - failoverinprogress", State.FAILOVERINPROGRESS]
    assert shown(State.RESUMED, "RUNNING") == ["Running", State.RESUMED]
    for state in (State.INTERNALERROR, State.MAXRETRIESEXCEEDED, State.IMAGEPULLBACKOFF):
        assert shown(state, "PENDING", "SPECIAL_EXIT", held=True) == [f"Pending - {state}", state]


@pytest.mark.parametrize(
    ("because", "reason", "said"),
    [
        ("Xid 79", "JobHeldUser", "Xid 79; held since: `scontrol release 7` starts it"),
        ("Xid 79", "JobHeldAdmin", "Xid 79; an administrator holds the job"),
        ("Xid 79; its owner holds the job", "JobHeldUser", "Xid 79; its owner holds the job"),
    ],
)
def test_of_a_moved_job_that_is_held_it_is_said(because: str, reason: str, said: str) -> None:
    record = Record(State.FAILOVERINPROGRESS, Step.PLACED, 1, 3, because=because)
    job = replace(JOB, held=True, reason=reason, admin_comment=write_record("", record))
    assert view_job(job, Limits()).because == said
    assert view_job(replace(job, held=False, reason="Priority"), Limits()).because == because


def test_a_job_that_runs_again_is_resumed_though_its_record_is_a_step_behind() -> None:
    assert shown(State.FAILOVERINPROGRESS, "RUNNING") == ["Running", State.RESUMED]


def test_a_denied_job_that_its_owner_released_is_armed() -> None:
    assert shown(State.INTERNALERROR, "PENDING") == ["Pending", State.ARMED]


def test_a_released_job_shows_nothing_of_what_held_it_but_in_its_history() -> None:
    past = Attempt(1, "n1", 5.0, 6.0, "deny", "exit code 3")
    record = Record(State.INTERNALERROR, cause="a", because="b", attempt=past, history=(past,))
    held = replace(JOB, held=True, admin_comment=write_record("", record))
    assert (view_job(held, Limits()).cause, view_job(held, Limits()).because) == ("a", "b")
    view = view_job(replace(held, held=False), Limits())
    assert (view.cause, view.because, view.history) == ("", "", (past,))


def test_a_job_that_was_told_why_failover_is_off_is_shown_with_it() -> None:
    told = replace(JOB, comment="[slurm-failover: off: the job was submitted with --no-requeue]")
    assert is_flagged(told)
    view = view_job(told, Limits())
    assert (view.state, view.because) == (None, "the job was submitted with --no-requeue")


def test_a_flagged_job_before_its_first_run_is_armed_with_its_limit() -> None:
    view = view_job(replace(JOB, comment="failover=2"), Limits(3))
    assert (view.state, view.retries, view.max_retries) == (State.ARMED, 0, 2)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"comment": "failover=x"}, "scontrol update JobId=7 Comment=failover=2"),
        ({"comment": "failover=0"}, "scontrol update JobId=7 Comment=failover=2"),
        ({"requeue": False}, "--no-requeue"),
        ({"batch": False}, "only batch jobs"),
        ({"admin_comment": '{"slurm-failover":{"v":9}}'}, "version"),
    ],
)
def test_a_job_whose_wish_is_void_shows_no_state_and_says_why(
    facts: dict[str, object], why: str
) -> None:
    view = view_job(replace(JOB, **facts), Limits())  # type: ignore[arg-type]
    assert view.state is None
    assert why in view.because


def test_a_job_is_flagged_by_its_wish_or_by_its_record() -> None:
    assert is_flagged(JOB)
    assert is_flagged(replace(JOB, comment="", admin_comment=write_record("", Record())))
    assert not is_flagged(replace(JOB, comment="no wish", admin_comment="words"))


def test_what_is_no_list_of_nodes_is_shown_as_it_is() -> None:
    odd = Record(max_retries=3, history=(Attempt(1, "n[1", 5.0, 6.0, "failover", "x"),))
    view = view_job(replace(JOB, admin_comment=write_record("", odd)), Limits())
    assert view.as_json()["history"][0]["nodes"] == ["n[1"]


def test_the_json_has_the_promised_keys() -> None:
    past = Attempt(1, "n[1-2]", 5.0, 6.0, "failover", "n1: lost")
    record = Record(State.RESUMED, Step.NONE, 1, 3, cause="n1: lost", attempt=past, history=(past,))
    job = replace(JOB, nodes="n[3-4]", excluded="n1", admin_comment=write_record("", record))
    told = view_job(job, Limits()).as_json()
    assert set(told) == KEYS
    assert told["nodes"] == ["n3", "n4"]
    assert told["excluded_nodes"] == ["n1"]
    assert (told["state"], told["cause"], told["because"]) == ("resumed", "n1: lost", None)
    assert (told["mode"], told["foreseen"]) == ("act", None)
    assert told["history"] == [
        {
            "attempt": 1,
            "nodes": ["n1", "n2"],
            "start": 5.0,
            "end": 6.0,
            "outcome": "failover",
            "because": "n1: lost",
        }
    ]


def test_a_name_can_not_steer_the_terminal_that_shows_it() -> None:
    view = view_job(replace(JOB, name="a\x1b[2J\nb", user="x\r"), Limits())
    assert view.name.isprintable()
    assert view.user.isprintable()


def test_a_node_shows_our_drain_and_what_it_found() -> None:
    entry = Evidence("n1", 7, 5.0, JobCause.HARDWARE, "GPU lost", 6.0)
    node = NodeFacts(
        "n1",
        frozenset({"IDLE", "DRAIN"}),
        "slurm-failover: GPU lost (job 7)",
        extra=write_evidence("", "n1", [entry], 6.0),
    )
    view = view_node(node)
    told = view.as_json()
    assert told["drained_by_us"] is True
    assert told["evidence"] == [
        {"job_id": 7, "cause": "hardware", "because": "GPU lost", "time": 6.0}
    ]
    assert has_findings(view)


def test_a_node_that_others_drained_is_not_ours() -> None:
    view = view_node(NodeFacts("n1", frozenset({"DRAIN"}), "broken slurm-failover: x"))
    assert not view.ours
    assert not has_findings(view)


@pytest.mark.parametrize(
    ("states", "waits", "is_back"),
    [
        ({"IDLE"}, False, True),
        ({"IDLE"}, True, False),
        ({"IDLE", "DRAIN"}, False, False),
        ({"DOWN"}, False, False),
    ],
)
def test_a_node_is_back_once_it_serves_again_and_no_drain_of_it_waits(
    states: set[str], waits: bool, is_back: bool
) -> None:
    note = FaultNote("n1", 1.0, "xid-79", waits=waits)
    extra = write_notes("", [note], 1.0)
    assert view_node(NodeFacts("n1", frozenset(states), extra=extra)).is_back is is_back
    observed = write_notes("", [note, replace(note, time=2.0, observed=True)], 1.0)
    assert not view_node(NodeFacts("n1", frozenset(states), extra=observed)).is_back
    assert not view_node(NodeFacts("n1", frozenset(states))).is_back


def test_an_arrays_waiting_tasks_are_named_as_squeue_does() -> None:
    waiting = view_job(replace(JOB, label="12", tasks="3-5"), Limits())
    assert (waiting.job, waiting.label) == ("12_[3-5]", "12")
    assert view_job(replace(JOB, label="12_5", tasks="5"), Limits()).job == "12_5"
    assert view_job(JOB, Limits()).job == "7"
    many = view_job(replace(JOB, label="12", tasks=",".join(map(str, range(1, 99, 2)))), Limits())
    assert many.job.endswith(",...]")
    assert len(many.job) <= len("12_[]") + 64 + len("...")


def test_the_end_of_a_job_that_was_cancelled_while_it_waited_is_not_its_attempts() -> None:
    comment = write_record("", Record(attempt=Attempt(1, "n1", 5.0)))
    gone = replace(
        JOB, states=frozenset({"CANCELLED"}), admin_comment=comment, start=90.0, end=90.0
    )
    at_once = replace(gone, start=6.0, end=6.0)
    ran = replace(gone, start=5.0, nodes="n1")
    told = [view_job(job, Limits()).latest for job in (gone, at_once, ran)]
    ends = [(attempt.outcome, attempt.end) for attempt in told if attempt is not None]
    assert ends == [("requeued", 0.0), ("requeued", 0.0), ("cancelled", 90.0)]
