"""What a registry's answer means for a job."""

from __future__ import annotations

import pytest

from slurm_failover.catalogue import load_rules
from slurm_failover.classify import read_events
from slurm_failover.image_answer import Answer, read_answer
from slurm_failover.model import FaultClass
from slurm_failover.parse import parse_lines

PYXIS = ["pyxis: child 1 failed with error code: 1", "pyxis: failed to import docker image"]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("URL https://r/v2/x/manifests/1 returned error code: 401 Unauthorized", Answer.LASTING),
        ("URL https://r/v2/x/manifests/1 returned error code: 404 Not Found", Answer.LASTING),
        ("Invalid image reference: docker://dockerd://x", Answer.LASTING),
        ("manifest unknown: manifest unknown", Answer.LASTING),
        ("URL https://r/v2/x/manifests/1 returned error code: 429 Too Many", Answer.PASSING),
        ("URL https://r/v2/x/manifests/1 returned error code: 503 Service", Answer.PASSING),
        ("denied: You have reached your pull rate limit", Answer.PASSING),
        ("curl: (28) Operation timed out after 30000 milliseconds", Answer.PASSING),
        ("curl: (6) Could not resolve host: registry.example.com", Answer.PASSING),
        ("dial tcp 192.0.2.32:443: i/o timeout", Answer.PASSING),
        ("dial tcp [::1]:443: connect: connection refused", Answer.PASSING),
        ("Write failed because No space left on device", Answer.LOCAL),
        ("mkdir: Disk quota exceeded", Answer.LOCAL),
        ("a word that nobody knows", Answer.LASTING),
    ],
)
def test_the_answer_says_whether_asking_again_can_help(line: str, answer: Answer) -> None:
    assert read_answer([*PYXIS, f"pyxis:     [ERROR] {line}"])[0] is answer


def test_a_number_in_the_images_name_is_no_answer_of_the_server() -> None:
    line = "URL https://r:5000/v2/x-429x/blobs/sha256:500 returned error code: 404 Not Found"
    assert read_answer([f"pyxis:     [ERROR] {line}"]) == (Answer.LASTING, line)


def test_a_full_disk_says_nothing_of_the_registry() -> None:
    lines = ["pyxis: curl: (28) timed out", "pyxis: Write failed because No space left on device"]
    assert read_answer(lines)[0] is Answer.LOCAL


SAID = "Error: initializing source docker://localhost:5055/x/app:1: {}"
READ = SAID.format("reading manifest 1 in localhost:5055/x/app: {}")
DIALLED = 'pinging container registry localhost:5056: Get "http://localhost:5056/v2/": dial tcp {}'
DAEMON = "docker: Error response from daemon: {}"
HEARD = (
    # podman 5.4.2 and docker 20.10.24, asking a registry that answers with one status to all.
    (READ.format("manifest unknown"), Answer.LASTING),
    (READ.format("unauthorized"), Answer.LASTING),
    (READ.format("denied"), Answer.LASTING),
    (READ.format("toomanyrequests: You have reached your pull rate limit"), Answer.PASSING),
    (READ.format("received unexpected HTTP status: 500 Internal Server Error"), Answer.PASSING),
    (READ.format("received unexpected HTTP status: 503 Service Unavailable"), Answer.PASSING),
    (
        SAID.format(DIALLED.format("127.0.0.1:5056: connect: connection refused")),
        Answer.PASSING,
    ),
    (
        SAID.format(DIALLED.format("lookup r.invalid on 192.0.2.53:53: no such host")),
        Answer.PASSING,
    ),
    (DAEMON.format("manifest unknown"), Answer.LASTING),
    (DAEMON.format("unauthorized"), Answer.LASTING),
    (DAEMON.format("denied"), Answer.LASTING),
    (DAEMON.format("toomanyrequests: You have reached your pull rate limit"), Answer.PASSING),
    (DAEMON.format("received unexpected HTTP status: 500 Internal Server Error"), Answer.PASSING),
    (DAEMON.format("received unexpected HTTP status: 503 Service Unavailable"), Answer.PASSING),
    (
        DAEMON.format(
            'Get "http://r:5056/v2/": dial tcp 127.0.0.1:5056: connect: connection refused'
        ),
        Answer.PASSING,
    ),
)


@pytest.mark.parametrize(("line", "answer"), HEARD)
def test_what_real_launchers_say_is_known_and_answered(line: str, answer: Answer) -> None:
    [record] = parse_lines([line.encode()], "stderr", now=0.0)
    [event] = read_events([record], load_rules())
    assert event.klass is FaultClass.IMAGE_PULL
    assert read_answer([record.text])[0] is answer


def test_what_is_told_is_what_the_registry_said() -> None:
    assert read_answer([DAEMON.format("denied")]) == (Answer.LASTING, "denied")
    said = READ.format("unauthorized").removeprefix("Error: ")
    assert read_answer([READ.format("unauthorized")]) == (Answer.LASTING, said)
