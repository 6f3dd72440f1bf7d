"""Read the site's settings file.

A file that can not be understood is an error that names file, key and line; nothing is guessed.
"""

from __future__ import annotations

from slurm_failover.errors import SettingsError
from slurm_failover.frozen import fields
from slurm_failover.settings.tables import DEFAULT_PATH, Settings

LARGEST = 1 << 20
"""Bytes of a settings file; every hook reads it."""
_LONGEST = 200
"""Characters of a wrong value that are shown."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from slurm_failover.frozen import Field


def load_settings(path: str = DEFAULT_PATH) -> Settings:
    """The settings in the file at ``path``; the defaults where there is no such file.

    Raises SettingsError with file, key and line if the file can not be read or understood.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a healthy hook does not pay for pathlib
            raw = file.read(LARGEST + 1)
    except FileNotFoundError:
        return Settings()
    except OSError as error:
        raise SettingsError(f"{path}: can not be read: {error.strerror}") from error
    if len(raw) > LARGEST:
        raise SettingsError(f"{path}: larger than {LARGEST} bytes: no settings file of ours")
    return parse_settings(raw, path)


def parse_settings(raw: bytes, path: str) -> Settings:
    """The settings in a file's bytes; ``path`` names it in errors. Raises SettingsError."""
    import tomllib

    if raw.startswith(_BYTE_ORDER_MARK):
        raise SettingsError(f"{path}: line 1: a byte order mark; save it as UTF-8 without one")
    try:
        text = raw.decode()
        tables = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise SettingsError(f"{path}: line {line}: not UTF-8 text; save it as UTF-8") from error
    except (ValueError, RecursionError) as error:  # a number of 5000 digits is a bare ValueError
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    return Settings(**{f.name: _table(f, tables, text, path) for f in _known(tables, text, path)})


def _known(tables: dict[str, Any], text: str, path: str) -> Iterable[Field[Any]]:
    known = {f.name: f for f in fields(Settings)}
    for name in tables:
        if name not in known:
            raise SettingsError(
                f"{path}: line {_line(text, name, '')}: unknown table [{_show_key(name)}]; "
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
        line = _line(text, key, table.name)
        where = f"{path}: line {line}: [{table.name}] {_show_key(key)}"
        if key not in known:
            raise SettingsError(f"{where}: unknown key; known are {', '.join(known)}")
        values[key] = _check(known[key], value, where)
    return kind(**values)


def _check(key: Field[Any], value: Any, where: str) -> Any:
    wanted = type(key.default)
    if wanted is tuple:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise SettingsError(f"{where}: must be a list of strings, not {_show(value)}")
        if key.metadata["patterns"]:
            _check_patterns(value, where)
        return tuple(value)
    if type(value) is not wanted:
        name = {int: "a whole number", str: "a string", bool: "true or false"}[wanted]
        raise SettingsError(f"{where}: must be {name}, not {_show(value)}")
    choices, low, high = (key.metadata[name] for name in ("choices", "at_least", "at_most"))
    if choices and value not in choices:
        raise SettingsError(f"{where}: must be one of {', '.join(choices)}, not {_show(value)}")
    if low is not None and not low <= value <= high:
        raise SettingsError(f"{where}: must be between {low} and {high}, not {_show(value)}")
    return value


def _show(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of 5000 digits, and reads one in hexadecimal
        return "so large a number"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _show_key(key: str) -> str:
    """A key as it stands, or quoted and escaped where a terminal would obey a character of it."""
    return key if key.isprintable() and len(key) <= _LONGEST else _show(key)


def _check_patterns(patterns: list[str], where: str) -> None:
    import re

    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, RecursionError) as error:
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
