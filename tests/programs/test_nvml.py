"""Reading NVML through the real bindings: what is read, and what is said when it is not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nvml_stand_in
import pytest
from nvml_stand_in import FIRST, SECOND, Node

import slurm_failover.sources.nvml as nvml_sources
from slurm_failover.health.gpu_state import GpuState, canonical_pci
from slurm_failover.sources.bounded import run_bounded
from slurm_failover.sources.nvml import read_state
from slurm_failover.sources.presence import nvml_may_answer

node, stand_in_library = nvml_stand_in.node, nvml_stand_in.stand_in_library

ERRORS = {"not supported": 3, "unknown function": 13, "lost": 15, "unknown error": 999}
"""Numbers of nvml.h."""
CALLS_ON_A_GPU = (
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetName",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetSramEccErrorStatus",
    "nvmlDeviceGetRetiredPages",
    "nvmlDeviceGetRetiredPagesPendingStatus",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetViolationStatus",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetPcieReplayCounter",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetGpuFabricInfoV",
)


def test_each_gpu_is_named_by_pci_id_uuid_and_minor(node: Node) -> None:
    state = node.read()
    assert state.unreadable is None
    assert [(gpu.pci, gpu.minor) for gpu in state.gpus] == [(FIRST, 1), (SECOND, 0)]
    assert state.gpus[0].uuid == "GPU-aaaaaaaa-0000-0000-0000-000000000000"


def test_every_reading_of_a_healthy_gpu_is_known(node: Node) -> None:
    node.facts["gpu0.links"] = 2
    node.facts.update({f"gpu0.field.{field}": 0 for field in (161, 162, 163, 214)})
    gpu = node.read().gpus[0]
    unknown = [name for name in type(gpu).__dataclass_fields__ if getattr(gpu, name) is None]
    assert unknown == []
    assert gpu.failed_calls == {}


def test_a_call_that_is_not_supported_costs_only_its_own_readings(node: Node) -> None:
    node.facts["gpu0.error.nvmlDeviceGetTotalEccErrors"] = 3
    node.facts["gpu0.error.nvmlDeviceGetRemappedRows"] = 3
    gpu = node.read().gpus[0]
    assert gpu.ecc_uncorrected is None
    assert gpu.remap_failed is None
    assert gpu.temperature == 40
    assert gpu.failed_calls == {"ecc_uncorrected": "NotSupported", "remapped_rows": "NotSupported"}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("call", CALLS_ON_A_GPU)
def test_any_call_may_fail_in_any_way_and_costs_the_other_gpu_nothing(
    node: Node, call: str, name: str
) -> None:
    for gpu in ("gpu0", "gpu1"):
        node.facts.update({f"{gpu}.mig": 1, f"{gpu}.mig0.uuid": "MIG-1", f"{gpu}.links": 2})
    if call == "nvmlDeviceGetCurrentClocksThrottleReasons":
        node.facts["gpu0.error.nvmlDeviceGetCurrentClocksEventReasons"] = ERRORS["unknown function"]
    healthy = node.read().gpus[1]
    node.facts[f"gpu0.error.{call}"] = ERRORS[name]
    state = node.read()
    assert state.unreadable is None
    assert state.gpus[1] == healthy
    assert bool(state.gpus[0].lost) is (name == "lost")


@pytest.mark.parametrize("name", ERRORS)
def test_a_driver_that_can_not_count_its_gpus_leaves_them_unknown(node: Node, name: str) -> None:
    node.facts["error.nvmlDeviceGetCount_v2"] = ERRORS[name]
    state = node.read()
    assert (state.count, state.gpus) == (None, ())
    assert state.unreadable is not None
    assert state.unreadable.startswith("NVML does not start: ")


def test_the_stand_in_knows_every_call_that_is_made(stand_in_library: Path) -> None:
    library = str(stand_in_library / "libnvidia-ml.so.1")
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    )
    known = {re.sub(r"_v\d$", "", line.split()[-1]) for line in listed.stdout.splitlines()}
    renamed = {"nvmlInit": "nvmlInitWithFlags"}  # the bindings' own way
    made = {re.sub(r"_v\d$", "", renamed.get(call, call)) for call in calls_made()}
    assert len(made) > 30
    assert made - known == set()
    of_a_gpu = {re.sub(r"_v\d$", "", call) for call in CALLS_ON_A_GPU}
    assert {call for call in calls_made("reader.py") if "DeviceGet" in call} - of_a_gpu == {
        "nvmlDeviceGetCount"
    }


def calls_made(*names: str) -> set[str]:
    """The calls of NVML in our sources, as the bindings name them."""
    folder = Path(nvml_sources.__file__).parent
    files = [folder / name for name in names] or sorted(folder.glob("*.py"))
    return {call for file in files for call in re.findall(r"nvml\.(nvml\w+)\(", file.read_text())}


def test_a_driver_before_r535_gives_the_clock_events_under_their_older_name(node: Node) -> None:
    node.facts["gpu0.error.nvmlDeviceGetCurrentClocksEventReasons"] = ERRORS["unknown function"]
    node.facts["gpu0.clock_events"] = 0x40
    gpu = node.read().gpus[0]
    assert (gpu.clock_events, gpu.failed_calls) == (0x40, {})


@pytest.mark.parametrize("name", ["not supported", "unknown error"])
def test_error_counters_that_can_not_be_read_cost_no_link_state(node: Node, name: str) -> None:
    node.facts.update({"gpu0.links": 2, "gpu0.error.nvmlDeviceGetFieldValues": ERRORS[name]})
    assert node.read().gpus[0].nvlinks == (True, True)


def test_a_gpu_that_has_no_mig_mode_is_known_to_have_none_and_a_broken_one_is_not(
    node: Node,
) -> None:
    node.facts["gpu0.error.nvmlDeviceGetMigMode"] = ERRORS["not supported"]
    node.facts["gpu1.error.nvmlDeviceGetMigMode"] = ERRORS["unknown error"]
    without, broken = node.read().gpus
    assert (without.mig, without.failed_calls) == (False, {})
    assert (broken.mig, broken.failed_calls) == (None, {"mig": "Unknown"})


def test_mig_instances_are_read_with_their_ids(node: Node) -> None:
    node.facts.update(
        {"gpu0.mig": 1, "gpu0.mig0.uuid": "MIG-1", "gpu0.mig0.gi": 5, "gpu0.mig2.uuid": "MIG-2"}
    )
    gpu = node.read().gpus[0]
    assert gpu.mig is True
    assert [(i.uuid, i.gpu_instance) for i in gpu.instances] == [("MIG-1", 5), ("MIG-2", 0)]


def test_nvlink_errors_are_summed_over_the_links(node: Node) -> None:
    node.facts.update({"gpu0.links": 3, "gpu0.field.162.0": 2, "gpu0.field.162.2": 5})
    gpu = node.read().gpus[0]
    assert gpu.nvlinks == (True, True, True)
    assert gpu.nvlink_recoveries == 7
    assert gpu.nvlink_crc_errors is None


def test_the_driver_s_own_list_gives_minors_and_leaves_excluded_gpus_out(node: Node) -> None:
    node.driver_lists("0000:3b:00.0", 0, "GPU UUID: \t GPU-bbbb")
    node.driver_lists("0000:9b:00.0", 1, "GPU UUID: \t GPU-????????-????")
    node.driver_lists("0000:af:00.0", 2, "GPU Excluded:\t Yes")
    devices = node.read().driver_devices
    assert [(d.pci, d.minor, d.uuid) for d in devices] == [
        (SECOND, 0, "GPU-bbbb"),
        (FIRST, 1, None),
    ]


def test_a_lost_gpu_is_asked_no_further(node: Node) -> None:
    node.facts["gpu0.error.nvmlDeviceGetTotalEccErrors"] = 15
    node.facts["gpu0.hang.nvmlDeviceGetRemappedRows"] = 1
    state = node.read()
    assert state.unreadable is None
    assert state.gpus[0].lost is True
    assert state.gpus[1].lost is False


def test_a_hanging_call_is_left_behind_and_what_was_read_before_it_is_kept(node: Node) -> None:
    node.facts["gpu1.hang.nvmlDeviceGetTotalEccErrors"] = 1
    started = time.monotonic()
    state = node.read(timeout=1.0)
    assert time.monotonic() - started < 2.0
    assert state.gpus[0].ecc_uncorrected == 0
    assert state.gpus[1].pci == SECOND
    assert state.gpus[1].ecc_uncorrected is None
    assert state.unreadable == f"NVML stopped answering at GPU {SECOND} within 1 s"


def test_nvml_that_hangs_at_its_start_leaves_everything_unknown(node: Node) -> None:
    node.facts["hang.nvmlInitWithFlags"] = 1
    state = node.read(timeout=0.5)
    assert state.gpus == ()
    assert state.count is None
    assert state.unreadable == "the NVIDIA driver did not answer within 0.5 s"


def test_a_disk_that_takes_no_lock_hides_no_gpu(node: Node, tmp_path: Path) -> None:
    state = node.read(lock=tmp_path / "gone" / "nvml.lock")
    assert state.unreadable is None
    assert state.gpus


def test_a_node_whose_nvml_hangs_gathers_one_stuck_reader_only(node: Node, tmp_path: Path) -> None:
    lock = tmp_path / "nvml.lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD_LOCK, str(lock)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        state = node.read(timeout=0.5, lock=lock)
        assert state.gpus == ()
        assert state.unreadable == "another look at NVML is running or stuck within 0.5 s"
    finally:
        holder.kill()
        holder.wait()
    assert node.read(lock=lock).unreadable is None


def test_a_reader_that_can_not_be_killed_is_left_behind_and_is_the_only_one(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process in state D does not die until its driver wakes, whatever it is sent."""
    stuck: list[int] = []
    monkeypatch.setattr(
        "slurm_failover.sources.bounded.os.killpg", lambda pid, _: stuck.append(pid)
    )
    lock = tmp_path / "nvml.lock"
    node.facts["gpu0.hang.nvmlDeviceGetUUID"] = 1
    started = time.monotonic()
    first = node.read(timeout=1.0, lock=lock)
    second = node.read(timeout=1.0, lock=lock)
    took = time.monotonic() - started
    monkeypatch.undo()
    for pid in stuck:
        os.killpg(pid, 9)
    assert took < 4.0
    assert first.unreadable == "NVML stopped answering at GPU number 0 of NVML within 1 s"
    assert second.unreadable == "another look at NVML is running or stuck within 1 s"
    assert len(stuck) == 2


def test_two_looks_at_once_at_a_node_whose_nvml_hangs_end_in_time(
    node: Node, tmp_path: Path
) -> None:
    node.facts["hang.nvmlInitWithFlags"] = 1
    lock = tmp_path / "nvml.lock"
    started = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        states = list(pool.map(lambda _: node.read(timeout=1.0, lock=lock), range(2)))
    assert time.monotonic() - started < 3.0
    assert all(state.gpus == () and state.unreadable for state in states)


_HOLD_LOCK = """
import fcntl, signal, sys
file = open(sys.argv[1], "w"); fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True); signal.pause()
"""


def test_a_node_without_nvml_says_so_and_nothing_else(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH")
    state = node.read()
    assert state.init_error == "LibraryNotFound"
    assert state.unreadable is not None
    assert state.unreadable.startswith("NVML does not start: ")


def test_nvml_is_worth_asking_where_its_library_or_its_driver_is(
    node: Node, monkeypatch: pytest.MonkeyPatch, stand_in_library: Path
) -> None:
    proc = str(node.proc)
    assert nvml_may_answer(proc, ())
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert not nvml_may_answer(proc, ("/does/not/exist",))
    assert nvml_may_answer(proc, (str(stand_in_library),))
    node.driver_lists("0000:3b:00.0", 0)
    assert nvml_may_answer(proc, ())


def test_a_missing_interpreter_is_unknown_not_an_error(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/does/not/exist")
    state = read_state(1.0, proc=node.proc)
    assert state.unreadable is not None
    assert "could not be started" in state.unreadable


def test_a_state_survives_json(node: Node) -> None:
    node.facts.update({"gpu0.mig": 1, "gpu0.mig0.uuid": "MIG-1", "gpu1.links": 4})
    node.driver_lists("0000:3b:00.0", 0)
    state = node.read()
    assert GpuState.from_json(state.to_json()) == state


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("00000000:3B:00.0", "0000:3b:00"),
        ("0000:3b:00.0", "0000:3b:00"),
        ("0000:3b:00", "0000:3b:00"),
        ("PCI:0001:3b:00", "0001:3b:00"),
        ("3b:00.0", "0000:3b:00"),
        ("00010000:3B:1f.7", "10000:3b:1f"),
    ],
)
def test_every_way_to_write_a_pci_id_is_one_id(written: str, canonical: str) -> None:
    assert canonical_pci(written) == canonical


def test_a_program_that_outlives_its_deadline_is_not_waited_for(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"echo early; setsid sleep 30 & echo $! > {pid_file}; wait"
    started = time.monotonic()
    answer = run_bounded(["/bin/sh", "-c", script], 0.5)
    assert time.monotonic() - started < 1.5
    os.kill(int(pid_file.read_text()), 9)
    assert answer.timed_out
    assert answer.status is None
    assert answer.output == "early\n"


def test_a_program_that_is_left_behind_is_killed_with_its_children() -> None:
    answer = run_bounded(["/bin/sh", "-c", "sleep 30 & echo $!; wait"], 0.5)
    deadline = time.monotonic() + 5
    while runs(answer.output.strip()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def runs(pid: str) -> bool:
    try:
        return "State:\tZ" not in (Path("/proc") / pid / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_program_s_answer_comes_with_its_status_and_both_outputs() -> None:
    answer = run_bounded(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], 5.0)
    assert (answer.output, answer.errors, answer.status) == ("out\n", "err\n", 3)
    assert not answer.timed_out


def test_a_program_that_can_not_be_killed_keeps_the_next_from_its_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck: list[int] = []
    monkeypatch.setattr(
        "slurm_failover.sources.bounded.os.killpg", lambda pid, _: stuck.append(pid)
    )
    lock = str(tmp_path / "bmc.lock")
    assert run_bounded(["sleep", "60"], 0.2, lock=lock).timed_out
    assert run_bounded(["touch", str(tmp_path / "ran")], 0.2, lock=lock).timed_out
    assert not (tmp_path / "ran").exists()
    assert run_bounded(["echo", "x"], 5.0, lock=str(tmp_path / "another.lock")).output == "x\n"
    monkeypatch.undo()
    os.killpg(*stuck, 9)
    assert run_bounded(["echo", "x"], 5.0, lock=lock).output == "x\n"


def test_where_there_can_be_no_lock_a_program_runs_all_the_same(tmp_path: Path) -> None:
    for lock in (tmp_path, tmp_path / "nowhere" / "bmc.lock"):
        assert run_bounded(["echo", "x"], 5.0, lock=str(lock)).output == "x\n"
