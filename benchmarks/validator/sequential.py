"""What measuring again only on a close call saves, against always measuring long, at equal error rates.

A measurement is 30 values, a further look 6. Healthy units lose 0 to 3 %, bad ones 7 % and more; the
practical threshold is a loss of 5 %. The fixed plan is the smallest number of looks whose error rates are no
larger than the sequential test's; time is counted in values.

Usage: python benchmarks/validator/sequential.py [--units 400]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.verdict import Outcome
from pytest_anubis.validator import closer_look, judge_sample
from pytest_anubis.validator.judging.sequential_test import MOST_LOOKS

METRIC = Metric(name="t", unit="ms", better="lower")
FIRST, LOOK = 30, 6
LOSSES = (0.0, 0.02, 0.03, 0.04, 0.06, 0.07, 0.10, 0.20)


def look(
    rng: np.random.Generator, loss: float, noise: float, memory: float, count: int
) -> npt.NDArray[np.float64]:
    """Return `count` values with a loss; `memory` is the correlation of successive values."""
    steps = rng.normal(0, noise * np.sqrt(1 - memory**2), count)
    values = np.empty(count)
    state = rng.normal(0, noise)
    for i, step in enumerate(steps):
        state = memory * state + step
        values[i] = 100 / (1 - loss) * np.exp(state)
    return values


def criterion_of(noise: float) -> Criterion:
    """Return the criterion of a healthy fleet with this noise within its samples."""
    centre = 100 * np.exp(noise * ndtri((np.arange(200) + 0.5) / 200))
    return Criterion(benchmark="b", metric=METRIC, centre=tuple(centre.tolist()))


def failed(values: npt.NDArray[np.float64], criterion: Criterion) -> bool:
    """Return whether the verdict is FAIL."""
    return judge_sample(values, criterion).outcome is Outcome.FAIL


def compare(units: int, noise: float, memory: float) -> None:
    """Print one row for each loss: errors and values of the sequential test, errors of fixed plans."""
    rng = np.random.default_rng(0)
    criterion = criterion_of(noise)
    healthy_values: list[int] = []
    worst = {"sequential": 0.0} | {str(n): 0.0 for n in range(1, MOST_LOOKS + 1)}
    rows = []
    for loss in LOSSES:
        wrong = dict.fromkeys(worst, 0)
        values = 0
        for _ in range(units):
            taken = [
                look(rng, loss, noise, memory, FIRST if i == 0 else LOOK) for i in range(MOST_LOOKS)
            ]
            used = 1
            while closer_look(taken[:used], criterion) == "more":
                used += 1
            values += FIRST + (used - 1) * LOOK
            truth = loss > 0.05
            wrong["sequential"] += failed(np.concatenate(taken[:used]), criterion) is not truth
            for n in range(1, MOST_LOOKS + 1):
                wrong[str(n)] += failed(np.concatenate(taken[:n]), criterion) is not truth
        rates = {key: count / units for key, count in wrong.items()}
        if loss <= 0.03 or loss >= 0.07:  # between them nobody can tell, and need not
            worst = {key: max(worst[key], rates[key]) for key in worst}
        if loss <= 0.03:
            healthy_values.append(values)
        fixed_errors = ", ".join(
            f"{FIRST + (n - 1) * LOOK} always {rates[str(n)]:.1%}" for n in (1, 6, 11, MOST_LOOKS)
        )
        rows.append(
            f"    loss {loss:4.0%}: values {values / units:.1f}, wrong {rates['sequential']:.1%}; "
            f"{fixed_errors}"
        )
    fixed = next(
        (n for n in range(1, MOST_LOOKS + 1) if worst[str(n)] <= worst["sequential"]), MOST_LOOKS
    )
    mean = sum(healthy_values) / units / len(healthy_values)
    need, most = FIRST + (fixed - 1) * LOOK, FIRST + (MOST_LOOKS - 1) * LOOK
    print(
        f"noise {noise:.0%}, correlation {memory}: worst error {worst['sequential']:.1%}; "
        f"equal errors need {need} values always; healthy units take {mean:.1f}: "
        f"{1 - mean / need:.0%} of the time saved, {1 - mean / most:.0%} against {most} values"
    )
    print("\n".join(rows))


def main() -> None:
    """Print a table for each kind of noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=400)
    options = parser.parse_args()
    for noise, memory in ((0.02, 0.0), (0.05, 0.0), (0.08, 0.0), (0.05, 0.5)):
        compare(options.units, noise, memory)


if __name__ == "__main__":
    main()
