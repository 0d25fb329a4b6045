"""How often healthy units of a class change within a run: the prior of the search for changes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from pytest_anubis.core.sample import Population
from pytest_anubis.validator.changes.segments import FEWEST, HAZARD, MOST, segments
from pytest_anubis.validator.changes.stretches import SCREENED, largest_drops

VALUES, SEARCHED_VALUES = 60_000, 6_000
"""Most values of healthy units that are looked at while learning, over all metrics, and most that are
searched since the screen suspects a change: a second's work, and two hundred changes if they are as frequent
as is assumed where nobody knows."""
RAREST, COMMONEST = 1e-5, 0.02
"""Range of what is learned: once in a day of values a second, and once in fifty values, of which a segment
that counts has eight."""


def change_rates(
    samples: Sequence[tuple[Population, Sequence[int], float]],
) -> list[float | None]:
    """Return for each metric the chance, per value, that a segment of a healthy unit ends for the worse.

    The class's rate is what was found over all metrics, with the weight of one change at the usual rate
    (`segments.HAZARD`); a metric's is what was found in it, with the weight of one change at the class's.

    Args:
        samples: Each metric's population, the rows of its healthy units, and the smallest change that counts.

    Returns:
        One rate a metric, in (0, 1); None for all where no sample is long enough to be searched.
    """
    found = [[0, 0] for _ in samples]  # changes and values
    left, searches = VALUES, SEARCHED_VALUES
    # One unit of every metric, then another one of each: a wide class has more metrics than time.
    for turn in zip_longest(*(_long_ones(population, rows) for population, rows, _ in samples)):
        for number, row in enumerate(turn):
            if row is None or left <= 0 or searches <= 0:
                continue
            population, _, least = samples[number]
            values, better = population.sample(row)[:MOST], population.metric.better
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
    return [min(max((count + 1) / (own + 1 / common), RAREST), COMMONEST) for count, own in found]


def _long_ones(population: Population, rows: Sequence[int]) -> list[int]:
    if population.metric.better == "equal":
        return []
    long = np.diff(population.offsets) >= FEWEST
    return [row for row in rows if long[row]] if long.any() else []
