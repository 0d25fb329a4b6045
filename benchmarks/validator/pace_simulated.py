"""What judging at the host's reference pace is worth on simulated shared machines, where the truth is known.

Twelve metrics follow the host's pace by .4 to 1.2. Its log has a level for every run (2 %, or as given), one
for every measurement (6 %) and one for every burst of six rounds (5 %), so means over a measurement differ by
about 7 %, as was seen on a shared two-core machine. Probes read it with a noise of 8 % each; the metrics' own
noise is 1.2 % a round and .4 % a run. Judged as the plugin does, with closer looks: undisturbed runs, one
metric slower by 5 or 10 %, everything slower by a quarter.

Run: ``python benchmarks/validator/pace_simulated.py [--machines 12] [--learn 6] [--judged 5] [--level .02]
[--raw]``.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np

from pytest_anubis.core.baseline import HOST_PACE, Baseline, Criterion
from pytest_anubis.core.gather import Gather
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.core.verdict import MetricVerdict, Outcome
from pytest_anubis.validator import closer_look, judge_columns, judge_sample, learn_baseline
from pytest_anubis.validator.similarity.pacing import pace_populations, paced_forms_of

METRICS, BURST, BURSTS = 12, 6, 5
MEASURED, FLEETING, READING, OWN, RUN = 0.06, 0.05, 0.08, 0.012, 0.004
SLOWER = 0.22
"""Log of what everything is slower by: a quarter."""

SEED = 16
CASES = (("nothing", 0.0, 0.0), ("5 %", 0.05, 0.0), ("10 %", 0.1, 0.0), ("all", 0.0, SLOWER))
"""Name, what one metric is slower by, log of what everything is slower by."""

Values = FloatArray
Pace = list[tuple[str, list[float]]]


class Machine:
    """A shared machine.

    Args:
        rng: Source of all its noise.
        level: By how much the pace differs between runs.
    """

    def __init__(self, rng: np.random.Generator, level: float) -> None:
        self._rng, self._spread = rng, level
        self._slopes = rng.uniform(0.4, 1.2, METRICS)
        self._level = 0.0

    def reseed(self, rng: np.random.Generator) -> None:
        """Take all further noise from another source."""
        self._rng = rng

    def next_run(self) -> None:
        """Begin another run."""
        self._level = self._rng.normal(0, self._spread)

    def measure(
        self, metric: int, *, bursts: int = BURSTS, slow: float = 0.0, clock: float = 0.0
    ) -> tuple[Values, Pace]:
        """Return the durations of some bursts of rounds, and what the probes took beside them."""
        rng, count = self._rng, BURST * bursts
        fleeting = np.repeat(rng.normal(0, FLEETING, bursts), BURST)
        pace = clock + self._level + rng.normal(0, MEASURED) + fleeting
        own = rng.normal(0, OWN, count) + rng.normal(0, RUN)
        values = 100 * (1 + slow) * np.exp(self._slopes[metric] * pace + own)
        return values, [("compute", self._read(pace)), ("memory", self._read(0.5 * pace))]

    def _read(self, pace: Values) -> list[float]:
        """Return the means of the readings before and after every round, in seconds."""
        noise = self._rng.normal(0, READING, len(pace) + 1)
        return list(1e-3 * np.exp(pace + (noise[1:] + noise[:-1]) / 2))


def main() -> None:
    """Simulate, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=12)
    parser.add_argument("--learn", type=int, default=6)
    parser.add_argument("--judged", type=int, default=5)
    parser.add_argument("--level", type=float, default=0.02)
    parser.add_argument("--raw", action="store_true", help="without the pace, for comparison")
    arguments = parser.parse_args()
    counts = Counter[str]()
    raw: list[float] = []
    paced: list[float] = []
    for number in range(arguments.machines):
        # How often a run is looked at again depends on the limits: every machine and every run has noise of
        # its own, so that two versions are compared on the same ones.
        rng = np.random.default_rng((SEED, number))
        machine = Machine(rng, arguments.level)
        baseline = learn(machine, arguments.learn, pace=not arguments.raw)
        for one in baseline.criteria:
            if one.benchmark != HOST_PACE:
                raw.append(1 - (one.learned or one.alpha))
                paced += [1 - (one.paced.learned or one.alpha)] if one.paced else []
        for judged in range(arguments.judged):
            metric = int(rng.integers(METRICS))
            for place, (case, slow, clock) in enumerate(CASES):
                machine.reseed(np.random.default_rng((SEED, number, judged, place)))
                failed = [
                    v
                    for v in judge(machine, baseline, metric, slow, clock)
                    if v.outcome is Outcome.FAIL
                ]
                hit = (
                    bool(failed) if slow == 0 else any(v.benchmark == f"b{metric}" for v in failed)
                )
                counts[case] += hit
    runs = arguments.machines * arguments.judged
    print(
        f"learned from {arguments.learn} runs; {len(paced)} of {len(raw)} metrics have a paced form"
    )
    print(f"loss that fails, median: raw {np.median(raw):.1%}", end="")
    print(f", paced {np.median(paced):.1%}" if paced else "")
    print(f"undisturbed runs rejected: {counts['nothing']} of {runs}")
    for case in ("5 %", "10 %"):
        print(f"one metric slower by {case}: found in {counts[case]} of {runs}")
    print(f"everything slower by a quarter: rejected in {counts['all']} of {runs}")


def learn(machine: Machine, runs: int, *, pace: bool) -> Baseline:
    """Learn a baseline from so many runs."""
    gather = Gather()
    for run in range(runs):
        machine.next_run()
        for metric in range(METRICS):
            values, beside = machine.measure(metric)
            add(gather, metric, f"r{run}", values, beside if pace else [])
    return learn_baseline(gather.populations(), hardware_class="c", created="2026-01-01T00:00:00Z")


def add(gather: Gather, metric: int, run: str, values: Values, pace: Pace) -> None:
    """Add one measurement."""
    gather.add(
        hardware_class="c",
        benchmark=f"b{metric}",
        metric=Metric(name="time", unit="ms", better="lower"),
        component="host",
        group="",
        node="n",
        device="cpu",
        run=run,
        values=values.tolist(),
        pace=pace,
    )


def judge(
    machine: Machine, baseline: Baseline, slowed: int, slow: float, clock: float
) -> list[MetricVerdict]:
    """Measure one run, looking again where it is close, and judge it."""
    machine.next_run()
    gather, found = Gather(), []
    for metric in range(METRICS):
        criterion = baseline.find(f"b{metric}", "time")
        if criterion is None:
            continue
        values, pace, looks = look(machine, metric, criterion, slow * (metric == slowed), clock)
        found.append(judge_sample(values, criterion, baseline, looks=looks, pace=dict(pace)))
        add(gather, metric, "now", values, pace)
    for population in pace_populations(gather.populations(), paced_forms_of(baseline.criteria)):
        criterion = baseline.find(HOST_PACE, population.metric.name)
        if criterion is not None:
            found += judge_columns(population, criterion, baseline=baseline).verdicts(baseline)
    return found


def look(
    machine: Machine, metric: int, criterion: Criterion, slow: float, clock: float
) -> tuple[Values, Pace, int]:
    """Return all values of all looks, the pace beside them, and how many looks they are."""
    parts: list[Values] = []
    paces: list[Pace] = []
    while not parts or closer_look(parts, criterion, paces=paces) == "more":
        bursts = 1 if parts else BURSTS
        values, pace = machine.measure(metric, bursts=bursts, slow=slow, clock=clock)
        parts.append(values)
        paces.append(pace)
    return np.concatenate(parts), joined(paces), len(parts)


def joined(paces: Sequence[Pace]) -> Pace:
    """Join the paces of successive looks, kind by kind."""
    return [
        (kind, [second for pace in paces for second in dict(pace)[kind]]) for kind, _ in paces[0]
    ]


if __name__ == "__main__":
    main()
