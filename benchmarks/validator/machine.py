"""One-machine baselines: does a machine accept itself, and does it still see a 10 % slowdown?

Simulated machines with 40 metrics: lognormal noise within a run, a shift common to the whole run whose
standard deviation differs from metric to metric (0.3 to 4 %), drift between successive runs, and heavy
tails. Each machine learns from a few runs and then judges ten more, with re-measurement. With ``--cards``
their noise is that of accelerators (.1 to 1 %, within a run as well), and the loss to be found is one of 6 %.

Usage: python benchmarks/validator/machine.py [--machines 60] [--runs 5] [--metrics 40] [--cards]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np
import numpy.typing as npt

from benchmarks.validator.fleets import LongLived
from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.sample import population_of
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.validator import closer_look, judge_sample, learn_baseline

Values = npt.NDArray[np.float64]
METRICS = 40
JUDGED = 10

HOST, CARD = ((0.003, 0.04), (0.004, 0.06)), ((0.001, 0.01), (0.001, 0.01))
"""Lowest and highest noise of a metric between runs and within one, relative."""


class Machine:
    """A machine whose metrics are noisy in their own ways.

    Args:
        rng: Source of all its noise.
        drift: Correlation of a metric's shift between successive runs.
        tails: Degrees of freedom of the shifts; 0 for normal ones.
        burst: Chance that a single stage is hit by a neighbour (15 % slower).
        metrics: How many it has.
        card: It is an accelerator.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        drift: float,
        tails: int,
        burst: float,
        metrics: int = METRICS,
        card: bool = False,
    ) -> None:
        self.rng, self.drift, self.tails, self.burst = rng, drift, tails, burst
        self.metrics, self.late = metrics, 0.0 if card else 0.01
        between, within = CARD if card else HOST
        self.device = "cuda:0" if card else ""
        self.between = np.exp(rng.uniform(np.log(between[0]), np.log(between[1]), metrics))
        self.within = np.exp(rng.uniform(np.log(within[0]), np.log(within[1]), metrics))
        self.size = rng.choice([10, 20, 30, 30, 60], metrics)
        self.shift = self._fresh()

    def _fresh(self) -> Values:
        if self.tails:
            raw = self.rng.standard_t(self.tails, self.metrics)
            raw /= np.sqrt(self.tails / (self.tails - 2))
        else:
            raw = self.rng.normal(size=self.metrics)
        return np.asarray(raw * self.between)

    def run_to_run(self, metric: int) -> float:
        """Return the standard deviation of the mean of one run."""
        values = self.within[metric] ** 2 + self.late * 2 * 0.1**2
        return float(np.sqrt(self.between[metric] ** 2 + values / self.size[metric]))

    def next_run(self) -> None:
        """Move every metric's shift on to the next run."""
        keep = self.drift
        self.shift = keep * self.shift + np.sqrt(1 - keep**2) * self._fresh()

    def stage(self, metric: int, slow: float = 0.0, share: int = 1) -> Values:
        """Return one stage of values (times, lower is better), or a part of one for a further look."""
        n = int(self.size[metric]) // share
        noise = self.rng.normal(0, self.within[metric], n)
        noise += np.where(self.rng.random(n) < self.late, self.rng.exponential(0.1, n), 0)
        late = 0.15 if self.rng.random() < self.burst else 0.0
        # Half of a run's variance passes within seconds: further looks see it anew.
        lasting = self.shift[metric] * np.sqrt(0.5)
        move = lasting + self.rng.normal(0, self.between[metric] * np.sqrt(0.5))
        return np.asarray(100 * (1 + slow + late) * np.exp(move + noise))


def learn(machine: Machine, runs: int) -> Baseline:
    """Learn a baseline from `runs` runs."""
    samples: list[list[Values]] = [[] for _ in range(machine.metrics)]
    for _ in range(runs):
        machine.next_run()
        for metric in range(machine.metrics):
            samples[metric].append(machine.stage(metric))
    names = [f"r{i}" for i in range(runs)]
    populations = [
        population_of(
            rows,
            metric=Metric(name=f"m{i:02d}", unit="ms", better="lower"),
            benchmark="b",
            nodes=["me"] * runs,
            devices=[machine.device] * runs,
            runs=names,
        )
        for i, rows in enumerate(samples)
    ]
    return learn_baseline(populations, hardware_class="c", created="-")


def judge(
    take: Callable[..., Values], criterion: Criterion, baseline: Baseline
) -> tuple[Outcome, int]:
    """Judge one metric of one run, looking again where the call is close."""
    looks = [take()]
    while closer_look(looks, criterion) == "more":
        looks.append(take(share=5))
    verdict = judge_sample(np.concatenate(looks), criterion, baseline, looks=len(looks))
    return verdict.outcome, len(looks)


def simulate(
    machines: int, runs: int, drift: float, tails: int, burst: float, metrics: int, card: bool
) -> dict[str, float]:
    """Return rates over many machines."""
    slower = 0.064 if card else 0.11  # in time: 6 and 10 % in rate
    rejected = marginal = clean_series = looks = judged = 0
    found: list[bool] = []
    seen: list[bool] = []
    for seed in range(machines):
        machine = Machine(np.random.default_rng(seed), drift, tails, burst, metrics, card)
        baseline = learn(machine, runs)
        # What repeats too badly to be judged has no criterion.
        judging = {int(one.metric.name.removeprefix("m")): one for one in baseline.criteria}
        fails = 0
        for _ in range(JUDGED):
            machine.next_run()
            outcomes = []
            for i, criterion in judging.items():
                outcome, count = judge(partial(machine.stage, i), criterion, baseline)
                outcomes.append(outcome)
                looks += count
                judged += 1
            fails += Outcome.FAIL in outcomes
            marginal += Outcome.MARGINAL in outcomes
        rejected += fails
        clean_series += fails == 0
        for i in range(metrics):
            slow = partial(machine.stage, i, slower)
            failed = i in judging and judge(slow, judging[i], baseline)[0] is Outcome.FAIL
            (found if machine.run_to_run(i) <= 0.011 else seen).append(failed)
    total = machines * JUDGED
    return {
        "rejected": rejected / total,
        "clean": clean_series / machines,
        "marginal": marginal / total,
        "quiet": float(np.mean(found)),
        "others": float(np.mean(seen)) if seen else 1.0,
        "looks": looks / judged,
    }


def real(folder: Path, runs: int, per_machine: int) -> None:
    """Print the same rates on cloud machines that were measured again and again, one value a run."""
    known = LongLived(folder)
    rejected = total = clean = series = 0
    found: list[bool] = []
    for columns in known.machines():
        length = min(len(column) for column in columns.values())
        starts = np.linspace(0, length - runs - JUDGED, per_machine).astype(int)
        for start in starts:
            baseline = known.learn(columns, start, runs)
            fails = 0
            for later in range(start + runs, start + runs + JUDGED):
                bad = False
                for criterion in baseline.criteria:
                    value = columns[criterion.metric.name][later]
                    bad |= judge_sample([value], criterion, baseline).outcome is Outcome.FAIL
                fails += bad
            rejected, total = rejected + fails, total + JUDGED
            clean, series = clean + (fails == 0), series + 1
            for criterion in baseline.criteria:
                column = columns[criterion.metric.name]
                noise = np.std(np.diff(np.log(column[start : start + 15]))) / np.sqrt(2)
                if noise <= 0.012:
                    slow = 1 / 0.9 if criterion.metric.better == "lower" else 0.9
                    value = column[start + runs] * slow
                    found.append(judge_sample([value], criterion, baseline).outcome is Outcome.FAIL)
    print(
        f"real: {series} baselines of {len(columns)} metrics on 12 cloud machines, {runs} runs each: "
        f"runs rejected {rejected / total:.2%}, series of ten clean {clean / series:.1%}, "
        f"10 % slowdown of quiet metrics found {np.mean(found):.1%} ({len(found)})"
    )


def main() -> None:
    """Print one row for each kind of machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=40)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--metrics", type=int, default=METRICS)
    parser.add_argument("--cards", action="store_true", help="accelerators, a loss of 6 %% in rate")
    parser.add_argument("--data", type=Path, help="folder with azure_vm_noise/")
    options = parser.parse_args()
    if options.data:
        for runs in (3, options.runs, 10, 20):
            real(options.data, runs, 25)
    print(
        f"{options.metrics} metrics, learned from {options.runs} runs, {JUDGED} healthy runs judged, "
        f"{options.machines} machines; slowdown of {6 if options.cards else 10} % in rate"
    )
    print(
        "drift tails burst | runs rejected | series of ten clean | runs with MARGINAL | "
        "found: quiet metrics | found: others | looks a metric"
    )
    for drift, tails, burst in ((0, 0, 0), (0.7, 0, 0), (0, 4, 0), (0.7, 4, 0), (0.5, 4, 0.01)):
        r = simulate(
            *(options.machines, options.runs, drift, tails, burst), options.metrics, options.cards
        )
        print(
            f"{drift:5.1f} {tails:5d} {burst:5.2f} | {r['rejected']:13.2%} | {r['clean']:19.1%} | "
            f"{r['marginal']:18.1%} | {r['quiet']:20.1%} | {r['others']:13.1%} | {r['looks']:.2f}"
        )


if __name__ == "__main__":
    main()
