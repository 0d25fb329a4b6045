"""Reading typed fields out of JSON objects that somebody else may have written.

Every reader names the place of a wrong value (``criteria[3].centre[0]``), so that one line is enough to
mend a file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# JSON has no NaN and no infinities; these strings stand for them where a value may be one.
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def number_to_json(value: float) -> float | str:
    """Return a float as strict JSON can hold it: itself, or ``"NaN"``, ``"Infinity"``, ``"-Infinity"``."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def one_line(name: str) -> str:
    """Return a name as it is when it is short and printable, else quoted and cut."""
    return name if name.isprintable() and len(name) <= 80 else repr(name[:80])


class Fields:
    """The fields of one JSON object, each read with the type that it must have.

    Args:
        data: What should be the object.
        place: Where it stands, for messages; empty at the top of a file.
        error: The exception to raise, with one line.

    Raises:
        ValueError: (as `error`) `data` is not an object.
    """

    def __init__(self, data: object, place: str, error: type[ValueError]) -> None:
        self.place = place
        self.error = error
        if not isinstance(data, Mapping):
            raise error(f"{place or 'top level'}: expected an object, found {_kind(data)}")
        self.data: Mapping[str, Any] = data
        self._seen: set[str] = set()

    def at(self, name: str) -> str:
        """Return the full place of one field, on one line whatever its name."""
        name = one_line(name)
        return f"{self.place}.{name}".replace(".[", "[") if self.place else name

    def fail(self, name: str, text: str) -> ValueError:
        """Return the exception that says what is wrong with one field."""
        return self.error(f"{self.at(name)}: {text}")

    def has(self, name: str) -> bool:
        """Say whether a field is there and not null."""
        self._seen.add(name)
        return self.data.get(name) is not None

    def raw(self, name: str) -> Any:
        """Return a field that must be there, whatever its type."""
        self._seen.add(name)
        if name not in self.data:
            raise self.fail(name, "missing")
        return self.data[name]

    def text(self, name: str, default: str | None = None) -> str:
        """Return a string; `default` when the field is absent."""
        if default is not None and name not in self.data:
            return default
        value = self.raw(name)
        if not isinstance(value, str):
            raise self.fail(name, f"expected text, found {_kind(value)}")
        return value

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        """Return a string that is one of `choices`."""
        value = self.text(name, default)
        if value not in choices:
            raise self.fail(name, f"{value[:40]!r} is none of {', '.join(choices)}")
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        """Return true or false."""
        if default is not None and name not in self.data:
            return default
        value = self.raw(name)
        if not isinstance(value, bool):
            raise self.fail(name, f"expected true or false, found {_kind(value)}")
        return value

    def number(
        self,
        name: str,
        default: float | None = None,
        *,
        least: float = -math.inf,
        most: float = math.inf,
    ) -> float:
        """Return a finite number within [least, most]."""
        if default is not None and name not in self.data:
            return default
        return self._finite(self.raw(name), name, least, most)

    def maybe_number(
        self, name: str, *, least: float = -math.inf, most: float = math.inf
    ) -> float | None:
        """Return a finite number, or None when the field is absent or null."""
        return self.number(name, least=least, most=most) if self.has(name) else None

    def integer(self, name: str, default: int | None = None, *, least: int = 0) -> int:
        """Return a whole number that is at least `least`."""
        if default is not None and name not in self.data:
            return default
        value = self.raw(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(name, f"expected a whole number, found {_kind(value)}")
        if not least <= value < 2**63:
            raise self.fail(name, f"must be at least {least} and below 2^63")
        return value

    def items(self, name: str, *, needed: bool = False) -> Sequence[Any]:
        """Return a list; an absent one is empty unless it is needed."""
        if not needed and name not in self.data:
            return ()
        value = self.raw(name)
        if not isinstance(value, list | tuple):
            raise self.fail(name, f"expected a list, found {_kind(value)}")
        return value

    def numbers(self, name: str, *, needed: bool = False, least: float = 0.0) -> tuple[float, ...]:
        """Return a list of finite numbers, none below `least`."""
        return tuple(
            self._finite(value, f"{name}[{i}]", least, math.inf)
            for i, value in enumerate(self.items(name, needed=needed))
        )

    def any_numbers(self, name: str) -> tuple[float, ...]:
        """Return a list of floats in which NaN and the infinities may stand as strings."""
        values = self.items(name, needed=True)
        if all(type(value) is float for value in values):
            return tuple(values)
        return tuple(self._any(value, f"{name}[{i}]") for i, value in enumerate(values))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings; absent: empty."""
        values = self.items(name)
        for i, value in enumerate(values):
            if not isinstance(value, str):
                raise self.fail(f"{name}[{i}]", f"expected text, found {_kind(value)}")
        return tuple(values)

    def mapping(self, name: str) -> dict[str, Any]:
        """Return an object as it is; absent: empty."""
        if name not in self.data:
            return {}
        value = self.raw(name)
        if not isinstance(value, Mapping):
            raise self.fail(name, f"expected an object, found {_kind(value)}")
        return dict(value)

    def text_mapping(self, name: str) -> dict[str, str]:
        """Return an object whose values are strings; absent: empty."""
        found = self.mapping(name)
        for key, value in found.items():
            if not isinstance(value, str):
                raise self.fail(f"{name}.{key}", f"expected text, found {_kind(value)}")
        return found

    def child(self, name: str) -> Fields:
        """Return the fields of an object inside this one."""
        return Fields(self.raw(name), self.at(name), self.error)

    def children(self, name: str, *, needed: bool = False) -> Iterator[Fields]:
        """Yield the fields of every object in a list."""
        for i, item in enumerate(self.items(name, needed=needed)):
            yield Fields(item, f"{self.at(name)}[{i}]", self.error)

    def nothing_else(self) -> None:
        """Refuse fields that nobody read: most often a misspelt name."""
        for name in self.data:
            if name not in self._seen:
                raise self.fail(str(name), "unknown field; remove it or mend its name")

    def _finite(self, value: Any, name: str, least: float, most: float) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fail(name, f"expected a number, found {_kind(value)}")
        try:
            number = float(value)
        except OverflowError:
            raise self.fail(name, "the number is too large") from None
        if not math.isfinite(number):
            raise self.fail(name, f"must be finite, is {number}")
        if not least <= number <= most:
            raise self.fail(name, f"{number:g} is outside [{least:g}, {most:g}]")
        return number

    def _any(self, value: Any, name: str) -> float:
        if isinstance(value, str) and value in _NOT_FINITE:
            return _NOT_FINITE[value]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fail(name, f"expected a number, found {_kind(value)}")
        try:
            return float(value)
        except OverflowError:
            raise self.fail(name, "the number is too large") from None


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {dict: "an object", list: "a list", str: "text", bool: "true/false"}
    return names.get(
        type(value), "a number" if isinstance(value, int | float) else "something else"
    )
