"""Find trends over the cycles of a soak: metrics that become worse while the node is under load.

Its rank test (Mann-Kendall) also serves `segments` and `metric_drift`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_anubis.core.baseline import ERROR_RATE
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric, loss_text, metric_name, value_text
from pytest_anubis.validator.similarity.distance import one_sided

MIN_CYCLES = 6
"""Fewest cycles that are searched for a trend: six have a perfect order by a chance of 1 in 720, and a third
of them are two."""
MIN_CHANGE = 0.02
"""Smallest relative loss that is reported, over the cycles of a soak and, by default, within a run: less than
half of the loss that matters. With strongly correlated noise a tenth of clean runs shows as much, so judging
asks for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A metric that became worse over a campaign."""

    benchmark: str
    metric: Metric
    device: str
    component: str  # what the benchmark exercises
    first: float  # median of the first third of the cycles, in the metric's unit
    last: float  # median of the last third
    similarity: float  # one-sided similarity of the last third's values to the first third's
    chance: float  # one-sided p-value of the order of the cycles' medians
    cycles: int  # how many cycles measured it

    @property
    def key(self) -> tuple[str, str, str]:
        """Benchmark, metric and device that became worse."""
        return self.benchmark, self.metric.name, self.device

    @property
    def text(self) -> str:
        """The trend in one sentence."""
        name, unit = self.metric.name, self.metric.unit
        how = loss_text(self.similarity, self.metric.better, unit)
        return (
            f"{metric_name(self.benchmark, name, self.device)}: {how} at the end "
            f"(median {value_text(self.first, unit)} in the first third, {value_text(self.last, unit)} in "
            f"the last) over {self.cycles} cycles"
        )


def find_trends(cycles: Sequence[Sequence[Measurement]]) -> list[Trend]:
    """Return the metrics that became worse over the cycles, the greatest loss first.

    A trend is both costly and no accident: the values of the last third of the cycles are less than
    1 - `MIN_CHANGE` similar to those of the first third, and the medians of the cycles are ordered (Mann
    1945, Kendall 1938; one-sided, normal approximation, corrected for ties) beyond the chance `ERROR_RATE`,
    which all metrics share (Bonferroni). Disturbed samples are ignored. Cycles are in time order.
    """
    series = by_metric(cycles)
    found = []
    for samples in series.values():
        if len(samples) < MIN_CYCLES:
            continue
        trend = _trend(samples)
        if trend.similarity < 1 - MIN_CHANGE and trend.chance < ERROR_RATE / len(series):
            found.append(trend)
    return sorted(found, key=lambda trend: trend.similarity)


def by_metric(
    cycles: Sequence[Sequence[Measurement]],
) -> dict[tuple[str, str, str], list[Measurement]]:
    """Return (benchmark, metric, device) -> its usable measurements over the cycles, except exact metrics."""
    series: dict[tuple[str, str, str], list[Measurement]] = {}
    for measurements in cycles:
        for one in measurements:
            if is_searched(one):
                key = (one.benchmark, one.metric.name, one.device)
                series.setdefault(key, []).append(one)
    return series


def is_searched(measurement: Measurement) -> bool:
    """Return whether a cycle's measurement takes part in the search for trends and steps."""
    values = measurement.values
    usable = bool(values) and not measurement.disturbance and all(map(math.isfinite, values))
    return usable and measurement.metric.better != "equal"


def _trend(samples: Sequence[Measurement]) -> Trend:
    third = len(samples) // 3
    first = [value for one in samples[:third] for value in one.values]
    last = [value for one in samples[-third:] for value in one.values]
    one = samples[0]
    medians = np.array([np.median(sample.values) for sample in samples])
    worse = -medians if one.metric.better == "higher" else medians
    return Trend(
        benchmark=one.benchmark,
        metric=one.metric,
        device=one.device,
        component=one.component,
        first=float(np.median(first)),
        last=float(np.median(last)),
        similarity=one_sided(last, first, one.metric.better),
        chance=rising_chance(worse),
        cycles=len(samples),
    )


def rank_variance(count: int) -> float:
    """Return the variance of Kendall's score of `count` numbers in random order (Kendall 1938)."""
    return count * (count - 1) * (2 * count + 5) / 18


def rising_chance(values: np.ndarray) -> float:
    """Return the one-sided p-value of a rise of values (n,) in time, by the rank test of Mann and Kendall."""
    count = len(values)
    differences = np.sign(values[None, :] - values[:, None])
    score = float(np.triu(differences, 1).sum())
    _, ties = np.unique(values, return_counts=True)
    variance = rank_variance(count) - sum(map(rank_variance, ties.tolist()))
    if variance <= 0:
        return 1.0
    return 0.5 * math.erfc((score - 1) / math.sqrt(2 * variance))  # 1: correction for continuity
