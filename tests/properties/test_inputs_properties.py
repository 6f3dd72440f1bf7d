"""Whatever else comes in, from programs, kernels and files: it is read, or is one clear error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from hypothesis import example, given, settings
from hypothesis import strategies as st

from slurm_failover.checkpoint import read_checkpoint
from slurm_failover.doctor.config import items, read_config, release_of, seconds, value
from slurm_failover.exposition import read_values
from slurm_failover.gres import count_gpus, held_indexes, physical_gpus, slots_from_slurmd
from slurm_failover.health.bmc import parse_log, parse_sensors
from slurm_failover.health.gpu_state import GpuState
from slurm_failover.health.machine_state import MachineState
from slurm_failover.image_answer import read_answer
from slurm_failover.install.conf import read_settings, replace_value
from slurm_failover.joblog import first_attempt, latest_part
from slurm_failover.node.caught import Caught, read_caught, write_caught
from slurm_failover.node.gpu_events import read_heard, read_xids
from slurm_failover.settings.tables import CheckpointSettings
from slurm_failover.slurm.pyslurm_facts import Unclear, read_jobs, read_nodes
from slurm_failover.sources import kmsg, nvml, sysfs
from slurm_failover.sources.bounded import Answer
from slurm_failover.sources.journal import Numbered
from slurm_failover.sources.nvml import read_state
from slurm_failover.sources.sysfs import read_machine

QUICK = settings(max_examples=200, deadline=None)
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9), st.just(10**400)
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)


# --- what programs print --------------------------------------------------------------------------

config_lines = st.one_of(
    st.text(max_size=30),
    st.builds(
        "{} = {}".format,
        st.sampled_from(["KillWait", "Epilog", "SchedulerParameters", "Epilog[0]"]),
        st.one_of(st.text(max_size=12), st.sampled_from(["(null)", "N/A", "65534", "30 sec", ""])),
    ),
)


@QUICK
@given(st.lists(config_lines, max_size=6))
def test_any_configuration_that_slurm_prints_is_read(lines: list[str]) -> None:
    config = read_config("\n".join(lines))
    for name in (*config, "KillWait"):
        assert isinstance(value(config, name), str)
        assert all(item == item.strip() != "" for item in items(config, name))
        assert (seconds(config, name) or 0) >= 0
    assert "(null)" not in config.values()


@QUICK
@given(st.text())
@example("slurm 99999999999999999999.1")
def test_any_text_as_a_release_is_a_pair_of_numbers(text: str) -> None:
    assert all(isinstance(number, int) for number in release_of(text))


gres_pieces = st.lists(
    st.sampled_from(
        [
            *("Name=gpu", "File=", "/dev/nvidia[0-3]", "NodeName=n1", "Gres ", "gpu:", "(IDX:"),
            *("0-1,3)", " ", "\n", "=", ",", "[", "]", "Count=", "99999999999", "MultipleFiles="),
        ]
    ),
    max_size=12,
).map("".join)


@QUICK
@given(st.one_of(st.text(), gres_pieces))
def test_any_words_on_gres_give_gpus_or_none(text: str) -> None:
    assert (physical_gpus(slots_from_slurmd(text)) or 0) >= 0
    assert (count_gpus(text) or 0) >= 0
    assert all(index >= 0 for index in held_indexes(text) or ())


@QUICK
@given(st.lists(st.text(alphabet="|0123456789.hms CPUTempokns-/:\n\x00ü", max_size=60)))
def test_any_lines_of_a_bmc_give_sensors_and_log_lines(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert len(parse_sensors(text)) <= len(text.splitlines())
    assert len(parse_log(text)) <= len(text.splitlines())


@QUICK
@given(st.lists(st.text(max_size=60), max_size=4))
def test_any_answer_of_a_registry_is_read(lines: list[str]) -> None:
    read_answer(lines)


# --- what our own readers print, killed at any moment ---------------------------------------------


@contextmanager
def answering(lines: list[str]) -> Iterator[None]:
    """Our readers print these lines, and end well."""
    answer = Answer("".join(f"{line}\n" for line in lines), "", 0, timed_out=False)
    with (
        mock.patch.object(nvml, "run_bounded", lambda *_: answer),
        mock.patch.object(sysfs, "run_bounded", lambda *_: answer),
    ):
        yield


gpu_lines = st.one_of(
    values,
    st.fixed_dictionaries({"gpu": values}),
    st.fixed_dictionaries(
        {
            "gpu": st.fixed_dictionaries(
                {"index": leaves}, optional={"pci": leaves, "nvlinks": values}
            )
        }
    ),
    st.fixed_dictionaries({"driver_devices": values}),
    st.fixed_dictionaries({}, optional={"count": leaves, "init_error": leaves, "driver": leaves}),
)


@QUICK
@given(st.lists(gpu_lines.map(json.dumps), max_size=4))
def test_any_lines_of_the_nvml_reader_are_a_state_or_make_no_sense(lines: list[str]) -> None:
    with answering(lines):
        assert isinstance(read_state(5.0), GpuState)


machine_lines = st.one_of(
    values,
    st.fixed_dictionaries({"asking": leaves}),
    st.dictionaries(
        st.sampled_from(["pci_devices", "memory", "thermometers", "ports"]), values, max_size=1
    ),
)


@QUICK
@given(st.lists(machine_lines.map(json.dumps), max_size=4))
def test_any_lines_of_the_sysfs_reader_are_a_state_or_make_no_sense(lines: list[str]) -> None:
    with answering(lines):
        assert isinstance(read_machine(5.0), MachineState)


@QUICK
@given(st.dictionaries(st.sampled_from(["time", "pci", "xid", "gpu_instance"]), leaves))
def test_any_event_of_nvml_is_an_xid_or_none(part: dict[str, Any]) -> None:
    read_heard(part)


# --- the kernel's log -----------------------------------------------------------------------------


@QUICK
@given(st.lists(st.one_of(st.binary(max_size=40), st.just(b"3,7,100,-;NVRM: Xid\n SUBSYSTEM=x\n"))))
def test_any_bytes_of_a_kernel_log_are_records_of_which_none_is_lost(parts: list[bytes]) -> None:
    raw = b"".join(parts)
    records = kmsg.split(raw)
    kept = sum(len(record.replace(b"\n", b"")) for record in records)
    assert kept == len(raw.replace(b"\n", b""))
    found = kmsg.pick(records, (b"NVRM",), -1)
    assert set(found.suspicious) <= set(records)
    assert all(kmsg.seconds(record) >= 0 for record in records)
    assert found.last >= -1


journal_entries = st.dictionaries(
    st.sampled_from(
        ["MESSAGE", "PRIORITY", "SYSLOG_FACILITY", "_TRANSPORT", "_SOURCE_MONOTONIC_TIMESTAMP"]
    ),
    st.one_of(leaves, st.just("kernel"), st.just("7"), st.lists(st.integers(-5, 300), max_size=5)),
).map(lambda entry: json.dumps(entry).encode())


@QUICK
@given(st.lists(st.one_of(st.binary(max_size=40), journal_entries)))
@example(
    [
        b'{"_TRANSPORT": "kernel", "MESSAGE": "x", "PRIORITY": 3, "SYSLOG_FACILITY": 1%s, '
        b'"_SOURCE_MONOTONIC_TIMESTAMP": 5}' % (b"0" * 99)
    ]
    * 2
)
@example(
    [
        b'{"_TRANSPORT": "kernel", "MESSAGE": "x", "PRIORITY": Infinity, '
        b'"_SOURCE_MONOTONIC_TIMESTAMP": 5}'
    ]
)
def test_any_lines_of_the_journal_give_the_kernels_records_alone(lines: list[bytes]) -> None:
    records = Numbered().records(lines)
    assert len(records) <= sum(b'"kernel"' in line for line in lines)
    numbers = [kmsg.sequence(record) for record in records]
    assert numbers == sorted(set(numbers))


# --- files and fields -----------------------------------------------------------------------------


@QUICK
@given(st.binary(max_size=80))
@example(b"boot 5\n\xff")
@example(b"boot --5\n")
def test_any_bytes_as_what_the_watcher_left_are_read_or_none(raw: bytes) -> None:
    with TemporaryDirectory() as folder:
        for name in ("caught", "events"):
            (Path(folder) / name).write_bytes(raw)
        read_caught(folder, "boot")
        assert isinstance(read_xids(folder), list)


@QUICK
@given(values)
def test_any_json_as_the_watchers_events_is_read_or_none(raw: Any) -> None:
    with TemporaryDirectory() as folder:
        (Path(folder) / "events").write_text(json.dumps(raw))
        assert isinstance(read_xids(folder), list)


@QUICK
@given(st.integers(-1, 2**63), st.lists(st.integers(0, 2**40), max_size=4))
def test_what_the_watcher_left_comes_back(position: int, numbers: list[int]) -> None:
    records = tuple(b"3,%d,100,-;NVRM: Xid\n" % number for number in numbers)
    with TemporaryDirectory() as folder:
        write_caught(folder, Caught("boot", position, records))
        assert read_caught(folder, "boot") == Caught("boot", position, records)


@QUICK
@given(values)
def test_any_json_as_kept_counts_is_read_or_refused(raw: Any) -> None:
    try:
        read_values(raw)
    except ValueError:
        return


@QUICK
@given(st.text())
@example("failover checkpoint=" + "9" * 5000)
@example("failover checkpoint=USR1@" + "9" * 5000)
def test_any_comment_is_a_wish_for_a_grace_within_the_sites_limits_or_none(comment: str) -> None:
    site = CheckpointSettings()
    for text in (comment, f"failover checkpoint={comment}"):
        wish = read_checkpoint(text, site)
        assert wish is None or 0 <= wish.grace <= max(asdict(site)["longest_grace"], 0)


@QUICK
@given(st.lists(st.binary(max_size=30)), st.integers(0, 9))
def test_any_log_of_a_job_has_a_latest_part(lines: list[bytes], latest: int) -> None:
    assert all(isinstance(line, bytes) for line in latest_part(b"\n".join(lines)))
    assert isinstance(first_attempt(lines, latest), int)


@QUICK
@given(
    st.lists(
        st.sampled_from(["Epilog", "=", "/x", '"', "#", "\\", "\n", " ", "Include ", "+", "ü"]),
        max_size=14,
    ).map("".join)
)
def test_any_slurm_conf_is_read_and_a_value_is_changed_and_nothing_else(text: str) -> None:
    for setting in read_settings(text):
        assert text[setting.start : setting.end] == setting.raw
        assert replace_value(text, setting, setting.raw) == text


# --- pyslurm --------------------------------------------------------------------------------------

ATTRIBUTES = (
    *("id", "name", "state", "state_reason", "comment", "array_id", "array_task_id"),
    *("het_job_id", "exit_code", "exit_signal", "start_time", "priority", "next_state"),
)
attributes = st.dictionaries(st.sampled_from(ATTRIBUTES), values)


@QUICK
@given(st.lists(attributes, max_size=3))
def test_any_attributes_of_pyslurm_are_facts_unclear_or_one_error(raws: list[Any]) -> None:
    for read in (read_jobs, read_nodes):
        try:
            for found in read(raws):
                assert isinstance(found, Unclear) or found.label or found.name
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
