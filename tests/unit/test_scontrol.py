"""The adapter over Slurm's commands, with stand-ins that answer from files and note what came."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slurm_failover.errors import NoSuchJob, NotPermitted, SlurmError, SlurmUnavailable
from slurm_failover.slurm.client import JobChange, NodeChange
from slurm_failover.slurm.scontrol import JSON, Scontrol

STAND_IN = """#!/bin/sh
# Notes its arguments, then does what the file for this call number says, or the last one.
cd "$(dirname "$0")" || exit 1
printf '%s\\0' "${0##*/}" "$@" >>calls
printf '\\n' >>calls
number=$(($(cat number) + 1))
echo $number >number
[ -e answer.$number ] || number=last
. ./answer.$number
"""


class StandIn:
    """A folder with scontrol, squeue and scancel that do as they are told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("scontrol", "squeue", "scancel"):
            (folder / name).write_text(STAND_IN)
            (folder / name).chmod(0o755)
        (folder / "number").write_text("0")
        self.answer()

    def answer(self, *scripts: str, last: str = "") -> None:
        """The shell lines that each call runs; ``last`` is for all calls after them."""
        for number, script in enumerate(scripts, 1):
            (self.folder / f"answer.{number}").write_text(script)
        (self.folder / "answer.last").write_text(last)

    def answer_json(self, value: Any) -> None:
        (self.folder / "json").write_text(json.dumps(value))
        self.answer(last="cat json")

    def calls(self) -> list[list[str]]:
        lines = (self.folder / "calls").read_bytes().split(b"\0\n")
        return [[w.decode() for w in line.split(b"\0")] for line in lines if line]

    def client(self, timeout: float = 10, patience: float = 0.5) -> Scontrol:
        return Scontrol(str(self.folder), timeout, patience)


@pytest.fixture
def stand_in(tmp_path: Path) -> StandIn:
    return StandIn(tmp_path)


def fail(words: str) -> str:
    return f"echo '{words}' >&2; exit 1\n"


def test_a_job_is_asked_in_one_pinned_format(stand_in: StandIn) -> None:
    stand_in.answer_json({"jobs": [{"job_id": 7, "job_state": ["RUNNING"]}]})
    assert stand_in.client().job("7").states == {"RUNNING"}
    assert stand_in.calls() == [["scontrol", "--local", "show", "job", "7", JSON]]


def test_of_several_tasks_in_an_answer_only_the_one_that_was_asked_for_counts(
    stand_in: StandIn,
) -> None:
    tasks = [
        {"job_id": job, "array_job_id": 7, "array_task_id": {"set": True, "number": task}}
        for job, task in ((8, 0), (9, 1), (7, 2))
    ]
    stand_in.answer_json({"jobs": tasks})
    assert stand_in.client().job("7_1").job_id == 9
    assert stand_in.client().job("7").label == "7_2"
    with pytest.raises(NoSuchJob):
        stand_in.client().job("7_5")


def test_an_arrays_id_stands_for_all_its_tasks_where_jobs_are_asked_for(
    stand_in: StandIn,
) -> None:
    tasks = [
        {"job_id": job, "array_job_id": 7, "array_task_id": {"set": True, "number": task}}
        for job, task in ((8, 0), (9, 1), (7, 2))
    ]
    stand_in.answer_json({"jobs": tasks})
    client = stand_in.client()
    assert [job.label for job in client.jobs(["7"])] == ["7_0", "7_1", "7_2"]
    assert [job.label for job in client.jobs(["8"])] == ["7_0"]
    assert [job.label for job in client.jobs(["7_1"])] == ["7_1"]


def test_many_jobs_are_one_question(stand_in: StandIn) -> None:
    stand_in.answer_json({"jobs": [{"job_id": 7}, {"job_id": 9}]})
    assert [job.job_id for job in stand_in.client().jobs(["7", "8_1", "9", "10"])] == [7, 9]
    assert len(stand_in.calls()) == 1
    assert stand_in.calls()[0][-2:] == ["--jobs", "7,8_1,9,10"]


def test_a_few_jobs_are_asked_for_without_a_look_at_all_there_are(stand_in: StandIn) -> None:
    parts = [{"job_id": job, "het_job_id": {"set": True, "number": 7}} for job in (7, 8)]
    stand_in.answer_json({"jobs": [*parts, {"job_id": 9}]})
    assert [job.job_id for job in stand_in.client().jobs(["7", "9", "10"])] == [7, 8, 9]
    assert stand_in.calls() == [
        ["scontrol", "--local", "show", "job", job, JSON] for job in ("7", "9", "10")
    ]


def test_a_component_knows_where_the_others_of_its_job_run(stand_in: StandIn) -> None:
    all_of_it = {"het_job_id": {"set": True, "number": 7}, "het_job_id_set": "7-8"}
    places = [{"partition": "gpu", "qos": "normal"}, {"partition": "spot", "qos": "low"}]
    parts = [{"job_id": 7 + at, **all_of_it, **place} for at, place in enumerate(places)]
    stand_in.answer_json({"jobs": [*parts, {"job_id": 9, "partition": "spot"}]})
    client = stand_in.client()
    for leader in (client.job("7"), client.jobs(["7"])[0], client.jobs()[0]):
        assert (leader.partition, leader.other_partitions, leader.other_qos) == (
            "gpu",
            "spot",
            "low",
        )
    assert client.jobs()[1].other_partitions == "gpu"
    assert client.job("9").other_partitions == ""


def test_an_unknown_job_is_an_error_alone_and_none_of_a_list(stand_in: StandIn) -> None:
    stand_in.answer(last=fail("slurm_load_jobs error: Invalid job id specified"))
    with pytest.raises(NoSuchJob):
        stand_in.client().job("7")
    assert stand_in.client().jobs(["7"]) == []


def test_an_answer_without_a_job_means_that_there_is_none(stand_in: StandIn) -> None:
    stand_in.answer_json({"jobs": []})
    with pytest.raises(NoSuchJob):
        stand_in.client().job("7")


@pytest.mark.parametrize("output", ["", "slurm 22.05", "[1]", '"x"', '{"jobs": ['])
def test_an_answer_that_is_no_json_object_is_an_error_and_never_no_jobs(
    stand_in: StandIn, output: str
) -> None:
    stand_in.answer(last=f"printf %s '{output}'")
    with pytest.raises(SlurmError):
        stand_in.client().jobs()


def test_a_silent_slurmctld_is_asked_again_for_the_time_of_patience(stand_in: StandIn) -> None:
    silent = fail("Unable to contact slurm controller (connect failure)")
    stand_in.answer(silent, silent, last="exit 0")
    stand_in.client(patience=20).release("7")
    assert stand_in.calls() == [["scontrol", "release", "7"]] * 3


@pytest.mark.parametrize(
    "words",
    [
        "slurm_load_node error: Unable to contact slurm controller",
        "slurm_update error: Socket timed out on send/recv operation",
        "slurm_load_jobs error: Connection refused",
        "slurm_load_jobs error: Zero Bytes were transmitted or received",
        "slurm_load_jobs error: Unexpected message received",
        "Slurm backup controller in standby mode",
        "Slurm temporarily unable to accept job, sleeping and retrying",
        "error: slurm_receive_msg: connect failure",
        "error: fork: Resource temporarily unavailable",
        "error: Munge encode failed: Failed to access /run/munge/munge.socket.2",
        "slurm_load_jobs error: Protocol authentication error",
    ],
)
def test_no_answer_is_unknown_and_never_a_refusal(stand_in: StandIn, words: str) -> None:
    stand_in.answer(last=fail(words))
    with pytest.raises(SlurmUnavailable):
        stand_in.client().nodes("n1")


def test_a_refusal_is_final_and_told_in_slurms_words(stand_in: StandIn) -> None:
    stand_in.answer(last=fail("slurm_update error: Access/permission denied"))
    with pytest.raises(NotPermitted, match="Access/permission denied"):
        stand_in.client(patience=20).update_node("n1", NodeChange(drain="x"))
    assert len(stand_in.calls()) == 1


def test_a_hanging_command_ends_in_time_and_counts_as_no_answer(stand_in: StandIn) -> None:
    stand_in.answer(last="exec sleep 600")
    with pytest.raises(SlurmUnavailable, match=r"did not answer in 0\.3 s"):
        stand_in.client(timeout=0.3, patience=0.1).hold("7")


def test_a_command_that_can_not_be_killed_is_left_behind(
    stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.answer(last="echo $$ >pid; exec sleep 600")
    with monkeypatch.context() as asleep_in_the_kernel:
        asleep_in_the_kernel.setattr(subprocess.Popen, "kill", lambda _: None)
        with pytest.raises(SlurmUnavailable):
            stand_in.client(timeout=0.5, patience=0.1).hold("7")
    os.kill(int((stand_in.folder / "pid").read_text()), signal.SIGKILL)


def test_a_requeue_that_was_done_though_its_answer_got_lost_is_success(stand_in: StandIn) -> None:
    stand_in.answer(
        fail("Socket timed out on send/recv operation"),
        last=fail("Job is pending execution for job 7"),
    )
    stand_in.client(patience=20).requeue_and_hold("7")
    assert stand_in.calls() == [["scontrol", "requeuehold", "7"]] * 2


def running(start: int, **more: object) -> str:
    """Job 7 as it runs since ``start``."""
    begun = {"set": True, "number": start}
    job = {"job_id": 7, "job_state": ["RUNNING"], "start_time": begun, **more}
    return f"echo '{json.dumps({'jobs': [job]})}'\n"


def test_a_stop_whose_answer_got_lost_does_not_stop_the_next_attempt(stand_in: StandIn) -> None:
    lost = fail("Socket timed out on send/recv operation")
    stand_in.answer(running(1000), lost, running(2000), last=fail("must not be asked"))
    stand_in.client(patience=20).stop("7", 1000.0)
    shown = ["scontrol", "--local", "show", "job", "7", JSON]
    assert stand_in.calls() == [shown, ["scontrol", "requeuehold", "Incomplete", "7"], shown]


@pytest.mark.parametrize(("held", "how"), [(True, "requeue"), (False, "requeuehold")])
def test_a_stop_leaves_the_hold_that_somebody_has_put_on_the_running_job(
    stand_in: StandIn, held: bool, how: str
) -> None:
    stand_in.answer(running(1000, hold=held))
    stand_in.client().stop("7", 1000.0)
    assert stand_in.calls()[-1] == ["scontrol", how, "Incomplete", "7"]


def test_a_requeue_that_slurm_refuses_is_an_error(stand_in: StandIn) -> None:
    stand_in.answer(last=fail("Requested operation is presently disabled for job 7"))
    with pytest.raises(SlurmError, match="disabled"):
        stand_in.client().requeue_and_hold("7")


def test_a_change_is_one_request_of_whole_words(stand_in: StandIn) -> None:
    tricky = "a b;$(reboot) 'x' \"y\" ü\n=z"
    stand_in.client().update_job(
        "8_1", JobChange(comment=tricky, excluded="n[1-2]", priority=5, start_now=True)
    )
    assert stand_in.calls() == [
        [
            *("scontrol", "update", "JobId=8_1", "ExcNodeList=n[1-2]", "Priority=5"),
            *("StartTime=now", f"Comment={tricky}"),
        ]
    ]


def test_a_drain_and_the_evidence_are_one_request(stand_in: StandIn) -> None:
    stand_in.client().update_node("n1", NodeChange(drain="why", extra="{}"))
    assert stand_in.calls() == [
        ["scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=why", "Extra={}"]
    ]


def test_evidence_alone_drains_nothing(stand_in: StandIn) -> None:
    stand_in.client().update_node("n1", NodeChange(extra="{}"))
    assert stand_in.calls() == [["scontrol", "update", "NodeName=n1", "Extra={}"]]


def test_a_setting_is_read_from_the_live_configuration(stand_in: StandIn) -> None:
    (stand_in.folder / "config").write_text(
        "Configuration data as of now\n"
        "SchedulerParameters     = a=1,nohold_on_prolog_fail\n"
        "Prolog                  = (null)\n"
    )
    stand_in.answer(last="cat config")
    client = stand_in.client()
    assert client.setting("SchedulerParameters") == "a=1,nohold_on_prolog_fail"
    assert client.setting("Prolog") == client.setting("None") == ""


def test_an_expedited_requeue_is_a_line_of_its_own(stand_in: StandIn) -> None:
    for text, told in (
        ("JobId=7 JobName=x\n   StdOut=/x\n   ExpeditedRequeue=Yes\n", True),
        ("JobId=7 JobName=ExpeditedRequeue=Yes\n   StdOut=/x\n", False),
    ):
        (stand_in.folder / "text").write_text(text)
        stand_in.answer(last="cat text")
        assert stand_in.client().is_expedited("7") is told
    assert stand_in.calls()[0] == ["scontrol", "show", "job", "7"]


def test_a_batch_script_is_written_to_no_file(stand_in: StandIn) -> None:
    (stand_in.folder / "text").write_text("#!/bin/sh\ntrain\n")
    stand_in.answer(last="cat text")
    assert stand_in.client().batch_script("7") == "#!/bin/sh\ntrain\n"
    assert stand_in.calls() == [["scontrol", "write", "batch_script", "7", "-"]]
    stand_in.answer(last="echo 'Invalid job id specified' >&2")
    with pytest.raises(SlurmError, match="no batch script of job 7"):
        stand_in.client().batch_script("7")


def test_missing_commands_are_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(SlurmError, match=r"set \[slurm\] bin"):
        Scontrol(str(tmp_path / "nowhere")).release("7")


def test_what_is_not_utf_8_comes_through(stand_in: StandIn) -> None:
    stand_in.answer(last='printf \'{"nodes": [{"name": "n1", "extra": "\\377"}]}\'')
    extra = stand_in.client().nodes()[0].extra
    stand_in.client().update_node("n1", NodeChange(extra=extra))
    assert b"Extra=\xff" in (stand_in.folder / "calls").read_bytes()
