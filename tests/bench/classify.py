"""Times classify on a synthetic kernel log against ``grep -cE`` with the same texts, in one run.

``python tests/bench/classify.py [--bytes N]``: writes a log of a gigabyte, of which one line in
10,000 is a fault, and prints seconds and the peak memory of both. Ends with status 1 when classify
took more than twice grep's time, or more than 100 MiB.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from slurm_failover.anchors import read_anchors

ORDINARY = (
    "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
    "perf: interrupt took too long (2509 > 2500), lowering kernel.perf_event_max_sample_rate",
    "docker0: port 1(veth1a2b3c4) entered blocking state",
    'audit: type=1400 audit(1700000000.123:456): apparmor="STATUS" operation="profile_load"',
    "systemd[1]: Started Session 4242 of User someone with a name of ordinary length.",
    "cgroup: fork rejected by pids controller in /system.slice/slurmstepd.scope/job_4242",
)
FAULTS = (
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:5e:00): 13, pid=4242, name=python3, Graphics SM Warp Exception",
    "pcieport 0000:00:02.0: AER: Corrected error received: id=0010",
    "mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 17: dc2040000000011b",
)
EVERY = 10_000
RUN = "from slurm_failover.cli import main; main()"
TIMES, MOST_MEMORY = 2.0, 100 << 20


def write_log(path: Path, size: int) -> None:
    """A log of at least ``size`` bytes; the faults stand at every 10,000th line."""
    number = 0
    with path.open("w", encoding="ascii", buffering=1 << 20) as file:
        while file.tell() < size:
            block = []
            for _ in range(EVERY):
                number += 1
                texts = FAULTS if number % EVERY == 0 else ORDINARY
                text = texts[number // EVERY % len(texts)] if texts is FAULTS else texts[number % 6]
                block.append(f"[{number / 100:12.6f}] {text}\n")
            file.write("".join(block))


def timed(command: list[str]) -> tuple[float, int]:
    """Seconds of a command and the peak resident bytes of it and its children."""
    environment = {**os.environ, "LC_ALL": "C"}
    start = time.monotonic()
    # Not /dev/null: grep stops at its first match when nobody can see the others.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        sys.exit(f"{command[0]} failed")
    return time.monotonic() - start, usage.ru_maxrss * 1024


def main() -> None:
    """Write, time, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=10**9)
    size = parser.parse_args().bytes
    anchors = read_anchors(programs=True)
    alternation = "|".join(re.sub(r"[][(){}.*+?^$|\\]", r"\\\g<0>", a.decode()) for a in anchors)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "kern.log"
        write_log(log, size)
        timed(["cat", str(log)])
        grep, _ = timed(["grep", "-cE", alternation, str(log)])
        ours, memory = timed([sys.executable, "-c", RUN, "classify", str(log)])
    print(
        f"{size} bytes: grep {grep:.2f} s, classify {ours:.2f} s ({ours / grep:.2f} times), ",
        end="",
    )
    print(f"{memory / (1 << 20):.0f} MiB")
    sys.exit(ours > TIMES * grep or memory > MOST_MEMORY)


if __name__ == "__main__":
    main()
