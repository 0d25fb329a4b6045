"""Find abrupt changes and slow ramps in the values of one run, in time order, and add them to its verdict.

The length of the current segment has a posterior distribution that is updated with every value (Bayesian
online change point detection: Adams and MacKay 2007, arXiv 0710.3742). A segment's values have an unknown
mean and variance under a conjugate normal-inverse-gamma prior, so its predictive distribution is Student's t,
and single outliers do not end a segment. A piecewise constant model does not show slow heating; a rank test
for a monotone ramp does. `largest_drops` screens many runs cheaply: only those in which a short stretch is
worse than another are searched. `sample_verdicts` and `run_comparisons` use it for single measurements,
`change_screening` for whole populations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.baseline import ALPHA, Criterion
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Direction, loss_text
from pytest_anubis.core.onset import Onset
from pytest_anubis.core.sample import FloatArray, unusable_reason
from pytest_anubis.core.verdict import MIN_SEARCHED, MetricVerdict, Outcome, Reason
from pytest_anubis.validator.changes.steady_state import steady_from
from pytest_anubis.validator.changes.trend import MIN_CHANGE, rank_variance
from pytest_anubis.validator.similarity.centre import MIN_UNITS
from pytest_anubis.validator.similarity.distance import TINY
from pytest_anubis.validator.similarity.usable_rows import BoolArray

HAZARD = 1 / 300
"""Chance that a segment ends, per value: as if one of ten measurements of 30 values had a change. This
judgement is used until the rate of the class is learned (`change_rate`). It enters as a logarithm, so a few
clearly different values outweigh any other choice."""
CERTAIN = 0.95
"""Posterior probability above which a change is reported if it is also large and `DISTINCT`."""
AGE = 8
"""A segment counts once it has this many values: the median of eight withstands three outliers."""
MIN_VALUES = MIN_SEARCHED
"""Fewest values that are searched, three times `AGE`: two segments, and one more to distinguish a change from
wandering."""
PRUNE = -25.0
"""Log probability below which a start of the segment is dropped; 1e-11 changes no reported probability."""
FIRST = 30
"""Values that set the prior's centre and scale: as many as one measurement has."""
PRIOR_WEIGHT, PRIOR_SHAPE = 0.02, 1.0
"""The prior of a segment's mean counts as a fiftieth of a value, so a new segment may lie anywhere within
seven standard deviations of noise. The prior of its variance counts as two values, which its own soon
outweigh."""
SCALE_FLOOR = 1e-4
"""Smallest relative noise of the prior, so that other values are possible after a beginning of equal ones."""
MAX_VALUES = 1024
"""A longer series is reduced to medians of equal stretches, since the time grows with the square."""
DISTINCT = 4.0
"""A change must exceed this many standard deviations of the medians of equally long earlier stretches. These
are few, so their deviation is uncertain, and correlated noise wanders."""
MAD = 1.4826
"""Standard deviation of normal values over the median of their absolute deviations, 1 / quantile(3/4)."""
STRETCHES = 16
"""Stretches whose medians are tested for a ramp. Perfect order of sixteen is 5.4 standard deviations from
chance; that of eight, 3.5, would fall short of `RAMP_CERTAIN`."""
RAMP_CERTAIN = 0.9999
"""One-sided probability above which a ramp is reported. It is stricter than that of a step, since correlated
noise makes neighbouring medians alike, which the rank test takes for order."""
COSTLY = round(1 - ALPHA, 9)
"""Smallest change that makes a test MARGINAL: the loss that matters. Smaller changes may be correlated noise
of a shared machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change for the worse within a run."""

    kind: str  # ``step`` for an abrupt change, ``ramp`` for a slow one
    onset: int  # index of the first value of the changed segment (of the second half, for a ramp)
    size: float  # 1 less the smaller median over the larger one, before and after
    probability: float  # posterior probability of the change, in [0, 1]
    until: int  # index after the last value of the changed segment
    lasting: bool = (
        True  # whether the rest of the run is as much worse; else it may be a disturbance
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """The segments of one run's values in time."""

    count: int  # number of values
    warmup: int = 0  # number of values at the beginning that are not steady, and not searched
    change: Change | None = None  # the most probable one for the worse; None if there is none

    def sentence(self, better: str, unit: str) -> str:
        """Describe the change in a phrase that fits direction and unit; empty without a change."""
        if self.change is None:
            return ""
        how = loss_text(1 - self.change.size, better, unit)
        where = f"value {self.change.onset + 1} of {self.count}"
        if self.change.kind == "ramp":
            return f"slowly became {how} over the run"
        back = "" if self.change.until >= self.count else f" until value {self.change.until}"
        return f"became {how} from {where}{back} (probability {self.change.probability:.3f})"


def segments(
    values: npt.ArrayLike,
    better: Direction = "lower",
    *,
    hazard: float = HAZARD,
    least_change: float = MIN_CHANGE,
) -> Segments:
    """Search the values of one run, in time order, for a change for the worse.

    Args:
        values: Shape (n,); fewer than 24 values, or values that are no sample, have no segments.
        better: Which direction is better; an exact metric has no changes.
        hazard: Chance per value that a segment ends.
        least_change: Smallest relative loss that counts; use .05 on a shared CPU.

    Returns:
        The strongest change, and where steady state begins.
    """
    series = np.asarray(values, dtype=np.float64)
    series = series if series.ndim == 1 else series.ravel()
    if (
        better == "equal"
        or unusable_reason(series, least=MIN_VALUES)
        or series.min() == series.max()
    ):
        return Segments(count=series.size)
    size = -(-series.size // MAX_VALUES)
    thin = series if size == 1 else medians_of(series, size)
    warmup = steady_from(thin, better)
    steady = thin[warmup:]
    change = _step(steady, better, hazard, least_change)
    if change is None:
        change = _ramp(steady, better, least_change)
    if change is not None:
        until = min((change.until + warmup) * size, series.size)
        until = series.size if change.until == len(steady) else until
        change = replace(
            change,
            onset=(change.onset + warmup) * size,
            until=until,
            lasting=change.kind == "ramp"
            or _loss(*sides_of(steady, change.onset), better) > least_change,
        )
    return Segments(count=series.size, warmup=warmup * size, change=change)


def sides_of(series: FloatArray, onset: int) -> tuple[float, float]:
    """Return the medians before and since the onset of a change."""
    return float(np.median(series[:onset])), float(np.median(series[onset:]))


def medians_of(series: FloatArray, size: int) -> FloatArray:
    """Return the medians of successive stretches of `size` values; an incomplete last stretch is dropped."""
    whole = len(series) // size * size
    return np.asarray(np.median(series[:whole].reshape(-1, size), axis=1))


def with_segments(
    verdict: MetricVerdict, found: Segments, onset: Onset | None = None
) -> MetricVerdict:
    """Add a change to a verdict on all values: a lasting one makes a PASS MARGINAL, others are evidence.

    If the begin of the change is known (`onset`), it replaces the line of evidence.
    """
    text = found.sentence(verdict.better, verdict.unit)
    if found.change is None or not text:
        return verdict
    verdict = replace(verdict, onset=onset)
    evidence = verdict.evidence if onset is not None else (*verdict.evidence, text)
    if verdict.outcome is not Outcome.PASS or verdict.disturbance or not found.change.lasting:
        return replace(verdict, evidence=evidence)
    return replace(
        verdict,
        outcome=Outcome.MARGINAL,
        reason=Reason.CHANGE_POINT,
        text=f"{verdict.metric} passes as a whole, but {text}",
        evidence=evidence,
    )


def _step(
    series: FloatArray, better: Direction, hazard: float, least_change: float
) -> Change | None:
    best: Change | None = None
    for now, (starts, posterior) in enumerate(_posteriors(series, hazard), start=1):
        late = (starts >= AGE) & (now - starts >= AGE)
        probability = float(posterior[late].sum())
        if probability <= CERTAIN or (best is not None and probability < best.probability):
            continue
        onset = int(starts[late][np.argmax(posterior[late])])
        # Medians, since outliers must not make a segment look worse.
        size = _loss(*sides_of(series[:now], onset), better)
        if size > least_change and _distinct(series, onset, now):
            best = Change(
                kind="step", onset=onset, size=size, probability=min(probability, 1.0), until=now
            )
    return None if best is None else replace(best, until=_end(series, best, better))


def _end(series: FloatArray, change: Change, better: Direction) -> int:
    """Return where a changed segment ends, since the posterior is highest somewhere within it.

    It continues while stretches of `AGE` values stay on the worse side of the mean of before and after.
    """
    before, after = sides_of(series[: change.until], change.onset)
    middle = (before + after) / 2
    end = change.until
    while end < len(series):
        typical = float(np.median(series[end : end + AGE]))
        if (typical > middle) == (better == "higher"):
            break
        end = min(end + AGE, len(series))
    return end


def _posteriors(
    series: FloatArray, hazard: float
) -> list[tuple[npt.NDArray[np.int64], FloatArray]]:
    """Return, after every value, the possible starts of the current segment and their posterior."""
    from scipy.special import gammaln

    first = series[:FIRST]
    scale = max(_noise(first), SCALE_FLOOR * float(np.median(series)), TINY)
    middle, weight, shape = float(np.median(first)), PRIOR_WEIGHT, PRIOR_SHAPE
    starts = np.array([0], dtype=np.int64)
    log_posterior = np.zeros(1)
    m, k, a, b = (np.array([x]) for x in (middle, weight, shape, shape * scale**2))
    out = []
    for now, x in enumerate(series):
        spread = b * (k + 1) / (a * k)
        predicted = (
            gammaln(a + 0.5)
            - gammaln(a)
            - 0.5 * np.log(2 * a * math.pi * spread)
            - (a + 0.5) * np.log1p((x - m) ** 2 / (2 * a * spread))
        )
        if now > 0:
            fresh = (
                float(np.logaddexp.reduce(log_posterior))
                + math.log(hazard)
                + float(_student(x, middle, weight, shape, shape * scale**2))
            )
            grown = log_posterior + math.log1p(-hazard) + predicted
            log_posterior = np.append(grown, fresh)
            starts = np.append(starts, now)
            m, k, a, b = (
                np.append(old, new)
                for old, new in zip(
                    (m, k, a, b), (middle, weight, shape, shape * scale**2), strict=True
                )
            )
        log_posterior = log_posterior - np.logaddexp.reduce(log_posterior)
        b = b + k * (x - m) ** 2 / (2 * (k + 1))
        m = (k * m + x) / (k + 1)
        k = k + 1
        a = a + 0.5
        keep = log_posterior > PRUNE
        starts, log_posterior = starts[keep], log_posterior[keep]
        m, k, a, b = m[keep], k[keep], a[keep], b[keep]
        out.append((starts, np.exp(log_posterior)))
    return out


def _student(x: float, m: float, k: float, a: float, b: float) -> float:
    spread = b * (k + 1) / (a * k)
    constant = math.lgamma(a + 0.5) - math.lgamma(a) - 0.5 * math.log(2 * a * math.pi * spread)
    return constant - (a + 0.5) * math.log1p((x - m) ** 2 / (2 * a * spread))


def _loss(before: float, after: float, better: Direction) -> float:
    """Return the relative loss from one typical value to another."""
    if better == "higher":
        return 1 - after / before if before > 0 else 0.0
    return 1 - before / after if after > 0 else 0.0


def _distinct(series: FloatArray, onset: int, now: int) -> bool:
    """Return whether a change exceeds the wandering of equally long stretches before it."""
    # Four stretches or more, if the change comes late enough, none of them under four values.
    length = min(now - onset, max(AGE // 2, onset // 4))
    stretches = np.median(series[onset % length : onset].reshape(-1, length), axis=1)
    if len(stretches) < MIN_UNITS:
        return True
    middle = float(np.median(stretches))
    wander = max(float(stretches.std(ddof=1)), _noise(series[:onset]) / math.sqrt(length))
    return abs(float(np.median(series[onset:now])) - middle) > DISTINCT * wander


def _noise(series: FloatArray) -> float:
    """Return the standard deviation between successive values, without outliers and trends."""
    return MAD * float(np.median(np.abs(np.diff(series)))) / math.sqrt(2)


def _ramp(series: FloatArray, better: Direction, least_change: float) -> Change | None:
    """Find a slow monotone loss: Mann and Kendall's rank test on the medians of stretches."""
    parts = np.array([np.median(part) for part in np.array_split(series, STRETCHES)])
    n = len(parts)
    quarter = n // 4
    size = _loss(float(parts[:quarter].mean()), float(parts[-quarter:].mean()), better)
    if size <= least_change:
        return None
    pairs = np.sign(parts[None, :] - parts[:, None])[np.triu_indices(n, 1)]
    score = float(pairs.sum()) * (1 if better == "lower" else -1)
    z = score / math.sqrt(rank_variance(n))
    probability = 0.5 * (1 + math.erf(z / math.sqrt(2)))
    if probability <= RAMP_CERTAIN:
        return None
    count = len(series)
    return Change(kind="ramp", onset=count // 2, size=size, probability=probability, until=count)


def least_change(criterion: Criterion | None) -> float:
    """Return the smallest change that counts: it matters, and exceeds the metric's own noise."""
    if criterion is None:
        return COSTLY
    wide = min(criterion.learned or 1.0, criterion.unconfirmed or 1.0)
    return max(COSTLY, 1 - wide)


def hazard_of(criterion: Criterion | None) -> float:
    """Return the chance per value that a segment ends, as learned from the class's healthy units."""
    rate = criterion.change_rate if criterion is not None else None
    return HAZARD if rate is None else rate


def changes_of(measurement: Measurement, criterion: Criterion | None = None) -> Segments:
    """Search a measurement for a change that matters and exceeds the noise of its criterion, if any."""
    return segments(
        measurement.values,
        measurement.metric.better,
        hazard=hazard_of(criterion),
        least_change=least_change(criterion),
    )


WIDTH, STRIDE = AGE, AGE // 2
"""Length and distance of the stretches: as short as the shortest segment, each overlapping the next by
half."""
SCREENED = 0.8
"""Share of the least change from which a run is searched, since stretches are not aligned with segments."""
DISTINCT_STEPS = 0.9
"""Ordered values count as sorted if more than this share of neighbours differ; a counter's do not."""


def largest_drops(series: FloatArray, better: Direction) -> FloatArray:
    """Return how much a stretch of each series (k, n) is worse than the best one before it, relative, (k,).

    It is 0 for unusable and sorted series; n is at least `WIDTH`.
    """
    out = np.zeros(len(series))
    sound = np.isfinite(series).all(axis=1) & (series >= 0).all(axis=1) & ~is_sorted(series)
    if not sound.any():
        return out
    windows = np.lib.stride_tricks.sliding_window_view(series[sound], WIDTH, axis=1)[:, ::STRIDE]
    medians = np.median(windows, axis=2)
    if better == "higher":
        best = np.maximum.accumulate(medians, axis=1)
        share = medians / np.maximum(best, TINY)
    else:
        best = np.minimum.accumulate(medians, axis=1)
        share = best / np.maximum(medians, TINY)
    out[sound] = np.where(best > 0, 1 - share, 0.0).max(axis=1)
    return out


def is_sorted(series: FloatArray) -> BoolArray:
    """Return which rows are sorted: never a step back, and nearly all neighbours differ."""
    steps = np.diff(series, axis=1)
    differ = (steps != 0).mean(axis=1) > DISTINCT_STEPS
    return np.asarray(differ & ((steps >= 0).all(axis=1) | (steps <= 0).all(axis=1)))
