"""A job can save its work before it is requeued, and go on from there, on real Slurm daemons."""

from __future__ import annotations

import base64
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from cluster import CONTROLLER, NODES, SHARED, Cluster
from story import LOST, Story, write_gate

pytestmark = pytest.mark.slurm

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
HOME = f"{SHARED}/home/alice"
ENDLESS = 1_000_000
LENGTHS = {"train": (400, 10), "train_torch": (ENDLESS, 50)}
"""Steps of each example, and between two checkpoints. How long those of PyTorch take depends on the
machine: its run is not waited for.
"""
STUBBORN = """trap 'echo "was asked to save"' USR1
echo "attempt ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NODELIST"
while :; do sleep 0.2; done"""


@pytest.fixture
def story(cluster: Cluster) -> Story:
    """The live cluster as the tests below talk to it."""
    return Story(cluster)


def put_example(story: Story, name: str) -> None:
    text = base64.b64encode((EXAMPLES / name).read_bytes()).decode()
    story.cluster.check(CONTROLLER, f"base64 -d <<<{text} >{HOME}/{name}", "alice")


@dataclass(frozen=True)
class Run:
    """The run of an example."""

    story: Story
    name: str
    job: int

    def output(self) -> str:
        return self.story.cluster.read(CONTROLLER, f"{HOME}/{self.name}-{self.job}.out")

    def wait_started(self, attempt: int) -> str:
        """Wait until this attempt has saved once; its node."""
        lines = LENGTHS[self.name][1] + 2
        begun = re.compile(rf"^attempt {attempt} from step .*(?:\n.*){{{lines}}}", re.MULTILINE)
        self.story.cluster.wait(
            lambda: begun.search(self.output()), 90, f"steps of attempt {attempt}"
        )
        return self.story.nodes(self.job)[0]


def submit_example(story: Story, name: str) -> Run:
    for kind in ("py", "sbatch"):
        put_example(story, f"{name}.{kind}")
    steps, every = LENGTHS[name]
    variables = f"STEPS={steps} CHECKPOINT_EVERY={every}"
    command = f"cd {HOME} && {variables} sbatch --parsable --gres=gpu:2 {name}.sbatch"
    return Run(story, name, int(story.cluster.check(CONTROLLER, command, "alice")))


@pytest.mark.parametrize("name", LENGTHS)
def test_a_training_run_that_is_killed_three_times_loses_and_repeats_no_more_than_an_interval(
    story: Story, name: str
) -> None:
    if name == "train_torch" and story.cluster.run("n1", ["python3", "-c", "import torch"]).rc:
        pytest.skip("PyTorch is not installed in the image: it is larger than all the rest")
    run = submit_example(story, name)
    job, (steps, every) = run.job, LENGTHS[name]

    first = run.wait_started(1)
    story.cluster.inject(first, LOST)  # found while the run goes on: it is asked to save
    second = run.wait_started(2)
    story.cluster.inject(second, LOST)
    story.cluster.check(second, f"pkill -KILL -f '[t]{name[1:]}.py'")  # the run dies with its GPU
    third = run.wait_started(3)
    story.cluster.kill_daemon(third, "slurmd")  # the node is gone, with all that ran there
    story.cluster.check(third, "pkill -KILL slurmstepd; pkill -KILL -u alice")
    fourth = run.wait_started(4)

    if steps == ENDLESS:
        story.cluster.check(CONTROLLER, ["scancel", str(job)])
        view = story.wait_shown(job, "Cancelled")
    else:
        story.cluster.wait(lambda: "\ndone\n" in run.output(), 120, "the end of the training")
        view = story.wait_shown(job, "Completed")
    assert sorted((first, second, third, fourth)) == list(NODES)
    assert (view["retries"], len(view["history"])) == (3, 3)

    log = run.output()
    done = Counter(int(step) for step in re.findall(r"^step (\d+) loss \d", log, re.MULTILINE))
    assert max(done) == steps or steps == ENDLESS
    assert sorted(done) == list(range(1, max(done) + 1))
    begins = [int(step) for step in re.findall(r"^attempt \d from step (\d+)", log, re.MULTILINE)]
    ends = [
        max(map(int, re.findall(r"^step (\d+)", part, re.MULTILINE)))
        for part in re.split(r"^attempt \d from", log, flags=re.MULTILINE)[1:]
    ]
    lost = [end - begin for end, begin in zip(ends, begins[1:], strict=False)]
    assert lost[0] == 0, "a run that was asked to save repeats nothing"
    assert all(0 <= repeated <= every for repeated in lost)
    assert sum(done.values()) - len(done) == sum(lost)
    assert f"attempt 2 from step {begins[1]} ({first}: Xid 79 on GPU" in log


def test_the_job_sees_its_attempt_the_reason_and_the_excluded_nodes(story: Story) -> None:
    script = (
        'echo "env:$SLURM_FAILOVER_ATTEMPT|$SLURM_FAILOVER_REASON|$SLURM_FAILOVER_EXCLUDED_NODES"\n'
        "srun bash -c 'echo step:$SLURM_FAILOVER_ATTEMPT'\n"
        "read -r status </shared/gate.env; exit $status"
    )
    story.cluster.check(CONTROLLER, f"rm -f {SHARED}/gate.env; mkfifo -m 666 {SHARED}/gate.env")
    job = story.cluster.sbatch(script, "--comment=failover", "--gres=gpu:2")
    story.cluster.wait(lambda: "step:1" in story.cluster.output(job), 30, "the first attempt")
    assert "env:1||\n" in story.cluster.output(job)
    [node] = story.nodes(job)
    story.cluster.inject(node, LOST)
    story.cluster.check(CONTROLLER, write_gate(f"{SHARED}/gate.env", "1"), timeout=10)
    story.cluster.wait(lambda: "step:2" in story.cluster.output(job), 60, "the second attempt")
    reason = f"{node}: Xid 79 on GPU 0000:3b:00: GPU has fallen off the bus"
    assert f"env:2|{reason}|{node}\n" in story.cluster.output(job)


def test_an_unflagged_job_sees_nothing_of_us(story: Story) -> None:
    job = story.cluster.sbatch("env | grep -c FAILOVER; true")
    story.wait_shown(job, "Completed")
    assert story.cluster.output(job) == "0\n"


def test_the_requeue_comes_also_where_the_process_that_waits_out_the_grace_dies(
    story: Story,
) -> None:
    job = story.cluster.sbatch(STUBBORN, "--comment=failover checkpoint=B:USR1@12", "--gres=gpu:2")
    [node] = story.wait_running(job)
    story.cluster.inject(node, LOST)
    story.cluster.wait(lambda: "was asked to save" in story.cluster.output(job), 30, "the signal")
    story.cluster.check(node, "pkill -KILL -f '[s]top_job'")
    assert "RUNNING" in story.cluster.job_state(job)
    assert story.wait_running(job, restarts=1, seconds=60) != [node]
    assert story.cluster.output(job).count("was asked to save") == 1
    assert story.show(job)["retries"] == 1


def test_a_job_that_does_not_end_in_its_grace_is_requeued_all_the_same(story: Story) -> None:
    job = story.cluster.sbatch(STUBBORN, "--comment=failover checkpoint=B:USR1@4", "--gres=gpu:2")
    [node] = story.wait_running(job)
    story.cluster.inject(node, LOST)
    story.cluster.wait(lambda: "was asked to save" in story.cluster.output(job), 30, "the signal")
    assert "RUNNING" in story.cluster.job_state(job)
    assert story.wait_running(job, restarts=1) != [node]
    assert story.show(job)["retries"] == 1
