"""Find steps over the cycles of a soak: metrics that became worse at one cycle for good, and what moved then.

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
from pytest_anubis.core.onset import COUNTED, Onset, series_words
from pytest_anubis.validator.changes.onset_sensors import Moment, moved_at
from pytest_anubis.validator.changes.segments import segments, sides_of
from pytest_anubis.validator.changes.trend import by_metric, is_searched

NEARBY = 16
"""Cycles on either side of a step whose sensors are compared: more than the fewest readings on each side, and
too few for a season to show."""


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

    Cycles are in time order; fewer than 24 are not searched.
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


def cycles_near(
    step: CycleStep, cycles: Sequence[Sequence[Measurement]]
) -> tuple[range, list[int]]:
    """Return the cycles around a step of `find_steps` whose sensors are compared.

    They are given as numbers among those that measured the metric, from 0, and as places among all cycles.
    """
    places = [
        place
        for place, measurements in enumerate(cycles)
        for one in measurements
        if _key(one) == step.key and is_searched(one)
    ]
    begin = step.onset - 1
    near = range(max(0, begin - NEARBY), min(len(places), begin + NEARBY))
    return near, [places[number] for number in near]


def step_onset(
    step: CycleStep, near: range, cycles: Sequence[Sequence[Measurement]]
) -> Onset | None:
    """Join a step to the sensors of the cycles around it; None if no sensor is in enough of them.

    `near` are the numbers of these cycles (`cycles_near`), `cycles` their measurements with telemetry.
    """
    series: dict[str, dict[int, float]] = {}
    for number, measurements in enumerate(cycles):
        own = [one for one in measurements if _key(one) == step.key and is_searched(one)]
        for name, readings in own[-1].telemetry if own else ():
            if readings:
                middle = np.mean if _is_counter(name) else np.median
                series.setdefault(name, {})[number] = float(middle(readings))
    # A sensor that some cycles lack has no place in time; a counter did not change there.
    whole = [
        (name, [known.get(number, 0.0) for number in range(len(near))])
        for name, known in series.items()
        if len(known) == len(near) or _is_counter(name)
    ]
    share = (step.onset - 1 - near.start) / max(len(near), 1)
    low, high = sorted((step.before, step.since))
    return moved_at(
        whole,
        Moment(begin=0, onset=share, end=1),
        number=step.onset,
        count=step.cycles,
        size=1 - low / high,
    )


def _is_counter(name: str) -> bool:
    return series_words(name)[2] in COUNTED


def _key(measurement: Measurement) -> tuple[str, str, str]:
    return measurement.benchmark, measurement.metric.name, measurement.device
