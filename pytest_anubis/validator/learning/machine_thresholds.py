"""Thresholds for a baseline of one machine: its runs are the units, and their spread is the noise.

A future run of the same healthy machine differs from the centre of K learned runs by a shift that is
common to the whole run (neighbours, clocks, memory layout) and by the shape noise of a finite sample.
The shift's scale is estimated from K runs only, so it is shrunk towards what all metrics of the machine
have in common (moderated variances: Smyth 2004, doi:10.2202/1544-6115.1027), and the threshold is
the Student-t prediction bound of a next run, at a chance that keeps the whole node at its error rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.baseline import ALPHA, ERROR_RATE
from pytest_anubis.core.sample import FloatArray, Population
from pytest_anubis.validator.similarity.usable_rows import Rows, name_codes

FLOOR = 1e-3
"""Least run-to-run standard deviation that is taken as found, relative: a few runs may agree by chance to
less than the next one will."""
PRIOR, PRIOR_DEGREES = 0.01, 2.0
"""Run-to-run standard deviation that is assumed where too few metrics tell of their own, and the runs that it
counts as: between links that repeat to .1 % and shared hosts whose runs differ by several percent. A
judgement, with little weight; of a few metrics of accelerators it is one metric more, as they are noisy or
quiet alike: most kernels on 696 public ones repeat to .2 %."""
DRIFT = 1.3
"""The next runs come later than the learned ones came after each other, so their spread is wider by this
factor. On twelve cloud machines measured for months the spread around five runs was 1.2 to 1.4 times as wide
as among them (`benchmarks/validator/machine.py`)."""
MOST_DEGREES = 8.0
"""Strongest pull towards the common variance, in degrees of freedom (runs, less one): metrics of one machine
do differ in noise."""
ENOUGH_METRICS = 6
"""Fewest metrics whose common variance is estimated: of six the scatter of their logarithms is known to a
third (1 / sqrt(2 * 5))."""
ODD = 0.01
"""A metric whose spread has a smaller chance under the others' common variance is not one of them."""
ENOUGH_FOR_TREND = 12
"""Fewest metrics through which a line is drawn from the noise within runs to that between them: two
parameters from fewer would follow chance."""
BATCHES = 5
"""Parts of a run whose means tell the noise within it."""
LARGEST = 0.9
"""Largest loss that a threshold may allow: a value so far down is no noise, however few the runs."""
LASTING = 0.5
"""Share of the variance between runs that further looks within half a minute do not average out. A judgement:
`benchmarks/validator/machine.py` shows the rejections of healthy runs and the power that follow."""


DISKS, MODES = "storage", 0.42
"""Components of disks, and what one of a virtual machine may lose whatever its own runs say. The storage
behind it is shared: its rates change by a half for minutes or hours, no counter in the guest shows that, and
the rounds of one learning meet one such mode. By the spread of six runs alone a tenth of the random reads and
writes of other hours would fail, with this none (`docs/decisions.md`)."""


class MachineThreshold(NamedTuple):
    """What one metric of one machine may lose.

    Attributes:
        confirmed: Similarity below which a sample is outside the machine's own spread once further looks
            have confirmed it.
        unconfirmed: The same before that.
        scale: Standard deviation of a single look about the centre, relative.
    """

    confirmed: float
    unconfirmed: float
    scale: float


def beyond_modes(threshold: MachineThreshold) -> MachineThreshold:
    """Return the threshold of a disk that others share unseen (`MODES`)."""
    return threshold._replace(
        confirmed=min(threshold.confirmed, 1 - MODES),
        unconfirmed=min(threshold.unconfirmed, 1 - MODES),
    )


class RunSpread(NamedTuple):
    """How much one metric of one machine differs between its runs."""

    deviation: float  # standard deviation of the runs' means, relative to their mean
    runs: int  # how many runs
    shape: float  # largest part of a run's distance that is no shift: its smaller side
    within: float = 0.0  # deviation if batches within runs were independent; 0: unknown
    card: bool = False  # it is a metric of accelerators


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
    card = all(":" in one for one in population.devices)  # such as cuda:0
    return RunSpread(math.sqrt(variance), distinct, shape, _within(population, rows), card)


def _within(population: Population, rows: Rows) -> float:
    """Return the relative standard error of a run's mean, from the means of batches of each run."""
    known = within_variances(population, rows)
    known = known[~np.isnan(known)]
    return math.sqrt(math.fsum(known) / len(known)) if len(known) else 0.0


def within_variances(population: Population, rows: Rows) -> FloatArray:
    """Return each row's relative variance of its mean, from the means of successive batches.

    Args:
        population: Samples in time order.
        rows: Its usable rows.

    Returns:
        Shape (n,), NaN for what is unusable, too short or zero throughout.
    """
    out = np.full(rows.total, np.nan)
    sizes = np.diff(population.offsets)
    for size in np.unique(sizes[rows.usable]):
        if size < 2 * BATCHES:
            continue
        index = np.flatnonzero(rows.usable & (sizes == size))
        matrix = population.values[np.asarray(population.offsets)[index][:, None] + np.arange(size)]
        means = np.stack([p.mean(axis=1) for p in np.array_split(matrix, BATCHES, axis=1)], axis=1)
        whole = matrix.mean(axis=1)
        some = whole > 0
        out[index[some]] = means[some].var(axis=1, ddof=1) / BATCHES / whole[some] ** 2
    return out


def machine_thresholds(
    spreads: Sequence[RunSpread], *, error_rate: float = ERROR_RATE, alpha: float = ALPHA
) -> list[MachineThreshold]:
    """Return the learned thresholds of each metric of one machine.

    A metric can only reject beyond both thresholds, so one whose spread keeps it within alpha anyway costs
    nothing of the error rate; the noisy ones share it in equal parts.

    Args:
        spreads: One entry per metric, in any order.
        error_rate: Chance that any metric of a healthy run is beyond both its thresholds.
        alpha: Practical threshold.

    Returns:
        One entry per metric, in the order of `spreads`.
    """
    if not spreads:
        return []
    variances = np.maximum([s.deviation for s in spreads], FLOOR) ** 2
    degrees = np.array([max(s.runs - 1, 1) for s in spreads], dtype=np.float64)
    prior_variance, prior_degrees = _robust_prior(variances, degrees, spreads)
    total = prior_degrees + degrees
    scale = np.sqrt((prior_degrees * prior_variance + degrees * variances) / total)
    # The median of K runs has about pi/2 times the variance of their mean.
    centre = math.pi / 2 / (degrees + 1)
    once = scale * DRIFT * np.sqrt(1 + centre)
    lasting = scale * DRIFT * np.sqrt(LASTING + centre)
    shape = np.array([s.shape for s in spreads])
    unconfirmed, confirmed = (
        _prediction(sigma, shape, total, error_rate, 1 - alpha) for sigma in (once, lasting)
    )
    return [
        MachineThreshold(max(tight, wide), wide, sigma)
        for tight, wide, sigma in zip(
            confirmed.tolist(), unconfirmed.tolist(), once.tolist(), strict=True
        )
    ]


def _prediction(
    scale: FloatArray, shape: FloatArray, degrees: FloatArray, error_rate: float, practical: float
) -> FloatArray:
    """Return the similarity that a healthy run with this standard deviation stays above."""
    from scipy.special import stdtrit

    chance = _share(scale, shape, degrees, error_rate, practical)
    shift = -np.expm1(-stdtrit(degrees, 1 - chance) * scale)
    # Shape noise is what remains where two samples cross; a shift beyond their spread leaves none.
    loss = np.maximum(shift, shape + shift / 2)
    return np.asarray(1 - np.minimum(loss, LARGEST))


def _share(
    scale: FloatArray, shape: FloatArray, degrees: FloatArray, error_rate: float, practical: float
) -> float:
    """Return the chance that every noisy metric may take, so that all together take `error_rate`."""
    from scipy.special import stdtr

    room = np.maximum(np.minimum(practical, 2 * (practical - shape)), 0.0)
    alone = np.sort(
        1 - stdtr(degrees, -np.log1p(-room) / scale)
    )  # what alpha alone would let through
    low, high = error_rate / len(scale), error_rate
    for _ in range(50):  # halves the interval of the logarithm each time: to the last digit
        middle = math.sqrt(low * high)
        if float(np.minimum(alone, middle).sum()) > error_rate:
            high = middle
        else:
            low = middle
    return low


def _robust_prior(
    variances: FloatArray, degrees: FloatArray, spreads: Sequence[RunSpread]
) -> tuple[FloatArray, FloatArray]:
    """Return each metric's prior variance and the prior's degrees of freedom, shapes (n,).

    A machine's metrics are of two kinds: most repeat alike, a few (disks, bandwidth beside a neighbour)
    are far noisier. Those few have a prior of no weight: they keep their own spread, and neither widen
    the quiet ones nor weaken what these know of each other (the idea of Phipson et al. 2016,
    doi:10.1214/16-AOAS920).
    """
    from scipy.special import fdtrc

    members = np.ones(len(variances), dtype=np.bool_)
    for _ in range(len(variances)):
        chosen = np.flatnonzero(members)
        some, weight = _prior(
            variances[chosen], degrees[chosen], [spreads[i] for i in chosen.tolist()]
        )
        if len(chosen) < ENOUGH_METRICS:
            break
        ratio = variances[chosen] / some
        chance = fdtrc(degrees[chosen], max(weight, MOST_DEGREES), ratio)
        worst = int(np.argmin(chance))
        if chance[worst] * len(chosen) > ODD:
            break
        members[chosen[chance <= chance[worst]]] = False
    prior, total = variances.copy(), np.zeros(len(variances))
    prior[chosen], total[chosen] = some, weight
    return prior, total


def _prior(
    variances: FloatArray, degrees: FloatArray, spreads: Sequence[RunSpread]
) -> tuple[FloatArray, float]:
    """Fit the scaled inverse chi-squared distribution of the metrics' variances by moments of the log.

    Its centre follows the noise within the runs as far as the metrics show that it tells something.

    Returns:
        The prior variance of each metric, shape (n,), and the prior's degrees of freedom.
    """
    from scipy.special import polygamma, psi

    few = len(variances) < ENOUGH_METRICS
    if few and not all(s.card for s in spreads):
        return np.full(len(variances), PRIOR**2), PRIOR_DEGREES
    logs = np.log(variances) - psi(degrees / 2) + np.log(degrees / 2)
    order = np.argsort(logs, kind="stable")  # sums in a fixed order: the metrics' own is no matter
    if few:
        whole = float(np.append(logs[order], 2 * math.log(PRIOR)).mean())
        centre, half = np.full(len(logs), whole), PRIOR_DEGREES / 2
    else:
        centre, spent = _trend(logs, np.array([s.within for s in spreads]), order)
        residual = (logs - centre)[order]
        scatter = float(np.sort(residual**2).sum()) / (len(logs) - spent)
        excess = scatter - float(np.sort(polygamma(1, degrees / 2)).mean())
        half = _inverse_trigamma(excess) if excess > 0 else MOST_DEGREES / 2
        half = min(half, MOST_DEGREES / 2)
    return np.exp(centre + float(psi(half)) - math.log(half)), 2 * half


def _trend(
    logs: FloatArray, within: FloatArray, order: npt.NDArray[np.intp]
) -> tuple[FloatArray, int]:
    """Return the line through log variances over log noise within, and how many parameters it took."""
    flat = np.full(len(logs), float(logs[order].mean()))
    known = within > FLOOR / 10  # less is the rounding of equal values, not noise
    if int(known.sum()) < ENOUGH_FOR_TREND:
        return flat, 1
    chosen = order[known[order]]
    noise, target = 2 * np.log(within[chosen]), logs[chosen]
    spread = float(((noise - noise.mean()) ** 2).sum())
    if spread < 1e-9:  # all alike: no line
        return flat, 1
    slope = float(((noise - noise.mean()) * (target - target.mean())).sum()) / spread
    slope = min(max(slope, 0.0), 1.0)
    line = flat.copy()
    line[known] = target.mean() + slope * (2 * np.log(within[known]) - noise.mean())
    return line, 2


def _inverse_trigamma(value: float) -> float:
    from scipy.special import polygamma

    low, high = 1e-3, 1e6  # half degrees of freedom: from 1e6 down to 1e-6 of variance of the log
    for _ in range(80):  # to the last digit
        middle = math.sqrt(low * high)
        if float(polygamma(1, middle)) > value:
            low = middle
        else:
            high = middle
    return middle
