"""Rules as data: the files of ``rules/`` and a site's overlay folder become a Catalogue.

A file holds one table per rule, and may open with ``[defaults]`` for the rules below it. Rules
with codes are found by number (Xid, SXid), rules with a pattern by the text of a message, and rules
with neither by name (judgements on what NVML, sysfs or the BMC say). A file of the overlay adds a
rule, or changes keys of a shipped rule by repeating its name; ``class = "not_relevant"`` silences.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from slurm_failover.errors import RuleError
from slurm_failover.model import FaultClass, NodeAction, Role, Scope
from slurm_failover.nvlink5 import DecodeRow

NOT_RELEVANT = "not_relevant"
_TEXT_KEYS = ("kind", "meaning", "action", "source")
_DEFAULTS: dict[str, Any] = {
    "scope": "node",
    "node_action": "none",
    "role": "root",
    "origin": "any",
    "source": "",
    "action": "",
}
_OTHER_KEYS = ("class", "nonfatal", "code", "pattern", "unless", "anchor")
_KEYS = frozenset((*_TEXT_KEYS, *_OTHER_KEYS, *_DEFAULTS))
_ORIGINS = frozenset({"any", "kernel", "program"})
_Table = tuple[str, dict[str, Any]]
_Choice = TypeVar("_Choice", FaultClass, NodeAction, Role, Scope)


@dataclass(frozen=True, slots=True)
class Rule:
    """What one kind of message means. ``klass`` None says that it means nothing: no event."""

    name: str
    kind: str
    klass: FaultClass | None
    scope: Scope
    meaning: str
    action: str = ""
    source: str = ""
    node_action: NodeAction = NodeAction.NONE
    role: Role = Role.ROOT
    origin: str = "any"
    codes: tuple[int, ...] = ()
    pattern: re.Pattern[str] | None = None
    unless: re.Pattern[str] | None = None
    anchors: tuple[str, ...] = ()
    nonfatal: FaultClass | None = None


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All rules in force, in the order in which they are tried."""

    rules: Mapping[str, Rule]
    decode: tuple[DecodeRow, ...] = ()
    by_code: Mapping[tuple[str, int], tuple[Rule, ...]] = field(default_factory=dict)
    by_text: tuple[Rule, ...] = ()

    def rule(self, name: str) -> Rule:
        """The rule of that name. Raises RuleError where there is none."""
        try:
            return self.rules[name]
        except KeyError:
            raise RuleError(f"there is no rule {name!r}; the names stand in rules/*.toml") from None


def load_rules(overlay: Path | None = None) -> Catalogue:
    """The shipped rules with the overlay's laid over them.

    A missing overlay folder is an empty one. Raises RuleError, which names file, table and key.
    """
    tables: dict[str, _Table] = {}
    for where, text in _shipped():
        _lay(tables, where, text, shipped=True)
    shipped = set(tables)
    for path in _overlay_files(overlay):
        _lay(tables, path.name, _read(path), shipped=False)
    site_first = sorted(tables, key=shipped.__contains__)
    return _index({name: _rule(name, *tables[name]) for name in site_first}, _decode_rows())


def overlay_anchors(overlay: Path) -> tuple[bytes, ...]:
    """The anchors that the overlay's own rules declare."""
    found: list[bytes] = []
    for path in _overlay_files(overlay):
        for table in _parse(path.name, _read(path)).values():
            found += [a.encode() for a in _strings(path.name, "", "anchor", table.get("anchor"))]
    return tuple(dict.fromkeys(found))


def _shipped() -> Iterator[tuple[str, str]]:
    folder = resources.files("slurm_failover") / "rules"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    for name in names:
        if name != "nvlink5.toml":
            yield f"rules/{name}", (folder / name).read_text(encoding="utf-8")


def _overlay_files(overlay: Path | None) -> list[Path]:
    if overlay is None or not overlay.is_dir():
        return []
    return sorted(overlay.glob("*.toml"))


def _read(path: Path) -> str:
    if path.exists() and not path.is_file():  # a pipe would be waited for without an end
        raise RuleError(f"{path}: is no file; remove it, or name it otherwise")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RuleError(f"{path}: can not be read ({error}); mend or remove the file") from error


def _parse(where: str, text: str) -> dict[str, dict[str, Any]]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RuleError(f"{where}: not valid TOML: {error}") from error
    for name, table in document.items():
        if not isinstance(table, dict):
            raise RuleError(f"{where}: {name} stands outside a table; put it below [rule-name]")
    return document


def _lay(tables: dict[str, _Table], where: str, text: str, *, shipped: bool) -> None:
    document = _parse(where, text)
    defaults = _known_keys(where, "defaults", document.pop("defaults", {}))
    for name, table in document.items():
        _known_keys(where, name, table)
        known = name in tables
        if shipped and known:
            raise RuleError(f"{where}:{name}: defined before in {tables[name][0]}; rename one")
        if not shipped and not known and "pattern" in table and "anchor" not in table:
            raise RuleError(
                f"{where}:{name}:anchor: missing; give a text that every matching line contains"
            )
        below = tables[name][1] if known else defaults
        tables[name] = (where, {**below, **table})


def _known_keys(where: str, name: str, table: dict[str, Any]) -> dict[str, Any]:
    for key in table:
        if key not in _KEYS:
            raise RuleError(
                f"{where}:{name}:{key}: unknown key; known are {', '.join(sorted(_KEYS))}"
            )
    return table


def _rule(name: str, where: str, given: dict[str, Any]) -> Rule:
    table = {**_DEFAULTS, **given}
    for key in _TEXT_KEYS:
        if not isinstance(table.get(key), str) or (key in ("kind", "meaning") and not table[key]):
            raise RuleError(f"{where}:{name}:{key}: must be given, as a text")
    if table["origin"] not in _ORIGINS:
        raise RuleError(f"{where}:{name}:origin: must be one of {', '.join(sorted(_ORIGINS))}")
    klass = table.get("class")
    if klass is None:
        known = ", ".join((*FaultClass, NOT_RELEVANT))
        raise RuleError(f"{where}:{name}:class: must be given, as one of {known}")
    return Rule(
        name=name,
        kind=table["kind"],
        klass=None if klass == NOT_RELEVANT else _choice(FaultClass, where, name, "class", klass),
        scope=_choice(Scope, where, name, "scope", table["scope"]),
        meaning=_printable(table["meaning"]),
        action=_printable(table["action"]),
        source=table["source"],
        node_action=_choice(NodeAction, where, name, "node_action", table["node_action"]),
        role=_choice(Role, where, name, "role", table["role"]),
        origin=table["origin"],
        codes=_codes(where, name, table.get("code")),
        pattern=_regex(where, name, "pattern", table.get("pattern")),
        unless=_regex(where, name, "unless", table.get("unless")),
        anchors=_strings(where, name, "anchor", table.get("anchor")),
        nonfatal=_choice(FaultClass, where, name, "nonfatal", table["nonfatal"])
        if "nonfatal" in table
        else None,
    )


def _choice(kind: type[_Choice], where: str, name: str, key: str, value: object) -> _Choice:
    try:
        return kind(str(value))
    except ValueError:
        known = ", ".join(kind) + (f", {NOT_RELEVANT}" if key == "class" else "")
        raise RuleError(f"{where}:{name}:{key}: {value!r} is not one of {known}") from None


def _codes(where: str, name: str, value: object) -> tuple[int, ...]:
    codes = value if isinstance(value, list) else [] if value is None else [value]
    if not all(type(code) is int for code in codes):
        raise RuleError(f"{where}:{name}:code: must be a number or a list of numbers")
    return tuple(codes)


def _strings(where: str, name: str, key: str, value: object) -> tuple[str, ...]:
    texts = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(text, str) and len(text) > 2 for text in texts):
        raise RuleError(f"{where}:{name}:{key}: must be a text, or texts, of at least 3 characters")
    return tuple(texts)


def _regex(where: str, name: str, key: str, value: object) -> re.Pattern[str] | None:
    if value is None:
        return None
    try:
        if not isinstance(value, str):
            raise RuleError(f"{where}:{name}:{key}: must be a text")
        return re.compile(value)
    except re.error as error:
        raise RuleError(f"{where}:{name}:{key}: not a regular expression: {error}") from error


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text).strip()


def _decode_rows() -> tuple[DecodeRow, ...]:
    text = (resources.files("slurm_failover") / "rules" / "nvlink5.toml").read_text("utf-8")
    return tuple(
        DecodeRow(
            xid=row["xid"],
            units=tuple(row["units"]),
            layouts=(row["before_r575"], row["since_r575"]),
            klass=FaultClass(row["class"]),
            resolution=row["resolution"],
            subcode=row.get("subcode"),
            status=row.get("status"),
        )
        for row in tomllib.loads(text)["row"]
    )


def _index(rules: dict[str, Rule], decode: tuple[DecodeRow, ...]) -> Catalogue:
    by_code: dict[tuple[str, int], list[Rule]] = {}
    for rule in rules.values():
        for code in rule.codes:
            by_code.setdefault((rule.kind, code), []).append(rule)
    by_text = [rule for rule in rules.values() if rule.pattern is not None and not rule.codes]
    return Catalogue(
        rules=rules,
        decode=decode,
        by_code={key: tuple(sorted(found, key=_bare_last)) for key, found in by_code.items()},
        by_text=tuple(sorted(by_text, key=_silent_first)),
    )


def _bare_last(rule: Rule) -> bool:
    return rule.pattern is None


def _silent_first(rule: Rule) -> bool:
    return rule.klass is not None
