"""Turning the frozen values of this room into plain data and back, with errors that name the place."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def plain(value: Any) -> Any:
    """Return dataclasses as dicts, tuples as lists, mappings as dicts; None fields are left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {name: plain(item) for name, item in pairs if item is not None}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


def build(cls: type[T], data: Any, place: str) -> T:
    """Build a dataclass from plain data.

    Raises:
        ValueError: A field is missing, unknown or of another type; the message names the place.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"{place}: expected an object, found {_kind(data)}")
    fields = {f.name: f for f in dataclasses.fields(typing.cast(Any, cls))}
    for name in data:
        if name not in fields:
            raise ValueError(f"{place}.{shown(name)}: unknown field; remove it or mend its name")
    for name, field in fields.items():
        if name not in data and _needed(field):
            raise ValueError(f"{place}.{name}: missing")
    hints = typing.get_type_hints(cls)
    return cls(
        **{name: _value(hints[name], item, f"{place}.{name}") for name, item in data.items()}
    )


def shown(text: Any) -> str:
    """Return text from a file as it may stand in a message: short and on one line."""
    return repr(str(text)[:40])[1:-1]


def _needed(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _value(hint: Any, value: Any, place: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        return _value(next(a for a in arguments if a is not type(None)), value, place)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{place}: expected a list, found {_kind(value)}")
        return tuple(_value(arguments[0], v, f"{place}[{i}]") for i, v in enumerate(value))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise ValueError(f"{place}: expected an object, found {_kind(value)}")
        return {str(k): _value(arguments[1], v, f"{place}.{shown(k)}") for k, v in value.items()}
    if origin is typing.Literal:
        if value not in arguments:
            raise ValueError(f"{place}: {shown(value)} is none of {', '.join(arguments)}")
        return value
    if dataclasses.is_dataclass(hint):
        return build(typing.cast(type[Any], hint), value, place)
    return _scalar(hint, value, place)


def _scalar(hint: type, value: Any, place: str) -> Any:
    if hint is float and type(value) in (int, float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise ValueError(f"{place}: must be finite")
        return number
    if type(value) is not hint:
        names = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
        raise ValueError(f"{place}: expected {names[hint]}, found {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return names.get(
        type(value), "a number" if isinstance(value, int | float) else "something else"
    )
