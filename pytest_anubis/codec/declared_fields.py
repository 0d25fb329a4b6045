"""Look up the fields of a dataclass with their marks, once per class, for reading and writing.

`plain_reading` and `plain_writing` use it.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from pytest_anubis.core.field_types import LEFT_OUT, Alias, Compact, Flat, Range, Rare


class DeclaredField(NamedTuple):
    """One field of a dataclass."""

    attribute: str  # its name in the dataclass
    stored: str  # its name in plain data
    default: Any  # its default; `dataclasses.MISSING` if it is required
    left_out: bool  # it is left out of plain data while it holds its default
    rare: bool  # it is left out of full plain data as well
    finite: bool  # its numbers are neither NaN nor infinite
    flat: Mapping[str, str] | None  # stored names of what is flat in it; None: none is


@cache
def declared_fields(cls: Any) -> tuple[DeclaredField, ...]:
    """Return the fields of a dataclass in the order of their declaration."""
    hints = hints_of(cls)
    whole_class = getattr(cls, LEFT_OUT, "")
    found = []
    for field in dataclasses.fields(cls):
        marks = marks_of(hints[field.name])
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        optional = default is not dataclasses.MISSING
        rare = Rare in marks
        compact = rare or Compact in marks or whole_class == "defaults"
        found.append(
            DeclaredField(
                attribute=field.name,
                stored=next((m.name for m in marks if isinstance(m, Alias)), field.name),
                default=default,
                left_out=optional and (compact or (whole_class == "none" and default is None)),
                rare=rare,
                finite=not _may_be_odd(hints[field.name]),
                flat=next((m.stored for m in marks if isinstance(m, Flat)), None),
            )
        )
    return tuple(found)


@cache
def hints_of(cls: Any) -> dict[str, Any]:
    """Return the type hints of a dataclass with their marks."""
    return typing.get_type_hints(cls, include_extras=True)


def marks_of(hint: Any) -> tuple[Any, ...]:
    """Return the marks of a type hint."""
    return hint.__metadata__ if typing.get_origin(hint) is typing.Annotated else ()


def _may_be_odd(hint: Any) -> bool:
    """Return whether a value of this type may contain NaN or an infinity."""
    if any(isinstance(mark, Range) and not mark.finite for mark in marks_of(hint)):
        return True
    return hint is Any or any(_may_be_odd(part) for part in typing.get_args(hint))
