"""A process that stays in a container and runs commands there.

Every ``docker exec`` costs as much as the question it asks; a test that waits asks many.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from docker.models.containers import Container
from docker.utils.socket import frames_iter

# Files in memory, not pipes: a daemon that the command leaves behind keeps its end of a pipe open.
INSIDE = """
import json, os, subprocess, sys
own = dict(pair.split("=", 1) for pair in open("/proc/self/environ").read().split("\\0") if pair)
for line in sys.stdin:
    out, err = (open(os.memfd_create("told"), "w+b") for _ in "oe")
    with out, err:
        done = subprocess.run(json.loads(line), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                              env=own, start_new_session=True)
        told = [os.pread(part.fileno(), os.fstat(part.fileno()).st_size, 0) for part in (out, err)]
    print(json.dumps([done.returncode, *(part.decode(errors="replace") for part in told)]),
          flush=True)
"""


class OpenShell:
    """Runs commands of one user, one after the other."""

    def __init__(self, container: Container, user: str) -> None:
        """Start the process; it ends when this is closed, or with its container."""
        api = container.client.api
        argv = ["python3", "-I", "-S", "-c", INSIDE]
        process = api.exec_create(container.id, argv, stdin=True, user=user)
        self._stream = api.exec_start(process, socket=True)
        self._stream._sock.settimeout(None)
        self._lines = self._read()

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        """A command's exit status, output and errors; EOFError where the process is gone."""
        try:
            self._stream._sock.sendall(json.dumps(argv).encode() + b"\n")
            status, stdout, stderr = json.loads(next(self._lines))
        except (OSError, StopIteration) as error:
            raise EOFError(str(error)) from None
        return status, stdout, stderr

    def close(self) -> None:
        """End the process."""
        self._stream._sock.close()

    def _read(self) -> Iterator[bytes]:
        held: list[bytes] = []
        for _, part in frames_iter(self._stream, tty=False):
            *lines, rest = part.split(b"\n")
            for line in lines:
                yield b"".join([*held, line])
                held.clear()
            held.append(rest)
