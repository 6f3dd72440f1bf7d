"""Slurm's GPU GRES of one node: which device file stands behind which index.

The index of a GRES is its place in the list that slurmd has made, not the number in the name of its
device file, nor NVML's order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_DEVICE_FILE = re.compile(r"(?:^|/)nvidia(\d+)$")
_NO_DEVICE = re.compile(r"(\S+) is not a valid character or block device")
_PAIR = re.compile(r"(\w+)=(\S+)")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_DETAIL = re.compile(r"([^\s:,()]+)(?::[^\s:,()]+)?:(\d+)(?:\(([^()]*)\))?")
_PARTS = re.compile(r"(?:[^,(]|\([^)]*\))+")
_COUNTED = re.compile(r"gpu(?::(?!\d+[KMGT]?(?:\(|$))[^\s:,()]+)?(?::(\d+))?(?:\([^)]*\))?")
_SPANS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_UNSET = ("", "(null)", "N/A")


@dataclass(frozen=True, slots=True)
class GresSlot:
    """What stands behind one GRES index: the minor number of its GPU, or a UUID. ``named`` says
    that slurmd names it to the hooks of a job that holds it, as it does where its file is a device.
    """

    minor: int | None = None
    unique_id: str | None = None
    named: bool = True


UNKNOWN_SLOT = GresSlot(named=False)
"""One that Slurm gives out and of which no more is known."""


def slots_from_slurmd(text: str) -> tuple[GresSlot, ...]:
    """The GPU GRES in what ``slurmd -G`` prints, in the order of their indexes.

    slurmd prints one line per record, in order; the ``Index=`` on it is the number in the file's
    name and not the GRES index (_log_gres_slurmd_conf in gres.c). A file that is no device it names
    before, and to no hook (seen on 26.05.5).
    """
    refused = frozenset(_NO_DEVICE.findall(text))
    slots: list[GresSlot] = []
    for line in text.splitlines():
        _, found, record = line.partition("Gres Name=gpu ")
        if found:
            slots += _slots(dict(_PAIR.findall(record)), refused)
    return tuple(slots)


def count_gpus(gres: str) -> int | None:
    """How many GPUs slurmctld counts on a node, from its ``gres``: ``gpu:a100:4(S:0-1),gpu:2``;
    None where a part of that can not be read.
    """
    gpus = [part for part in _PARTS.findall(gres) if re.match(r"gpu(?!\w)", part)]
    counts = [_COUNTED.fullmatch(part) for part in gpus]
    return sum(int(found[1] or 1) for found in counts if found) if all(counts) else None


def physical_gpus(slots: tuple[GresSlot, ...] | None) -> int | None:
    """How many GPUs stand behind the GRES: MIG instances of one GPU are one. None if unknown."""
    if slots is None or any(slot.minor is None for slot in slots):
        return None
    return len({slot.minor for slot in slots})


def names_all(slots: tuple[GresSlot, ...] | None) -> bool:
    """Whether slurmd surely names to its hooks every GPU that their job holds."""
    return slots is not None and all(slot.named for slot in slots)


def held_indexes(detail: str) -> frozenset[int] | None:
    """The GPU indexes in Slurm's text for one node, such as ``gpu:a100:2(IDX:0-1)``.

    Empty where the job holds no GPU; None where it holds some and Slurm does not say which, or
    holds shares of them.
    """
    indexes: set[int] = set()
    for prefixed, count, where in _DETAIL.findall(detail):
        name = prefixed.removeprefix("gres/")
        if name in ("shard", "mps"):
            return None
        if name != "gpu" or count == "0":
            continue
        label, _, spans = where.partition(":")
        numbers = list(_span(spans)) if label == "IDX" and _SPANS.fullmatch(spans) else []
        if len(numbers) != int(count):
            return None
        indexes.update(map(int, numbers))
    return frozenset(indexes)


def indexes_on_node(
    details: tuple[str, ...], names: tuple[str, ...], node: str
) -> frozenset[int] | None:
    """The GPU indexes that a job holds on ``node``, from ``gres_detail`` of its JSON.

    That list follows Slurm's table of nodes; ``names`` are the nodes in the same order, as in the
    JSON's ``job_resources`` (job_res->nodes is not sorted, cons_tres/job_test.c). None where they
    do not match.
    """
    if not details:
        return frozenset()
    if len(details) != len(names) or node not in names:
        return None
    return held_indexes(details[names.index(node)])


def expand(hostlist: str) -> list[str]:
    """The names in a Slurm hostlist such as ``/dev/nvidia[0-1,4],/dev/nvidia9``, in its order."""
    names: list[str] = []
    for part in re.split(r",(?![^\[]*\])", hostlist):
        brackets = _BRACKETS.search(part)
        if brackets is None or not _SPANS.fullmatch(brackets.group(1)):
            names.append(part)
            continue
        before, after = part[: brackets.start()], part[brackets.end() :]
        for number in _span(brackets.group(1)):
            names += expand(f"{before}{number}{after}")
    return names


def _span(text: str) -> Iterator[str]:
    for item in text.split(","):
        first, _, last = item.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield str(number).zfill(len(first))


def _slots(record: dict[str, str], refused: frozenset[str]) -> Iterator[GresSlot]:
    """The slots of one record: one per file, but one for all where they make up one device. The
    files ``refused`` are no devices.
    """
    unique_id = record.get("UniqueId", "")
    names = expand(record.get("Multi") or record.get("File", ""))
    named = refused.isdisjoint(names)
    minors = [int(m.group(1)) if (m := _DEVICE_FILE.search(name)) else None for name in names]
    if record.get("Multi") or (record.get("Count") == "1" and len(names) > 1):
        minors = [next((minor for minor in minors if minor is not None), None)]
    for minor in minors:
        yield GresSlot(minor, None if unique_id in _UNSET else unique_id, named)
