"""A simulated machine that learns from a few runs of its own, for `power.py`.

Its 40 metrics have lognormal noise within a run, a shift common to the whole run whose standard deviation
differs from metric to metric (0.3 to 4 %), drift between successive runs, and heavy tails.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.validator import closer_look, judge_sample, learn_baseline

Values = npt.NDArray[np.float64]
METRICS = 40
LATE = 0.01
"""Chance of a value that is late, by a tenth on average."""
BETWEEN, WITHIN = (0.003, 0.04), (0.004, 0.06)
"""Lowest and highest noise of a metric between runs and within one, relative."""


class Machine:
    """A machine whose metrics are noisy in their own ways.

    Args:
        rng: Source of all its noise.
        drift: Correlation of a metric's shift between successive runs.
        tails: Degrees of freedom of the shifts; 0 for normal ones.
        burst: Chance that a single stage is hit by a neighbour (15 % slower).
    """

    def __init__(self, rng: np.random.Generator, drift: float, tails: int, burst: float) -> None:
        self.rng, self.drift, self.tails, self.burst = rng, drift, tails, burst
        self.between = np.exp(rng.uniform(np.log(BETWEEN[0]), np.log(BETWEEN[1]), METRICS))
        self.within = np.exp(rng.uniform(np.log(WITHIN[0]), np.log(WITHIN[1]), METRICS))
        self.size = rng.choice([10, 20, 30, 30, 60], METRICS)
        self.shift = self._fresh()

    def _fresh(self) -> Values:
        if self.tails:
            raw = self.rng.standard_t(self.tails, METRICS)
            raw /= np.sqrt(self.tails / (self.tails - 2))
        else:
            raw = self.rng.normal(size=METRICS)
        return np.asarray(raw * self.between)

    def next_run(self) -> None:
        """Move every metric's shift on to the next run."""
        keep = self.drift
        self.shift = keep * self.shift + np.sqrt(1 - keep**2) * self._fresh()

    def stage(self, metric: int, slow: float = 0.0, share: int = 1) -> Values:
        """Return one stage of values (times, lower is better), or a part of one for a further look."""
        n = int(self.size[metric]) // share
        noise = self.rng.normal(0, self.within[metric], n)
        noise += np.where(self.rng.random(n) < LATE, self.rng.exponential(0.1, n), 0)
        late = 0.15 if self.rng.random() < self.burst else 0.0
        # Half of a run's variance passes within seconds: further looks see it anew.
        lasting = self.shift[metric] * np.sqrt(0.5)
        move = lasting + self.rng.normal(0, self.between[metric] * np.sqrt(0.5))
        return np.asarray(100 * (1 + slow + late) * np.exp(move + noise))


def learn(machine: Machine, runs: int) -> Baseline:
    """Learn a baseline from `runs` runs."""
    samples: list[list[Values]] = [[] for _ in range(METRICS)]
    for _ in range(runs):
        machine.next_run()
        for metric in range(METRICS):
            samples[metric].append(machine.stage(metric))
    names = [f"r{i}" for i in range(runs)]
    populations = [
        population_of(
            rows,
            metric=Metric(name=f"m{i:02d}", unit="ms", better="lower"),
            benchmark="b",
            nodes=["me"] * runs,
            devices=[""] * runs,
            runs=names,
        )
        for i, rows in enumerate(samples)
    ]
    return learn_baseline(populations, hardware_class="c", created="-")


def judge(take: Callable[..., Values], criterion: Criterion, baseline: Baseline) -> Outcome:
    """Judge one metric of one run, looking again where the call is close."""
    looks = [take()]
    while closer_look(looks, criterion) == "more":
        looks.append(take(share=5))
    return judge_sample(np.concatenate(looks), criterion, baseline, looks=len(looks)).outcome
