"""``slurm-failover resume`` on the node itself: what it lifts, and why it lifts no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import gpu_node
import pytest
from click.testing import CliRunner, Result
from gpu_node import GpuNode
from nvml_stand_in import stand_in_library  # noqa: F401 - a fixture
from test_checks import LOST

from slurm_failover.commands import resume

node = gpu_node.node
Resume = Callable[..., Result]


@pytest.fixture
def run(node: GpuNode, monkeypatch: pytest.MonkeyPatch) -> Resume:
    monkeypatch.setattr(resume, "connect", lambda *_: node.slurm)
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    state = replace(node.settings.state, log=str(node.folder / "our.log"))
    node.settings = replace(node.settings, state=state)
    return lambda *words: CliRunner().invoke(resume.command, words, obj=node.settings)


def logged(node: GpuNode) -> list[str]:
    return (node.folder / "our.log").read_text().splitlines()


def test_a_clean_node_is_resumed_and_then_is_in_service(node: GpuNode, run: Resume) -> None:
    node.gpus(gpu1__remap_failed=1)
    node.checks().check_health()
    node.gpus(gpu1__remap_failed=0)
    reason = node.reason
    assert (run().output, node.is_drained) == ("n1: resumed\n", False)
    assert run().output == "n1: is in service\n"
    [line] = logged(node)
    assert line.endswith(f" resume: resumed by hand, checks clean; it was out for: {reason}")


def test_a_node_that_was_judged_in_observe_mode_alone_is_not_called_clean(
    node: GpuNode, run: Resume
) -> None:
    acts = node.settings
    node.settings = replace(acts, failover=replace(acts.failover, mode="observe"))
    node.record(LOST)
    assert not node.checks().check_health()
    node.settings = acts
    words = "n1: is in service; would have been drained (observe mode): Xid 79 on GPU 0000:3b:00"
    assert run().output.startswith(words)


def test_a_fault_that_holds_keeps_the_node_out_and_is_named(node: GpuNode, run: Resume) -> None:
    node.gpus(gpu1__remap_failed=1)
    node.checks().check_health()
    for words in ((), ("--force",)):
        done = run(*words)
        assert (done.exit_code, node.is_drained) == (1, True)
        assert "stays out of service: NVML: a row of GPU 0000:3b:00's memory" in done.output


def test_a_reboot_that_was_not_made_is_asked_for_and_can_be_waived(
    node: GpuNode,
    run: Resume,
) -> None:
    node.checks().check_health()
    node.record(LOST)
    node.checks().check_health()
    done = run()
    assert (done.exit_code, node.is_drained) == (1, True)
    assert done.output.endswith("there was none since; reboot it, or use --force\n")
    assert (run("--force").exit_code, node.is_drained) == (0, False)
    assert " resume: resumed by hand with --force, " in logged(node)[-1]


@pytest.mark.parametrize("words", [(), ("--force",)])
def test_a_source_that_was_switched_off_keeps_no_node_out(
    node: GpuNode, run: Resume, words: tuple[str, ...]
) -> None:
    node.checks().check_health()
    node.gpus(gpu1__remap_failed=1)
    node.checks().check_health()
    node.gpus(init=12)
    node.checks().check_health()
    assert "can not see the GPUs: NVML does not start" in run(*words).output
    node.sources(nvml=False)
    assert (run(*words).output, node.is_drained) == ("n1: resumed\n", False)


def test_an_edited_reason_is_not_ours_even_with_force(node: GpuNode, run: Resume) -> None:
    node.record(LOST)
    node.checks().check_health()
    node.slurm.peek_node("n1").reason += ", RMA 4711"
    node.boot("boot-2")
    for words in ((), ("--force",)):
        done = run(*words)
        assert (done.exit_code, node.is_drained) == (1, True)
        assert "its reason was changed since we wrote it" in done.output
        assert "`scontrol update NodeName=n1 State=RESUME` lifts that" in done.output


def test_another_node_is_looked_at_where_it_is(node: GpuNode, run: Resume) -> None:
    node.slurm.drain("n2", "slurm-failover: Xid 79")
    done = run("n2")
    assert done.exit_code == 1
    assert "n2: stays out of service: it is looked at where it is" in done.output


def test_a_host_that_is_no_node_is_told_so(run: Resume, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "ctl")
    done = run()
    assert (done.exit_code, done.output) == (
        1,
        "Error: Slurm knows no node ctl; run this on a node\n",
    )


def test_in_observe_mode_a_clean_node_stays_as_it_is_and_the_command_that_resumes_it_is_named(
    node: GpuNode, run: Resume
) -> None:
    node.gpus(gpu1__remap_failed=1)
    node.checks().check_health()
    node.gpus(gpu1__remap_failed=0)
    failover = replace(node.settings.failover, mode="observe")
    node.settings = replace(node.settings, failover=failover)
    done = run()
    assert (done.exit_code, node.is_drained) == (1, True)
    assert "observe mode changes nothing; `scontrol update NodeName=n1 State=RESUME`" in done.output
