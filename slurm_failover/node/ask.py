"""Hooks ask the watcher, and are told at once: the proof of its life, and what it knows.

A hook makes a FIFO ``answer.PID`` in the watcher's folder, which only root may enter, and writes
``PID START`` to the FIFO ``ask`` there. The watcher first reads all that the kernel has written, so
that the answer holds for everything up to the question. No answer within PATIENCE means that there
is no watcher, that it hangs, or that it was stopped: then the hook does the work itself.

ask_watcher.sh is the same in the shell, for hooks that need no more than the answer.
"""

from __future__ import annotations

import os
import select
import stat

from slurm_failover.files import remove

CLEAN, BUSY, BLIND = "clean", "busy", "blind"
"""Nothing that could be a fault stands unjudged, and nothing was noticed since START; something is
being looked at; or the watcher lives and does not get its work done."""
PATIENCE = 1.0
"""Seconds to wait for an answer; ask_watcher.sh waits as long."""
_MOST = 4096


def ask_watcher(folder: str, start: float = 0.0) -> str:
    """What a live watcher answers about the time since ``start``; empty where none answers."""
    answer = f"{folder}/answer.{os.getpid()}"
    try:
        ask = os.open(f"{folder}/ask", os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        remove(answer)
        os.mkfifo(answer, 0o600)
        handle = os.open(answer, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.write(ask, f"{os.getpid()} {int(start)}\n".encode())
            ready, _, _ = select.select([handle], [], [], PATIENCE)
            return os.read(handle, _MOST).decode("ascii", "replace").strip() if ready else ""
        finally:
            os.close(handle)
    except OSError:
        return ""
    finally:
        os.close(ask)
        remove(answer)


class Question:
    """What a hook asks: who it is, and since when (seconds since the epoch, 0 if it is all one)."""

    def __init__(self, pid: int, start: float) -> None:
        self.pid = pid
        self.start = start


class Desk:
    """The watcher's end. Its folder exists and is root's alone."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        path = f"{folder}/ask"
        _make_fifo(path)
        # Open for both, so that the last hook's leaving is no end of file.
        self._handle = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        _tidy(folder)

    def fileno(self) -> int:
        """The handle to wait for."""
        return self._handle

    def close(self) -> None:
        """From here on nobody is answered, and nobody has to miss the answer."""
        remove(f"{self._folder}/ask")
        os.close(self._handle)

    def questions(self) -> list[Question]:
        """What was asked since the last call; what makes no sense is left out."""
        try:
            raw = os.read(self._handle, _MOST)
        except BlockingIOError:
            return []
        fields = [line.split() for line in raw.decode("ascii", "replace").splitlines()]
        return [
            Question(int(pair[0]), float(pair[1]))
            for pair in fields
            if len(pair) == 2 and all(word.isascii() and word.isdigit() for word in pair)
        ]

    def answer(self, question: Question, word: str) -> None:
        """Tell a hook; one that has gone meanwhile is told nothing."""
        path = f"{self._folder}/answer.{question.pid}"
        try:
            handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return
        try:
            os.write(handle, f"{word}\n".encode())
        except OSError:
            return
        finally:
            os.close(handle)


def _make_fifo(path: str) -> None:
    try:
        if stat.S_ISFIFO(os.lstat(path).st_mode):
            return
        remove(path)
    except FileNotFoundError:
        pass
    os.mkfifo(path, 0o600)


def _tidy(folder: str) -> None:
    """Remove the answers that hooks which were killed have left."""
    for name in os.listdir(folder):  # noqa: PTH208
        pid = name.removeprefix("answer.")
        if pid != name and not os.path.exists(f"/proc/{pid}"):  # noqa: PTH110
            remove(f"{folder}/{name}")
