"""The part of watch.py that runs in the container: a watcher idle and flooded, as JSON."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

HOME = Path("/opt/slurm-failover")
HOOKS = next(HOME.glob("lib/python3*/site-packages/slurm_failover/hooks.py"))
PYTHON = [str(HOME / "bin/python3"), "-I", "-S"]
SETTINGS = Path("/etc/slurm-failover/settings.toml")
WATCH = Path("/run/slurm-failover/watch")
KMSG = "/tmp/kmsg"
RATE, SECONDS, FAULTS, TICKS = 100_000, 10, 50, 100
NOISE = "6,{n},{n},-;usb {n}-1: new high-speed USB device number {n} using xhci_hcd\n"
STORM = "3,{n},{n},-;NVRM: Xid (PCI:0000:3b:00): 31, pid={n}, name=python3, Ch 00000010\n"
FAULT = "3,{n},{n},-;NVRM: Xid (PCI:0000:{gpu:02x}:00): {xid}, pid=1, a fault of the hardware\n"
FOUND = "(PCI:0000:{gpu:02x}:00): {xid},"
F_SETPIPE_SZ = 1031

sys.path.insert(0, str(HOOKS.parent.parent))


def main(idle: int) -> None:
    prepare()
    os.mkfifo(KMSG)
    log = os.open(KMSG, os.O_RDWR)
    fcntl.fcntl(log, F_SETPIPE_SZ, 1 << 20)
    watcher = subprocess.Popen([*PYTHON, str(HOOKS), "watch"])
    try:
        wait_for_answer()
        figures = {"idle": measure_idle(watcher.pid, idle)}
        figures["ordinary noise"] = measure_flood(watcher.pid, log, NOISE, 79)
        figures["one Xid of a program"] = measure_flood(watcher.pid, log, STORM, 48)
    finally:
        watcher.terminate()
        watcher.wait(20)
    json.dump(figures, sys.stdout)


def prepare() -> None:
    """A node as a site has it: the log can be waited for, and the BMC is asked seldom."""
    text = SETTINGS.read_text().replace("bmc_interval = 2\n", "")
    lines = [f'kmsg = "{KMSG}"' if line.startswith("kmsg") else line for line in text.splitlines()]
    lines = [line.replace("/var/lib/slurm-failover-test/sys", "/sys") for line in lines]
    SETTINGS.write_text("\n".join([*lines, '[slurm]\nbin = "/nowhere"\n']))
    subprocess.run(["cluster-gpus", "reset"], check=True)


def ask() -> str:
    from slurm_failover.node.ask import ask_watcher

    return ask_watcher(str(WATCH))


def wait_for_answer() -> None:
    """Wait until the first looks are over."""
    deadline = time.monotonic() + 60
    while not ask() or busy_processes():
        if time.monotonic() > deadline:
            raise SystemExit("the watcher does not answer")
        time.sleep(0.1)


def busy_processes() -> list[str]:
    """The checks that run now."""
    lines = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists()]
    return [line.decode() for line in lines if line.endswith((b"healthcheck\0", b"faults\0"))]


def used(pid: int) -> float:
    """Seconds of processor time of the watcher, of its checks that have ended and its listener."""
    ticks = 0
    for process in processes(pid):
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))  # utime, stime, and those of children: proc(5)
    return ticks / os.sysconf("SC_CLK_TCK")


def processes(pid: int) -> list[Path]:
    """The watcher, and its listener to NVML."""
    listeners = [p for p in Path("/proc").glob("[0-9]*") if is_listener(p)]
    return [Path(f"/proc/{pid}"), *listeners]


def measure_idle(pid: int, seconds: int) -> dict[str, float]:
    """Nothing happens: what the watcher and all that it starts use of one core."""
    begun, before = time.monotonic(), used(pid)
    time.sleep(seconds)
    while busy_processes():
        time.sleep(0.1)
    taken = time.monotonic() - begun
    share = 100 * (used(pid) - before) / taken
    return {"seconds": taken, "share": share, "memory": resident(pid, "VmRSS")}


def resident(pid: int, field: str) -> float:
    """MiB of the watcher and of its listener to NVML."""
    return sum(status(process, field) for process in processes(pid)) / 1024


def is_listener(process: Path) -> bool:
    try:
        return b"nvml/events.py" in (process / "cmdline").read_bytes()
    except OSError:
        return False


def status(process: Path, field: str) -> int:
    lines = (process / "status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field)))


def measure_flood(pid: int, log: int, noise: str, xid: int) -> dict[str, float]:
    """Records at the full rate, with faults of many devices among them."""
    first = last_number()
    blocks = [block(noise, first + 1 + n * RATE // TICKS) for n in range(SECONDS * TICKS)]
    places = {(2 * n + 1) * len(blocks) // (2 * FAULTS): n for n in range(FAULTS)}
    answers, over, before = Answers(), threading.Event(), used(pid)
    asking = threading.Thread(target=answers.gather, args=(over,))
    asking.start()
    begun = time.monotonic()
    for number, lines in enumerate(blocks):
        write_all(log, lines)
        if number in places:
            here = {"n": first + (number + 1) * RATE // TICKS, "gpu": places[number], "xid": xid}
            write_all(log, FAULT.format(**here).encode())
        ahead = begun + (number + 1) / TICKS - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
    taken = time.monotonic() - begun
    over.set()
    asking.join()
    while last_number() < first + SECONDS * RATE:
        time.sleep(0.1)
    caught = (WATCH / "caught").read_text()
    found = sum(FOUND.format(gpu=gpu, xid=xid) in caught for gpu in range(FAULTS))
    return {
        "records": SECONDS * RATE,
        "rate": SECONDS * RATE / taken,
        "processor": (used(pid) - before) * 1e5 / (SECONDS * RATE),
        "faults": FAULTS,
        "lost": FAULTS - found,
        "memory": resident(pid, "VmHWM"),
        "answer": answers.longest,
    }


class Answers:
    """Asks all the while, as hooks do."""

    def __init__(self) -> None:
        self.longest = 0.0

    def gather(self, over: threading.Event) -> None:
        while not over.wait(0.2):
            begun = time.monotonic()
            ask()
            self.longest = max(self.longest, time.monotonic() - begun)


def last_number() -> int:
    """The number of the last record that the watcher has read."""
    ask()
    head = (WATCH / "caught").read_text().split("\n", 1)[0].split()
    return max(int(head[1]), 0)


def block(noise: str, first: int) -> bytes:
    """A hundredth of a second of it."""
    return "".join(noise.format(n=first + n) for n in range(RATE // TICKS)).encode()


def write_all(handle: int, raw: bytes) -> None:
    view = memoryview(raw)
    while view:
        view = view[os.write(handle, view) :]


main(int(sys.argv[1]))
