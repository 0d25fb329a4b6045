"""Limits for a baseline of one machine: its runs are the units, and their spread is the noise.

A future run of the same healthy machine differs from the centre of K learned runs by a shift that is
common to the whole run (neighbours, clocks, memory layout) and by the shape noise of a finite sample.
The shift's scale is estimated from K runs only, so it is shrunk towards what all metrics of the machine
have in common (moderated variances: Smyth 2004, doi:10.2202/1544-6115.1027), and the limit is the
Student-t prediction bound of a next run at the error rate of the whole node divided by its metrics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pytest_anubis.core.sample import FloatArray, Population
from pytest_anubis.validator.rows import Rows, name_codes

FLOOR = 1e-3
"""Least believable run-to-run standard deviation, relative."""
PRIOR = 0.01
"""Run-to-run standard deviation assumed (with `PRIOR_DEGREES`) where too few metrics tell of their own."""
PRIOR_DEGREES = 2.0
MOST_DEGREES = 8.0
"""Strongest pull towards the common variance: metrics of one machine do differ in noise."""
ENOUGH_METRICS = 6
LARGEST = 0.9


class RunSpread(NamedTuple):
    """How much one metric of one machine differs between its runs.

    Attributes:
        deviation: Standard deviation of the runs' means, relative to their mean.
        runs: How many runs.
        shape: Largest part of a run's distance that is no shift: the smaller of its two one-sided ones.
    """

    deviation: float
    runs: int
    shape: float


def run_spread(population: Population, rows: Rows, centre: FloatArray) -> RunSpread:
    """Measure the spread of the runs around their centre; devices are compared each with itself."""
    means = rows.means()
    _, device = name_codes(population.devices)
    residuals = np.zeros(0)
    degrees = 0
    for code in np.unique(device[rows.usable]):
        mine = means[rows.usable & (device == code)]
        middle = float(np.sort(mine).mean())
        if middle > 0:
            residuals = np.append(residuals, mine / middle - 1)
        degrees += len(mine) - 1
    variance = float(np.sort(residuals**2).sum()) / max(degrees, 1)
    below, above = rows.sides(centre)
    shape = float(np.minimum(below, above)[rows.usable].max())
    runs, codes = name_codes(population.runs)
    distinct = len(np.unique(codes[rows.usable])) if len(runs) > 1 else int(rows.usable.sum())
    return RunSpread(math.sqrt(variance), distinct, shape)


def machine_limits(
    spreads: Sequence[RunSpread], *, error_rate: float = 0.01
) -> list[tuple[float, float]]:
    """Return (learned limit, scale) for each metric of one machine.

    Args:
        spreads: One entry per metric, in any order.
        error_rate: Chance that a healthy run has any metric beyond its limit.

    Returns:
        Similarities below which a run is outside the machine's own spread, and the standard deviation
        that was used, in the order of `spreads`.
    """
    from scipy.special import stdtrit

    if not spreads:
        return []
    variances = np.maximum([s.deviation for s in spreads], FLOOR) ** 2
    degrees = np.array([max(s.runs - 1, 1) for s in spreads], dtype=np.float64)
    prior_variance, prior_degrees = _prior(variances, degrees)
    total = prior_degrees + degrees
    scale = np.sqrt((prior_degrees * prior_variance + degrees * variances) / total)
    # The median of K runs has about pi/2 times the variance of their mean.
    margin = np.sqrt(1 + math.pi / 2 / (degrees + 1))
    bound = stdtrit(total, 1 - error_rate / len(spreads)) * scale * margin
    loss = np.array([s.shape for s in spreads]) - np.expm1(-bound)
    limits = 1 - np.minimum(loss, LARGEST)
    return list(zip(limits.tolist(), scale.tolist(), strict=True))


def _prior(variances: FloatArray, degrees: FloatArray) -> tuple[float, float]:
    """Fit the scaled inverse chi-squared distribution of the metrics' variances by moments of the log."""
    from scipy.special import polygamma, psi

    if len(variances) < ENOUGH_METRICS:
        return PRIOR**2, PRIOR_DEGREES
    logs = np.sort(np.log(variances) - psi(degrees / 2) + np.log(degrees / 2))
    excess = float(logs.var(ddof=1) - polygamma(1, degrees / 2).mean())
    half = _inverse_trigamma(excess) if excess > 0 else MOST_DEGREES / 2
    half = min(half, MOST_DEGREES / 2)
    common = math.exp(float(logs.mean()) + float(psi(half)) - math.log(half))
    return common, 2 * half


def _inverse_trigamma(value: float) -> float:
    from scipy.special import polygamma

    low, high = 1e-3, 1e6
    for _ in range(80):
        middle = math.sqrt(low * high)
        if float(polygamma(1, middle)) > value:
            low = middle
        else:
            high = middle
    return middle
