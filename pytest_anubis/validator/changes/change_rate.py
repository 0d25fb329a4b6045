"""Learn how often healthy units of a class change within a run: the prior of the search for changes.

`baseline_learning` uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from pytest_anubis.core.sample import Population
from pytest_anubis.validator.changes.segments import (
    HAZARD,
    MAX_VALUES,
    MIN_VALUES,
    SCREENED,
    largest_drops,
    segments,
)

VALUES, SEARCHED_VALUES = 60_000, 6_000
"""Maximum values of healthy units that are screened while learning, over all metrics, and maximum that are
searched because the screen suspects a change. This takes a second; 60,000 values have 200 changes at
`HAZARD`."""
MIN_RATE, MAX_RATE = 1e-5, 0.02
"""Range of a learned rate: from one change in 100,000 values (a day at one a second) to one in fifty, six
times the shortest segment (`segments.AGE`)."""


def change_rates(
    samples: Sequence[tuple[Population, Sequence[int], float]],
) -> list[float | None]:
    """Return for each metric the chance, per value, that a segment of a healthy unit ends for the worse.

    A sample is a metric's population, the rows of its healthy units, and the smallest change that counts.
    Each rate is shrunk by the weight of one change: a metric's towards that of the class, and that of the
    class (over all its metrics) towards `segments.HAZARD`. All are None if no sample is long enough to be
    searched.
    """
    found = [[0, 0] for _ in samples]  # changes and values
    left, searches = VALUES, SEARCHED_VALUES
    # One unit of every metric at a time: in a wide class the values allowed do not cover all units.
    for turn in zip_longest(*(_long_ones(population, rows) for population, rows, _ in samples)):
        for number, row in enumerate(turn):
            if row is None or left <= 0 or searches <= 0:
                continue
            population, _, least = samples[number]
            values, better = population.sample(row)[:MAX_VALUES], population.metric.better
            if largest_drops(values[None, :], better)[0] > SCREENED * least:
                seen = segments(values, better, least_change=least)
                found[number][0] += seen.change is not None
                searches -= len(values)
            found[number][1] += len(values)
            left -= len(values)
    changes, length = (sum(one[place] for one in found) for place in (0, 1))
    if not length:
        return [None] * len(samples)
    common = (changes + 1) / (length + 1 / HAZARD)
    return [min(max((count + 1) / (own + 1 / common), MIN_RATE), MAX_RATE) for count, own in found]


def _long_ones(population: Population, rows: Sequence[int]) -> list[int]:
    if population.metric.better == "equal":
        return []
    long = np.diff(population.offsets) >= MIN_VALUES
    return [row for row in rows if long[row]] if long.any() else []
