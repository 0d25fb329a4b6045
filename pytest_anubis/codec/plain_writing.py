"""Turn values into plain data, for files and for sending. `codec` uses it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import PurePath
from typing import Any

from pytest_anubis.codec.codec_error import CodecError, shown, spelled
from pytest_anubis.codec.declared_fields import declared_fields

_SIMPLE = frozenset((bool, int, str, type(None)))


def to_plain(value: Any, *, full: bool = False) -> Any:
    """Return `value` as exact builtin types: dict, list, str, int, float, bool, None.

    Dataclasses become dicts of their fields, enums their values, tuples and other sequences lists, paths
    strings, and numpy scalars and arrays (anything with ``tolist``) the builtin numbers inside them. NaN
    and the infinities become ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.

    Args:
        value: The value to be written or sent.
        full: Also write fields that are marked to be left out while they have their default.

    Raises:
        CodecError: The value contains itself or something without a plain form, or has NaN or an infinity in
            a field that is not declared for such.
    """
    try:
        return _plain(value, full, False)
    except RecursionError:
        raise CodecError("nested too deeply") from None


def _plain(value: Any, full: bool, finite: bool) -> Any:
    kind = type(value)
    if kind in _SIMPLE:
        return value
    if kind is float:
        return value if isfinite(value) else _spelled(value, finite)
    if kind is tuple or kind is list:
        return _items(value, full, finite)
    if dataclasses.is_dataclass(kind):
        return _object(value, kind, full)
    if isinstance(value, Mapping):
        return _pairs(value, full, finite)
    if isinstance(value, enum.Enum):
        return _plain(value.value, full, finite)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, bool | int | float | str):  # subclasses: execnet takes exact types only
        base = next(b for b in (bool, int, float, str) if isinstance(value, b))
        return _plain(base(value), full, finite)
    if hasattr(value, "tolist"):
        return _plain(value.tolist(), full, finite)
    if isinstance(value, set | frozenset):
        return _items(sorted(value), full, finite)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return _items(value, full, finite)
    raise CodecError(f"{kind.__name__} value has no plain form")


def _spelled(value: float, finite: bool) -> str:
    if finite:
        raise CodecError(f"expected a finite number, found {spelled(value)}")
    return spelled(value)


def _items(value: Sequence[Any], full: bool, finite: bool) -> list[Any]:
    kinds = set(map(type, value))
    # The common long sequences, without a call per item. A sum is finite only if every number is.
    if kinds <= _SIMPLE or (kinds == {float} and isfinite(sum(value))):
        return list(value)
    made: list[Any] = []
    try:
        for item in value:
            made.append(_plain(item, full, finite))  # its length is the place of an error
    except CodecError as error:
        raise error.inside(f"[{len(made)}]") from None
    return made


def _pairs(value: Mapping[Any, Any], full: bool, finite: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, item in value.items():
        try:
            made[str(key)] = item if type(item) in _SIMPLE else _plain(item, full, finite)
        except CodecError as error:
            raise error.inside(f".{shown(key)}") from None
    return made


def _object(value: Any, cls: type, full: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for attribute, stored, default, left_out, rare, finite, flat in declared_fields(cls):
        item = getattr(value, attribute)
        if left_out and (rare or not full) and item == default:
            continue
        try:
            plain = item if type(item) in _SIMPLE else _plain(item, full, finite)
        except CodecError as error:
            raise error.inside(f".{stored}") from None
        if flat is None:
            made[stored] = plain
        else:
            made.update((flat.get(name, name), part) for name, part in plain.items())
    return made
