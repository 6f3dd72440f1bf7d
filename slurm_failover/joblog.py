"""The lines that we add to a job's own log, and the attempts that they part it into. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from slurm_failover.record import Attempt, Record, one_line

_MARK = re.compile(rb"=== slurm-failover: attempt (\d{1,6}) of job \S+ started ")


def current_attempt(record: Record, start: float) -> int:
    """The number of the attempt that started at ``start``, also where it is not recorded yet."""
    return record.attempt.number + (record.attempt.start != start)


def separator(label: str, number: int, time: str, nodes: str, record: Record) -> str:
    """The line before the output of an attempt: number, time, nodes, and why there is another."""
    before = [old for old in record.history if old.number == number - 1]
    cause = before[-1].because if before else "it was requeued"
    return _line(
        f"attempt {number} of job {label} started {time} on {nodes}; "
        f"attempt {number - 1} ended: {cause}"
    )


def heading(label: str, attempt: Attempt, time: str) -> str:
    """The line before the first attempt, which ``logs`` shows and no file holds."""
    return _line(f"attempt {attempt.number} of job {label} started {time} on {attempt.nodes}")


def denial(label: str, record: Record, time: str, remains: str) -> str:
    """The line after an attempt that no other follows. ``remains``: held, or cancelled."""
    return _line(
        f"attempt {record.attempt.number} of job {label} ended {time}: "
        f"{record.state.value}: {record.because}; the job is {remains}"
    )


def is_closed(log: bytes, label: str, number: int) -> bool:
    """Whether (the end of) a log tells that no other attempt follows this one."""
    told = f"=== slurm-failover: attempt {number} of job {label} ended ".encode()
    return any(line.startswith(told) for line in latest_part(log))


_FIELD = re.compile(r"%(\d{0,3})([jJAaux])")
_NAMES = {
    "j": ("SLURM_JOB_ID",),
    "J": ("SLURM_JOB_ID",),
    "A": ("SLURM_ARRAY_JOB_ID", "SLURM_JOB_ID"),
    "a": ("SLURM_ARRAY_TASK_ID",),
    "u": ("SLURM_JOB_USER",),
    "x": ("SLURM_JOB_NAME",),
}
"""The variables of an Epilog that tell what a field of a path stands for."""


def resolve(stdout: str, node: str) -> str:
    """The path of a job's output, where Slurm leaves what differs between nodes unresolved."""
    host = node.partition(".")[0]
    return stdout.replace("%N", host).replace("%n", "0").replace("%t", "0")


def output_of(path: str, environment: Mapping[str, str]) -> str:
    """The path of a job's output as its Epilog's environment has it, where Slurm leaves even what
    differs between jobs unresolved (seen on 24.11.5 and 26.05.5). Source: sbatch's manual,
    "filename pattern".
    """
    found = _FIELD.sub(lambda field: _value(field, environment), path)
    return (
        found if found.startswith("/") else f"{environment.get('SLURM_JOB_WORK_DIR', '')}/{found}"
    )


def _value(field: re.Match[str], environment: Mapping[str, str]) -> str:
    """What stands for a field; one of which the environment says nothing stays as it is."""
    names = _NAMES[field[2]]
    value = next((environment[name] for name in names if name in environment), None)
    return field[0] if value is None else value.zfill(min(int(field[1] or 0), 10))


def default_output(environment: Mapping[str, str]) -> str:
    """Where sbatch lets a job write that names no file, by the environment of the job's Epilog,
    which tells of no output then (seen on 24.11.5). Source: sbatch's manual, --output.
    """
    array, task = (environment.get(f"SLURM_ARRAY_{name}_ID") for name in ("JOB", "TASK"))
    name = f"{array}_{task}" if array and task else environment["SLURM_JOB_ID"]
    return f"{environment.get('SLURM_JOB_WORK_DIR', '')}/slurm-{name}.out"


def marked(line: bytes) -> int | None:
    """The number of the attempt that a line of a log begins, None if it begins none."""
    found = _MARK.match(line)
    return int(found.group(1)) if found else None


def first_attempt(lines: Iterable[bytes], latest: int) -> int:
    """The number of the attempt that a log begins with: the one before its first mark, or the
    ``latest`` in a log without any, since one that truncates the log takes the marks with it.
    """
    return next((begun - 1 for line in lines if (begun := marked(line)) is not None), latest)


def part(lines: Iterable[bytes], first: int) -> Iterator[tuple[int, bytes]]:
    """Each line with the number of its attempt; the log begins with attempt ``first``."""
    number = first
    for line in lines:
        begun = marked(line)
        number = number if begun is None else begun
        yield number, line


def latest_part(log: bytes) -> list[bytes]:
    """The lines of the latest attempt in (the end of) a log."""
    lines = log.split(b"\n")
    begins = [number for number, line in enumerate(lines) if marked(line) is not None]
    return lines[begins[-1] + 1 :] if begins else lines


def _line(text: str) -> str:
    return f"=== slurm-failover: {one_line(text, 600)} ==="
