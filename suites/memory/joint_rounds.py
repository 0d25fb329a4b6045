"""Rounds that measure several metrics in turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pytest_anubis import MetricFixture


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
    taken: dict[float, dict[str, float]] = {}

    def once() -> float:
        found = take()
        taken[found[last]] = found
        return found[last]

    kept = anubis_metric.collect(last, once, unit=unit, better=better, rounds=rounds)
    values = {name: [taken[one][name] for one in kept] for name in taken[kept[0]]}
    for name in values.keys() - {last}:
        anubis_metric.record(name, values[name], unit=unit, better=better, rounds_of=last)
    return values
