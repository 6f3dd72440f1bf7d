"""A node's hooks over NVML, sysfs and the BMC: through the real bindings, a tree, a program."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import gpu_node
import pytest
from fake_state import FakeJob
from gpu_node import FAULTY, HEALTHY_BMC, GpuNode
from nvml_stand_in import stand_in_library  # noqa: F401 - a fixture
from test_checks import LOST

from slurm_failover.breaker import Word, read_notes, write_word
from slurm_failover.breaker.word import OPEN
from slurm_failover.errors import HookEnded, SlurmUnavailable
from slurm_failover.happening import Happening
from slurm_failover.model import JobCause
from slurm_failover.node import account, attend, readings, untold
from slurm_failover.slurm.client import NodeChange
from slurm_failover.sources import kmsg

node = gpu_node.node


def test_a_healthy_node_with_nvml_asks_slurm_nothing_and_says_nothing(node: GpuNode) -> None:
    label = node.run_job()
    assert not node.checks().check_job_start()
    assert not node.checks().check_health()
    assert not node.end_job(label)
    assert (node.slurm.calls, node.said) == ([], [])


def test_a_gpu_that_is_lost_drains_the_node_and_stops_its_job(node: GpuNode) -> None:
    label = node.run_job()
    node.checks().check_health()
    node.gpus(gpu1__error=15)
    assert node.checks().check_health()
    assert node.reason.startswith(f"slurm-failover: NVML: GPU {FAULTY} is")
    assert node.reason.endswith(f"; reboot needed (job {label})")
    assert node.slurm.peek(label).requeued_held


def test_a_job_on_another_gpu_runs_on(node: GpuNode) -> None:
    label = node.run_job()
    node.gpus(gpu0__remap_failed=1)
    assert node.checks().check_health()
    assert "could not be remapped" in node.reason
    assert node.slurm.peek(label).state == "RUNNING"
    assert node.evidence() == []


def test_a_state_that_holds_is_told_once_and_drains_again_where_the_node_came_back(
    node: GpuNode,
) -> None:
    node.gpus(gpu1__remap_failed=1)
    assert node.checks().check_health()
    said = list(node.said)
    node.slurm.calls.clear()
    assert not node.checks().check_health()
    assert (node.slurm.calls, node.said) == (["nodes"], said)
    node.slurm.resume("n1")
    assert node.checks().check_health()
    assert "could not be remapped" in node.reason


@pytest.mark.parametrize(
    "silence", [SlurmUnavailable("Socket timed out"), HookEnded("the hook was ended")], ids=str
)
def test_a_new_fault_beside_a_state_that_holds_is_a_verdict_also_where_slurm_is_silent(
    node: GpuNode, monkeypatch: pytest.MonkeyPatch, silence: Exception
) -> None:
    def keep_silent(*_: object) -> None:
        raise silence

    node.gpus(gpu1__remap_failed=1)
    assert node.checks().check_health()
    node.slurm.resume("n1")
    label = node.run_job()
    node.record(LOST)
    monkeypatch.setattr(node.slurm, "nodes", keep_silent)
    monkeypatch.setattr(untold, "start_detached", lambda *_: None)
    assert node.end_job(label)


def test_errors_that_were_counted_before_do_not_drain_a_node_that_came_back(node: GpuNode) -> None:
    node.checks().check_health()
    node.gpus(gpu1__ecc=3)
    assert node.checks().check_health()
    node.slurm.resume("n1")
    assert not node.checks().check_health()
    node.gpus(gpu1__ecc=4)
    assert node.checks().check_health()
    assert "1 new uncorrectable ECC errors" in node.reason


def test_what_no_log_keeps_is_remembered_for_the_end_of_the_job(node: GpuNode) -> None:
    label = node.run_job()
    node.checks().check_health()
    node.gres(status=1)
    node.gpus(gpu1__ecc=3)
    assert node.checks().check_health()
    assert node.slurm.peek(label).state == "RUNNING"
    assert f"job {label} runs on: " in "".join(node.said)
    node.gres(0, 1)
    assert not node.end_job(label)
    [(cause, because)] = node.evidence()
    assert (cause, because) == (
        JobCause.HARDWARE,
        f"NVML: GPU {FAULTY} counts 3 new uncorrectable ECC errors",
    )


def test_what_no_log_keeps_costs_the_end_of_no_later_job_a_request(node: GpuNode) -> None:
    node.gpus(gpu1__remap_failed=1)
    assert node.checks().check_health()
    node.gpus(gpu1__remap_failed=0)
    node.slurm.resume("n1")
    label = node.run_job()
    node.environment["SLURM_JOB_START_TIME"] = str(time.time() + 600)
    node.slurm.calls.clear()
    assert not node.end_job(label)
    assert node.slurm.calls == []


def test_a_fault_on_a_gpu_that_can_not_be_mapped_denies_the_failed_job(node: GpuNode) -> None:
    label = node.run_job()
    node.checks().check_health()
    node.gres(status=1)
    node.gpus(gpu1__ecc=3)
    assert node.end_job(label)
    [(cause, because)] = node.evidence()
    assert cause is JobCause.UNKNOWN
    assert because.endswith("whether that hit this job can not be told")


def test_when_nvml_hangs_every_hook_ends_in_time_without_a_verdict_and_says_it_once(
    node: GpuNode,
) -> None:
    node.sources(nvml_timeout=1)
    label = node.run_job()
    node.gpus(gpu0__hang__nvmlDeviceGetUUID=1)
    began = time.monotonic()
    assert not node.checks().check_job_start()
    assert not node.checks().check_health()
    assert not node.end_job(label)
    assert time.monotonic() - began < 3 * 4
    assert len(node.said) == 1
    assert node.said[0].startswith("can not see the GPUs: NVML stopped answering at GPU")
    assert node.slurm.calls == []


def test_a_blind_node_is_told_once_whatever_blinds_it_at_each_look(node: GpuNode) -> None:
    node.sources(nvml_timeout=1)
    for hang in ("gpu0.hang.nvmlDeviceGetUUID", "hang.nvmlInitWithFlags", "count"):
        node.facts[hang] = 1
        node.gpus()
        node.checks().check_health()
    assert len(node.said) == 1
    for hang in ("gpu0.hang.nvmlDeviceGetUUID", "hang.nvmlInitWithFlags"):
        node.facts[hang] = 0
    node.facts["count"] = 2
    node.gpus()
    node.checks().check_health()
    assert node.said[1:] == ["can see again what nvml shows"]


def test_a_kernel_record_is_judged_while_nvml_hangs(node: GpuNode) -> None:
    node.sources(nvml_timeout=1)
    label = node.run_job()
    node.checks().check_health()
    node.gpus(gpu0__hang__nvmlDeviceGetUUID=1)
    node.record("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=a, GPU has fallen off the bus.")
    assert node.end_job(label)
    assert [cause for cause, _ in node.evidence()] == [JobCause.HARDWARE]


def test_a_node_without_nvml_says_so_once_in_all_its_hooks(
    node: GpuNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_failover.node.due.nvml_may_answer", lambda _: False)
    label = node.run_job()
    for _ in range(2):
        assert not node.checks().check_job_start()
        assert not node.checks().check_health()
    assert not node.end_job(label)
    assert node.said == [
        "can not see the GPUs: neither NVIDIA's driver nor its library is here",
    ]


def list_gpus(node: GpuNode, *gpus: tuple[str, int], excluded: bool = False) -> None:
    """What the driver lists, by PCI id and minor number."""
    for pci, minor in gpus:
        folder = node.folder / f"proc/driver/nvidia/gpus/{pci}.0"
        folder.mkdir(parents=True, exist_ok=True)
        words = f"GPU UUID: \tGPU-{pci}\nDevice Minor: \t {minor}\n"
        (folder / "information").write_text(words + "GPU Excluded:\t Yes\n" * excluded)


def forget_files(node: GpuNode) -> None:
    for path in (node.folder / "proc/driver/nvidia/gpus").glob("*/information"):
        path.unlink()


@pytest.mark.parametrize(("lost", "causes"), [(FAULTY, [JobCause.HARDWARE]), ("0000:9b:00", [])])
def test_without_nvml_the_drivers_own_list_tells_whose_a_gpu_is(
    node: GpuNode, lost: str, causes: list[JobCause]
) -> None:
    node.sources(nvml=False)
    list_gpus(node, (FAULTY, 0), ("0000:9b:00", 1))
    label = node.run_job()
    node.record(LOST.replace(FAULTY, lost))
    assert node.end_job(label)
    assert [cause for cause, _ in node.evidence()] == causes


def test_without_nvml_the_drivers_list_is_read_once_in_a_boot_and_kept(
    node: GpuNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.sources(nvml=False)
    reads = []
    read = readings.read_names
    monkeypatch.setattr(readings, "read_names", lambda *args: reads.append(1) or read(*args))
    assert not node.checks().check_health()
    assert reads == []
    list_gpus(node, (FAULTY, 0))
    list_gpus(node, ("0000:af:00", 9), excluded=True)
    for _ in range(3):
        assert not node.checks().check_health()
    assert (len(reads), node.slurm.calls, node.said) == (1, [], [])
    list_gpus(node, ("0000:9b:00", 1))
    node.checks().check_health()
    assert len(reads) == 2

    forget_files(node)
    label = node.run_job()
    node.record(LOST)
    assert node.end_job(label)
    assert [cause for cause, _ in node.evidence()] == [JobCause.HARDWARE]

    list_gpus(node, (FAULTY, 1), ("0000:9b:00", 0))
    node.boot("boot-2")
    node.checks().check_health()
    assert len(reads) == 3
    assert '"pci\\":\\"0000:9b:00\\",\\"uuid\\":\\"GPU-0000:9b:00\\",\\"minor\\":0' in (
        node.ledger.read_text()
    )


def test_without_nvml_and_any_list_a_job_that_holds_all_gpus_is_moved(
    node: GpuNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.sources(nvml=False)
    label = node.run_job()
    node.tell_held("0,1", monkeypatch)
    node.slurm.peek_node("n1").gpus = 2
    node.record(LOST)
    assert node.checks().check_health()
    assert node.reason.endswith(f"(job {label})")
    assert node.slurm.peek(label).requeued_held


def test_without_nvml_and_any_list_a_job_that_holds_one_gpu_of_two_runs_on(node: GpuNode) -> None:
    node.sources(nvml=False)
    label = node.run_job()
    node.record(LOST)
    assert node.checks().check_health()
    assert node.slurm.peek(label).state == "RUNNING"
    assert [line for line in node.said if f"job {label} runs on: " in line]


@pytest.mark.parametrize(
    ("source", "off"),
    [
        ("nvml", {"nvml": False}),
        ("driver", {"nvml": True}),
        ("sysfs", {"sysfs": ""}),
        ("bmc", {"ipmitool": ""}),
    ],
)
def test_what_a_source_could_not_see_is_forgotten_once_it_is_switched_off(
    node: GpuNode, source: str, off: dict[str, object]
) -> None:
    node.checks().check_health()
    ledger = json.loads(node.ledger.read_text())
    blind = {"time": time.time(), "unseen": "much", "memory": '{"devices":{}}', "uptime": 0.0}
    ledger["sources"][source] = blind
    node.ledger.write_text(json.dumps(ledger))
    node.sources(**off)
    node.gpus(gpu0__ecc=1)
    node.record("NVRM: Xid (PCI:0000:9b:00): 43, pid=1, name=a, Ch 00000008")
    node.checks().check_health()
    note = json.loads(node.ledger.read_text())["sources"][source]
    assert (note["unseen"], note["memory"]) == ("", blind["memory"])


def test_a_gpu_is_missing_by_the_count_that_slurmd_gives_now(node: GpuNode) -> None:
    node.gres(0, 1, 2)
    assert node.checks().check_health()
    assert "1 of 3 GPUs" in node.reason
    node.slurm.resume("n1")
    node.gres(0, 1)
    assert not node.checks().check_health()


def test_a_drained_node_starts_no_job_until_it_is_back(node: GpuNode) -> None:
    node.run_job()
    node.checks().check_health()
    node.gpus(gpu1__ecc=3)
    node.checks().check_health()
    assert node.checks().check_job_start()
    node.slurm.resume("n1")
    assert not node.checks().check_job_start()
    node.slurm.calls.clear()
    assert not node.checks().check_job_start()
    assert node.slurm.calls == []


def memory_errors(node: GpuNode) -> Path:
    """The node's count of memory errors, which is none so far."""
    counter = node.folder / "sys/devices/system/edac/mc/mc0/ue_count"
    counter.parent.mkdir(parents=True)
    counter.write_text("0\n")
    node.sources(sysfs=str(node.folder / "sys"))
    return counter


def test_the_machine_is_looked_at_by_the_health_check_alone(node: GpuNode) -> None:
    counter = memory_errors(node)
    label = node.run_job()
    node.checks().check_health()
    counter.write_text("2\n")
    assert not node.checks().check_job_start()
    assert node.checks().check_health()
    assert "2 new uncorrected memory errors on mc0" in node.reason
    assert node.slurm.peek(label).requeued_held


def bmc(node: GpuNode, sensors: str = HEALTHY_BMC, log: str = "") -> None:
    """What the BMC answers, by a program in ipmitool's place."""
    program = node.folder / "ipmitool"
    (node.folder / "sdr").write_text(sensors)
    (node.folder / "sel").write_text(log)
    program.write_text(f'#!/bin/sh\necho "$1" >>{node.folder}/asked\ncat {node.folder}/"$1"\n')
    program.chmod(0o755)
    node.sources(ipmitool=str(program))


def look_at(node: GpuNode, seconds: float, monkeypatch: pytest.MonkeyPatch) -> bool:
    """A health check so many seconds from now, by the clock."""
    now = time.time()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now + seconds)
        return node.checks().check_health()


def test_a_power_supply_that_fails_drains_the_node_at_the_second_look(
    node: GpuNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    bmc(node)
    assert not node.checks().check_health()
    bmc(node, HEALTHY_BMC.replace("detected", "detected, Failure detected"))
    looks = [look_at(node, 700.0 * n, monkeypatch) for n in (1, 2, 3)]
    assert looks == [False, True, False]
    assert node.reason == "slurm-failover: BMC: PS1 Status: Presence detected, Failure detected"


def test_the_bmc_is_asked_seldom_and_never_by_prolog_or_epilog(
    node: GpuNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    bmc(node)
    label = node.run_job()
    node.checks().check_job_start()
    node.end_job(label)
    assert not (node.folder / "asked").exists()
    for seconds in (0.0, 300.0, 599.0, 601.0):
        look_at(node, seconds, monkeypatch)
    assert (node.folder / "asked").read_text().split() == ["sdr", "sel"] * 2


def test_a_new_record_of_the_bmcs_log_drains_the_node_once(
    node: GpuNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = "   1 | 03/27/2024 | 10:11:12 | Power Supply #0xfb | Presence detected | Asserted\n"
    bmc(node, log=first)
    assert not node.checks().check_health()
    second = "   2 | 03/27/2024 | 10:12:12 | Power Supply #0xfb | Failure detected | Asserted\n"
    bmc(node, log=first + second)
    assert look_at(node, 700.0, monkeypatch)
    node.slurm.resume("n1")
    assert not look_at(node, 1400.0, monkeypatch)


def test_a_recheck_names_what_stands_against_the_node(node: GpuNode) -> None:
    node.gpus(gpu1__remap_failed=1)
    node.checks().check_health()
    assert "could not be remapped" in node.checks().recheck()
    node.gpus(gpu1__remap_failed=0)
    assert node.checks().recheck() == ""


def test_a_node_whose_gpus_can_not_be_seen_is_never_called_healthy(node: GpuNode) -> None:
    node.checks().check_health()
    node.sources(nvml_timeout=1)
    node.gpus(gpu0__hang__nvmlDeviceGetUUID=1)
    assert node.checks().recheck().startswith("can not see the GPUs: ")


@pytest.mark.parametrize("wanted", [True, False])
def test_a_reset_lifts_our_own_drain_only_where_the_site_wants_that(
    node: GpuNode, wanted: bool
) -> None:
    if wanted:
        node.repairs_itself()
    node.gpus(gpu1__error__nvmlDeviceGetUUID=16)
    assert node.checks().check_health()
    node.gpus(gpu1__error__nvmlDeviceGetUUID=0)
    node.checks().check_health()
    assert node.is_drained is not wanted


def test_a_foreign_drain_is_never_lifted(node: GpuNode) -> None:
    node.repairs_itself()
    node.slurm.drain("n1", "memory test")
    node.gpus(gpu1__error__nvmlDeviceGetUUID=16)
    node.checks().check_health()
    node.gpus(gpu1__error__nvmlDeviceGetUUID=0)
    node.checks().check_health()
    assert node.reason == "memory test"
    assert node.said[-1] == "not resumed: its reason is not ours: memory test"


@pytest.mark.parametrize("words", [" RMA 4711", " : kept for bob"])
def test_a_drain_whose_reason_an_admin_has_edited_is_the_admins(node: GpuNode, words: str) -> None:
    node.repairs_itself()
    node.gpus(gpu1__error__nvmlDeviceGetUUID=16)
    node.checks().check_health()
    node.slurm.peek_node("n1").reason += words
    node.gpus(gpu1__error__nvmlDeviceGetUUID=0)
    for _ in range(3):
        node.checks().check_health()
    assert node.is_drained
    assert [line for line in node.said if "not resumed" in line] == [
        f"not resumed: its reason was changed since we wrote it: {node.reason}"
    ]
    assert node.checks().lift_drain().startswith("its reason was changed since we wrote it")


def test_a_reboot_lifts_a_drain_that_asked_for_one_and_nothing_less_does(node: GpuNode) -> None:
    node.repairs_itself()
    node.checks().check_health()
    node.record(LOST)
    assert node.checks().check_health()
    for _ in range(2):
        node.checks().check_health()
        assert node.is_drained
    node.boot("boot-2")
    node.checks().check_health()
    assert not node.is_drained
    assert node.said[-1] == "resumed: repaired, and checks clean"


def test_a_reboot_lifts_no_drain_for_a_state_that_still_holds(node: GpuNode) -> None:
    node.repairs_itself()
    node.gpus(gpu1__field__230=2)
    assert node.checks().check_health()
    for boot in ("boot-2", "boot-3"):
        node.boot(boot)
        node.checks().check_health()
        assert node.is_drained
    node.gpus(gpu1__field__230=0)
    node.checks().check_health()
    assert not node.is_drained


def test_a_look_that_came_too_late_to_be_judged_calls_no_node_clean(node: GpuNode) -> None:
    node.repairs_itself()
    node.gpus(gpu1__field__230=2)
    node.checks().check_health()
    node.boot("boot-2")
    raw = json.loads(node.ledger.read_text())
    raw["sources"]["nvml"]["time"] += 5
    node.ledger.write_text(json.dumps(raw))
    node.checks().check_health()
    assert node.is_drained
    assert node.checks().recheck() == "another look came in between; look again"


def test_a_look_for_the_nodes_return_is_repeated_where_a_hook_came_in_between(
    node: GpuNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [True, True]

    def is_overtaken(*_: object) -> bool:
        return bool(late) and late.pop()

    monkeypatch.setattr(attend, "is_overtaken", is_overtaken)
    assert node.checks().recheck() == ""


@pytest.mark.parametrize("fault", ["record", "counter", "state"])
def test_hooks_that_look_at_once_judge_each_fault_once(node: GpuNode, fault: str) -> None:
    node.checks().check_health()
    label = node.run_job()
    node.slurm.finish(label, code=1)
    if fault == "record":
        node.record(LOST)
    else:
        node.gpus(**{"counter": {"gpu1__ecc": 2}, "state": {"gpu1__remap_failed": 1}}[fault])
    looks = [
        node.checks().check_job_end,
        node.checks().check_health,
        node.checks().check_faults,
        node.checks().check_health,
    ]
    with ThreadPoolExecutor(len(looks)) as pool:
        verdicts = list(pool.map(lambda look: look(), looks))
    assert sum(verdicts) == 1
    assert len([line for line in node.said if line.startswith("drain: ")]) == 1


def open_breaker(node: GpuNode) -> None:
    word = write_word("", Word(OPEN, time.time() - 1))
    node.slurm.update_node("n2", NodeChange(comment=word))


@pytest.mark.parametrize("what", ["the fault stands", "the GPUs can not be seen"])
def test_a_reboot_ends_the_wait_of_no_drain_before_a_look_shows_a_sound_node(
    node: GpuNode, what: str
) -> None:
    open_breaker(node)
    node.sources(nvml_timeout=1)
    node.gpus(gpu1__remap_failed=1)
    assert not node.checks().check_health()

    node.slurm.drain("n1", "maintenance")
    node.boot("boot-2")
    if what == "the GPUs can not be seen":
        node.gpus(hang__nvmlInitWithFlags=1)
    node.checks().check_health()
    assert [note.waits for note in read_notes("n1", node.slurm.peek_node("n1").extra)] == [True]

    node.gpus(gpu1__remap_failed=0, hang__nvmlInitWithFlags=0)
    node.checks().check_health()
    assert [note.waits for note in read_notes("n1", node.slurm.peek_node("n1").extra)] == [False]


def test_no_reboot_ends_the_wait_of_a_drain_while_the_gpus_have_no_driver(
    node: GpuNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_breaker(node)
    (node.folder / "sys").mkdir()
    node.sources(sysfs=str(node.folder / "sys"))
    node.record(LOST)
    node.checks().check_health()
    node.boot("boot-2")
    with monkeypatch.context() as without_driver:
        without_driver.setattr("slurm_failover.node.due.nvml_may_answer", lambda _: False)
        for _ in range(3):
            node.checks().check_health()
    assert [note.waits for note in read_notes("n1", node.slurm.peek_node("n1").extra)] == [True]
    node.checks().check_health()
    assert [note.waits for note in read_notes("n1", node.slurm.peek_node("n1").extra)] == [False]


def test_a_state_that_is_gone_ends_the_wait_for_its_drain(node: GpuNode) -> None:
    open_breaker(node)
    node.gpus(gpu1__remap_failed=1)
    for _ in range(2):
        assert not node.checks().check_health()
    node.gpus(gpu1__remap_failed=0)
    node.checks().check_health()
    assert [note.waits for note in read_notes("n1", node.slurm.peek_node("n1").extra)] == [False]
    assert node.said[-1] == "what its drain was put off for is seen no more: none is due"

    node.slurm.update_node("n2", NodeChange(comment=""))
    node.slurm.calls.clear()
    assert not node.checks().check_health()
    assert node.slurm.calls == []
    assert not node.is_drained


def test_a_drain_that_waits_is_told_of_once_however_often_its_fault_is_seen(
    node: GpuNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Happening] = []
    monkeypatch.setattr(account, "reporter", lambda *_: told.append)
    open_breaker(node)
    node.gpus(gpu1__remap_failed=1)
    node.checks().check_health()
    node.slurm.calls.clear()
    begun = time.time()
    # When it was last seen is noted to the second.
    for later in (begun + 2, begun + 4):
        monkeypatch.setattr("time.time", lambda at=later: at)
        node.checks().check_health()
    assert [str(one.kind) for one in told] == ["drain-put-off"]
    assert len(read_notes("n1", node.slurm.peek_node("n1").extra)) == 1
    assert "update_node" not in node.slurm.calls


def test_a_look_at_another_source_ends_the_wait_for_no_drain(node: GpuNode) -> None:
    counter = memory_errors(node)
    label = node.run_job()
    node.checks().check_health()
    open_breaker(node)
    counter.write_text("2\n")
    node.checks().check_health()
    node.checks().check_job_start()
    node.end_job(label)
    assert [note.waits for note in read_notes("n1", node.slurm.peek_node("n1").extra)] == [True]


@pytest.mark.parametrize("meanwhile", ["in service", "drained by an admin", "down"])
@pytest.mark.parametrize("source", ["a counter of a GPU", "a counter in sysfs", "the BMC's log"])
def test_a_drain_that_was_put_off_is_made_later_for_what_a_source_tells_once(
    node: GpuNode, source: str, meanwhile: str
) -> None:
    counter = node.folder / "sys/devices/system/edac/mc/mc0/ue_count"
    counter.parent.mkdir(parents=True)
    counter.write_text("0\n")
    logged = "   1 | 03/27/2024 | 10:11:12 | Power Supply #0xfb | Presence detected | Asserted\n"
    bmc(node, log=logged)
    node.sources(sysfs=str(node.folder / "sys"), bmc_interval=0)
    assert not node.checks().check_health()

    open_breaker(node)
    if source == "a counter of a GPU":
        node.gpus(gpu1__ecc=2)
    elif source == "a counter in sysfs":
        counter.write_text("2\n")
    else:
        bmc(node, log=logged + logged.replace("   1", "   2").replace("Presence", "Failure"))
    assert not node.checks().check_health()
    if meanwhile == "drained by an admin":
        node.slurm.drain("n1", "maintenance")
    elif meanwhile == "down":
        node.slurm.lose_node("n1")
    for _ in range(2):
        assert not node.checks().check_health()
    assert [note.waits for note in read_notes("n1", node.slurm.peek_node("n1").extra)] == [True]
    if meanwhile != "in service":
        node.slurm.resume("n1")

    node.slurm.update_node("n2", NodeChange(comment=""))
    assert node.checks().check_health()
    assert node.is_drained
    node.slurm.resume("n1")
    assert not node.checks().check_health()


def start_later(node: GpuNode) -> tuple[str, FakeJob]:
    """A job that starts in a hundred seconds: after all that is known by now."""
    label = node.run_job()
    job = node.slurm.peek(label)
    job.start = int(time.time()) + 100
    node.environment["SLURM_JOB_START_TIME"] = str(job.start)
    return label, job


@pytest.mark.parametrize("seen", [None, "{"], ids=["an older release's", "damaged"])
def test_without_a_memory_of_the_latest_look_a_put_off_drain_blames_no_later_job(
    node: GpuNode, monkeypatch: pytest.MonkeyPatch, seen: str | None
) -> None:
    assert not node.checks().check_health()
    open_breaker(node)
    node.gpus(gpu1__ecc=2)
    assert not node.checks().check_health()
    _, job = start_later(node)
    assert not look_at(node, 200.0, monkeypatch)
    ledger = node.folder / "state/node/ledger.json"
    raw = json.loads(ledger.read_text())
    raw["sources"]["nvml"].pop("seen")
    raw["sources"]["nvml"] |= {"seen": seen} if seen else {}
    ledger.write_text(json.dumps(raw))
    node.slurm.update_node("n2", NodeChange(comment=""))
    assert look_at(node, 300.0, monkeypatch)
    assert job.state == "RUNNING"


@pytest.mark.parametrize("what", ["a counter that grew", "a state that lasts"])
def test_what_came_before_a_job_and_is_told_once_is_not_the_jobs_also_where_the_drain_was_put_off(
    node: GpuNode, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    counter = memory_errors(node)
    assert not node.checks().check_health()
    open_breaker(node)
    if what == "a counter that grew":
        counter.write_text("2\n")
    else:
        node.gpus(gpu1__remap_failed=1)
    assert not node.checks().check_health()

    _, job = start_later(node)
    assert not look_at(node, 200.0, monkeypatch)
    node.slurm.update_node("n2", NodeChange(comment=""))
    assert look_at(node, 300.0, monkeypatch)
    assert node.is_drained
    assert (job.state == "RUNNING") is (what == "a counter that grew")


def test_what_came_before_a_job_is_not_why_it_failed_while_the_drain_is_put_off(
    node: GpuNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = memory_errors(node)
    assert not node.checks().check_health()
    open_breaker(node)
    counter.write_text("2\n")
    label = node.run_job()
    job = node.slurm.peek(label)
    for seconds in (0.0, 200.0):
        look_at(node, seconds, monkeypatch)
    job.start = int(time.time()) + 100
    node.environment["SLURM_JOB_START_TIME"] = str(job.start)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 250)
    node.end_job(label)
    assert node.evidence() == []


def test_a_source_that_is_switched_off_keeps_no_drain_waiting(node: GpuNode) -> None:
    logged = "   1 | 03/27/2024 | 10:11:12 | Power Supply #0xfb | Presence detected | Asserted\n"
    bmc(node, log=logged)
    node.sources(bmc_interval=0)
    assert not node.checks().check_health()
    open_breaker(node)
    bmc(node, log=logged + logged.replace("   1", "   2").replace("Presence", "Failure"))
    node.checks().check_health()
    assert [note.waits for note in read_notes("n1", node.slurm.peek_node("n1").extra)] == [True]
    node.sources(ipmitool="")
    node.checks().check_health()
    assert [note.waits for note in read_notes("n1", node.slurm.peek_node("n1").extra)] == [False]


def test_a_reboot_mends_nothing_that_has_to_be_replaced(node: GpuNode) -> None:
    node.repairs_itself()
    node.record(LOST)
    node.gpus(gpu0__remap_failed=1)
    node.checks().check_health()
    node.gpus(gpu0__remap_failed=0)
    node.boot("boot-2")
    node.checks().check_health()
    assert node.is_drained


def test_a_node_that_an_admin_returned_before_the_reboot_is_left_alone(node: GpuNode) -> None:
    node.repairs_itself()
    node.record(LOST)
    node.checks().check_health()
    node.slurm.resume("n1")
    node.boot("boot-2")
    said = list(node.said)
    node.slurm.calls.clear()
    for _ in range(2):
        node.checks().check_health()
    assert (node.said, node.slurm.calls) == (said, ["nodes"])


def missing_reboot(node: GpuNode) -> str:
    (facts,) = node.slurm.nodes("n1")
    return node.checks().missing_reboot(facts)


def test_the_reboot_that_a_fault_asked_for_is_missed_until_there_was_one(node: GpuNode) -> None:
    node.record(LOST)
    node.checks().check_health()
    missed = missing_reboot(node)
    assert missed.endswith("that needs a reboot, and there was none since")
    node.boot("boot-2")
    assert missing_reboot(node) == ""
    node.ledger.unlink()
    assert "nothing is known here of one since" in missing_reboot(node)


@pytest.mark.parametrize(("booted", "is_missed"), [(-1.0, True), (1.0, False)])
def test_a_node_that_keeps_nothing_knows_a_reboot_by_when_slurm_was_told(
    node: GpuNode, monkeypatch: pytest.MonkeyPatch, booted: float, is_missed: bool
) -> None:
    node.record(LOST)
    node.checks().check_health()
    (fault,) = read_notes("n1", node.slurm.peek_node("n1").extra)
    node.boot("boot-2")
    node.ledger.unlink()
    monkeypatch.setattr(kmsg, "boot_time", lambda: fault.time + booted)
    assert bool(missing_reboot(node)) is is_missed
    node.slurm.peek_node("n1").extra = ""
    assert missing_reboot(node) != ""


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw["events"][0].update(of_a_later_release=1),
        lambda raw: raw["events"][0].update(klass="unheard of"),
        lambda raw: raw["events"][0].pop("rule"),
        lambda raw: raw["sources"]["nvml"].update(memory="[]"),
        lambda raw: raw["sources"]["nvml"].update(memory='{"devices": []}'),
        lambda raw: raw["sources"]["gres"].update(memory="two"),
        lambda raw: raw.update(devices='[{"pci": 5, "instances": 3}]'),
        lambda raw: raw.update(devices="{}"),
        lambda raw: raw.update(sources={"nvml": {}}),
        lambda raw: raw.update(open=[{}]),
    ],
)
def test_what_is_damaged_in_the_ledger_costs_no_verdict(node: GpuNode, damage) -> None:
    node.gpus(gpu0__ecc=1)
    node.checks().check_health()
    node.slurm.resume("n1")
    raw = json.loads(node.ledger.read_text())
    damage(raw)
    node.ledger.write_text(json.dumps(raw))
    node.gpus(gpu1__remap_failed=1)
    assert node.checks().check_health()
    assert "could not be remapped" in node.reason or "ECC" in node.reason
    assert not node.checks().check_health()


@pytest.mark.parametrize("grows_again", ["the same counter", "another GPU's"])
def test_a_counter_that_grows_under_a_job_is_the_jobs_also_where_another_growth_was_put_off(
    node: GpuNode, monkeypatch: pytest.MonkeyPatch, grows_again: str
) -> None:
    assert not node.checks().check_health()
    open_breaker(node)
    first = "gpu1__ecc" if grows_again == "the same counter" else "gpu0__ecc"
    node.gpus(**{first: 2})
    assert not node.checks().check_health()

    _, job = start_later(node)
    assert not look_at(node, 200.0, monkeypatch)
    node.gpus(gpu1__ecc=4)
    assert not look_at(node, 300.0, monkeypatch)
    node.slurm.update_node("n2", NodeChange(comment=""))
    assert look_at(node, 400.0, monkeypatch)
    assert node.is_drained
    assert job.state != "RUNNING"


def test_a_job_that_fails_of_a_counter_that_grew_under_it_is_told_of_while_a_drain_is_put_off(
    node: GpuNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not node.checks().check_health()
    open_breaker(node)
    node.gpus(gpu0__ecc=2)
    assert not node.checks().check_health()
    label, _ = start_later(node)
    node.gpus(gpu1__ecc=4)
    assert not look_at(node, 200.0, monkeypatch)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 250)
    node.end_job(label)
    assert [cause for cause, _ in node.evidence()] == [JobCause.HARDWARE]


def test_a_state_that_observe_mode_saw_and_that_still_holds_is_acted_on_when_act_mode_begins(
    node: GpuNode,
) -> None:
    node.settings = replace(node.settings, failover=replace(node.settings.failover, mode="observe"))
    node.gpus(gpu1__remap_failed=1)
    node.checks().check_health()
    assert not node.is_drained
    node.settings = replace(node.settings, failover=replace(node.settings.failover, mode="act"))
    label = node.run_job()
    node.checks().check_health()
    assert (node.is_drained, node.slurm.peek(label).state) == (True, "PENDING")
