"""The one funnel between core values and plain types.

Between processes (xdist), into JSON and onto pytest's reports travel exact builtin types only: execnet
refuses a ``numpy.float64`` or an enum by ending the whole session. Every value of ours goes through
`to_plain` on its way out and through `from_plain` on its way in.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from pathlib import PurePath
from typing import Any, TypeVar

T = TypeVar("T")


class WireError(ValueError):
    """Plain data does not have the shape of the value that was expected."""


def to_plain(value: Any) -> Any:
    """Return `value` as exact builtin types: dict, list, str, int, float, bool, None.

    Dataclasses become dicts of their fields, enums their values, tuples and other sequences lists, paths
    strings, and numpy scalars and arrays (anything with ``tolist``) the builtin numbers inside them.

    Raises:
        WireError: The value holds something that has no plain form.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, enum.Enum):
        return to_plain(value.value)
    if kind is tuple or kind is list:  # the common sequences, long ones of numbers above all
        return [item if type(item) in _PLAIN else to_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            name: to_plain(getattr(value, name)) for name in _names(typing.cast(Hashable, kind))
        }
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, bool | int | float | str):  # subclasses: execnet takes exact types only
        base = next(b for b in (bool, int, float, str) if isinstance(value, b))
        return base(value)
    if hasattr(value, "tolist"):
        return to_plain(value.tolist())
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes):
        items = sorted(value) if isinstance(value, set | frozenset) else value
        return [to_plain(item) for item in items]
    raise WireError(f"{type(value).__name__} value has no plain form")


def from_plain(cls: type[T], data: Any, *, where: str = "", unknown: str = "refuse") -> T:
    """Build a dataclass (nested ones included) from plain data.

    Args:
        cls: A dataclass of ours.
        data: What `to_plain` made of one, possibly read back from JSON.
        where: Where the data came from, for the message.

    Raises:
        WireError: A field is missing, unknown or of another type; the message names it.
    """
    place = where or cls.__name__
    if not isinstance(data, Mapping):
        raise WireError(f"{place}: expected an object, found {type(data).__name__}")
    fields, required, hints = _shape(typing.cast(Hashable, cls))
    if unknown == "ignore":
        data = {k: v for k, v in data.items() if k in fields}
    others = [key for key in data if key not in fields]
    if others:
        raise WireError(f"{place}: unknown field {others[0]!r}")
    missing = [name for name in required if name not in data]
    if missing:
        raise WireError(f"{place}: field {missing[0]!r} is missing")
    arguments = {key: _convert(hints[key], item, f"{place}.{key}") for key, item in data.items()}
    try:
        return cls(**arguments)
    except (ValueError, TypeError) as error:
        raise WireError(f"{place}: {error}") from error


_PLAIN = frozenset((bool, int, float, str, type(None)))


@lru_cache(maxsize=64)
def _names(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


@lru_cache(maxsize=64)
def _shape(cls: Any) -> tuple[frozenset[str], tuple[str, ...], dict[str, Any]]:
    fields = dataclasses.fields(cls)
    required = tuple(
        field.name
        for field in fields
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )
    return frozenset(f.name for f in fields), required, typing.get_type_hints(cls)


def _convert(hint: Any, value: Any, place: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _convert_union(arguments, value, place)
    if origin is typing.Literal:
        if value not in arguments:
            raise WireError(f"{place}: {value!r} is none of {', '.join(map(repr, arguments))}")
        return value
    if origin is tuple:
        return _convert_tuple(arguments, value, place)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise WireError(f"{place}: expected an object, found {type(value).__name__}")
        return {str(k): _convert(arguments[1], v, f"{place}.{k}") for k, v in value.items()}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        try:
            return hint(value)
        except ValueError as error:
            raise WireError(f"{place}: {error}") from error
    if dataclasses.is_dataclass(hint):
        return from_plain(typing.cast("type[Any]", hint), value, where=place)
    return _convert_scalar(hint, value, place)


def _convert_union(arguments: tuple[Any, ...], value: Any, place: str) -> Any:
    if value is None and type(None) in arguments:
        return None
    first: WireError | None = None
    for argument in arguments:
        if argument is type(None):
            continue
        try:
            return _convert(argument, value, place)
        except WireError as error:
            first = first or error
    raise first or WireError(f"{place}: unexpected {value!r}")


def _convert_tuple(arguments: tuple[Any, ...], value: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise WireError(f"{place}: expected a list, found {type(value).__name__}")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        if arguments[0] is float and all(type(item) is float for item in value):
            return tuple(value)  # the common long case, without a call per number
        return tuple(_convert(arguments[0], v, f"{place}[{i}]") for i, v in enumerate(value))
    if len(arguments) != len(value):
        raise WireError(f"{place}: expected {len(arguments)} items, found {len(value)}")
    return tuple(_convert(a, v, place) for a, v in zip(arguments, value, strict=True))


def _convert_scalar(hint: Any, value: Any, place: str) -> Any:
    if hint is float and type(value) in (int, float):
        return float(value)
    if hint is float and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if isinstance(hint, type) and type(value) is hint:
        return value
    expected = getattr(hint, "__name__", str(hint))
    raise WireError(f"{place}: expected {expected}, found {type(value).__name__}")
