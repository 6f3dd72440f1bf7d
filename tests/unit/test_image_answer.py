"""What a registry's answer means for a job."""

from __future__ import annotations

import pytest

from slurm_failover.image_answer import Answer, read_answer

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
