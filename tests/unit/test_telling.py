"""When a node looks for the verdict on a job that ended there: every look is a request."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import SimpleNamespace

import pytest
from fake_slurmctld import FakeSlurm

from slurm_failover.errors import SlurmUnavailable
from slurm_failover.model import JobFacts
from slurm_failover.node import attempts, checkpoint, stopping, telling
from slurm_failover.node.append import Person
from slurm_failover.policy import Action
from slurm_failover.record import Attempt, Record, State, write_record
from slurm_failover.settings.tables import CheckpointSettings, FailoverSettings, Settings
from slurm_failover.slurm.client import JobChange

ENDED = {
    "SLURM_JOB_ID": "100",
    "SLURM_JOB_COMMENT": "failover",
    "SLURM_JOB_NODELIST": "n1",
    "SLURM_JOB_START_TIME": "1",
    "SLURM_JOB_EXIT_CODE": "256",
    "SLURMD_NODENAME": "n1",
}


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    slurm = FakeSlurm()
    monkeypatch.setattr(telling, "connect", lambda *_: slurm)
    return slurm


def look(
    monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str], mode: str = "act"
) -> list[float]:
    """The pauses before each look at a job of which nothing is decided."""
    pauses: list[float] = []
    clock = SimpleNamespace(
        sleep=pauses.append, monotonic=lambda: sum(pauses), strftime=lambda _: "now"
    )
    monkeypatch.setattr(telling, "time", clock)
    settings = Settings(failover=FailoverSettings(mode=mode))
    telling.tell_verdict(environment, settings, lambda _: None)
    return pauses


def follow(monkeypatch: pytest.MonkeyPatch, *, moves: bool) -> dict[str, str]:
    """What the process is started with that waits for the verdict."""
    started: list[dict[str, str]] = []
    monkeypatch.setattr(
        telling, "start_detached", lambda _, more=None: started.append(ENDED | (more or {}))
    )
    monkeypatch.setattr(telling, "report_image", lambda *_: None)
    attempts.close_attempt(ENDED, Settings(), lambda _: None, moves=moves)
    return started[0]


def test_a_verdict_that_takes_long_is_looked_for_ever_more_seldom(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.submit("failover")
    pauses = look(monkeypatch, follow(monkeypatch, moves=False))
    assert pauses[0] < 3 < pauses[1]
    assert len(pauses) < 12
    assert slurm.calls == ["jobs"] * len(pauses)


def test_a_verdict_is_looked_for_also_after_slurm_did_not_answer(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.submit("failover")
    ask, silent = slurm.jobs, [SlurmUnavailable("Socket timed out")]

    def answer(names: Collection[str]) -> list[JobFacts]:
        if silent:
            raise silent.pop()
        return ask(names)

    monkeypatch.setattr(slurm, "jobs", answer)
    assert len(look(monkeypatch, follow(monkeypatch, moves=False))) > 2


def test_the_verdict_on_a_job_of_a_broken_node_is_looked_for_late_since_it_most_likely_moves(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.submit("failover")
    pauses = look(monkeypatch, follow(monkeypatch, moves=True))
    assert pauses[0] > 9


# --- a job that a node stopped --------------------------------------------------------------------


class Log:
    """A job's log, as its owner may write to it."""

    def __init__(self) -> None:
        self.text = b""
        self.written: list[tuple[Person, str]] = []

    def append(self, person: Person, path: str, line: str) -> str:
        self.text += f"{line}\n".encode()
        self.written.append((person, path))
        return ""


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    owner = SimpleNamespace(pw_uid=1001, pw_gid=1002)
    monkeypatch.setattr(telling, "pwd", SimpleNamespace(getpwnam=lambda _: owner))
    monkeypatch.setattr(telling, "append_as", log.append)
    monkeypatch.setattr(telling, "tail_as", lambda *_: log.text)
    return log


ANOTHERS = {"SLURM_JOB_ID": "999", "SLURM_JOB_UID": "7", "SLURM_JOB_GID": "7"}
"""In the Epilog of another job the fault was found, and the stop made."""


def stop(slurm: FakeSlurm, tellers: list[dict[str, str]], outcome: Action) -> dict[str, str]:
    """A node stops a running job, and this is decided; with what its process starts."""
    label = slurm.submit("failover")
    slurm.schedule()
    job = slurm.job(label)
    checkpoint.stop_job(slurm, job, CheckpointSettings(), lambda _: None)
    told = {Action.DENY: State.INTERNALERROR, Action.EXCEED: State.MAXRETRIESEXCEEDED}
    attempt = Attempt(1, "n[3-4]", job.start, outcome=outcome.value)
    state = told.get(outcome, State.FAILOVERINPROGRESS)
    record = Record(state=state, because="n3: Xid 79", attempt=attempt)
    slurm.update_job(label, JobChange(admin_comment=write_record("", record)))
    return ANOTHERS | tellers[0]


@pytest.mark.parametrize("outcome", [Action.DENY, Action.EXCEED])
def test_the_log_of_a_job_that_a_node_stopped_tells_that_it_stays_held(
    slurm: FakeSlurm,
    monkeypatch: pytest.MonkeyPatch,
    tellers: list[dict[str, str]],
    log: Log,
    outcome: Action,
) -> None:
    told = stop(slurm, tellers, outcome)
    assert len(look(monkeypatch, told)) == 1
    assert log.text.startswith(b"=== slurm-failover: attempt 1 of job ")
    assert log.text.endswith(b": n3: Xid 79; the job is held ===\n")
    assert [person for person, _ in log.written] == [Person(1001, 1002)]


def test_two_nodes_that_stop_one_job_tell_its_log_once(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, tellers: list[dict[str, str]], log: Log
) -> None:
    told = stop(slurm, tellers, Action.DENY)
    look(monkeypatch, told)
    look(monkeypatch, told)
    assert log.text.count(b"the job is held") == 1


def test_the_log_of_a_stopped_job_that_moves_is_left_to_its_next_attempt(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, tellers: list[dict[str, str]], log: Log
) -> None:
    look(monkeypatch, stop(slurm, tellers, Action.FAILOVER))
    assert log.text == b""


def test_what_only_observes_tells_no_log(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, tellers: list[dict[str, str]], log: Log
) -> None:
    told = stop(slurm, tellers, Action.DENY)
    assert look(monkeypatch, told, mode="observe") == []
    assert log.text == b""


def test_a_stop_stands_where_no_process_can_be_started(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BlockingIOError("no process left")

    monkeypatch.setattr(stopping, "start_detached", refuse)
    said: list[str] = []
    label = slurm.submit("failover")
    slurm.schedule()
    stopping.stop_now(slurm, label, slurm.job(label).start, said.append)
    assert slurm.job(label).held
    assert "no process left" in said[0]
