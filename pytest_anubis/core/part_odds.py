"""Posterior odds that one part is to blame for losses, from absolute deviations.

Used for the links of a fleet (`fleet.links.attribution`) and for parts of a node (`shared_parts`).

With Laplace noise the maximum likelihood of a hypothesis is its least absolute deviation D (Bloomfield and
Steiger, *Least Absolute Deviations*, 1983). Of n values the generalised likelihood ratio of a part against
none is (D_none / D_part)^n; each fitted loss costs log(n) / 2 (Schwarz, "Estimating the dimension of a
model", 1978: BIC), and the logarithm of the part's prior odds is added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pytest_anubis.core.sample import FloatArray

ALPHA = 1e-3
"""Largest chance of accusing a part where nothing is wrong, as odds of 1 / alpha are needed for it."""


def log_odds(
    without: float, left: float, count: int, *, losses: int, prior: float, floor: float
) -> float:
    """Return the logarithm of a part's odds against none.

    `without` is the sum of the absolute deviations of `count` values if no part is to blame, `left` the same
    if the part is, with `losses` fitted for it. The floor is added to each deviation, since without noise the
    divisor would be 0.
    """
    gain = count * math.log((without + count * floor) / (left + count * floor))
    return gain - losses / 2 * math.log(count) + math.log(prior)


def posterior(scores: Sequence[float]) -> FloatArray:
    """Return the probability that each part is to blame, and none of the others, from all log odds."""
    odds = np.asarray(scores, dtype=float)
    top = max(0.0, float(odds.max()))
    shares = np.exp(odds - top)
    return np.asarray(shares / (np.exp(-top) + shares.sum()))
