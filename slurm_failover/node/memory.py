"""A node's ledger on its disk, one process at a time.

The disk may be full, or mounted for reading alone since it is dying: what is found then is judged
and acted upon all the same, only not remembered, so that the next look finds it again. Slurm, whose
drain stands by then, keeps that from being done twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from slurm_failover import files
from slurm_failover.node.ledger import Ledger, read_ledger, write_ledger

LOCK_PATIENCE, END_PATIENCE = 15.0, 30.0
"""Seconds that one hook waits for another on the same node; at the end of a flagged job longer,
since the controller decides nothing meanwhile.
"""


class Memory:
    """The ledger in a folder of ours."""

    def __init__(self, folder: str, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._path = f"{folder}/ledger.json"
        self._say = say

    @contextmanager
    def held(self, *, at_end: bool = False) -> Iterator[bool]:
        """Keep other processes of this node out, ``at_end`` of a flagged job or not; False where
        one has not ended in time. Where there can be no lock, nobody is kept out.
        """
        patience = END_PATIENCE if at_end else LOCK_PATIENCE
        with ExitStack() as stack:
            try:
                files.make_folder(self._folder)
                held = stack.enter_context(files.locked(f"{self._folder}/lock", patience))
            except OSError as error:
                self._say(f"{self._folder} can not be written, and is done without: {error}")
                held = True
            yield held

    def read(self) -> Ledger:
        """What was judged on this node. A ledger that can not be read is none, which is said."""
        try:
            text = files.read_whole(self._path)
            return Ledger() if text is None else read_ledger(text)
        except (OSError, ValueError) as error:
            self._say(f"{self._path} can not be read, so this is a first look: {error}")
            return Ledger()

    def write(self, ledger: Ledger) -> None:
        """Remember; what can not be written is said, and the next look judges it again."""
        try:
            files.write_whole(self._path, write_ledger(ledger))
        except OSError as error:
            self._say(f"{self._path} can not be written, so the next look judges again: {error}")

    def change(self, change: Callable[[Ledger], Ledger]) -> None:
        """Remember something else, unless another process has not ended in time."""
        with self.held() as held:
            if held:
                self.write(change(self.read()))
