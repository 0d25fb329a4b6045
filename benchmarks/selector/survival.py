"""Compare our risk models with survival libraries on the same rows of public failure histories.

Run: ``python benchmarks/selector/survival.py --data DIR [--task NAME ...] [--seeds 3]``; needs duckdb
(extra `fleet`) to read the data and, for their lines, lifelines and pycox.

C is Harrell's concordance at the horizon, for the parity sets the time-dependent one of Antolini; IBS the
integrated Brier score until the horizon (less is better); skill 1 - Brier / Brier of the test rows' own
Kaplan-Meier at the horizon (a model without covariates has 0 at best); E/O predicted over observed incidents
until the horizon, 1 is best. They are means over folds; models with a seed have a range over seeds. `se` is
the standard error of C over folds, or over 200 resampled test parts if there is one split. Nothing was
tuned to a test part.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np

from benchmarks.selector.failure_histories import TASKS, SurvivalRows, Task
from benchmarks.selector.survival_libraries import Maker, Predict, libraries
from pytest_anubis.selector.risk.choosing.model_accuracy import (
    calibration,
    harrell,
    integrated_brier,
    kaplan_meier,
)
from pytest_anubis.selector.risk.models.covariates import Floats
from pytest_anubis.selector.risk.models.cox import CoxPH
from pytest_anubis.selector.risk.models.cox_time import CoxTime
from pytest_anubis.selector.risk.models.parametric import Exponential, Weibull
from tests.selector.risk.curve_accuracy import antolini, skill

_POINTS = 30  # times at which the Brier score is taken for its integral
_RESAMPLES = 200
_MAX_ROWS = 20_000  # incidents and rows of a resampled test part; its error is scaled to the whole


@dataclass(frozen=True)
class Result:
    """One model on one task.

    Attributes:
        scores: Shape (seeds, folds, 4): C, IBS, skill, E/O.
        error: Standard error of the mean C.
        seconds: Of one fit.
    """

    scores: Floats
    error: float
    seconds: float


def main() -> None:
    """Print a table per data set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("ANUBIS_DATA"))
    parser.add_argument("--task", nargs="*", choices=tuple(TASKS), default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("name the folder of the data: --data DIR, or ANUBIS_DATA")
    for name in arguments.task:
        table(name, TASKS[name](Path(arguments.data)), arguments.seeds)


def table(name: str, task: Task, seeds: int) -> None:
    """Print one data set's table."""
    train, test = task.splits[0]
    sizes = f"{len(train.event)} -> {len(test.event)} rows, {int(test.event.sum())} incidents"
    folds = f", {len(task.splits)} folds" if len(task.splits) > 1 else ""
    print(f"\n{name}: {sizes}{folds}")
    print(
        f"  {'model':26} {'C':>6} {'range':>12} {'se':>5} {'IBS':>7} {'skill':>7} {'E/O':>5} "
        f"{'range':>12} {'fit s':>6}"
    )
    for label, maker, random in models():
        found = run(task, maker, seeds if random else 1)
        if isinstance(found, str):
            print(f"  {label:26} gave up: {found}")
            continue
        line(label, found)


def models() -> list[tuple[str, Maker, bool]]:
    """Give every model: label, fitter, whether it depends on a seed."""
    return [
        ("Kaplan-Meier", _kaplan_meier, False),
        ("exponential, no covariates", _own(lambda _: Exponential(use_covariates=False)), False),
        ("exponential", _own(lambda _: Exponential()), False),
        ("Weibull", _own(lambda _: Weibull()), False),
        ("Cox PH", _own(lambda _: CoxPH()), False),
        *libraries(),
        ("Cox-Time, one network", _own(lambda seed: CoxTime(seed=seed, networks=1)), True),
        ("Cox-Time", _own(lambda seed: CoxTime(seed=seed)), True),
    ]


def _own(make: Callable[[int], Any]) -> Maker:
    def fit(train: SurvivalRows, seed: int) -> Predict:
        model = make(seed).fit(train.x, train.duration, train.event)
        return lambda times, x: np.asarray(model.survival(times, x))

    return fit


def _kaplan_meier(train: SurvivalRows, seed: int) -> Predict:
    del seed
    return lambda times, x: np.tile(kaplan_meier(train.duration, train.event, times), (len(x), 1))


def run(task: Task, maker: Maker, seeds: int) -> Result | str:
    """Fit and judge a model on all splits and seeds; the kind of its error if it gives up."""
    scores, spent, error = [], 0.0, 0.0
    for seed in range(seeds):
        row = []
        for train, test in task.splits:
            begun = time.perf_counter()
            with warnings.catch_warnings():
                # Figures beyond a fold's last time warn, and so does lifelines.
                warnings.simplefilter("ignore")
                try:
                    predict = maker(train, seed)
                except Exception as reason:
                    return f"{type(reason).__name__}: {str(reason).splitlines()[0][:60]}"
                spent += time.perf_counter() - begun
                row.append(judge(task, train, test, predict))
                if len(task.splits) == 1 and seed == 0:
                    error = resampled_error(task, test, predict)
        scores.append(row)
    found = np.array(scores)
    if len(task.splits) > 1:
        error = float(found[:, :, 0].mean(axis=0).std(ddof=1) / len(task.splits) ** 0.5)
    return Result(found, error, spent / found[:, :, 0].size)


def judge(
    task: Task, train: SurvivalRows, test: SurvivalRows, predict: Predict
) -> tuple[float, float, float, float]:
    """Return concordance, integrated Brier score, skill and E/O."""
    horizon = task.horizon or float(np.quantile(train.duration[train.event == 1], 0.75))
    moments = np.linspace(0, horizon, _POINTS + 1)[1:]
    curves = predict(moments, test.x)
    at_end = curves[:, -1]
    if task.dependent:
        times = np.unique(test.duration[test.event == 1])
        order = antolini(times, predict(times, test.x), test.duration, test.event)
    else:
        cut = test.until(horizon)
        order = harrell(-at_end, cut.duration, cut.event)
    return (
        order,
        integrated_brier(moments, curves, test.duration, test.event),
        skill(at_end, test.duration, test.event, horizon),
        calibration(at_end, test.duration, test.event, horizon),
    )


def resampled_error(task: Task, test: SurvivalRows, predict: Predict) -> float:
    """Return the standard error of C over resampled test parts.

    Concordance takes time with incidents times rows, so a random subset of a large test part is resampled,
    and its error scaled by the root of the share of incidents.
    """
    rng = np.random.default_rng(0)
    horizon = task.horizon or float(test.duration.max())
    cut = test.until(horizon)
    risk = -predict(np.array([horizon]), test.x)[:, 0]
    share = min(1.0, (_MAX_ROWS * 50 / max(1.0, cut.event.sum() * len(risk))) ** 0.5)
    size = int(len(risk) * share)
    found = []
    for _ in range(_RESAMPLES):
        rows = rng.integers(0, len(risk), size)
        found.append(harrell(risk[rows], cut.duration[rows], cut.event[rows]))
    return float(np.std(found) * share**0.5)


def line(label: str, result: Result) -> None:
    """Print one model's line."""
    by_seed = result.scores.mean(axis=1)
    order, area, gain, ratio = by_seed.mean(axis=0)
    ranges = [
        f"{by_seed[:, i].min():.{digits}f}-{by_seed[:, i].max():.{digits}f}"
        if len(by_seed) > 1
        else ""
        for i, digits in ((0, 3), (3, 2))
    ]
    print(
        f"  {label:26} {order:6.3f} {ranges[0]:>12} {result.error:5.3f} {area:7.4f} {gain:7.3f} "
        f"{ratio:5.2f} {ranges[1]:>12} {result.seconds:6.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
