"""Marks of a dataclass's fields for ``Annotated[...]``: range, stored name, when the field is left out.

`pytest_anubis.codec` obeys them when it writes plain data or reads it; type checkers ignore them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, Literal, TypeVar

C = TypeVar("C", bound=type[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Range of a field of type ``float`` or ``int``."""

    least: float | None = None  # smallest number; None: no limit
    most: float | None = None  # largest number; None: no limit
    above: float | None = None  # lower limit that is not part of the range; None: no limit
    finite: bool = True  # whether NaN and the infinities are refused

    def holds(self, number: float) -> bool:
        """Return whether a number is within the range."""
        if not isfinite(number) and (self.finite or number != number):  # NaN
            return not self.finite
        return (
            (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
            and (self.above is None or number > self.above)
        )

    def hold_all(self, numbers: Sequence[float]) -> bool:
        """Return whether all of some numbers, at least one, are finite and within the range."""
        # A sum is finite only if every number is; it may overflow.
        return isfinite(sum(numbers)) and (
            self in _ANY or (self.holds(min(numbers)) and self.holds(max(numbers)))
        )

    @property
    def text(self) -> str:
        """The range in words, to be printed after "a number"; empty without limits."""
        if self.above is not None:
            most = "" if self.most is None else f", at most {self.most:g}"
            return f" above {self.above:g}{most}"
        if self.least is not None and self.most is not None:
            return f" from {self.least:g} to {self.most:g}"
        if self.least is not None:
            return f" of at least {self.least:g}"
        return "" if self.most is None else f" of at most {self.most:g}"


_ANY = (Range(), Range(finite=False))


@dataclass(frozen=True, slots=True)
class Alias:
    """Name of a field in plain data, if it differs from the attribute's."""

    name: str


class Flat:
    """Mark of a dataclass whose fields are stored among those of its owner, not in an object of their own.

    Args:
        stored: Attribute of the inner dataclass -> its name in plain data, if it differs.
    """

    def __init__(self, **stored: str) -> None:
        self.stored = stored


class Compact:
    """Mark of a field that plain data omits while it has its default: ``Annotated[int, Compact]``."""


class Rare(Compact):
    """Mark of a field that full plain data omits, too, so that digests of older files stay valid."""


AnyFloat = Annotated[float, Range(finite=False)]
"""A float that may be NaN or infinite; in plain data ``"NaN"``, ``"Infinity"``, ``"-Infinity"``."""

Share = Annotated[float, Range(least=0, most=1)]
"""A probability, a similarity, a part of a whole."""

NotNegative = Annotated[float, Range(least=0)]
"""A duration, a size, a value on a ratio scale."""

Count = Annotated[int, Range(least=0)]
"""A number of things."""

LEFT_OUT = "__left_out__"
"""Class attribute that says which fields plain data omits while they have their default."""


def compact(left_out: Literal["defaults", "none"]) -> Any:
    """Return a class decorator: `Compact` for every field with a default, or with the default None."""

    def mark(cls: C) -> C:
        setattr(cls, LEFT_OUT, left_out)
        return cls

    return mark
