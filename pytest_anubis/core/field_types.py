"""What may be said about a field where it is declared: its range, its stored name, when it is left out.

The marks stand in ``Annotated[...]`` and mean nothing to a type checker; ``pytest_anubis.codec`` goes by
them whenever a value is written to plain data or read from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, Literal, TypeVar

C = TypeVar("C", bound=type[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The numbers that a field may hold, for ``float`` and ``int``.

    Attributes:
        least: Smallest number; None: no limit.
        most: Largest number; None: no limit.
        above: Every number is larger than this one; None: no limit.
        finite: NaN and the infinities are refused.
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    finite: bool = True

    def holds(self, number: float) -> bool:
        """Say whether a number lies within; NaN does only where it is not refused."""
        if not isfinite(number) and (self.finite or number != number):  # NaN
            return not self.finite
        return (
            (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
            and (self.above is None or number > self.above)
        )

    def hold_all(self, numbers: Sequence[float]) -> bool:
        """Say whether all of at least one number lie within, NaN and the infinities never."""
        # A sum is finite only if every number is; where it overflows, each number is asked.
        return isfinite(sum(numbers)) and (
            self in _ANY or (self.holds(min(numbers)) and self.holds(max(numbers)))
        )

    @property
    def text(self) -> str:
        """The range in words, to stand behind "a number"; empty without limits."""
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
    """The name of a field in plain data, where that is not the attribute's."""

    name: str


class Flat:
    """The fields of a dataclass stand beside those of its owner, not in an object of their own.

    Args:
        stored: Attribute of the inner dataclass -> its name in plain data, where that is another one.
    """

    def __init__(self, **stored: str) -> None:
        self.stored = stored


class Compact:
    """The field is left out of plain data while it holds its default: ``Annotated[int, Compact]``."""


class Rare(Compact):
    """The same of full plain data too, so that the digests of older files stay what they are."""


AnyFloat = Annotated[float, Range(finite=False)]
"""A float that may be NaN or infinite; in plain data ``"NaN"``, ``"Infinity"``, ``"-Infinity"``."""

Share = Annotated[float, Range(least=0, most=1)]
"""A probability, a similarity, a part of a whole."""

NotNegative = Annotated[float, Range(least=0)]
"""A duration, a size, a value on a ratio scale."""

Count = Annotated[int, Range(least=0)]
"""How many of something there are."""

LEFT_OUT = "__left_out__"
"""Class attribute that says which fields are left out of plain data while they hold their default."""


def compact(left_out: Literal["defaults", "none"]) -> Any:
    """Return a class decorator: `Compact` for every field with a default, or with the default None."""

    def mark(cls: C) -> C:
        setattr(cls, LEFT_OUT, left_out)
        return cls

    return mark
