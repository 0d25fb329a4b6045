"""Words for a sample of which only a part is worse: some values far off, the others as they should be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import loss_text
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.validator.similarity.distance import TINY

FAR = 1.25
"""A value is far off from this ratio to the worst value of the centre on: five times the practical threshold
beyond what the middle of the healthy units shows even once."""
NOTABLE = 0.02
"""Loss beyond which the words say whose it is: of the whole, or of a part of the values."""
FEWEST = 5
"""Values of a sample from which a part of them is worth words."""


def part_of(values: FloatArray, alike: float, criterion: Criterion) -> str:
    """Say which part of a sample is far off, where only a part is."""
    metric = criterion.metric
    return part_text(values, alike, criterion.centre, metric.better, metric.unit)


def part_text(
    values: FloatArray, alike: float, centre: Sequence[float], better: str, unit: str
) -> str:
    """Say which part of a sample is far off, e.g. ``2 of 13 values are 3 times as long``; empty if none is.

    Args:
        values: Shape (n,), a usable sample.
        alike: Its one-sided similarity to the centre.
        centre: What is normal, ascending.
        better: The metric's direction; of exact metrics nothing is said.
        unit: The metric's unit.

    Returns:
        Nothing where half of the values or more are far off, or the median shows half of the loss: then it
        is the whole that is worse.
    """
    if 1 - alike <= NOTABLE or better == "equal" or len(values) < FEWEST or not len(centre):
        return ""
    expected = max(_middle(centre), TINY)
    median = max(_median(values), TINY)
    of_medians = expected / median if better == "lower" else median / expected
    if 1 - of_medians >= (1 - alike) / 2:
        return ""
    # Without a quotient: that of a large value and nothing overflows.
    if better == "lower":
        far = np.maximum(values, TINY) >= FAR * max(centre[-1], TINY)
    else:
        far = values <= max(centre[0], TINY) / FAR
    count = int(far.sum())
    if not 0 < 2 * count < len(values):
        return ""
    middle = _median(values[far])
    lost = expected / middle if better == "lower" else middle / expected
    lost = lost if expected > TINY else 0.0  # nothing is a multiple of nothing
    verb = "is" if count == 1 else "are"
    return f"{count} of {len(values)} values {verb} {loss_text(lost, better, unit)}"


def _median(values: FloatArray) -> float:
    """Return the median of values (n,), n > 0, in any order.

    Of thousands of samples that are left out each one is asked: `numpy.quantile` takes ten times as long for
    a few dozen values.
    """
    half = len(values) // 2
    return _middle(np.partition(values, (max(half - 1, 0), half)))


def _middle(ordered: Sequence[float] | FloatArray) -> float:
    """Return the median of values (n,), n > 0, whose middle ones are in order."""
    half = len(ordered) // 2
    high = float(ordered[half])
    if len(ordered) % 2:
        return high
    # The sum of two, of which numpy takes half, is endless where both are very large.
    return high - (high - float(ordered[half - 1])) / 2
