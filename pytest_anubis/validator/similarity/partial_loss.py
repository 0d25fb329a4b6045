"""Describe in words a sample of which only a part is worse: some values are far off, the others normal.

`criterion_learning` and `sample_judging` use it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_anubis.core.metric import loss_text
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.validator.similarity.distance import TINY

FAR = 1.25
"""Ratio to the worst value of the centre from which a value is far off: five times the practical threshold
beyond the worst that typical units show."""
NOTABLE = 0.02
"""Loss beyond which the text says whether all values or a part of them are worse."""
MIN_VALUES = 5
"""Fewest values of a sample of which a part is described."""


def part_text(
    values: FloatArray, alike: float, centre: Sequence[float], better: str, unit: str
) -> str:
    """Say which part of a sample is far off, e.g. ``2 of 13 values are 3 times as long``; empty if none is.

    `alike` is its one-sided similarity to the centre, whose values ascend. If half of the values are far off,
    or the median shows half of the loss, the whole sample is worse, not a part. Exact metrics have no part.
    """
    if 1 - alike <= NOTABLE or better == "equal" or len(values) < MIN_VALUES or not len(centre):
        return ""
    expected = max(_middle(centre), TINY)
    median = max(_median(values), TINY)
    of_medians = expected / median if better == "lower" else median / expected
    if 1 - of_medians >= (1 - alike) / 2:
        return ""
    # Compared without a quotient, which could overflow.
    if better == "lower":
        far = np.maximum(values, TINY) >= FAR * max(centre[-1], TINY)
    else:
        far = values <= max(centre[0], TINY) / FAR
    count = int(far.sum())
    if not 0 < 2 * count < len(values):
        return ""
    middle = _median(values[far])
    lost = expected / middle if better == "lower" else middle / expected
    lost = lost if expected > TINY else 0.0  # 0 has no multiples
    verb = "is" if count == 1 else "are"
    return f"{count} of {len(values)} values {verb} {loss_text(lost, better, unit)}"


def _median(values: FloatArray) -> float:
    """Return the median of values (n,), n > 0, in a tenth of the time of `numpy.quantile` for few values."""
    half = len(values) // 2
    return _middle(np.partition(values, (max(half - 1, 0), half)))


def _middle(ordered: Sequence[float] | FloatArray) -> float:
    """Return the median of values (n,), n > 0, whose middle ones are in place."""
    half = len(ordered) // 2
    high = float(ordered[half])
    if len(ordered) % 2:
        return high
    # The sum of two very large values, which numpy halves, would overflow.
    return high - (high - float(ordered[half - 1])) / 2
