"""Paired bootstrap of models: their concordance and calibration on resampled units; for `auto.py`.

All models are judged on the same draws of the same units (nodes, or rows where a row is a unit), so their
common error cancels out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
DRAWS = 100  # they give a share to five hundredths, a standard error to a fourteenth
_MAX_ROWS = 6_000  # to draw from: the time grows with incidents times rows


@dataclass(frozen=True)
class Paired:
    """The last model compared with the others over draws.

    Attributes:
        error: Standard error of its lag in C to the model that is best on all units.
        low: Lower end of the 95 % interval of the lag.
        high: Upper end.
        near: Share of draws with a lag of at most .003 to the draw's best model.
        second: Share of draws in which its calibration, |log E/O|, is the best or second best.
    """

    error: float
    low: float
    high: float
    near: float
    second: float


def paired(
    hazard: Floats, follow: Floats, event: npt.NDArray[np.bool_], unit: npt.NDArray[np.int64]
) -> Paired:
    """Compare the last model with the others on resampled units.

    Args:
        hazard: Each model's cumulative hazard until the horizon, shape (models, n).
        follow: How long each row was watched, at most the horizon, shape (n,).
        event: Whether that ended with an incident, shape (n,).
        unit: Number of each row's unit, shape (n,).
    """
    rng = np.random.default_rng(0)
    rows = np.arange(len(follow))
    if len(rows) > _MAX_ROWS:
        rows = np.sort(rng.choice(rows, _MAX_ROWS, replace=False))
    hazard, follow, event = hazard[:, rows], follow[rows], event[rows]
    names, own = np.unique(unit[rows], return_inverse=True)
    drawn = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=DRAWS)
    weight = np.vstack([np.ones(len(names)), drawn])[:, own].astype(np.float64)
    order = concordance(hazard, follow, event, weight)
    best = int(np.argmax(order[0, :-1]))
    lag = (order[:, best] - order[:, -1])[1:]
    off = np.abs(np.log(ratios(hazard, follow, event, weight)))[1:]
    low, high = np.quantile(lag, [0.025, 0.975]).tolist()
    return Paired(
        error=float(lag.std()),
        low=low,
        high=high,
        near=float((order[1:, :-1].max(axis=1) - order[1:, -1] <= 0.003).mean()),
        second=float(((off[:, :-1] < off[:, -1:] - 1e-9).sum(axis=1) <= 1).mean()),
    )


def concordance(
    hazard: Floats, follow: Floats, event: npt.NDArray[np.bool_], weight: Floats
) -> Floats:
    """Return Harrell's C, shape (draws, models), with weights of the rows, shape (draws, n)."""
    good, pairs = np.zeros((len(weight), len(hazard))), np.zeros(len(weight))
    for case in np.flatnonzero(event):
        later = np.flatnonzero((follow > follow[case]) | ((follow == follow[case]) & ~event))
        others, own = hazard[:, later], hazard[:, [case]]
        less = (others < own) + 0.5 * (others == own)
        good += weight[:, [case]] * (weight[:, later] @ less.T)
        pairs += weight[:, case] * weight[:, later].sum(axis=1)
    return np.asarray(good / np.maximum(pairs, 1e-9)[:, None])


def ratios(hazard: Floats, follow: Floats, event: npt.NDArray[np.bool_], weight: Floats) -> Floats:
    """Return predicted / observed incidents, shape (draws, models); observed by Kaplan-Meier."""
    order = np.argsort(follow, kind="stable")
    heavy, happened = weight[:, order], event[order]
    left = np.cumsum(heavy[:, ::-1], axis=1)[:, ::-1]
    alive = np.prod(1 - np.where(happened, heavy / np.maximum(left, 1e-9), 0), axis=1)
    predicted = weight @ -np.expm1(-hazard.T) / weight.sum(axis=1)[:, None]
    return np.asarray(predicted / np.maximum(1 - alive, 1e-9)[:, None])
