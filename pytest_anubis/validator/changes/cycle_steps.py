"""Find steps over the cycles of a soak: metrics that became worse at one cycle and stayed so.

A trend (`trend.py`) is an order over all cycles. A part that breaks in the last tenth of a weekend shows no
trend, since most of the last third is as before. So the medians of the cycles are searched like the values of
one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Metric, loss_text, value_text
from pytest_anubis.validator.changes.segments import segments, sides_of
from pytest_anubis.validator.changes.trend import by_metric


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleStep:
    """A metric that became worse at one cycle of a campaign, and stayed so."""

    key: tuple[str, str, str]  # benchmark, name of the metric, device
    metric: Metric
    before: float  # median of the cycles' medians before, in the metric's unit
    since: float  # the same of the current segment
    onset: int  # first cycle of the current segment, among those that measured it, from 1
    cycles: int  # how many cycles measured it
    probability: float  # that of the change

    @property
    def text(self) -> str:
        """The step in one sentence."""
        unit, (low, high) = self.metric.unit, sorted((self.before, self.since))
        how = loss_text(low / high, self.metric.better, unit)
        return (
            f"{' '.join(self.key)}: {how} since cycle {self.onset} of {self.cycles} "
            f"(median {value_text(self.before, unit)} before, {value_text(self.since, unit)} since, "
            f"probability {self.probability:.3f})"
        )


def find_steps(cycles: Sequence[Sequence[Measurement]]) -> list[CycleStep]:
    """Return the metrics that became worse at one cycle and stayed so, worst first.

    Args:
        cycles: The measurements of each cycle, in time order; fewer than 24 cycles are not searched.
    """
    found = []
    for key, samples in by_metric(cycles).items():
        metric = samples[0].metric
        medians = np.array([np.median(sample.values) for sample in samples])
        change = segments(medians, metric.better).change
        if change is None or change.kind != "step" or not change.lasting:
            continue
        before, since = sides_of(medians, change.onset)
        step = CycleStep(
            key=key,
            metric=metric,
            before=before,
            since=since,
            onset=change.onset + 1,
            cycles=len(samples),
            probability=change.probability,
        )
        found.append((change.size, step))
    return [step for _, step in sorted(found, key=lambda pair: -pair[0])]
