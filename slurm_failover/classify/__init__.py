"""Records × rules → events → a judgement. Pure: bytes and clocks stay outside.

``match`` finds the rule for one record, ``events`` folds storms and parts of one print into single
events, ``judge`` weighs the events: whose fault the end of a job was, and what the node needs.
"""

from slurm_failover.classify.events import read_events
from slurm_failover.classify.judge import concerns, is_inside, judge, weigh

__all__ = ["concerns", "is_inside", "judge", "read_events", "weigh"]
