"""The site's settings: one dataclass per table, a default and a sentence for every key.

The same classes give the defaults, the checks and the reference page. A settings file that can not
be understood is an error that names file, key and line; nothing is guessed.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from slurm_failover.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT_PATH = "/etc/slurm-failover/settings.toml"
_T = TypeVar("_T")


def _setting(
    default: _T,
    doc: str,
    *,
    choices: tuple[str, ...] = (),
    at_least: float | None = None,
    at_most: float | None = None,
    patterns: bool = False,
) -> _T:
    metadata = {
        "doc": doc,
        "choices": choices,
        "at_least": at_least,
        "at_most": at_most,
        "patterns": patterns,
    }
    result: _T = field(default=default, metadata=metadata)
    return result


@dataclass(frozen=True, slots=True)
class FailoverSettings:
    """When a job is moved, and how far it may go."""

    mode: str = _setting(
        "act",
        "`act`, or `observe`: look and judge, change nothing, and log what would have been done.",
        choices=("act", "observe"),
    )
    max_retries: int = _setting(
        3,
        "How many failovers one job gets. A user may ask for fewer (`failover=N`), never for more.",
        at_least=1,
        at_most=1000,
    )
    wait_for_nodes: int = _setting(
        300,
        "Seconds to wait for the Epilogs of an ended job's nodes before the decision is made with "
        "what is known.",
        at_least=1,
        at_most=3600,
    )
    grace: int = _setting(
        30,
        "Seconds after a job's end in which a fault on its nodes still belongs to it.",
        at_least=0,
        at_most=3600,
    )
    trusted_reasons: tuple[str, ...] = _setting(
        (),
        "Drain reasons of other tools that count as a hardware fault: regular expressions, matched "
        "from the beginning of the Reason.",
        patterns=True,
    )
    spot_partitions: tuple[str, ...] = _setting(
        ("spot*", "preempt*"),
        "Partitions whose jobs may be taken away at any time: failover is refused there. Shell "
        "globs.",
    )
    spot_qos: tuple[str, ...] = _setting(
        ("spot*", "preempt*"), "QOS in which failover is refused. Shell globs."
    )


@dataclass(frozen=True, slots=True)
class PrioritySettings:
    """How a failed-over job gets ahead of the jobs that wait."""

    method: str = _setting(
        "top",
        "`top`: above every waiting job of the partition; `nice`: `nice` is subtracted from the "
        "job's niceness; `qos`: the job moves to the QOS named in `qos`; `none`: as it was.",
        choices=("top", "nice", "qos", "none"),
    )
    nice: int = _setting(
        100000,
        "By how much method `nice` raises the priority.",
        at_least=1,
        at_most=2147483645,
    )
    qos: str = _setting("", "The QOS of method `qos`.")


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Where a node's evidence is read."""

    kmsg: str = _setting("/dev/kmsg", "The kernel's log, in the record format of /dev/kmsg.")
    rules: str = _setting(
        "/etc/slurm-failover/rules.d", "Folder of the site's own rule files; it may be absent."
    )
    first_look: int = _setting(
        900,
        "Seconds of kernel log that count when a node is looked at for the first time. Older "
        "records were there before slurm-failover and drain nothing.",
        at_least=0,
        at_most=86400,
    )


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """How Slurm is asked."""

    bin: str = _setting("/usr/bin", "Folder of scontrol, squeue and sacct.")
    timeout: int = _setting(
        10, "Seconds that one request may take before it is tried again.", at_least=1, at_most=300
    )
    patience: int = _setting(
        30, "Seconds that one request is tried in all.", at_least=1, at_most=3600
    )


@dataclass(frozen=True, slots=True)
class StateSettings:
    """Where we keep what Slurm does not: a node's ledger, the controller's wake-up notes."""

    directory: str = _setting(
        "/var/lib/slurm-failover",
        "Holds `node/` (root's) on nodes and `controller/` (SlurmUser's) on controllers.",
    )
    log: str = _setting("", "File that hooks append their log to. Empty: syslog, facility daemon.")


@dataclass(frozen=True, slots=True)
class Settings:
    """All tables of settings.toml."""

    failover: FailoverSettings = field(default_factory=FailoverSettings)
    priority: PrioritySettings = field(default_factory=PrioritySettings)
    sources: SourceSettings = field(default_factory=SourceSettings)
    slurm: SlurmSettings = field(default_factory=SlurmSettings)
    state: StateSettings = field(default_factory=StateSettings)


def load_settings(path: str = DEFAULT_PATH) -> Settings:
    """The settings in the file at ``path``; the defaults where there is no such file.

    Raises SettingsError with file, key and line if the file can not be read or understood.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a healthy hook does not pay for pathlib
            raw = file.read()
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        raise SettingsError(f"{path}: can not be read: {error.strerror}") from error
    return parse_settings(raw, path)


def parse_settings(raw: bytes, path: str) -> Settings:
    """The settings in a file's bytes; ``path`` names it in errors. Raises SettingsError."""
    import tomllib

    try:
        text = raw.decode()
        tables = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise SettingsError(f"{path}: line {line}: not UTF-8 text; save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    return Settings(**{f.name: _table(f, tables, text, path) for f in _known(tables, text, path)})


def _known(tables: dict[str, Any], text: str, path: str) -> Iterable[Field[Any]]:
    known = {f.name: f for f in fields(Settings)}
    for name in tables:
        if name not in known:
            raise SettingsError(
                f"{path}: line {_line(text, name, '')}: unknown table [{name}]; "
                f"known are {', '.join(known)}"
            )
    return known.values()


def _table(table: Field[Any], tables: dict[str, Any], text: str, path: str) -> Any:
    kind = table.default_factory
    assert callable(kind)  # noqa: S101 - every field of Settings has a factory
    given = tables.get(table.name, {})
    where = f"{path}: line {_line(text, table.name, '')}: [{table.name}]"
    if not isinstance(given, dict):
        raise SettingsError(f"{where} must be a table")
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    values = {}
    for key, value in given.items():
        where = f"{path}: line {_line(text, key, table.name)}: [{table.name}] {key}"
        if key not in known:
            raise SettingsError(f"{where}: unknown key; known are {', '.join(known)}")
        values[key] = _check(known[key], value, where)
    return kind(**values)


def _check(key: Field[Any], value: Any, where: str) -> Any:
    wanted = type(key.default)
    if wanted is tuple:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise SettingsError(f"{where}: must be a list of strings, not {value!r}")
        if key.metadata["patterns"]:
            _check_patterns(value, where)
        return tuple(value)
    if type(value) is not wanted:
        name = {int: "a whole number", str: "a string", bool: "true or false"}[wanted]
        raise SettingsError(f"{where}: must be {name}, not {value!r}")
    choices, low, high = (key.metadata[name] for name in ("choices", "at_least", "at_most"))
    if choices and value not in choices:
        raise SettingsError(f"{where}: must be one of {', '.join(choices)}, not {value!r}")
    if low is not None and not low <= value <= high:
        raise SettingsError(f"{where}: must be between {low} and {high}, not {value!r}")
    return value


def _check_patterns(patterns: list[str], where: str) -> None:
    import re

    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise SettingsError(
                f"{where}: {pattern!r} is not a regular expression: {error}"
            ) from error


def _line(text: str, key: str, table: str) -> int:
    """The line in which a key of a table, or a table itself, is set; 1 where it is not found."""
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare.startswith("["):
            current = bare.strip("[]# \t").split("]")[0].strip()
            if not table and current == key:
                return number
        name = bare.split("=")[0].strip().strip("\"'")
        if "=" in bare and name in (key, f"{table}.{key}") and current in (table, ""):
            return number
    return 1
