"""Learn the thresholds of a baseline of one machine: its runs are the units, and their spread is the noise.

A future run of the same healthy machine differs from the centre of K learned runs by a shift of the whole run
(neighbours, clocks, memory layout) and by the shape noise of a finite sample. The scale of the shift is
estimated from K runs only, so it is shrunk towards the common scale of all metrics of the machine (moderated
variances: Smyth 2004, doi:10.2202/1544-6115.1027). The threshold is the Student-t prediction bound of a next
run, at a chance that keeps the whole node at its error rate. Comparisons with other devices or earlier runs
of a node use the same bound (`peer_judging.shared_thresholds`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.baseline import ALPHA, ERROR_RATE
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.validator.similarity.usable_rows import UsableRows, name_codes

FLOOR = 1e-3
"""Smallest relative run-to-run standard deviation: a few runs may agree better by chance than the next
one."""
PRIOR, PRIOR_DEGREES = 0.01, 2.0
"""Prior run-to-run standard deviation if there are too few metrics to estimate one, and its weight in runs.
It lies between links that repeat to .1 % and shared hosts whose runs differ by several percent. For a few
metrics of accelerators it counts as one more metric, since these are noisy or quiet alike: most kernels on
696 public accelerators repeat to .2 %."""
DRIFT = 1.3
"""Factor by which the spread of later runs is wider than among the learned ones, which are close in time. On
twelve cloud machines measured for months the spread around five runs was 1.2 to 1.4 times as wide as among
them (`benchmarks/validator/machine.py`)."""
MAX_DEGREES = 8.0
"""Largest weight of the common variance, in degrees of freedom (runs less one), since metrics differ in
noise."""
MIN_METRICS = 6
"""Fewest metrics whose common variance is estimated: with six, the scatter of their logarithms is known to a
third (1 / sqrt(2 * 5))."""
ODD = 0.01
"""Chance under the others' common variance below which a metric's spread is left out of it."""
MIN_METRICS_FOR_TREND = 12
"""Fewest metrics for a line from the noise within runs to that between them; with fewer its two parameters
would follow chance."""
BATCHES = 5
"""Parts of a run whose means show the noise within it."""
MAX_LOSS_ALLOWED = 0.9
"""Largest loss that a threshold may allow: a larger loss is no noise, however few the runs."""
LASTING = 0.5
"""Share of the variance between runs that further looks within half a minute do not average out. This is a
judgement; `benchmarks/validator/machine.py` shows the resulting rejections of healthy runs and the power."""
DISKS = "storage"
"""Components of disks."""
SHARED_LOSSES = {DISKS: 0.42, "memory.bandwidth": 0.25, "memory.latency[llc]": MAX_LOSS_ALLOWED}
"""Component, with its benchmark's parameter where the others are not shared -> the loss that it may always
have in a virtual machine, of whose host others use the same part. Its rates change for minutes or hours, no
counter in the guest shows that, and the rounds of one learning meet only one such mode. By the spread of six
runs a tenth of a disk's random reads and writes in other hours would fail, with this loss allowed none; of
memory whose last cache others filled, 6 of 6 runs an hour later, which had lost 7 to 22 %. Loads from that
cache took 12 to 132 ns within half an hour: at worst all of them go to the memory (`docs/decisions.md`)."""


class MachineThreshold(NamedTuple):
    """The learned threshold of one metric of one machine."""

    confirmed: float  # similarity below which a sample is outside the spread once further looks confirmed it
    unconfirmed: float  # the same before that
    scale: float  # relative standard deviation of a single look about the centre


def shared_loss(component: str, benchmark: str) -> float:
    """Return the loss that a benchmark of a virtual machine may always show (`SHARED_LOSSES`)."""
    parameter = f"[{benchmark.partition('[')[2]}"
    names = (component + parameter, component, component.partition(".")[0])
    return next((SHARED_LOSSES[name] for name in names if name in SHARED_LOSSES), 0.0)


def beyond_loss(threshold: MachineThreshold, loss: float) -> MachineThreshold:
    """Return the threshold of a part that others use unseen, so that it may always lose so much."""
    confirmed, unconfirmed, scale = threshold
    return MachineThreshold(min(confirmed, 1 - loss), min(unconfirmed, 1 - loss), scale)


class RunSpread(NamedTuple):
    """The spread of one metric of one machine between its runs."""

    deviation: float  # standard deviation of the runs' means, relative to their mean
    runs: int  # number of runs
    shape: float  # largest part of a run's distance that is no shift: its smaller side
    within: float = 0.0  # deviation if batches within runs were independent; 0: unknown
    card: bool = False  # whether it is a metric of accelerators


def run_spread(rows: UsableRows, centre: FloatArray) -> RunSpread:
    """Measure the spread of the runs around their centre, each device compared with itself."""
    population, means = rows.population, rows.means()
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
    return RunSpread(math.sqrt(variance), distinct, shape, _within(rows), card)


def _within(rows: UsableRows) -> float:
    """Return the relative standard error of a run's mean, from the means of batches of each run."""
    known = within_variances(rows)
    known = known[~np.isnan(known)]
    return math.sqrt(math.fsum(known) / len(known)) if len(known) else 0.0


def within_variances(rows: UsableRows) -> FloatArray:
    """Return each row's relative variance of its mean (n,), from the means of successive batches.

    It is NaN for rows that are unusable, too short or zero throughout.
    """
    out = np.full(rows.total, np.nan)
    values, offsets = rows.population.values, np.asarray(rows.population.offsets)
    sizes = np.diff(offsets)
    for size in np.unique(sizes[rows.usable]):
        if size < 2 * BATCHES:
            continue
        index = np.flatnonzero(rows.usable & (sizes == size))
        matrix = values[offsets[index][:, None] + np.arange(size)]
        means = np.stack([p.mean(axis=1) for p in np.array_split(matrix, BATCHES, axis=1)], axis=1)
        whole = matrix.mean(axis=1)
        some = whole > 0
        out[index[some]] = means[some].var(axis=1, ddof=1) / BATCHES / whole[some] ** 2
    return out


def machine_thresholds(
    spreads: Sequence[RunSpread], *, error_rate: float = ERROR_RATE, alpha: float = ALPHA
) -> list[MachineThreshold]:
    """Return the learned thresholds of each metric of one machine, in the order of their spreads.

    The error rate is the chance that any metric of a healthy run is beyond both its thresholds. A metric
    whose spread stays within alpha costs none of it; the noisy metrics share it in equal parts.
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
    # Shape noise is the distance of two samples that cross; a shift beyond their spread leaves none.
    loss = np.maximum(shift, shape + shift / 2)
    return np.asarray(1 - np.minimum(loss, MAX_LOSS_ALLOWED))


def _share(
    scale: FloatArray, shape: FloatArray, degrees: FloatArray, error_rate: float, practical: float
) -> float:
    """Return the chance that every noisy metric may take, so that all together take `error_rate`."""
    from scipy.special import stdtr

    room = np.maximum(np.minimum(practical, 2 * (practical - shape)), 0.0)
    alone = np.sort(1 - stdtr(degrees, -np.log1p(-room) / scale))  # chances to exceed alpha
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

    Most metrics of a machine repeat alike; a few (disks, bandwidth shared with a neighbour) are far noisier.
    Those few have a prior without weight: they keep their own spread and do not affect the prior of the quiet
    ones (the idea of Phipson et al. 2016, doi:10.1214/16-AOAS920).
    """
    from scipy.special import fdtrc

    members = np.ones(len(variances), dtype=np.bool_)
    for _ in range(len(variances)):
        chosen = np.flatnonzero(members)
        some, weight = _prior(
            variances[chosen], degrees[chosen], [spreads[i] for i in chosen.tolist()]
        )
        if len(chosen) < MIN_METRICS:
            break
        ratio = variances[chosen] / some
        chance = fdtrc(degrees[chosen], max(weight, MAX_DEGREES), ratio)
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
    """Return the prior variance of each metric (n,), and the prior's degrees of freedom.

    The scaled inverse chi-squared distribution of the metrics' variances is fitted by moments of the log. Its
    centre follows the noise within the runs, if the metrics show that they are related.
    """
    from scipy.special import polygamma, psi

    few = len(variances) < MIN_METRICS
    if few and not all(s.card for s in spreads):
        return np.full(len(variances), PRIOR**2), PRIOR_DEGREES
    logs = np.log(variances) - psi(degrees / 2) + np.log(degrees / 2)
    order = np.argsort(logs, kind="stable")  # sums do not depend on the order of metrics
    if few:
        whole = float(np.append(logs[order], 2 * math.log(PRIOR)).mean())
        centre, half = np.full(len(logs), whole), PRIOR_DEGREES / 2
    else:
        centre, spent = _trend(logs, np.array([s.within for s in spreads]), order)
        residual = (logs - centre)[order]
        scatter = float(np.sort(residual**2).sum()) / (len(logs) - spent)
        excess = scatter - float(np.sort(polygamma(1, degrees / 2)).mean())
        half = _inverse_trigamma(excess) if excess > 0 else MAX_DEGREES / 2
        half = min(half, MAX_DEGREES / 2)
    return np.exp(centre + float(psi(half)) - math.log(half)), 2 * half


def _trend(
    logs: FloatArray, within: FloatArray, order: npt.NDArray[np.intp]
) -> tuple[FloatArray, int]:
    """Return the line through log variances over log noise within, and how many parameters it took."""
    flat = np.full(len(logs), float(logs[order].mean()))
    known = within > FLOOR / 10  # less is the rounding of equal values, not noise
    if int(known.sum()) < MIN_METRICS_FOR_TREND:
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
