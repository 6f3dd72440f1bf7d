"""What every supported Slurm says in JSON, as it is and with fields gone, new or of other types.

It gives facts, or Slurm's error, and never facts that were made up.

The samples are what live daemons said: see tests/samples/capture.py.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slurm_failover.errors import NoSuchJob, SlurmError
from slurm_failover.evidence import is_drained_by_us, read_evidence
from slurm_failover.model import JobFacts, NodeFacts
from slurm_failover.record import State, read_record
from slurm_failover.slurm.facts import read_job, read_node
from slurm_failover.slurm.scontrol import Scontrol

QUICK = settings(max_examples=200, deadline=None)
FOLDER = Path(__file__).parents[1] / "samples" / "slurm"
RELEASES = {path.stem: path for path in FOLDER.glob("*.jsonl")}
SAMPLES = {
    release: [json.loads(line) for line in path.read_text().splitlines()]
    for release, path in RELEASES.items()
}
every_release = pytest.mark.parametrize("release", sorted(SAMPLES))


def answers(release: str, case: str) -> list[Any]:
    """What this release said of a job or node in some state."""
    return [s.get("job") or s["node"] for s in SAMPLES[release] if s["case"] == case]


def job(release: str, case: str) -> JobFacts:
    return read_job(answers(release, case)[0])


def node(release: str, case: str) -> NodeFacts:
    return read_node(answers(release, case)[0])


# --- as it is -------------------------------------------------------------------------------------


def test_the_oldest_and_the_newest_supported_release_are_here() -> None:
    assert {"24.11", "26.05"} <= SAMPLES.keys()


@every_release
def test_the_states_and_holds_of_jobs_are_read(release: str) -> None:
    seen = {
        case: (set(facts.states), facts.held, facts.held_by_requeue)
        for case in (
            "held by its owner",
            "running with GPUs",
            "suspended",
            "special exit",
            "completing",
            "denied by us",
            "failed",
        )
        if (facts := job(release, case))
    }
    assert seen == {
        "held by its owner": ({"PENDING"}, True, False),
        "running with GPUs": ({"RUNNING"}, False, False),
        "suspended": ({"SUSPENDED"}, False, False),
        "special exit": ({"PENDING", "SPECIAL_EXIT"}, True, True),
        "completing": ({"FAILED", "COMPLETING"}, False, False),
        "denied by us": ({"PENDING"}, True, True),
        "failed": ({"FAILED"}, False, False),
    }


@every_release
def test_a_running_job_shows_its_nodes_gpus_log_and_wish(release: str) -> None:
    for case in ("running with GPUs", "running with GPUs, listed"):
        facts = job(release, case)
        assert (facts.user, facts.partition, facts.comment.split()[0]) == (
            "alice",
            "gpu",
            "failover",
        )
        assert facts.nodes
        assert facts.nodes == facts.batch_host == facts.allocated[0]
        assert facts.gres_detail[0].startswith("gpu:2(IDX:")
        assert (facts.batch, facts.requeue, facts.excluded) == (True, True, "n4")
        assert facts.start > 1.7e9
        assert facts.stdout.endswith(f"slurm-{facts.job_id}.out")


@every_release
def test_an_end_shows_its_exit_code_and_restarts(release: str) -> None:
    assert (job(release, "failed").exit_code, job(release, "failed").exit_signal) == (137, 0)
    assert job(release, "special exit").restarts == 1
    denied = job(release, "denied by us")
    record = read_record(denied.admin_comment)
    assert record is not None
    assert record.state is State.INTERNALERROR
    assert record.attempt.end >= record.attempt.start > 1.7e9


@every_release
def test_parts_of_jobs_are_told_by_the_names_that_slurms_requests_take(release: str) -> None:
    parts = [read_job(raw) for raw in answers(release, "heterogeneous")]
    assert {part.label for part in parts} == {str(parts[0].job_id)}
    assert parts[0].components == tuple(part.job_id for part in parts)
    tasks = [read_job(raw) for raw in answers(release, "array, running")]
    assert {task.label.partition("_")[2] for task in tasks} == {"1", "2"}
    waiting = job(release, "array, one task at a time")
    assert waiting.label == str(waiting.job_id)


@every_release
def test_the_states_and_words_of_nodes_are_read(release: str) -> None:
    theirs = node(release, "drained by an administrator")
    assert (theirs.has("DRAIN"), theirs.reason, is_drained_by_us(theirs)) == (True, "disk", False)
    ours = node(release, "drained by us")
    assert is_drained_by_us(ours)
    assert ours.reason_time > 1.7e9
    assert read_evidence(ours.name, ours.extra) == []
    assert node(release, "down").has("DOWN")
    busy = node(release, "at work or idle")
    assert ("gpu" in busy.partitions, busy.gpus) == (True, 3)


# --- as it may become -----------------------------------------------------------------------------

leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9), st.just(10**400)
)
values = st.one_of(
    leaves,
    st.lists(leaves, max_size=3),
    st.dictionaries(st.sampled_from(["set", "infinite", "number", "id"]), leaves),
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value: what holds it, and its key or index there."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys if isinstance(value, (dict, list)) else ():
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])


def words_in(value: Any) -> set[str]:
    """The words in a list, or the one word."""
    items = value if isinstance(value, list) else [value]
    return {word for word in items if isinstance(word, str)}


@st.composite
def changed(draw: st.DrawFn, kind: str) -> Any:
    """What some release said of a job or node, with up to four fields gone, new or of other types;
    those that are read more often than the others.
    """
    said = [s[kind] for samples in SAMPLES.values() for s in samples if kind in s]
    value = copy.deepcopy(draw(st.sampled_from(said)))
    for _ in range(draw(st.integers(1, 4))):
        found = list(places(value))
        top = [place for place in found if place[0] is value]
        holder, key = draw(st.sampled_from(draw(st.sampled_from([top, found]))))
        what = draw(st.sampled_from(["drop", "retype", "add"]))
        if what == "drop":
            del holder[key]
        elif what == "retype" or isinstance(holder, list):
            holder[key] = draw(values)
        else:
            holder[draw(st.text(max_size=9))] = draw(values)
        if not value:
            break
    return value


@QUICK
@given(changed("job"))
def test_a_job_of_another_form_is_facts_or_slurms_error(raw: dict[str, Any]) -> None:
    try:
        facts = read_job(raw)
    except SlurmError:
        assert not isinstance(raw.get("job_id"), int) or raw["job_id"] <= 0
        return
    assert facts.label
    assert facts.states <= words_in(raw.get("job_state"))
    assert not facts.held or raw.get("hold") is True
    assert facts.requeue is (raw.get("requeue") is True)
    assert facts.batch is (raw.get("batch_flag") is True)
    for text, key in ((facts.comment, "comment"), (facts.admin_comment, "admin_comment")):
        assert text in ("", raw.get(key))


@QUICK
@given(changed("node"))
def test_a_node_of_another_form_is_facts_or_slurms_error(raw: dict[str, Any]) -> None:
    try:
        facts = read_node(raw)
    except SlurmError:
        assert not isinstance(raw.get("name"), str) or not raw["name"]
        return
    assert facts.states <= words_in(raw.get("state"))
    assert facts.reason in ("", raw.get("reason"))


class Canned(Scontrol):
    """The adapter over an answer that is given."""

    def __init__(self, answer: str) -> None:
        super().__init__()
        self._answer = answer

    def _run(self, program: str, *arguments: str) -> str:
        return self._answer


@st.composite
def whole_answers(draw: st.DrawFn) -> str:
    """A whole answer, of another form, or cut off."""
    jobs = st.one_of(values, st.lists(changed("job"), max_size=2))
    nodes = st.one_of(values, st.lists(changed("node"), max_size=2))
    answer = st.fixed_dictionaries({}, optional={"jobs": jobs, "nodes": nodes, "x": values})
    text = json.dumps(draw(st.one_of(values, answer)))
    return text[: draw(st.sampled_from([len(text), len(text), len(text) // 2, 0]))]


@QUICK
@given(whole_answers())
@example('{"jobs": null, "nodes": null}')
@example('{"jobs": 5, "nodes": {}}')
@example("[" * 100_000)
def test_an_answer_of_another_form_is_facts_or_slurms_error(text: str) -> None:
    slurm = Canned(text)
    for ask in (lambda: [slurm.job("7")], slurm.jobs, lambda: slurm.jobs_on("n1"), slurm.nodes):
        try:
            found = ask()
        except SlurmError as error:
            assert str(error)
            continue
        assert all(isinstance(one, (JobFacts, NodeFacts)) for one in found)


@given(st.sampled_from(["{}", '{"jobs": []}']))
def test_an_answer_without_the_job_is_never_another_job(text: str) -> None:
    with pytest.raises(NoSuchJob):
        Canned(text).job("7")
