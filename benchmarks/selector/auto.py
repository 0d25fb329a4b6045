"""Compare `auto` with each risk model on parts of public failure histories that none has seen.

Run: ``python benchmarks/selector/auto.py --data DIR [--task NAME ...]``; needs duckdb (extra `fleet`) to
read the data, and torch.

The first tables have the rows and splits of `survival.py`; `auto` chooses by backtests within the training
part. The `fleet` tables are made as ``anubis risk`` works: a history of nodes and incidents is cut after
seven tenths of the incidents, and every node in service is judged at regular times until the end by its risk
within the horizon. No model is fitted again.

C and E/O are those of `survival.py`; `skill` is from the integrated Brier score until the horizon. `C lag` is
the difference of `auto` to the best single model, `rank` its place in calibration, |log E/O|, among the
five; models within two standard errors of E/O (of as many Poisson incidents) share a place. The last column
gives the models chosen. `draws` resample the test part's units (nodes, or rows), the same for all models: the
standard error and 95 % interval of the lag to the model that is best on all units, the share of draws with a
lag within .003 of the draw's best model, and the share with a calibration among the two best.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout's packages

import numpy as np
import numpy.typing as npt

from benchmarks.selector.failure_histories import TASKS, SurvivalRows, Task
from benchmarks.selector.fleet_histories import FLEETS, FleetTask
from benchmarks.selector.paired_draws import paired
from pytest_anubis.selector.risk.choosing.model_accuracy import (
    calibration,
    harrell,
    integrated_brier,
    kaplan_meier,
)
from pytest_anubis.selector.risk.choosing.model_choice import choose_model
from pytest_anubis.selector.risk.choosing.risk_backtest import Intervals
from pytest_anubis.selector.risk.forecast import fit_risk
from pytest_anubis.selector.risk.models.covariates import Floats
from pytest_anubis.selector.risk.models.cox import CoxPH
from pytest_anubis.selector.risk.models.cox_time import CoxTime
from pytest_anubis.selector.risk.models.hazard import HazardModel
from pytest_anubis.selector.risk.models.parametric import Exponential, Weibull
from pytest_anubis.selector.risk.survival_rows import HOUR, present_rows
from tests.selector.risk.curve_accuracy import antolini

_POINTS = 10  # times at which the Brier score is taken for its integral
_MAX_ROWS = 25_000  # of a test part, drawn: they give C to a few thousandths
_TRAINED = 6_000  # incidents that the single Cox-Time learns from, as within `auto`
SINGLE: dict[str, Callable[[], HazardModel]] = {
    "exponential": Exponential,
    "weibull": Weibull,
    "cox": CoxPH,
    "cox-time": CoxTime,
}


@dataclass(frozen=True)
class JudgedRows:
    """Each row's hazard until the horizon, how long it was watched, whether it failed, and its unit."""

    hazard: Floats
    follow: Floats
    event: npt.NDArray[np.bool_]
    unit: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Judged:
    """One model on one split: C, skill, E/O, observed incidents, seconds, the model that `auto` chose."""

    order: float
    skill: float
    ratio: float
    incidents: int
    seconds: float
    draws: JudgedRows
    chosen: str = ""


def main() -> None:
    """Print a table per history."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("ANUBIS_DATA"))
    names = [*TASKS, *FLEETS]
    parser.add_argument("--task", nargs="*", choices=names, default=names)
    parser.add_argument("--splits", type=int, default=5, help="splits judged, at most (default: 5)")
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("name the folder of the data: --data DIR, or ANUBIS_DATA")
    warnings.simplefilter("ignore")  # of figures beyond the last time
    for name in arguments.task:
        data = Path(arguments.data)
        if name in TASKS:
            table(name, rows_task(TASKS[name](data), arguments.splits))
        else:
            table(name, fleet_task(FLEETS[name](data)))


def rows_task(task: Task, most: int) -> dict[str, list[Judged]]:
    """Judge every model on at most so many splits of rows, spread over all."""
    found: dict[str, list[Judged]] = {name: [] for name in (*SINGLE, "auto")}
    count = len(task.splits)
    for number in np.unique(np.linspace(0, count - 1, min(count, most)).astype(int)):
        train, test = task.splits[number]
        timed = bool(task.began)
        began = np.asarray(task.began[number] if timed else np.zeros(len(train.event)))
        rows = Intervals(train.x, train.duration, train.event == 1, began, timed=timed)
        horizon = task.horizon or float(np.quantile(train.duration[train.event == 1], 0.75))
        for name in found:
            begun, chosen = time.process_time(), ""
            if name == "auto":
                model, backtest = choose_model(rows, horizon=horizon)
                chosen = next(each.model for each in backtest.candidates if each.chosen)
            else:
                known = rows.thinned(_TRAINED, 0) if name == "cox-time" else rows
                order = known.began if timed else None
                model = SINGLE[name]().fit(known.x, known.duration, known.event, order=order)
            spent = time.process_time() - begun
            found[name].append(on_rows(task, test, model, horizon, spent, chosen))
    return found


def on_rows(
    task: Task,
    test: SurvivalRows,
    model: HazardModel,
    horizon: float,
    spent: float,
    chosen: str,
) -> Judged:
    """Judge a model on a test part."""
    if len(test.event) > _MAX_ROWS:
        drawn = np.random.default_rng(0).choice(len(test.event), _MAX_ROWS, replace=False)
        test = SurvivalRows(test.x[drawn], test.duration[drawn], test.event[drawn])
    moments = np.linspace(0, horizon, _POINTS + 1)[1:]
    curves = model.survival(moments, test.x)
    if task.dependent:
        times = np.unique(test.duration[test.event == 1])
        order = antolini(times, model.survival(times, test.x), test.duration, test.event)
    else:
        cut = test.until(horizon)
        order = harrell(-curves[:, -1], cut.duration, cut.event)
    unit = np.arange(len(test.event))
    return judged(order, moments, curves, test.duration, test.event, unit, spent, chosen)


def judged(
    order: float,
    moments: Floats,
    curves: Floats,
    duration: Floats,
    event: Floats,
    unit: npt.NDArray[np.int64],
    spent: float,
    chosen: str,
) -> Judged:
    """Compute all measures from survival curves."""
    flat = np.tile(kaplan_meier(duration, event, moments), (len(curves), 1))
    usual = integrated_brier(moments, flat, duration, event)
    hazard = -np.log(np.maximum(curves[:, -1], 1e-300))
    seen = (event == 1) & (duration <= moments[-1])
    return Judged(
        order=order,
        skill=1 - integrated_brier(moments, curves, duration, event) / usual,
        ratio=calibration(curves[:, -1], duration, event, float(moments[-1])),
        incidents=int(seen.sum()),
        seconds=spent,
        chosen=chosen,
        draws=JudgedRows(hazard, np.minimum(duration, moments[-1]), seen, unit),
    )


def fleet_task(task: FleetTask) -> dict[str, list[Judged]]:
    """Judge every model on the later part of a fleet's history, as ``anubis risk`` fits them."""
    found: dict[str, list[Judged]] = {}
    hours = task.horizon / HOUR
    for name in (*SINGLE, "auto"):
        begun = time.process_time()
        risk = fit_risk(
            task.known,
            now=task.cut,
            model=name,  # type: ignore[arg-type]
            horizon=task.horizon,
        )
        spent = time.process_time() - begun
        curves, follow, event, names = [], [], [], []
        moments = np.linspace(0, hours, _POINTS + 1)[1:]
        for mark in np.arange(task.cut, task.end - task.horizon, task.step):
            past = [item for item in task.fleet.incidents if item.started <= mark]
            nodes = [node for node in task.fleet.nodes if node.since < mark]
            status = present_rows(nodes, past, now=float(mark), kinds=risk.kinds)
            entry = status.duration
            hazard = risk.model.cumulative(
                np.column_stack([entry, entry[:, None] + moments]), status.x
            )
            curves.append(np.exp(hazard[:, :1] - hazard[:, 1:]))
            until = np.array([task.next_after(node, float(mark)) for node in status.nodes]) / HOUR
            follow.append(np.minimum(until, hours))
            event.append((until <= hours).astype(float))
            names += list(status.nodes)
        unit = np.unique(names, return_inverse=True)[1]
        curve, watched, failed = map(np.concatenate, (curves, follow, event))
        if len(unit) > _MAX_ROWS:
            drawn = np.random.default_rng(0).choice(len(unit), _MAX_ROWS, replace=False)
            curve, watched, failed, unit = (each[drawn] for each in (curve, watched, failed, unit))
        order = harrell(-curve[:, -1], watched, failed)
        chosen = risk.model.kind if name == "auto" and risk.backtest is not None else ""
        found[name] = [judged(order, moments, curve, watched, failed, unit, spent, chosen)]
    return found


def table(name: str, found: dict[str, list[Judged]]) -> None:
    """Print one history's table."""
    splits = found["auto"]
    print(
        f"\n{name}: {len(splits)} splits, {sum(each.incidents for each in splits)} incidents judged"
    )
    print(f"  {'model':12} {'C':>6} {'skill':>7} {'E/O':>6} {'fit s':>6}")
    order, ratio = {}, {}
    for model, each in found.items():
        order[model] = float(np.mean([one.order for one in each]))
        ratio[model] = float(np.mean([one.ratio for one in each]))
        gain = float(np.mean([one.skill for one in each]))
        spent = float(np.mean([one.seconds for one in each]))
        counts = Counter(one.chosen for one in each if one.chosen)
        words = ", ".join(f"{kind} {n}x" for kind, n in counts.most_common())
        print(
            f"  {model:12} {order[model]:6.3f} {gain:7.3f} {ratio[model]:6.2f} {spent:6.1f}  {words}"
        )
    lag = max(order[model] for model in SINGLE) - order["auto"]
    off = {model: abs(float(np.log(each))) for model, each in ratio.items()}
    error = 2 / max(1, sum(each.incidents for each in splits)) ** 0.5
    sharp = 1 + sum(off[model] < off["auto"] - 1e-9 for model in SINGLE)
    shared = 1 + sum(off[model] < off["auto"] - error for model in SINGLE)
    good = "yes" if lag <= 0.003 and shared <= 2 else "NO"
    print(
        f"  C lag {lag:+.4f}, calibration rank {sharp} (within its error of {error:.3f}: {shared}): {good}",
        flush=True,
    )
    for number, one in enumerate(splits):
        hazard = np.stack([found[model][number].draws.hazard for model in (*SINGLE, "auto")])
        drawn = paired(hazard, one.draws.follow, one.draws.event, one.draws.unit)
        print(
            f"  draws of {len(np.unique(one.draws.unit))} units: lag +- {drawn.error:.4f} ({drawn.low:+.4f} "
            f"to {drawn.high:+.4f}), within .003 in {drawn.near:.0%}, calibration among the two best in "
            f"{drawn.second:.0%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
