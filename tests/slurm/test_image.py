"""imagepullbackoff: container images that can not be fetched, on real Slurm daemons.

A SPANK plugin stands in for pyxis: where the file of its words exists, it says them as pyxis does
and fails the step before its first task starts. Scripts stand in for the other launchers: they say
the words and end with the launcher's own status, or run the program. Slurm's OCI support is real.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster import CONTROLLER, HOSTS, NODES, SHARED, Cluster, each
from story import Story

pytestmark = pytest.mark.slurm

WORDS = f"{SHARED}/pull-words"
SAID = f"{SHARED}/launcher-words"
PLUGSTACK = "/etc/slurm/plugstack.conf.d/stand-in.conf"
STAND_IN = rf"""
#include <slurm/spank.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

SPANK_PLUGIN(stand_in, 1)

int slurm_spank_user_init(spank_t spank, int argc, char **argv)
{{
    uint32_t step = 0;
    char line[512];
    FILE *words = fopen("{WORDS}", "r");

    (void)argc, (void)argv;
    spank_get_item(spank, S_JOB_STEPID, &step);
    if (!words || step >= 0xfffffff0)
        return 0;
    while (fgets(line, sizeof(line), words)) {{
        line[strcspn(line, "\n")] = 0;
        slurm_error("pyxis: %s", line);
    }}
    return -1;
}}
"""
BEFORE = """child 4711 failed with error code: 1
failed to import docker image
printing enroot log file:
    [INFO] Querying registry for permission grant
    [INFO] Authenticating with user: <anonymous>
    [INFO] Fetching image manifest list"""
NOT_FOUND = (
    "URL https://registry.example.com/v2/library/nosuch/manifests/latest returned error code: "
    "404 Not Found"
)
LIMITED = (
    "URL https://registry.example.com/v2/library/busy/manifests/latest returned error code: "
    "429 Too Many Requests"
)
FETCH = (
    "FATAL:   While making image from oci registry: error fetching image to cache: failed to get "
    "checksum for docker://r.example.com/nosuch: reading manifest latest: manifest unknown"
)
UNAVAILABLE = (
    "Error: initializing source docker://r.example/busy:1: pinging container registry "
    "r.example: received unexpected HTTP status: 503 Service Unavailable"
)
DENIED = (
    "Unable to find image 'r.example.com/mine:1' locally\n"
    "docker: Error response from daemon: denied\n\n"
    "Run 'docker run --help' for more information"
)
LAUNCHERS = {"apptainer": 255, "singularity": 255, "podman": 125, "docker": 125}
CALLS = {
    "apptainer": "/usr/bin/apptainer exec docker://r.example.com/nosuch true",
    "singularity": "singularity exec docker://r.example.com/nosuch true",
    "podman": "podman run r.example.com/busy:1 true",
    "docker": "docker run r.example.com/mine:1 true",
}
LASTING = {
    "apptainer": (FETCH, FETCH.removeprefix("FATAL:").strip()),
    "singularity": (FETCH, FETCH.removeprefix("FATAL:").strip()),
    "docker": (DENIED, "denied"),
}
OCI = """RunTimeQuery="true %n"
RunTimeKill="true %n"
RunTimeDelete="true %n"
RunTimeRun="false %n %b"
"""
SCRIPT = """echo "attempt ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NODELIST"
srun true || exit 1
read -r status </shared/gate"""


@pytest.fixture(scope="module")
def _launcher(_running_cluster: Cluster) -> Iterator[None]:
    cluster = _running_cluster
    cluster.reset()
    library = f"{SHARED}/stand-in.so"
    build = f'cd /tmp && cat >s.c <<<"$1" && gcc -shared -fPIC -Wall -Werror -o {library} s.c'
    cluster.check(CONTROLLER, ["bash", "-c", build, "", STAND_IN])
    with cluster.own_configuration():
        each(lambda node: cluster.check(node, f"echo required {library} >{PLUGSTACK}"), NODES)
        for name, status in LAUNCHERS.items():
            text = f'[ ! -e {SAID} ] || {{ cat {SAID} >&2; exit {status}; }}; shift 2; exec "$@"'
            put = ["bash", "-c", 'printf "#!/bin/sh\n%s\n" "$1" >$2; chmod 755 $2', "", text]
            each(
                lambda node, put=put, name=name: cluster.check(node, [*put, f"/usr/bin/{name}"]),
                HOSTS,
            )
        each(lambda host: cluster.check(host, f"cat >/etc/slurm/oci.conf <<'X'\n{OCI}X\n"), HOSTS)
        cluster.check(CONTROLLER, ["scontrol", "reconfigure"])
        yield
    launchers = [f"/usr/bin/{name}" for name in LAUNCHERS]
    each(lambda host: cluster.check(host, ["rm", *launchers]), HOSTS)


@pytest.fixture
def story(_launcher: None, cluster: Cluster) -> Iterator[Story]:
    """The live cluster with a container launcher, and short waits between tries."""
    setting = r"printf '\n[image]\nretries = 2\nfirst_wait = 2\nlongest_wait = 3\n'"
    cluster.check(CONTROLLER, f"{setting} >>/etc/slurm-failover/settings.toml")
    cluster.check(CONTROLLER, f"rm -f {SHARED}/gate {WORDS} {SAID}; mkfifo -m 666 {SHARED}/gate")
    yield Story(cluster)
    cluster.check(CONTROLLER, f"rm -f {WORDS} {SAID}")


def answer(story: Story, error: str) -> None:
    words = f"{BEFORE}\n    [ERROR] {error}\ncouldn't start container"
    story.cluster.check(CONTROLLER, ["bash", "-c", f'cat >{WORDS} <<<"$1"', "", words])


def say(story: Story, words: str) -> None:
    """What the stand-ins of apptainer and podman say, until that is taken back."""
    story.cluster.check(CONTROLLER, ["bash", "-c", f'cat >{SAID} <<<"$1"', "", words])


def submit(story: Story, script: str = SCRIPT, *options: str) -> int:
    return story.cluster.sbatch(script, "--comment=failover", *options)


def test_an_image_that_does_not_exist_holds_the_job_with_the_registrys_answer(
    story: Story,
) -> None:
    answer(story, NOT_FOUND)
    job = submit(story)
    view = story.wait_shown(job, "Pending - imagepullbackoff")
    told = f"the container image could not be fetched: {NOT_FOUND}"
    assert view["because"].endswith(told[:180])
    assert (view["state"], view["retries"]) == ("imagepullbackoff", 0)
    assert story.cluster.job(job)["hold"] is True
    assert [attempt["outcome"] for attempt in view["history"]] == ["deny"]
    assert story.drained() == []
    assert "imagepullbackoff, retries 0/3" in story.comment(job)
    story.cluster.wait(lambda: NOT_FOUND in story.cluster.output(job), 20, "the denial in the log")


def test_a_busy_registry_is_asked_again_after_growing_waits_and_then_no_more(story: Story) -> None:
    answer(story, LIMITED)
    job = submit(story)
    view = story.cluster.wait(
        lambda: v if "tried 3 times; last: " in ((v := story.show(job))["because"] or "") else None,
        60,
        "the end of trying",
    )
    assert LIMITED[:100] in view["because"]
    assert (view["display"], view["retries"]) == ("Pending - imagepullbackoff", 0)
    assert [a["outcome"] for a in view["history"]] == ["try again", "try again", "exceed"]
    told = [attempt["because"] for attempt in view["history"]]
    assert told[0].startswith("next try in 2 s: ")
    assert told[1].startswith("next try in 3 s: ")
    starts = [attempt["start"] for attempt in view["history"]]
    ends = [attempt["end"] for attempt in view["history"]]
    waits = [start - end for start, end in zip(starts[1:], ends, strict=False)]
    # Slurm's stamps are whole seconds, and ours are rounded: a wait may look one shorter.
    assert waits[0] >= 1
    assert waits[1] >= 2
    assert story.cluster.job(job)["hold"] is True
    assert (view["excluded_nodes"], story.drained()) == ([], [])


def test_a_registry_that_recovers_costs_no_retry(story: Story) -> None:
    answer(story, "curl: (28) Operation timed out after 30000 milliseconds")
    job = submit(story)
    story.wait_shown(job, "Pending - imagepullbackoff")
    story.cluster.check(CONTROLLER, ["rm", WORDS])
    story.wait_running(job, restarts=1)
    view = story.show(job)
    assert (view["display"], view["state"], view["retries"]) == ("Running", "armed", 0)
    assert story.cluster.job(job)["priority"]["number"] < 4294967293


def test_a_disk_that_is_full_on_the_node_is_neither(story: Story) -> None:
    answer(story, "Write failed because No space left on device")
    job = submit(story)
    view = story.wait_shown(job, "Pending - internalerror")
    assert "the container image could not be unpacked on this node: " in view["because"]
    assert "No space left on device" in view["because"]
    assert (view["retries"], story.drained()) == (0, [])


# --- launchers that are no part of slurmstepd ---------------------------------------------------

BY_LAUNCHER = """set -e
echo "attempt ${{SLURM_RESTART_COUNT:-0}} on $SLURM_JOB_NODELIST"
{run}
read -r status </shared/gate"""
HOW = {"as a step": "srun {}", "in the batch script": "{}"}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("launcher", LASTING)
def test_an_image_that_is_not_there_or_not_for_the_user_holds_the_job(
    story: Story, launcher: str, how: str
) -> None:
    words, told = LASTING[launcher]
    say(story, words)
    job = submit(story, BY_LAUNCHER.format(run=HOW[how].format(CALLS[launcher])))
    view = story.wait_shown(job, "Pending - imagepullbackoff")
    assert f"the container image could not be fetched: {told}"[:180] in view["because"]
    assert (view["retries"], story.drained()) == (0, [])
    assert story.cluster.job(job)["hold"] is True


def test_the_words_of_a_launcher_are_found_where_the_output_is_named_by_a_pattern(
    story: Story,
) -> None:
    words, told = LASTING["apptainer"]
    say(story, words)
    script = BY_LAUNCHER.format(run=HOW["as a step"].format(CALLS["apptainer"]))
    job = submit(story, script, "--output=image-%u-%4j.log")
    view = story.wait_shown(job, "Pending - imagepullbackoff")
    assert told[:100] in view["because"]


@pytest.mark.parametrize("how", HOW)
def test_an_image_that_podman_can_not_fetch_for_now_is_asked_for_again(
    story: Story, how: str
) -> None:
    say(story, UNAVAILABLE)
    job = submit(story, BY_LAUNCHER.format(run=HOW[how].format(CALLS["podman"])))
    view = story.wait_shown(job, "Pending - imagepullbackoff")
    assert "next try in 2 s: " in view["because"]
    assert "HTTP status: 503" in view["because"]
    story.cluster.check(CONTROLLER, ["rm", SAID])
    story.wait_running(job, restarts=1)
    assert (story.show(job)["display"], story.show(job)["retries"]) == ("Running", 0)
    assert story.cluster.job(job)["priority"]["number"] < 4294967293


def test_an_oci_bundle_that_is_not_there_holds_the_job(story: Story) -> None:
    job = submit(story, BY_LAUNCHER.format(run=f"srun --container={SHARED}/nosuch true"))
    view = story.wait_shown(job, "Pending - imagepullbackoff")
    assert f"unable to open: {SHARED}/nosuch/config.json" in view["because"]
    assert (view["retries"], story.drained()) == (0, [])


MINE = f"{SHARED}/home/alice/apptainer"
PROGRAMS = {
    "a program of the user's that is called like a launcher": f"srun {MINE} exec docker://x true",
    "one that the batch script calls": f"{MINE} exec docker://x true",
    "a program that Slurm starts": f"srun sh -c 'cat {SAID} >&2; exit 255'",
    "the batch script itself": f"cat {SAID} >&2; exit 255 # apptainer exec docker://x true",
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_launchers_words_of_anything_else_change_nothing(story: Story, kind: str) -> None:
    say(story, FETCH)
    copy = f"cp /usr/bin/apptainer {MINE}; chmod 755 {MINE}"
    story.cluster.check(CONTROLLER, copy, "alice")
    job = submit(story, BY_LAUNCHER.format(run=PROGRAMS[kind]))
    view = story.wait_shown(job, "Pending - internalerror")
    assert FETCH in story.cluster.output(job)
    assert view["because"] == (
        "the program ended with exit code 255, and no node shows a hardware fault"
    )


def test_whoever_lies_about_a_busy_registry_gains_no_more_than_a_few_tries(story: Story) -> None:
    lie = f"cat {SAID} >&2; exit 125; podman run r.example.com/busy:1 true"
    say(story, UNAVAILABLE)
    job = submit(story, BY_LAUNCHER.format(run=lie))
    view = story.cluster.wait(
        lambda: v if "tried 3 times; last: " in ((v := story.show(job))["because"] or "") else None,
        60,
        "the end of trying",
    )
    assert (view["display"], view["retries"]) == ("Pending - imagepullbackoff", 0)
    assert (view["excluded_nodes"], story.drained()) == ([], [])
    shown = story.cluster.job(job)
    assert (shown["hold"], shown["priority"]["number"]) == (True, 0)


@pytest.mark.parametrize("line", [NOT_FOUND, LIMITED])
def test_the_same_words_of_the_users_own_program_change_nothing(story: Story, line: str) -> None:
    forged = [
        f"slurmstepd-n1: error: pyxis: {text}"
        for text in (*BEFORE.splitlines(), f"    [ERROR] {line}", "couldn't start container")
    ]
    forged += [f"[2026-01-01T00:00:00.000] [$SLURM_JOB_ID.0] error: pyxis:     [ERROR] {line}"]
    script = "\n".join(f"echo '{text}' >&2; logger '{text}' || true" for text in forged)
    job = submit(story, script.replace("'", '"').replace('couldn"t', "couldn't") + "\nexit 1")
    view = story.wait_shown(job, "Pending - internalerror")
    assert (
        view["because"] == "the program ended with exit code 1, and no node shows a hardware fault"
    )
