"""Survival libraries on the same rows as our models, used as in their documentation; for `survival.py`.

lifelines: Weibull and Cox regression. pycox: Cox-Time as in its example (two layers of 32, batch
normalisation, dropout 0.1, one control, Adam, batches of 256, stopped early by a fifth of the rows), with the
time standardised by the library. Both get the covariates as our models do: missing values filled in,
standardised, clipped. pycox 0.3.0 is unmaintained and optional: install it by hand to get its lines.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.selector.failure_histories import SurvivalRows
from pytest_anubis.selector.risk.models.covariates import Floats, learn_preparation

Predict = Callable[[Floats, Floats], Floats]  # times, covariates -> survival
Maker = Callable[[SurvivalRows, int], Predict]

# pycox evaluates its network for every row at every distinct time; beyond so many evaluations, times are
# rounded up to `_TICKS` quantiles.
_TICKS = 200
_MAX_EVALUATIONS = 50_000_000


def libraries() -> list[tuple[str, Maker, bool]]:
    """Return label, fitter, and whether it depends on a seed, of what is installed."""
    found: list[tuple[str, Maker, bool]] = []
    if importlib.util.find_spec("lifelines"):
        found.append(("lifelines Weibull AFT", lifelines_fitter("WeibullAFTFitter"), False))
        found.append(("lifelines Cox PH", lifelines_fitter("CoxPHFitter"), False))
    if importlib.util.find_spec("pycox"):
        found.append(("pycox Cox-Time", pycox_coxtime, True))
    return found


def lifelines_fitter(name: str) -> Maker:
    """Return a fitter of lifelines on the covariates of our models."""

    def fit(train: SurvivalRows, seed: int) -> Predict:
        del seed
        import lifelines
        import pandas as pd

        prepare, _ = learn_preparation(train.x)

        def frame(x: Floats) -> Any:
            z = prepare.apply(x)
            return pd.DataFrame(z, columns=[f"z{i}" for i in range(z.shape[1])])

        table = frame(train.x)
        table["duration"] = np.maximum(train.duration, 1e-3)
        table["event"] = train.event
        fitter = getattr(lifelines, name)(penalizer=1e-4).fit(table, "duration", "event")
        return lambda times, x: fitter.predict_survival_function(frame(x), times=times).to_numpy().T

    return fit


def pycox_coxtime(train: SurvivalRows, seed: int) -> Predict:
    """Fit pycox's Cox-Time once, as in its own example; a fifth of the rows stops the training."""
    import torch
    import torchtuples
    from pycox.models import CoxTime
    from pycox.models.cox_time import MLPVanillaCoxTime

    prepare, _ = learn_preparation(train.x)
    x = prepare.apply(train.x).astype(np.float32)
    duration = ticks(train.duration)
    rng = np.random.default_rng(seed)
    check = rng.permutation(len(x)) < len(x) // 5
    np.random.seed(seed)  # the library draws its controls from numpy's global state
    torch.manual_seed(seed)
    clock = CoxTime.label_transform()
    target = clock.fit_transform(duration[~check], train.event[~check])
    net = MLPVanillaCoxTime(x.shape[1], [32, 32], True, 0.1)
    model = CoxTime(net, torchtuples.optim.Adam(0.01), labtrans=clock)
    held = torchtuples.tuplefy(x[check], clock.transform(duration[check], train.event[check]))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stop = torchtuples.callbacks.EarlyStopping(
            file_path=os.path.join(folder, "best.pt")  # noqa: PTH118 - the library wants a string
        )
        model.fit(
            x[~check],
            target,
            256,
            512,
            [stop],
            False,
            val_data=held.repeat(10).cat(),
        )
        model.compute_baseline_hazards()

    def predict(times: Floats, rows: Floats) -> Floats:
        z = prepare.apply(rows).astype(np.float32)
        curve = model.predict_surv_df(z)
        return stepped(np.asarray(curve.index, dtype=np.float64), curve.to_numpy().T, times)

    return predict


def ticks(duration: Floats) -> Floats:
    """Return durations as float32 values, rounded up to `_TICKS` distinct ones where there are many."""
    marks = np.unique(duration)
    if len(marks) * len(duration) > _MAX_EVALUATIONS:
        marks = np.unique(np.quantile(duration, np.linspace(0, 1, _TICKS + 1)[1:]))
    place = np.minimum(np.searchsorted(marks, duration), len(marks) - 1)
    return np.asarray(marks[place].astype(np.float32))


def stepped(marks: Floats, curve: Floats, times: Floats) -> Floats:
    """Return a step function with values at marks, 1 before the first, at times."""
    place = np.searchsorted(marks, np.asarray(times, dtype=np.float32), side="right")
    whole = np.hstack([np.ones((len(curve), 1)), curve])
    return np.asarray(whole[:, place], dtype=np.float64)
