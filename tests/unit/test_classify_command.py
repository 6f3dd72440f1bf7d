"""The command line of classify and explain: files, pipes, formats, exit statuses."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner, Result

from slurm_failover.anchors import read_anchors
from slurm_failover.commands.classify import command
from slurm_failover.commands.explain import command as explain
from slurm_failover.errors import SourceUnreadable
from slurm_failover.parse import FORMATS
from slurm_failover.sources import logs

LOST = "[ 12.5] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
BUG = "[ 11.5] NVRM: Xid (PCI:0000:5e:00): 43, pid=4242, name=python3, Ch 00000008"
QUIET = "[ 10.5] IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready"
ISO = "kern  :err   : 2025-01-21T04:41:{},000000+00:00 NVRM: Xid (PCI:0000:3b:00): {}, x"


def classify(*words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


def objects(result: Result) -> list[dict]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "kern.log"
    path.write_text("\n".join([QUIET] * 50 + [BUG, LOST, LOST, QUIET]) + "\n")
    return path


def test_an_event_is_an_object_with_its_first_line_and_count(log):
    bug, lost = objects(classify("--json", log))
    assert bug["line"] == 51
    assert {k: lost[k] for k in ("line", "lines", "kind", "code", "pci", "class", "rule")} == {
        "line": 52,
        "lines": 2,
        "kind": "xid",
        "code": 79,
        "pci": "0000:3b:00",
        "class": "hardware",
        "rule": "xid-79",
    }
    assert lost["because"] == "Xid 79 on GPU 0000:3b:00: GPU has fallen off the bus"


def test_the_verdict_is_the_last_object(log):
    *_, last = objects(classify("--json", "--verdict", log))
    assert (last["verdict"], last["node"]) == ("hardware", "reboot")
    assert "Xid 79" in last["because"]


def test_only_the_named_gpu_counts(log):
    first, last = objects(classify("--json", "--verdict", "--gpu", "0000:5E:00.0", log))
    assert first["code"] == 43
    assert last["verdict"] == "internal"


def test_only_the_span_counts(tmp_path):
    path = tmp_path / "kern.log"
    path.write_text("\n".join(ISO.format(s, c) for s, c in ((10, 43), (20, 79), (30, 13))) + "\n")
    span = ("--since", "2025-01-21T04:41:15+00:00", "--until", "2025-01-21T04:41:25Z")
    assert [o["code"] for o in objects(classify("--json", *span, path))] == [79]


def test_lines_without_a_time_are_left_out_of_a_span_and_said_to_be(log):
    result = classify("--json", "--since", "@1", log)
    assert result.stdout == ""
    assert "3 lines without a time were left out" in result.stderr
    timed = classify("--json", "--since", "@1", "--boot-time", "@1000", log)
    assert len(objects(timed)) == 2


def test_a_gzipped_log_reads_the_same(log, tmp_path):
    zipped = tmp_path / "kern.log.gz"
    zipped.write_bytes(gzip.compress(log.read_bytes()))
    plain, packed = objects(classify("--json", log)), objects(classify("--json", zipped))
    assert [{**o, "file": ""} for o in plain] == [{**o, "file": ""} for o in packed]


def test_rotated_logs_are_read_oldest_first(log, tmp_path):
    (tmp_path / "kern.log.2.gz").write_bytes(gzip.compress(BUG.encode()))
    (tmp_path / "kern.log.1").write_text(LOST)
    (tmp_path / "kern.log.bak").write_text(LOST)
    os.utime(tmp_path / "kern.log.2.gz", (1, 1))
    os.utime(tmp_path / "kern.log.1", (2, 2))
    found = [Path(path).name for path in map(str, logs.rotations(log))]
    assert found == ["kern.log.2.gz", "kern.log.1", "kern.log"]
    assert objects(classify("--json", "--rotated", log))[0]["file"].endswith("kern.log.2.gz")


def test_rotated_logs_in_a_folder_that_is_not_there_are_unknown_too(log, tmp_path):
    result = classify("--json", "--rotated", tmp_path / "none" / "x", log)
    assert result.exit_code == 3
    assert "x can not be read: No such file or directory" in result.stderr
    assert [event["code"] for event in objects(result)] == [43, 79]


@pytest.mark.parametrize("flag", [[], ["--verdict"], ["--json", "--verdict"]])
def test_a_file_that_can_not_be_read_is_unknown_and_has_its_own_status(flag, tmp_path):
    result = classify(*flag, tmp_path / "none.log")
    assert result.exit_code == 3
    assert "none.log can not be read: No such file or directory" in result.stderr
    if flag:
        assert "unknown" in result.stdout
        assert "healthy" not in result.stdout


def test_a_damaged_archive_is_unknown_and_what_was_read_is_told(log, tmp_path):
    noise = os.urandom(200_000).hex()
    whole = gzip.compress(f"{LOST}\n{noise}\n".encode())
    cut = tmp_path / "cut.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    result = classify("--json", cut)
    assert result.exit_code == 3
    assert [o["code"] for o in objects(result)] == [79]


def test_a_readable_file_beside_an_unreadable_one_still_gives_its_verdict(log, tmp_path):
    result = classify("--json", "--verdict", log, tmp_path / "none.log")
    assert result.exit_code == 3
    assert objects(result)[-1]["verdict"] == "hardware"


def test_a_folder_is_no_log(tmp_path):
    assert classify(tmp_path).exit_code == 3


def test_a_device_is_read_as_far_as_it_goes_and_not_waited_for():
    result = classify("--verdict", "/dev/null")
    assert result.exit_code == 0
    assert result.stdout.startswith("verdict: unknown, node: none")


def test_an_unknown_format_is_refused_with_the_known_ones(log):
    result = classify("--format", "xml", log)
    assert result.exit_code == 2
    assert "kmsg" in result.output


def test_the_help_names_every_format():
    shown = " ".join(classify("--help").output.split()).replace("- ", "-")
    assert f"The logs' format: {', '.join(FORMATS)}. Default: auto." in shown


def test_what_is_no_gpu_is_refused_and_not_taken_for_a_gpu_without_faults(log):
    result = classify("--verdict", "--gpu", "gpu0", log)
    assert result.exit_code == 2
    assert "'gpu0' is no PCI address; give 0000:3b:00" in result.output


def test_a_log_of_which_nothing_is_in_the_named_format_is_told(log):
    result = classify("--format", "journald", log)
    assert result.stdout == ""
    assert "no line is in the format journald" in result.stderr
    assert classify(log).stderr == ""


def test_text_counts_for_the_node_where_it_is_let(tmp_path):
    path = tmp_path / "messages"
    path.write_text("Mar  3 11:22:33 node01 kernel: NVRM: Xid (PCI:0000:3b:00): 79, x\n")
    assert objects(classify("--json", "--verdict", path))[-1]["node"] == "none"
    assert objects(classify("--json", "--verdict", "--trust-text", path))[-1]["node"] == "reboot"


def test_without_grep_the_same_lines_are_found(log, monkeypatch):
    with_grep = list(logs.suspicious_lines(logs.open_log(str(log)), read_anchors()))
    monkeypatch.setattr(logs.shutil, "which", lambda _: None)
    without = list(logs.suspicious_lines(logs.open_log(str(log)), read_anchors()))
    assert [number for number, _ in without] == [51, 52, 53]
    assert without == with_grep


def test_an_anchor_with_special_characters_is_taken_literally(tmp_path):
    path = tmp_path / "log"
    path.write_text("a.c\nabc\n[x]\nx\n")
    found = list(logs.suspicious_lines(logs.open_log(str(path)), (b"a.c", b"[x]")))
    assert found == [(1, b"a.c"), (3, b"[x]")]


def test_a_line_without_end_is_cut(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"NVRM: " + b"x" * 300_000 + b"\nNVRM: y\n")
    found = list(logs.suspicious_lines(logs.open_log(str(path)), (b"NVRM:",)))
    assert [number for number, _ in found] == [1, 2]
    assert len(found[0][1]) <= logs.LONGEST_LINE
    assert found[1][1] == b"NVRM: y"


def test_a_log_that_is_not_there_is_unreadable(tmp_path):
    with pytest.raises(SourceUnreadable):
        logs.open_log(str(tmp_path / "none"))


def words(*what: str) -> Result:
    return CliRunner().invoke(explain, list(what))


def test_a_code_is_explained():
    assert "GPU has fallen off the bus" in words("79").output
    assert "SXid 24007" in words("sxid", "24007").output
    assert "SXid" not in words("xid 79").output
    assert "a code that the catalogue does not know" in words("xid", "998").output


def test_what_most_lines_of_a_code_say_is_explained_before_what_some_alone_say():
    first, second = words("31").output.split("\n\n")
    assert "the node needs nothing\n  counts  but for the lines" in first
    assert "the node needs a drain and a reboot\n  counts  only where the line has UNREC" in second
    assert "counts" not in words("79").output


def test_json_tells_a_program_what_the_words_tell_a_person():
    told = json.loads(words("79", "--json").stdout)
    assert [rule["rule"] for rule in told] == ["xid-79"]
    keys = {
        *("rule", "kind", "codes", "meaning", "class", "scope", "node_action", "role"),
        *("pattern", "action", "source", "event"),
    }
    assert set(told[0]) == keys
    assert (told[0]["class"], told[0]["node_action"]) == ("hardware", "reboot")
    assert told[0]["event"] is None
    [line] = json.loads(words("--json", "NVRM: Xid (PCI:0000:3b:00): 79, x").stdout)
    assert line["event"] == {
        "class": "hardware",
        "pci": "0000:3b:00",
        "because": "Xid 79 on GPU 0000:3b:00: GPU has fallen off the bus",
    }
    rules = [f"  rule    {one['rule']}" for one in json.loads(words("31", "--json").stdout)]
    assert rules == [row for row in words("31").output.splitlines() if row.startswith("  rule ")]


def test_a_rule_is_explained():
    assert "fatal PCIe error" in words("pcie-fatal").output


def test_a_line_is_explained():
    told = words(LOST).output
    assert told.startswith("Xid 79 on GPU 0000:3b:00: GPU has fallen off the bus: hardware")
    assert "This line is no event" in words('+ grep -q "out of memory" log').output


def test_a_line_with_bytes_that_are_no_text_is_explained():
    told = words("NVRM: Xid (PCI:0000:3b:00): 79, name=\udcff, GPU has fallen off the bus.")
    assert told.output.startswith("Xid 79 on GPU 0000:3b:00: GPU has fallen off the bus")
    for odd in ("NVRM: Xid (PCI:0000:3b:00): 79, \udcff", "+ grep -q 'out of memory' \udcff"):
        assert len(json.loads(words("--json", odd).stdout)) == 1


def test_what_no_rule_speaks_of_is_told():
    result = words("nonsense")
    assert result.exit_code == 1
    assert "no rule speaks of 'nonsense'; give a code, a line" in result.output
    as_json = words("nonsense", "--json")
    assert (as_json.exit_code, as_json.stdout, as_json.stderr) == (1, "", result.stderr)
    assert "did you mean pcie-fatal" in words("pcie-fatl").output


def test_a_log_that_says_nothing_of_a_fault_is_told_beside_the_output(tmp_path):
    log = tmp_path / "log"
    for text in ("", "usb 1-1: new device\n"):
        log.write_text(text)
        done = classify(log)
        assert (done.exit_code, done.stdout) == (0, "")
        assert done.stderr == "No line speaks of a fault.\n"
        assert classify("--json", log).output == ""


def test_a_pipe_is_read_also_where_its_writer_comes_late(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = Thread(target=path.write_text, args=[f"{LOST}\n"])
    writer.start()
    assert [event["code"] for event in objects(classify("--json", path))] == [79]
    writer.join()


def test_of_a_pipe_with_a_silent_writer_the_words_are_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "PATIENCE", 0.0)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    end = os.open(path, os.O_RDWR)

    def write(*_: object) -> None:
        os.write(end, f"{LOST}\n".encode())
        os.close(end)

    monkeypatch.setattr(os, "set_blocking", write)
    assert [event["code"] for event in objects(classify("--json", path))] == [79]


def test_a_pipe_that_nobody_writes_to_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "PATIENCE", 0.01)
    os.mkfifo(tmp_path / "pipe")
    result = classify("--verdict", tmp_path / "pipe")
    assert result.exit_code == 3
    assert "pipe can not be read: it is a pipe, and nobody wrote to it for 0.01 s" in result.stderr
    assert "verdict: unknown" in result.stdout


def test_a_device_without_an_end_is_no_log():
    result = classify("/dev/zero")
    assert result.exit_code == 3
    assert "/dev/zero can not be read: it is a device, and no log" in result.stderr
    assert classify("/dev/null").exit_code == 0


def test_the_name_of_a_log_can_not_steer_a_terminal(tmp_path):
    path = tmp_path / "a\x1b[2J.log"
    for text in (f"{LOST}\n", None):
        path.unlink(missing_ok=True) if text is None else path.write_text(text)
        result = classify(path)
        assert "a\\x1b[2J.log" in result.output
        assert "\x1b" not in result.output
