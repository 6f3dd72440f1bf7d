"""What every supported Slurm says in JSON, as it is and with fields gone, new or of other types.

It gives facts, or Slurm's error, and never facts that were made up.

The samples, tests/samples/slurm, are what live daemons said.
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
from slurm_failover.model import JobFacts, NodeFacts
from slurm_failover.slurm.facts import read_job
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
    """What this release said of a job in some state."""
    return [sample["job"] for sample in SAMPLES[release] if sample["case"] == case]


def job(release: str, case: str) -> JobFacts:
    return read_job(answers(release, case)[0])


# --- as it is -------------------------------------------------------------------------------------


def test_the_oldest_supported_release_is_here() -> None:
    assert "24.11" in SAMPLES


@every_release
def test_the_states_and_holds_of_jobs_are_read(release: str) -> None:
    seen = {
        sample["case"]: (set(facts.states), facts.held, facts.held_by_requeue)
        for sample in SAMPLES[release]
        if (facts := read_job(sample["job"]))
    }
    assert seen == {
        "running with GPUs": ({"RUNNING", "CONFIGURING"}, False, False),
        "completing": ({"FAILED", "COMPLETING"}, False, False),
        "special exit, completing": ({"PENDING", "SPECIAL_EXIT", "COMPLETING"}, True, True),
        "special exit": ({"PENDING", "SPECIAL_EXIT"}, True, True),
        "moved and released": ({"PENDING"}, False, False),
    }


@every_release
def test_a_running_job_shows_its_nodes_gpus_log_and_wish(release: str) -> None:
    facts = job(release, "running with GPUs")
    assert (facts.user, facts.partition, facts.comment) == ("alice", "gpu", "failover hello")
    assert (facts.nodes, facts.batch_host, facts.allocated) == ("n[1-2]", "n1", ("n1", "n2"))
    assert facts.gres_detail == ("gpu:2(IDX:0-1)", "gpu:2(IDX:0-1)")
    assert (facts.batch, facts.requeue, facts.stdout) == (True, True, "/home/alice/slurm-1.out")
    assert facts.start > 1.7e9


@every_release
def test_an_end_shows_its_exit_code_and_a_move_its_restarts_and_priority(
    release: str,
) -> None:
    ended = job(release, "completing")
    assert (ended.exit_code, ended.exit_signal, ended.restarts) == (3, 0, 0)
    moved = job(release, "moved and released")
    assert (moved.restarts, moved.excluded, moved.priority) == (1, "n1,n2", 4294967293)
    assert moved.admin_comment == "placed"


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
    return {
        word for word in (value if isinstance(value, list) else [value]) if isinstance(word, str)
    }


@st.composite
def changed(draw: st.DrawFn) -> Any:
    """What some release said of a job, with up to four fields gone, new or of other types; those
    at the top more often than the others.
    """
    said = [sample["job"] for samples in SAMPLES.values() for sample in samples]
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
@given(changed())
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
    jobs = st.one_of(values, st.lists(changed(), max_size=2))
    nodes = st.one_of(values, st.lists(values, max_size=2))
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
