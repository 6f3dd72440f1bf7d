"""A site with a month of faults behind it, for tests of the report and for a look at it."""

from __future__ import annotations

from random import Random

from slurm_failover.commands.past import Past
from slurm_failover.commands.report import make_report
from slurm_failover.history import Outage, Run, tell
from slurm_failover.record import Attempt, Record, State, write_record
from slurm_failover.slurm.accounting import Span

NOW = 1_795_982_400.0
DAY = 86400.0
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"
_FAULTS = (
    "Xid 79 on GPU 0000:{gpu}:00: GPU has fallen off the bus",
    "Xid 48 on GPU 0000:{gpu}:00: uncorrectable memory error (double bit ECC)",
    "SXid 24007 on NVSwitch 0000:aa:00: sourcetrack timeout error (source tracker)",
    "an NVMe device is lost (nvme4)",
)


def a_month(faults: int = 60, seed: int = 1) -> tuple[list[Run], list[Outage]]:
    """The runs and the drains of a month; every third job is denied, all are named by a rogue."""
    random = Random(seed)
    runs, outages = [], []
    for job in range(1, faults + 1):
        start = NOW - random.uniform(1, 29) * DAY
        end, node = start + random.uniform(600, 40000), f"gpu{random.randrange(1, 12):02}"
        words = random.choice(_FAULTS).format(gpu=random.choice(("3b", "86", "af")))
        because, outcome = (f"{node}: {words}", "failover")
        if job % 3 == 0:
            because, outcome = "the program ended with exit code 3 & <b>more</b>", "deny"
        else:
            outages.append(Outage(node, end, end + 7200, "DRAIN", f"slurm-failover: {words}"))
        attempt = Attempt(1, node, start, end, outcome, because)
        comment = write_record("", Record(State.RESUMED, attempt=attempt, history=(attempt,)))
        runs.append(Run(str(job), "alice", EVIL, node, start, end, 8, comment))
        if outcome == "failover":
            again = end + random.choice((0.4, 1, 2, 3, 30, 4000))
            runs.append(Run(str(job), "alice", EVIL, "gpu20", again, again + 9000, 8, comment))
    return runs, outages


def a_page(faults: int = 60) -> str:
    """The report on that month."""
    runs, outages = a_month(faults)
    return make_report(Past(runs, tell(runs, (), outages)), Span("now-30days", EVIL), NOW)
