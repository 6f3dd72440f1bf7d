"""Log files: plain, gzipped, rotated, or a pipe. Only lines that hold an anchor come out.

``grep`` finds them where it is installed: nothing in Python reads a gigabyte as fast. It is given
an alternation, since 180 fixed strings took it more than twice as long. Memory stays small whatever
the file holds.
"""

from __future__ import annotations

import errno
import gzip
import os
import re
import select
import shutil
import stat
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from slurm_failover.errors import SourceUnreadable

LONGEST_LINE = 1 << 16
PATIENCE = 5.0
"""Seconds after which a pipe into which no program writes is given up."""
_HEAD = 1 << 16
_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"
# The journal gives a message that is no valid UTF-8 as a list of numbers, which hides its anchors.
_HIDDEN = (b'"MESSAGE":[', b'"MESSAGE" : [')
_ROTATED = re.compile(r"(?:[.-](?P<number>\d{1,8}))?(?:\.gz)?")
_SPECIAL = re.compile(rb"[][(){}.*+?^$|\\]")
Numbered = Iterator[tuple[int, bytes]]


@dataclass(slots=True)
class Log:
    """An open log: its name, its first bytes, and how much of it there is and was read."""

    name: str
    file: IO[bytes]
    head: bytes
    size: int
    rest: Callable[[int], bytes]
    whole: bool

    def position(self) -> int:
        """The bytes read so far of a plain file, by whichever process reads it."""
        return os.lseek(self.file.fileno(), 0, os.SEEK_CUR) if self.whole else 0


def open_log(path: str) -> Log:
    """Open a log; ``-`` is standard input. Raises SourceUnreadable."""
    try:
        file = sys.stdin.buffer if path == "-" else _open(path)
        found = None if path == "-" else os.fstat(file.fileno())
        plain = found is not None and stat.S_ISREG(found.st_mode)
        head = os.pread(file.fileno(), _HEAD, 0) if plain else _first(file, found) or b""
        size = found.st_size if found is not None and plain else 0
        if head.startswith(_GZIP):
            return _unzipped(path, file, head, plain)
        return Log(path, file, head, size, file.read, whole=plain)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from error


def rotations(path: Path) -> list[Path]:
    """A log and its rotated predecessors beside it (``.1``, ``-20250101``, ``.2.gz``), oldest
    first.

    Raises SourceUnreadable where the folder can not be read.
    """
    try:
        beside = [entry for entry in path.parent.iterdir() if entry.name.startswith(path.name)]
        found = [e for e in beside if _ROTATED.fullmatch(e.name[len(path.name) :])]
        return sorted(found, key=lambda entry: (entry == path, entry.stat().st_mtime))
    except OSError as error:
        raise _unreadable(str(path), error) from error


def suspicious_lines(log: Log, anchors: tuple[bytes, ...]) -> Numbered:
    """The lines that hold an anchor, with their numbers, at most ``LONGEST_LINE`` bytes of each.

    Raises SourceUnreadable where the file can not be read to its end.
    """
    wanted = (*anchors, *_HIDDEN)
    grep = shutil.which("grep")
    try:
        if grep is None:
            yield from _filtered(log, wanted)
        else:
            yield from _grepped(grep, log, wanted)
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(log.name, error) from error
    finally:
        log.file.close()


def _open(path: str) -> IO[bytes]:
    """The file, a pipe without waiting for who writes into it. Raises OSError, also for a device
    that has no end.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    is_device = stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
    if is_device and not (os.isatty(handle) or os.path.realpath(path) == os.devnull):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is a device, and no log; of these only /dev/kmsg is", path)
    if not stat.S_ISFIFO(mode):
        os.set_blocking(handle, True)
    return open(handle, "rb", buffering=0)  # noqa: PTH123 - the reader closes it


def _first(file: IO[bytes], found: os.stat_result | None) -> bytes | None:
    """The first bytes of what is no plain file. Raises OSError for a pipe that nobody writes to."""
    if found is None or not stat.S_ISFIFO(found.st_mode):
        return file.read(_HEAD)
    poll = select.poll()
    poll.register(file, select.POLLIN)
    was_written_to = bool(poll.poll(PATIENCE * 1000))
    head = file.read(_HEAD)
    if head == b"" and not was_written_to:
        file.close()
        raise OSError(errno.EPIPE, f"it is a pipe, and nobody wrote to it for {PATIENCE:g} s")
    os.set_blocking(file.fileno(), True)
    return file.read(_HEAD) if head is None else head


def _unzipped(path: str, file: IO[bytes], head: bytes, plain: bool) -> Log:
    source = file if plain else _Joined(head, file)
    unzipped = gzip.GzipFile(fileobj=source)  # type: ignore[arg-type]
    return Log(path, file, unzipped.read1(_HEAD), 0, unzipped.read1, whole=False)


class _Joined:
    """A stream that gives back bytes that were read from it already."""

    def __init__(self, head: bytes, file: IO[bytes]) -> None:
        self._head, self._file = head, file

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        if not self._head:
            return self._file.read(size) or b""
        cut = len(self._head) if size < 0 else size
        taken, self._head = self._head[:cut], self._head[cut:]
        return taken


def _unreadable(name: str, error: Exception) -> SourceUnreadable:
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return SourceUnreadable(f"{name} can not be read: {why}; its verdict is unknown")


def _chunks(log: Log) -> Iterator[bytes]:
    """The whole log in pieces; the head of a plain file was only peeked at."""
    if not log.whole:
        yield log.head
    while chunk := log.rest(_CHUNK):
        yield chunk


def _grepped(grep: str, log: Log, wanted: tuple[bytes, ...]) -> Numbered:
    alternation = b"|".join(_SPECIAL.sub(rb"\\\g<0>", text) for text in wanted)
    command = [grep, "-a", "-n", "-E", "-e", os.fsdecode(alternation)]
    stdin = log.file.fileno() if log.whole else subprocess.PIPE
    environment = {**os.environ, "LC_ALL": "C"}
    with subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, env=environment) as child:
        feeder = None if log.whole else _feed(child, log)
        try:
            yield from _numbered(child)
        except GeneratorExit:
            child.terminate()
            raise
        if feeder is not None:
            feeder.join()
            if feeder.failure is not None:
                raise feeder.failure
        if child.wait() > 1:
            raise OSError(0, f"grep ended with status {child.returncode}")


class _Feeder(threading.Thread):
    """Writes a log into grep's standard input; what went wrong is kept for the reader to raise."""

    def __init__(self, target: IO[bytes], log: Log) -> None:
        super().__init__(daemon=True)
        self._target, self._log = target, log
        self.failure: OSError | EOFError | zlib.error | None = None

    def run(self) -> None:
        """Write all chunks; a reader that went away is no failure."""
        try:
            with self._target as target:
                for chunk in _chunks(self._log):
                    target.write(chunk)
        except BrokenPipeError:
            return
        except (OSError, EOFError, zlib.error) as error:
            self.failure = error


def _feed(child: subprocess.Popen[bytes], log: Log) -> _Feeder:
    assert child.stdin is not None  # noqa: S101 - Popen was given a pipe
    feeder = _Feeder(child.stdin, log)
    feeder.start()
    return feeder


def _numbered(child: subprocess.Popen[bytes]) -> Numbered:
    assert child.stdout is not None  # noqa: S101 - Popen was given a pipe
    for line in _bounded_lines(child.stdout):
        number, _, text = line.partition(b":")
        yield int(number), text


def _bounded_lines(stream: IO[bytes]) -> Iterator[bytes]:
    while line := stream.readline(LONGEST_LINE):
        yield line.rstrip(b"\n")
        while line and not line.endswith(b"\n"):
            line = stream.readline(LONGEST_LINE)


def _filtered(log: Log, wanted: tuple[bytes, ...]) -> Numbered:
    """As grep, in Python: slower, and enough for the logs of a day."""
    anchor = re.compile(b"|".join(re.escape(text) for text in wanted))
    number, pending = 0, b""
    for chunk in _chunks(log):
        *lines, pending = (pending + chunk).split(b"\n")
        for number, line in enumerate(lines, number + 1):  # noqa: B020 - the count goes on
            if anchor.search(line):
                yield number, line[:LONGEST_LINE]
        pending = pending[:LONGEST_LINE]
    if pending and anchor.search(pending):
        yield number + 1, pending
