"""A node's hooks, from a record in the kernel's log to the drain, the evidence and the verdict."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fake_slurmctld import FakeSlurm

from slurm_failover import files
from slurm_failover.breaker import FaultNote, Word, read_notes, write_notes, write_word
from slurm_failover.breaker.word import OPEN
from slurm_failover.errors import HookEnded, SlurmUnavailable, SourceUnreadable
from slurm_failover.evidence import read_evidence
from slurm_failover.model import JobCause, JobFacts
from slurm_failover.node import attempts, memory, stops
from slurm_failover.node.checks import NodeChecks
from slurm_failover.settings.protection import MetricsSettings
from slurm_failover.settings.tables import Settings, SlurmSettings, SourceSettings, StateSettings
from slurm_failover.slurm import connect
from slurm_failover.slurm.client import NodeChange
from slurm_failover.slurm.observe import Observer
from slurm_failover.sources import kmsg

LOST = (
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)
FATAL = (
    "nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, "
    "(Receiver ID)"
)
"""What asks for a GPU to be reseated."""
MEMORY_FAULT = (
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=42, name=python, Ch 00000008, intr 00000000. MMU Fault: "
    "ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f_0. Fault is of type FAULT_PDE ACCESS_TYPE_READ"
)


class Node:
    """Node n1 with a kernel log of its own, over a Slurm in memory."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log = folder / "kmsg"
        self.log.touch()
        self.ledger = folder / "state" / "node" / "ledger.json"
        self.slurm = FakeSlurm(now=int(time.time()) - 100)
        self.slurm.parameters["SchedulerParameters"] = "nohold_on_prolog_fail"
        self.said: list[str] = []
        self.slurmd = folder / "slurmd"
        self.slurmd.write_text("#!/bin/sh\n")
        self.slurmd.chmod(0o755)
        self.settings = Settings(
            sources=SourceSettings(
                kmsg=str(self.log),
                rules=str(folder / "rules"),
                nvml=False,
                sysfs="",
                ipmitool="",
                slurmd_log="",
            ),
            slurm=SlurmSettings(slurmd=str(self.slurmd)),
            state=StateSettings(directory=str(folder / "state")),
        )
        self.environment: dict[str, str] = {"SLURMD_NODENAME": "n1"}
        monkeypatch.setattr(attempts, "FOLDER", str(folder / "run"))
        monkeypatch.setattr(connect, "connect", lambda settings, say: self.client(say))

    def client(self, say: Callable[[str], None]) -> object:
        observes = self.settings.failover.mode == "observe"
        return Observer(self.slurm, say) if observes else self.slurm

    def record(self, text: str, *, priority: int = 3, age: float = 0.0) -> None:
        """Append a record of the kernel; facility 0 is its own, 1 is a user's."""
        number = len(self.log.read_text().splitlines()) + 1
        micros = int((time.clock_gettime(time.CLOCK_MONOTONIC) - age) * 1e6)
        with self.log.open("a") as file:
            file.write(f"{priority},{number},{max(micros, 0)},-;{text}\n")

    def run_job(self, comment: str = "failover", size: int = 1) -> str:
        label = self.slurm.submit(comment, size=size)
        assert self.slurm.schedule() == [label]
        job = self.slurm.peek(label)
        self.environment |= {
            "SLURM_JOB_ID": label,
            "SLURM_JOB_COMMENT": comment,
            "SLURM_JOB_START_TIME": str(job.start),
            "SLURM_JOB_EXIT_CODE": "256",
        }
        return label

    def tell_held(self, indexes: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let slurmctld say which GPUs the jobs on this node hold: "0,1", or "" where it has
        forgotten that.
        """
        ask = self.slurm.jobs_on
        count = len(indexes.split(",")) if indexes else 0
        held = {
            "gres_detail": (f"gpu:{count}(IDX:{indexes})",) if indexes else (),
            "allocated": ("n1",),
            "wants_gpus": True,
        }
        monkeypatch.setattr(
            self.slurm, "jobs_on", lambda name: [replace(job, **held) for job in ask(name)]
        )

    def checks(self) -> NodeChecks:
        return NodeChecks(self.environment, self.settings, self.said.append)

    def end_job(self, label: str) -> bool:
        self.slurm.finish(label, code=1)
        return self.checks().check_job_end()

    @property
    def reason(self) -> str:
        return self.slurm.peek_node("n1").reason

    def causes(self) -> list[JobCause]:
        return [entry.cause for entry in read_evidence("n1", self.slurm.peek_node("n1").extra)]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


# --- a healthy node -------------------------------------------------------------------------------


def test_a_healthy_node_makes_no_request(node: Node) -> None:
    label = node.run_job()
    node.record("usb 1-1: new device", priority=6)
    node.slurm.calls.clear()
    assert not node.checks().check_job_start()
    assert not node.checks().check_health()
    assert not node.checks().check_health()
    assert not node.end_job(label)
    assert node.slurm.calls == []


@pytest.mark.parametrize(
    ("text", "code", "asks"), [(MEMORY_FAULT, 0, False), (MEMORY_FAULT, 1, True), (LOST, 0, True)]
)
def test_slurm_is_asked_at_a_jobs_end_only_where_there_may_be_word_on_it(
    node: Node, text: str, code: int, asks: bool
) -> None:
    label = node.run_job()
    node.environment["SLURM_JOB_EXIT_CODE"] = str(code * 256)
    node.record(text)
    node.slurm.finish(label, code=code)
    node.slurm.calls.clear()
    node.checks().check_job_end()
    assert bool(node.slurm.calls) is asks


# --- a fault at the end of a job ------------------------------------------------------------------


def test_a_hardware_fault_drains_the_node_and_leaves_word_on_the_job(node: Node) -> None:
    label = node.run_job()
    node.record(LOST)
    assert node.end_job(label)
    assert node.reason.startswith("slurm-failover: ")
    assert "fallen off the bus" in node.reason
    assert f"(job {label})" in node.reason
    assert node.causes() == [JobCause.HARDWARE]


def test_the_epilog_run_twice_says_the_same_and_gives_one_verdict(node: Node) -> None:
    label = node.run_job()
    node.record(LOST)
    assert node.end_job(label)
    before = node.slurm.peek_node("n1").facts()
    assert not node.checks().check_job_end()
    assert node.slurm.peek_node("n1").facts() == before


def test_without_the_flag_the_node_is_drained_all_the_same(node: Node) -> None:
    label = node.run_job("words")
    node.record(LOST)
    assert node.end_job(label)
    assert node.reason.startswith("slurm-failover: ")


def test_a_fault_of_the_job_itself_is_told_and_drains_nothing(node: Node) -> None:
    label = node.run_job()
    node.record(MEMORY_FAULT)
    assert not node.end_job(label)
    assert node.reason == ""
    assert node.causes() == [JobCause.INTERNAL]


def test_a_fault_of_the_job_itself_that_did_not_fail_it_is_not_told(node: Node) -> None:
    label = node.run_job()
    node.environment["SLURM_JOB_EXIT_CODE"] = "0"
    node.record(MEMORY_FAULT)
    assert not node.end_job(label)
    assert node.causes() == []


def test_a_fault_from_before_the_job_is_not_the_jobs(node: Node) -> None:
    node.record(MEMORY_FAULT, age=600)
    label = node.run_job()
    assert not node.end_job(label)
    assert node.causes() == []


def test_what_a_user_wrote_into_the_log_is_not_believed(node: Node) -> None:
    label = node.run_job()
    node.record(LOST, priority=11)
    assert not node.end_job(label)
    assert node.reason == ""
    assert JobCause.HARDWARE not in node.causes()


@pytest.mark.parametrize(
    ("gpus", "held", "causes"),
    [
        (0, "", [JobCause.HARDWARE]),
        (2, "0,1", [JobCause.HARDWARE]),
        (2, "0", [JobCause.UNKNOWN]),
        (2, "", []),
        (None, "", [JobCause.UNKNOWN]),
    ],
)
def test_where_slurmd_does_not_name_its_gpus_in_time_slurmctlds_count_may_tell_whose_it_was(
    node: Node, gpus: int | None, held: str, causes: list[JobCause]
) -> None:
    node.slurmd.write_text("#!/bin/sh\nexit 1\n")
    node.slurm.peek_node("n1").gpus = gpus
    label = node.run_job()
    node.environment["SLURM_JOB_GPUS"] = held
    node.record(LOST)
    assert node.end_job(label)
    assert node.causes() == causes


def has_no_devices(node: Node) -> None:
    """slurmd as it is where gres.conf names two files that are no devices: it names them to no
    hook.
    """
    node.slurmd.write_text(
        "#!/bin/sh\n"
        "echo 'error: /tmp/nvidia0 is not a valid character or block device' >&2\n"
        "echo 'Gres Name=gpu Count=2 Index=0 File=/tmp/nvidia[0-1] Links=(null)' >&2\n"
    )
    node.slurm.peek_node("n1").gpus = 2
    node.settings = replace(
        node.settings,
        sources=replace(node.settings.sources, proc=str(node.log.parent / "proc")),
    )
    boot_id = node.log.parent / "proc/sys/kernel/random/boot_id"
    boot_id.parent.mkdir(parents=True)
    boot_id.write_text("boot-1\n")


def forget_all(node: Node) -> None:
    """What an admin does who takes the package away and puts it back."""
    shutil.rmtree(node.settings.state.directory)


def test_a_node_that_was_resumed_is_not_drained_for_an_old_record_though_its_ledger_is_gone(
    node: Node,
) -> None:
    node.record(LOST)
    assert node.checks().check_health()
    node.slurm.resume("n1")
    forget_all(node)
    assert not node.checks().check_health()
    assert not node.slurm.peek_node("n1").flags
    node.record(FATAL, age=-5)
    assert node.checks().check_health()
    assert node.reason


@pytest.mark.parametrize("waits", [True, False], ids=["put off", "drained"])
def test_what_was_judged_again_before_the_node_was_resumed_is_old_as_well(
    node: Node, waits: bool
) -> None:
    word = write_word("", Word(OPEN, time.time() - 1)) if waits else ""
    node.slurm.update_node("n2", NodeChange(comment=word))
    node.record(LOST, age=20)
    assert node.checks().check_health() is not waits
    extra = node.slurm.peek_node("n1").extra
    [note] = read_notes("n1", extra)
    earlier = replace(note, time=note.time - 60, last=note.last - 60)
    node.slurm.update_node("n1", NodeChange(extra=write_notes(extra, [earlier], note.time)))
    node.record(LOST)
    node.slurm.update_node("n2", NodeChange(comment=""))
    node.checks().check_health()
    node.slurm.resume("n1")
    forget_all(node)
    assert not node.checks().check_health()


def test_a_note_that_lies_ahead_of_the_clock_makes_no_fault_old(node: Node) -> None:
    ahead = FaultNote("n1", time.time() + 3600, "xid-79", "Xid 79")
    node.slurm.update_node("n1", NodeChange(extra=write_notes("", [ahead], ahead.time)))
    node.record(LOST)
    assert node.checks().check_health()


@pytest.mark.parametrize("forgets", [True, False])
def test_what_is_too_old_for_a_drain_still_explains_the_job_that_it_hit(
    node: Node, monkeypatch: pytest.MonkeyPatch, forgets: bool
) -> None:
    label = node.run_job()
    environment = node.environment | {"SLURM_JOB_GPUS": "0,1"}
    node.slurm.peek_node("n1").gpus = 2
    node.slurmd.write_text("#!/bin/sh\nexit 1\n")
    node.tell_held("", monkeypatch)
    node.record(LOST)
    node.environment = {"SLURMD_NODENAME": "n1"}
    assert node.checks().check_health()
    assert node.causes() == []
    node.slurm.resume("n1")
    if forgets:
        forget_all(node)
    node.environment = environment
    assert not node.end_job(label)
    assert node.causes() == [JobCause.HARDWARE]


def test_a_fault_whose_drain_was_put_off_is_not_forgotten_with_the_ledger(node: Node) -> None:
    node.slurm.update_node("n2", NodeChange(comment=write_word("", Word(OPEN, time.time() - 1))))
    node.record(LOST)
    assert not node.checks().check_health()
    assert [note.waits for note in read_notes("n1", node.slurm.peek_node("n1").extra)] == [True]
    forget_all(node)
    node.slurm.update_node("n2", NodeChange(comment=""))
    assert node.checks().check_health()


def test_a_node_that_is_out_of_service_knows_why_though_its_ledger_is_gone(node: Node) -> None:
    node.record(LOST)
    assert node.checks().check_health()
    forget_all(node)
    node.checks().check_health()
    assert [fault.rule for fault in node.checks().read_ledger().open] == ["xid-79"]


@pytest.mark.parametrize("judged", ["now", "before"])
@pytest.mark.parametrize(
    ("held", "cause"),
    [("0,1", JobCause.HARDWARE), ("0", JobCause.UNKNOWN), ("", JobCause.UNKNOWN)],
    ids=["all", "one", "no word"],
)
def test_what_slurmd_does_not_name_to_its_epilog_slurmctld_tells_or_it_is_a_doubt(
    node: Node,
    monkeypatch: pytest.MonkeyPatch,
    judged: str,
    held: str,
    cause: JobCause,
) -> None:
    has_no_devices(node)
    label = node.run_job("")
    node.tell_held(held, monkeypatch)
    node.environment["SLURM_JOB_COMMENT"] = "failover"
    node.record(LOST)
    if judged == "before":
        assert node.checks().check_health()
        node.slurm.resume("n1")
    node.said.clear()
    assert node.end_job(label) is (judged == "now")
    assert node.causes() == [cause]
    doubts = [line for line in node.said if line.startswith(f"job {label} failed: ")]
    assert [line.endswith("whether that hit this job can not be told") for line in doubts] == (
        [True] if cause is JobCause.UNKNOWN else []
    )


def test_a_gpu_that_slurmctld_counts_and_slurmd_does_not_list_may_be_another_jobs(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_no_devices(node)
    node.slurm.peek_node("n1").gpus = 3
    label = node.run_job()
    node.tell_held("0,1", monkeypatch)
    node.record(LOST)
    assert node.end_job(label)
    assert node.causes() == [JobCause.UNKNOWN]


# --- a fault while a job runs ---------------------------------------------------------------------


def test_a_running_flagged_job_is_stopped(node: Node) -> None:
    flagged = node.run_job()
    node.record(LOST)
    assert node.checks().check_health()
    assert node.slurm.job(flagged).held_by_requeue
    assert f"(job {flagged})" in node.reason


@pytest.mark.parametrize("comment", ["words", "failover=none"])
def test_a_running_job_without_a_valid_wish_runs_on(node: Node, comment: str) -> None:
    label = node.run_job(comment)
    node.record(LOST)
    assert node.checks().check_health()
    assert node.slurm.job(label).states == {"RUNNING"}


def test_a_job_on_another_node_runs_on(node: Node) -> None:
    label = node.run_job(size=1)
    node.slurm.peek(label).nodes = ["n2"]
    node.record(LOST)
    assert node.checks().check_health()
    assert node.slurm.job(label).states == {"RUNNING"}


def test_a_fault_is_found_once(node: Node) -> None:
    node.record(LOST)
    assert node.checks().check_health()
    node.slurm.resume("n1")
    node.slurm.calls.clear()
    assert not node.checks().check_health()
    assert not node.checks().check_job_end()
    assert node.reason == ""


def test_a_new_fault_after_a_resume_drains_again(node: Node) -> None:
    node.record(LOST)
    assert node.checks().check_health()
    node.slurm.resume("n1")
    node.record(LOST.replace("79", "95").replace("GPU has fallen off the bus.", "Uncontained"))
    assert node.checks().check_health()
    assert node.reason.startswith("slurm-failover: ")


def test_a_first_look_leaves_the_old_records_of_a_log_alone(node: Node) -> None:
    node.settings = replace(node.settings, sources=replace(node.settings.sources, first_look=60))
    node.record(LOST, age=3600)
    assert not node.checks().check_health()
    assert node.reason == ""


@pytest.mark.parametrize("look", ["check_health", "check_job_end"])
def test_after_a_reboot_every_record_since_boot_is_new(
    node: Node, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    node.run_job("not flagged")
    node.record("Xid of no number", priority=6)
    assert not node.checks().check_health()
    monkeypatch.setattr(kmsg, "boot_id", lambda *_: "another boot")
    node.log.write_text("")
    node.record(LOST, age=3000)
    assert getattr(node.checks(), look)()


def test_a_health_check_tells_of_the_end_that_an_epilog_could_not_tell_of(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_silent(*_: object) -> None:
        raise SlurmUnavailable("Socket timed out")

    monkeypatch.setattr("slurm_failover.node.untold.start_detached", lambda *_: None)
    label = node.run_job()
    node.record(LOST)
    with monkeypatch.context() as while_silent:
        while_silent.setattr(node.slurm, "update_node", be_silent)
        node.end_job(label)
    node.slurm.end_epilog(label, "n1")
    for left in (node.ledger.parent / "ends").iterdir():
        os.utime(left, (0, 0))
    node.checks().check_health()
    assert node.causes() == [JobCause.HARDWARE]


def test_a_health_check_waits_again_for_a_grace_that_nobody_waits_out(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stops, "FOLDER", str(tmp_path / "stops"))
    begun: list[dict[str, str]] = []
    monkeypatch.setattr(
        "slurm_failover.node.checkpoint.start_detached", lambda _, told: begun.append(told)
    )
    stop = stops.Stop("7", 5.0, 9.0)
    stops.write_stop(stop)
    assert not node.checks().check_health()
    assert [list(told.values()) for told in begun] == [[stop.path]]


def test_without_a_boot_id_no_record_can_be_dated_and_there_is_no_verdict(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kmsg, "boot_id", lambda *_: "")
    node.record(LOST)
    with pytest.raises(SourceUnreadable, match="boot id"):
        node.checks().check_health()


def test_where_the_kernels_log_can_not_be_read_the_journal_is(node: Node) -> None:
    sources = replace(node.settings.sources, kmsg="/nowhere", journalctl="/bin/true")
    node.settings = replace(node.settings, sources=sources)
    with pytest.raises(SourceUnreadable, match="the journal holds no message of the kernel"):
        node.checks().check_health()


def test_no_reboot_ends_the_wait_for_the_drain_of_what_has_to_be_replaced(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.slurm.update_node("n2", NodeChange(comment=write_word("", Word(OPEN, time.time() - 1))))
    node.record(LOST)
    node.record(FATAL)
    assert not node.checks().check_health()
    monkeypatch.setattr(kmsg, "boot_id", lambda *_: "another boot")
    node.log.write_text("")
    node.checks().check_health()
    assert all(note.waits for note in read_notes("n1", node.slurm.peek_node("n1").extra))


@pytest.mark.parametrize("is_there_still", [False, True])
def test_a_drain_that_was_put_off_is_due_after_a_reboot_only_for_a_fault_that_is_there_still(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_there_still: bool
) -> None:
    (tmp_path / "textfile").mkdir()
    node.settings = replace(node.settings, metrics=MetricsSettings(str(tmp_path / "textfile")))
    metrics = tmp_path / "textfile" / "slurm_failover_node.prom"
    word = write_word("", Word(OPEN, time.time() - 1))
    node.slurm.update_node("n2", NodeChange(comment=word))
    node.record(LOST)
    assert not node.checks().check_health()
    assert [note.waits for note in read_notes("n1", node.slurm.peek_node("n1").extra)] == [True]
    assert "drains_waiting 1" in metrics.read_text()

    monkeypatch.setattr(kmsg, "boot_id", lambda *_: "another boot")
    node.log.write_text("")
    if is_there_still:
        node.record(LOST)
    node.checks().check_health()
    waits = [note.waits for note in read_notes("n1", node.slurm.peek_node("n1").extra)]
    assert waits == [is_there_still]
    assert f"drains_waiting {int(is_there_still)}" in metrics.read_text()
    node.slurm.calls.clear()
    node.checks().check_health()
    assert is_there_still or node.slurm.calls == []


def test_an_administrators_drain_keeps_its_reason(node: Node) -> None:
    label = node.run_job()
    node.slurm.drain("n1", "maintenance")
    node.record(LOST)
    assert node.end_job(label)
    assert node.reason == "maintenance"
    assert node.causes() == [JobCause.HARDWARE]


# --- the Prolog -----------------------------------------------------------------------------------


def test_a_prolog_on_a_faulty_node_is_a_verdict_and_leaves_the_job_to_slurm(node: Node) -> None:
    label = node.run_job()
    node.record(LOST)
    assert node.checks().check_job_start()
    assert node.reason.startswith("slurm-failover: ")
    assert node.slurm.job(label).has("RUNNING")
    assert node.causes() == []


def test_a_prolog_is_no_verdict_where_slurm_would_hold_the_job_for_it(node: Node) -> None:
    node.run_job()
    node.slurm.parameters.clear()
    node.record(LOST)
    assert not node.checks().check_job_start()
    assert node.reason.startswith("slurm-failover: ")
    assert any("nohold_on_prolog_fail" in line for line in node.said)


def test_a_job_that_was_cancelled_by_then_is_not_sent_back(node: Node) -> None:
    label = node.run_job()
    node.record(LOST)
    node.slurm.cancel(label)
    assert not node.checks().check_job_start()
    assert node.reason.startswith("slurm-failover: ")
    assert any("was cancelled before it started" in line for line in node.said)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("PREEMPTED", "was preempted"),
        ("TIMEOUT", "ran out of time"),
        ("DEADLINE", "missed its deadline"),
        ("FAILED", "ended"),
        ("COMPLETED", "ended"),
    ],
)
def test_a_job_that_has_ended_by_then_is_not_sent_back(node: Node, state: str, words: str) -> None:
    label = node.run_job()
    node.record(LOST)
    job = node.slurm.peek(label)
    job.state, job.busy = state, {"n1"}
    assert not node.checks().check_job_start()
    assert f"job {label} {words} before it started: it is not sent back" in node.said


def test_a_prolog_stands_by_its_verdict_where_slurm_does_not_tell_of_the_job(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.run_job()
    node.record(LOST)

    def be_away(label: str) -> JobFacts:
        raise SlurmUnavailable(label)

    monkeypatch.setattr(node.slurm, "job", be_away)
    assert node.checks().check_job_start()


# --- what goes wrong ------------------------------------------------------------------------------


def test_a_log_that_can_not_be_read_is_no_verdict(node: Node) -> None:
    node.log.unlink()
    with pytest.raises(SourceUnreadable):
        node.checks().check_health()
    assert node.slurm.calls == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"boot": 1}', '{"boot": "x", "cursor": "y", "faults": []}']
)
def test_a_damaged_ledger_is_a_first_look(node: Node, text: str) -> None:
    node.ledger.parent.mkdir(parents=True)
    node.ledger.write_text(text)
    node.record(LOST)
    assert node.checks().check_health()
    assert any("can not be read" in line for line in node.said)
    assert json.loads(node.ledger.read_text())["cursor"] == 1


def test_a_verdict_that_slurm_can_not_be_told_stands_and_is_acted_upon_later(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> None:
        raise SlurmUnavailable("Socket timed out")

    node.record(LOST)
    with monkeypatch.context() as while_silent:
        while_silent.setattr(node.slurm, "update_node", silent)
        assert node.checks().check_health()
    assert node.reason == ""
    assert node.checks().check_health()
    assert node.reason.startswith("slurm-failover: ")


@pytest.mark.parametrize("first", [False, True], ids=["a later look", "the first look"])
def test_a_verdict_stands_where_the_hooks_time_is_over_while_slurm_does_not_answer(
    node: Node, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    asked: list[object] = []

    def run_out_of_time(*what: object) -> None:
        asked.append(what)
        raise HookEnded("the hook was ended before it was done")

    monkeypatch.setattr("slurm_failover.node.untold.start_detached", lambda *_: None)
    if not first:
        node.checks().check_health()
    label = node.run_job()
    node.record(LOST)
    monkeypatch.setattr(node.slurm, "nodes", run_out_of_time)
    monkeypatch.setattr(node.slurm, "jobs_on", run_out_of_time)
    assert node.end_job(label)
    assert len(asked) == 1


def test_a_look_that_another_one_keeps_out_is_no_verdict(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "LOCK_PATIENCE", 0.0)
    node.record(LOST)
    files.make_folder(str(node.ledger.parent))
    with files.locked(str(node.ledger.parent / "lock"), 0):
        assert not node.checks().check_health()
    assert node.reason == ""
    assert node.checks().check_health()


def test_an_observer_tells_and_changes_nothing(node: Node) -> None:
    node.settings = replace(node.settings, failover=replace(node.settings.failover, mode="observe"))
    label = node.run_job()
    node.record(LOST)
    assert not node.end_job(label)
    assert "stop" not in node.slurm.calls
    assert (node.reason, node.slurm.peek_node("n1").flags) == ("", set())
    assert any("would update node n1: drain=" in line for line in node.said)


def test_a_broken_rule_file_of_the_site_is_an_error_with_its_name(
    node: Node, tmp_path: Path
) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "site.toml").write_text("[x]\nno = 1\n")
    node.record(LOST)
    with pytest.raises(Exception, match=r"site\.toml"):
        node.checks().check_health()
    assert node.reason == ""
