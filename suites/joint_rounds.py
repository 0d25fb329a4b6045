"""Rounds that measure several metrics at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from pytest_anubis import MetricFixture

T = TypeVar("T")


def collect_with(
    anubis_metric: MetricFixture, name: str, take: Callable[[], tuple[float, T]], **given: Any
) -> list[T]:
    """Collect a metric; return what else belongs to the rounds that are kept.

    Args:
        anubis_metric: The fixture.
        name: The metric.
        take: Measures one round; returns its value and the rest.
        **given: As for `MetricFixture.collect`.
    """
    taken: dict[float, T] = {}

    def once() -> float:
        value, rest = take()
        taken[value] = rest
        return value

    return [taken[value] for value in anubis_metric.collect(name, once, **given)]


def collect_jointly(
    anubis_metric: MetricFixture,
    take: Callable[[], dict[str, float]],
    last: str,
    *,
    unit: str,
    better: Literal["higher", "lower"],
    rounds: int,
) -> dict[str, list[float]]:
    """Record metrics of the same rounds; return their values, of which those of a round stand at one place.

    Args:
        anubis_metric: The fixture.
        take: Measures one round: name of a metric -> value.
        last: The metric by which rounds are kept.
        unit: Of all metrics.
        better: Of all metrics.
        rounds: How many values.
    """

    def once() -> tuple[float, dict[str, float]]:
        found = take()
        return found[last], found

    kept = collect_with(anubis_metric, last, once, unit=unit, better=better, rounds=rounds)
    values = {name: [one[name] for one in kept] for name in kept[0]}
    for name in values.keys() - {last}:
        anubis_metric.record(name, values[name], unit=unit, better=better, rounds_of=last)
    return values
