"""Checks what a benchmark gives to the recorder; a `MetricUsageError` says what to write instead.

The error is shown at the line of the test. `recorder` uses it.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import BuiltinFunctionType
from typing import Any

from pytest_anubis.core.metric import EXACT, Direction, Metric, MetricError
from pytest_anubis.core.nominal_rate import NominalRate
from pytest_anubis.session.context import MetricUsageError

READINGS = 10_000
"""Readings within which a running clock must advance; they take a millisecond, clocks count nanoseconds."""


def checked_metric(
    name: str,
    unit: str,
    better: Direction | None,
    goal: str,
    question: str,
    action: str,
) -> Metric:
    """Return a metric as the test describes it."""
    __tracebackhide__ = True
    if better is None:
        raise MetricUsageError(
            f"metric {name!r} has no direction; "
            "say better='higher', better='lower' or better='equal'"
        )
    try:
        return Metric(
            name=name, unit=unit, better=better, goal=goal, question=question, action=action
        )
    except MetricError as error:
        raise MetricUsageError(str(error)) from None


def expecting(metric: Metric, right: float | None) -> Metric:
    """Return a metric with its one right value, if that is known."""
    __tracebackhide__ = True
    if right is not None and _is_too_long(right):
        raise _too_long(metric)
    try:
        return metric if right is None else replace(metric, expect=right)
    except MetricError as error:
        raise MetricUsageError(str(error)) from None


def rated(metric: Metric, nominal: float | NominalRate | None, of: str) -> Metric:
    """Return a metric with what the hardware could deliver at best, if that is known.

    Args:
        metric: The metric.
        nominal: A value in its unit, or a rate in bytes per second, as the fixtures' ``nominal`` returns it.
        of: The part and link, such as PCIe 5.0 x16.
    """
    __tracebackhide__ = True
    if nominal is None:  # unknown on this machine
        return metric
    from pytest_anubis.hardware.timing import in_unit

    if metric.better == "equal":
        raise MetricUsageError(f"metric {metric.name!r}: an exact metric has no nominal rate")
    if not isinstance(of, str):
        raise MetricUsageError(f"metric {metric.name!r}: nominal_of={of!r}: give a text")
    try:
        if isinstance(nominal, NominalRate):
            if not metric.unit.endswith(("B/s", "bit/s")):
                raise ValueError(
                    f"a link carries bytes per second, not {metric.unit}; give a number with nominal_of="
                )
            per_byte = 8 if metric.unit.endswith("bit/s") else 1
            value, of = in_unit(1.0, metric.unit, nominal.value * per_byte), of or nominal.of
        elif isinstance(nominal, bool | str):
            raise MetricUsageError(
                f"metric {metric.name!r}: nominal={nominal!r}: give a number in {metric.unit}, or what "
                "`nominal()` of a device, a pair or the node returns"
            )
        else:
            value = float(nominal)
        return replace(metric, nominal=NominalRate(value=value, of=of))
    except (ValueError, TypeError) as error:
        raise MetricUsageError(f"metric {metric.name!r}: {error}") from None


def part_in(metric: Metric, part_of: str, recorded: Iterable[Metric]) -> Metric:
    """Return a metric as a part of another one."""
    __tracebackhide__ = True
    whole = next((one for one in recorded if one.name == part_of), None)
    if whole is None:
        raise MetricUsageError(
            f"metric {metric.name!r}: part_of={part_of!r}, which this test has not recorded; record the "
            "whole before its parts"
        )
    if metric.better != "lower" or (whole.unit, whole.better) != (metric.unit, metric.better):
        raise MetricUsageError(
            f"metric {metric.name!r}: part_of={part_of!r} needs better='lower' and the same unit of both"
        )
    return replace(metric, part_of=part_of)


def _is_too_long(item: Any) -> bool:
    """Return whether a whole number has more digits than a float keeps, so that two may look equal."""
    try:
        return abs(operator.index(item)) > EXACT
    except TypeError:  # not a whole number
        return False


def _too_long(metric: Metric) -> MetricUsageError:
    return MetricUsageError(
        f"metric {metric.name!r}: a whole number beyond 2**53 loses its last digits; record how many values "
        "differ (expect=0), or parts of a digest below 2**53"
    )


def numbers_of(value: Any, metric: Metric) -> list[float]:
    """Return a test's value or values as floats: no text, and nothing negative or too long to be exact."""
    __tracebackhide__ = True
    name = metric.name
    if isinstance(value, Mapping):
        raise MetricUsageError(
            f"metric {name!r}: {type(value).__name__} is a mapping, of which only the keys would count; "
            "record its values, or a metric for each key"
        )
    one = isinstance(value, str | bytes) or getattr(value, "ndim", 1) == 0
    items = [value] if one or not hasattr(value, "__iter__") else value
    numbers: list[float] = []
    for item in items:
        if isinstance(item, str | bytes):
            raise MetricUsageError(f"metric {name!r}: {item!r} is text; record numbers")
        if metric.better == "equal" and _is_too_long(item):
            raise _too_long(metric)
        try:
            number = float(item)
        except (TypeError, ValueError):
            raise MetricUsageError(f"metric {name!r}: {item!r} is not a number") from None
        except OverflowError:
            raise _too_long(metric) from None
        if number < 0:
            raise MetricUsageError(
                f"metric {name!r}: value {number:g} is negative; metrics are on a "
                "ratio scale, so record a quantity that cannot be negative"
            )
        numbers.append(number)
    return numbers


def evidence_of(value: Any, name: str) -> tuple[str, ...]:
    """Return a test's evidence: a list, tuple or other iterable of texts."""
    __tracebackhide__ = True
    if isinstance(value, Iterable) and not isinstance(value, str):
        items = tuple(value)
        if all(isinstance(one, str) for one in items):
            return items
    raise MetricUsageError(f"metric {name!r}: evidence is {value!r}; give a list of texts")


def running_clock() -> None:
    """Check that the clock advances, because with a stopped clock a measurement would never end."""
    __tracebackhide__ = True
    begin = time.perf_counter()
    moves = any(time.perf_counter() != begin for _ in range(READINGS))
    if not (moves and isinstance(time.perf_counter, BuiltinFunctionType)):
        raise MetricUsageError(
            "the clock is not the machine's (freezegun or alike replaced it), so nothing can be "
            "timed; measure outside of frozen time, or record() what was timed elsewhere"
        )


def checked_clock(clock: str) -> str:
    """Return the name of a clock if it is valid."""
    if clock not in ("device", "host"):
        raise MetricUsageError(f"clock={clock!r}; say 'device' or 'host'")
    return clock
