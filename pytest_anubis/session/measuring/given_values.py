"""What a benchmark hands to the recorder: numbers, or an error that says what to write."""

from __future__ import annotations

from typing import Any


class MetricUsageError(Exception):
    """The benchmark itself is written wrongly: says nothing about the hardware."""

    __module__ = "builtins"  # so that the short test summary shows the bare name


def numbers_of(value: Any, test: str, name: str) -> list[float]:
    """Return what a test gave as floats; what is none is said in the test's own frame.

    Args:
        value: One number or an iterable of numbers.
        test: Node id of the test, for the message.
        name: Name of the metric, for the message.

    Raises:
        MetricUsageError: It is text, no number, or negative.
    """
    __tracebackhide__ = True
    items = [value] if not hasattr(value, "__iter__") or getattr(value, "ndim", 1) == 0 else value
    numbers: list[float] = []
    for item in items:
        if isinstance(item, str | bytes):
            raise MetricUsageError(f"{test}: metric {name!r}: {item!r} is text; record numbers")
        try:
            number = float(item)
        except (TypeError, ValueError):
            raise MetricUsageError(f"{test}: metric {name!r}: {item!r} is not a number") from None
        if number < 0:
            raise MetricUsageError(
                f"{test}: metric {name!r}: value {number:g} is negative; metrics are on a "
                "ratio scale, so record a quantity that cannot be negative"
            )
        numbers.append(number)
    return numbers
