"""Frozen dataclasses whose methods are ready made, and not compiled for each class.

Whatever asks for the fields of such a class by the standard module gets them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_MISSING: Any = object()


class Field:
    """What is declared of one field; ``default_factory`` is None where there is none."""

    __slots__ = ("default", "default_factory", "metadata", "name", "type")

    def __init__(
        self,
        default: Any,
        default_factory: Callable[[], Any] | None,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        self.name = self.type = ""
        self.default, self.default_factory = default, default_factory
        self.metadata = metadata or {}

    def make_default(self, owner: str) -> Any:
        """The value where none is given. Raises TypeError where one must be."""
        if self.default_factory is not None:
            return self.default_factory()
        if self.default is _MISSING:
            raise TypeError(f"{owner}() misses the argument {self.name!r}")
        return self.default


def field(
    *,
    default: Any = _MISSING,
    default_factory: Callable[[], Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Any:
    """As in the standard module."""
    return Field(default, default_factory, metadata)


def fields(thing: Any) -> tuple[Field, ...]:
    """The fields of a class that was made here, or of an instance."""
    return tuple(thing.__frozen_fields__.values())


def replace(thing: Any, /, **changes: Any) -> Any:
    """A copy of an instance of such a class with some fields changed."""
    return type(thing)(**{**thing.__dict__, **changes})


def dataclass(*, frozen: bool, slots: bool) -> Callable[[Any], Any]:
    """As in the standard module; only frozen classes are made, and slots save no memory here."""
    assert frozen and slots  # noqa: S101 - nothing else is made here
    return _make


def _make(cls: Any) -> Any:
    cls.__frozen_fields__ = {name: _read_field(cls, name) for name in cls.__annotations__}
    setattr(cls, "__match_args__", tuple(cls.__frozen_fields__))  # noqa: B010 - mypy forbids it bare
    cls.__dataclass_fields__ = _StandardFields()
    for method in (__init__, __setattr__, __delattr__, __repr__, __eq__, __hash__):
        setattr(cls, method.__name__, method)
    return cls


def _read_field(cls: Any, name: str) -> Field:
    value = cls.__dict__.get(name, _MISSING)
    found = value if isinstance(value, Field) else Field(value, None, None)
    found.name, found.type = name, cls.__annotations__[name]
    if found.default is not _MISSING:
        setattr(cls, name, found.default)
    elif value is not _MISSING:
        delattr(cls, name)
    return found


class _StandardFields:
    """The fields as the standard module has them, made when it asks."""

    def __get__(self, _: object, cls: type) -> Any:
        import dataclasses

        made = [(one.name, one.type, _standard(one)) for one in fields(cls)]
        return dataclasses.make_dataclass(cls.__name__, made).__dataclass_fields__  # type: ignore[attr-defined]


def _standard(one: Field) -> Any:
    import dataclasses

    if one.default_factory is not None:
        return dataclasses.field(default_factory=one.default_factory, metadata=one.metadata)
    if one.default is _MISSING:
        return dataclasses.field(metadata=one.metadata)
    return dataclasses.field(default=one.default, metadata=one.metadata)


# --- the methods of every class that is made here -------------------------------------------------


def __init__(self: Any, *positional: Any, **named: Any) -> None:
    known = self.__frozen_fields__
    name = type(self).__name__
    if len(positional) > len(known):
        raise TypeError(f"{name}() takes {len(known)} arguments at most")
    given = dict(zip(known, positional))  # noqa: B905 - the rest is named, or has defaults
    for key, value in named.items():
        if key not in known or key in given:
            raise TypeError(f"{name}() can not take the argument {key!r}")
        given[key] = value
    for key, one in known.items():
        self.__dict__[key] = given[key] if key in given else one.make_default(name)


def __setattr__(_: Any, name: str, __: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def __delattr__(_: Any, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def __repr__(self: Any) -> str:
    shown = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
    return f"{type(self).__qualname__}({shown})"


def __eq__(self: Any, other: Any) -> Any:
    return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented


def __hash__(self: Any) -> int:
    return hash(tuple(self.__dict__.values()))
