"""Build values from plain data: each type hint is turned, once, into a function that checks and builds.

`codec` and `sealed_evidence` use it.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import repeat
from math import nan
from pathlib import PurePath
from typing import Any, Literal, TypeVar

from pytest_anubis.codec.codec_error import INT_LIMIT, NOT_FINITE, CodecError, found, shown
from pytest_anubis.codec.declared_fields import declared_fields, hints_of, marks_of
from pytest_anubis.core.field_types import Range

T = TypeVar("T")
Reader = Callable[[Any], Any]


def from_plain(
    cls: type[T], data: Any, *, where: str = "", unknown: Literal["refuse", "ignore"] = "refuse"
) -> T:
    """Build a dataclass (nested ones included), or any other type with a plain form, from plain data.

    Args:
        cls: A dataclass of ours, or a type such as ``tuple[Certificate, ...]``.
        data: The result of `to_plain`, possibly read back from JSON.
        where: Place of the data, with which the path in an error begins.
        unknown: Whether fields that the dataclass does not have are an error.

    Raises:
        CodecError: A field is missing, unknown, of another type or out of range; the message names it.
    """
    try:
        built: T = _reader(typing.cast(Any, cls), unknown == "refuse")(data)
    except CodecError as error:
        raise error.inside(where) from error.__cause__
    except RecursionError:
        raise CodecError("nested too deeply", where) from None
    return built


@cache
def _reader(hint: Any, refuse: bool) -> Reader:
    return _make_reader(hint, refuse, ())


def _make_reader(hint: Any, refuse: bool, marks: tuple[Any, ...]) -> Reader:
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin is typing.Annotated:
        return _make_reader(hint.__origin__, refuse, (*marks, *hint.__metadata__))
    if hint is Any:
        return lambda data: data
    if hint is float:
        return _float_reader(_range(marks))
    if hint is int:
        return _int_reader(_range(marks))
    if hint in _WORDS:
        return _exact_reader(hint)
    if origin in (typing.Union, types.UnionType):
        return _union_reader(arguments, refuse, marks)
    if origin is Literal:
        return _choice_reader({value: value for value in arguments})
    if origin is tuple and arguments[-1] is not Ellipsis:
        return _fixed_reader([_reader(argument, refuse) for argument in arguments])
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return _items_reader(arguments[0], refuse, list if origin is list else tuple)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_reader(_reader(arguments[1], refuse))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _choice_reader({member.value: member for member in hint})
    if isinstance(hint, type) and issubclass(hint, PurePath):
        text = _exact_reader(str)
        return lambda data: hint(text(data))
    if dataclasses.is_dataclass(hint):  # its reader is made late, since it may contain itself
        cls: Any = hint
        of_text = getattr(cls, "of_text", None)
        return lambda data: (
            of_text(data) if of_text and type(data) is str else _object_reader(cls, refuse)(data)
        )
    raise TypeError(f"{hint!r} has no plain form")


_WORDS = {str: "text", bool: "true or false", type(None): "null"}


def _exact_reader(kind: Any) -> Reader:
    def read(data: Any) -> Any:
        if type(data) is not kind:
            raise CodecError(f"expected {_WORDS[kind]}, found {found(data)}")
        return data

    return read


def _range(marks: Sequence[Any]) -> Range:
    """Return the outermost range among marks."""
    return next((mark for mark in reversed(marks) if isinstance(mark, Range)), Range())


def _float_reader(limits: Range) -> Reader:
    expected = f"a {'finite ' if limits == Range() else ''}number{limits.text}"

    def read(data: Any) -> float:
        number = nan
        if type(data) is float:
            number = data
        elif type(data) is int and abs(data) < _LARGEST:
            number = float(data)
        elif limits.finite or type(data) is not str or data not in NOT_FINITE:
            raise CodecError(f"expected {expected}, found {found(data)}")
        else:
            number = NOT_FINITE[data]
        if not limits.holds(number):
            raise CodecError(f"expected {expected}, found {found(data)}")
        return number

    return read


_LARGEST = 1 << 1023


def _int_reader(limits: Range) -> Reader:
    def read(data: Any) -> Any:
        if type(data) is not int or not -INT_LIMIT <= data < INT_LIMIT or not limits.holds(data):
            raise CodecError(f"expected a whole number{limits.text}, found {found(data)}")
        return data

    return read


def _choice_reader(choices: Mapping[Any, Any]) -> Reader:
    kinds = {type(value) for value in choices}

    def read(data: Any) -> Any:
        if type(data) not in kinds or data not in choices:
            words = ", ".join(map(str, choices))
            raise CodecError(f"expected one of {words}, found {found(data)}")
        return choices[data]

    return read


def _union_reader(hints: Sequence[Any], refuse: bool, marks: tuple[Any, ...]) -> Reader:
    readers = [_make_reader(hint, refuse, marks) for hint in hints if hint is not type(None)]
    optional = len(readers) < len(hints)

    def read(data: Any) -> Any:
        if data is None and optional:
            return None
        first: CodecError | None = None
        for reader in readers:
            try:
                return reader(data)
            except CodecError as error:
                first = first or error
        raise typing.cast(CodecError, first)

    return read


def _items_reader(hint: Any, refuse: bool, build: Callable[[Any], Any]) -> Reader:
    read_item = _reader(hint, refuse)
    floats = hint is float or (bool(marks_of(hint)) and hint.__origin__ is float)
    limits = _range(marks_of(hint))

    def read(data: Any) -> Any:
        items = _list(data)
        if floats and set(map(type, items)) == _FLOATS and limits.hold_all(items):
            return build(items)  # the common long list, without a call per number
        return build(_read_each(repeat(read_item), items))

    return read


_FLOATS = {float}


def _fixed_reader(readers: Sequence[Reader]) -> Reader:
    def read(data: Any) -> tuple[Any, ...]:
        items = _list(data)
        if len(items) != len(readers):
            raise CodecError(f"expected {len(readers)} items, found {len(items)}")
        return tuple(_read_each(readers, items))

    return read


def _read_each(readers: Iterable[Reader], items: Sequence[Any]) -> list[Any]:
    made: list[Any] = []
    try:
        for reader, item in zip(readers, items, strict=False):
            made.append(reader(item))  # its length is the place of an error
    except CodecError as error:
        raise error.inside(f"[{len(made)}]") from error.__cause__
    return made


def _list(data: Any) -> Sequence[Any]:
    if not isinstance(data, list | tuple):
        raise CodecError(f"expected a list, found {found(data)}")
    return data


def _mapping_reader(read_item: Reader) -> Reader:
    def read(data: Any) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, item in _object(data).items():
            try:
                made[str(key)] = read_item(item)
            except CodecError as error:
                raise error.inside(f".{shown(key)}") from error.__cause__
        return made

    return read


def _object(data: Any) -> Mapping[Any, Any]:
    if not isinstance(data, Mapping):
        raise CodecError(f"expected an object, found {found(data)}")
    return data


@cache
def _object_reader(cls: Any, refuse: bool) -> Reader:
    """Return the reader of a dataclass; fields of members marked `Flat` are in its own JSON object."""
    owners: list[Any] = [cls]  # the dataclass itself, then the flat ones inside
    flat: list[str] = []
    readers: dict[str, tuple[int, str, Reader]] = {}
    required: list[tuple[int, str, str]] = []

    def add(owner: Any, number: int, renamed: Mapping[str, str]) -> None:
        for field in declared_fields(owner):
            hint = hints_of(owner)[field.attribute]
            if field.flat is not None:
                owners.append(hint.__origin__)
                flat.append(field.attribute)
                add(hint.__origin__, len(flat), field.flat)
                continue
            stored = renamed.get(field.stored, field.stored)
            readers[stored] = number, field.attribute, _reader(hint, refuse)
            if field.default is dataclasses.MISSING:
                required.append((number, field.attribute, stored))

    add(cls, 0, {})

    def read(data: Any) -> Any:
        arguments: list[dict[str, Any]] = [{} for _ in owners]
        for key, item in _object(data).items():
            if key in readers:
                number, attribute, reader = readers[key]
                try:
                    arguments[number][attribute] = reader(item)
                except CodecError as error:
                    raise error.inside(f".{key}") from error.__cause__
            elif refuse:
                raise CodecError("unknown field; remove it or fix its name", f".{shown(key)}")
        for number, attribute, stored in required:
            if attribute not in arguments[number]:
                raise CodecError("is missing", f".{stored}")
        try:
            for number, attribute in enumerate(flat, 1):
                arguments[0][attribute] = owners[number](**arguments[number])
            return cls(**arguments[0])
        except (ValueError, TypeError) as error:
            raise CodecError(str(error)) from error

    return read
