"""The circuit breaker: when too many faults at once stop us from draining and requeueing. Pure.

Theory of operation
-------------------
Every node notes the faults that it judges in its own Extra, before it drains. The breaker is no
switch that someone throws: it is what these notes amount to, computed alike by whoever asks. It is
open while, at the time of some note of the last ``lasts`` seconds,

* more nodes than the site's share had noted a fault within ``window``,
* more nodes than a smaller share had noted the same code, or faults under the same driver version,
  and the jobs of several users were hit, or
* the same code had met more than ``attempts`` attempts of one job: then for that job alone, and for
  the nodes on which it hits that job.

A node notes first and asks after. So of any number of nodes that find a fault in one moment, no
more drain than the share allows: the one that is one too many sees the notes of all before it.

Admins add a word, in the Comment of any one node, and the latest word counts: *closed*, and what
was noted before counts no more; *open*, until another word or a time.
"""

from slurm_failover.breaker.notes import FaultNote, add_note, drop_waiting, read_notes, write_notes
from slurm_failover.breaker.pace import due
from slurm_failover.breaker.state import Breaker, Trip, read_breaker
from slurm_failover.breaker.word import Word, read_word, write_word

__all__ = [
    "Breaker",
    "FaultNote",
    "Trip",
    "Word",
    "add_note",
    "drop_waiting",
    "due",
    "read_breaker",
    "read_notes",
    "read_word",
    "write_notes",
    "write_word",
]
