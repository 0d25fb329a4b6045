"""Accuracy of a risk model under censoring (concordance, Brier score, calibration), for `risk_backtest`.

Shapes that do not fit, and impossible values, raise `SelectorError`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.risk.models.covariates import Floats
from pytest_anubis.selector.risk.models.hazard import checked

_EQUAL = 1e-9  # relative difference up to which risks are equal: less depends on the order of a sum


def ranks(risk: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return the rank of each finite risk from 0 on, shape (n,); risks equal up to rounding share one.

    Nodes with equal covariates have equal risks, whose last digits depend on the processor.
    """
    figures = np.asarray(risk, dtype=np.float64)
    order = np.argsort(figures, kind="stable")
    rising = figures[order]
    above = rising[1:] > rising[:-1] + _EQUAL * np.abs(rising[:-1])
    found = np.zeros(len(figures), dtype=np.int64)
    found[order[1:]] = np.cumsum(above)
    return found


def harrell(risk: npt.ArrayLike, duration: npt.ArrayLike, event: npt.ArrayLike) -> float:
    """Return Harrell's concordance: the share of comparable pairs in which the riskier row fails first.

    A pair is comparable if the earlier time is an incident; at equal times, an incident and a row without one
    are. Risks, larger is riskier, that are equal up to rounding count half. Without comparable pairs it is
    0.5. All have the shape (n,).
    """
    score = ranks(risk)
    time, happened = checked(duration, event, len(score))
    good, pairs = 0.0, 0
    for case in np.flatnonzero(happened):
        later = (time > time[case]) | ((time == time[case]) & ~happened)
        others = score[later]
        good += float((others < score[case]).sum()) + 0.5 * float((others == score[case]).sum())
        pairs += len(others)
    return good / pairs if pairs else 0.5


def kaplan_meier(
    duration: npt.ArrayLike, event: npt.ArrayLike, at: npt.ArrayLike, *, before: bool = False
) -> Floats:
    """Return the Kaplan-Meier estimate of survival at times, or just before them, shape like `at`."""
    time, happened = checked(duration, event, np.asarray(duration).shape[0])
    moments, where = np.unique(time, return_inverse=True)
    deaths = np.bincount(where, weights=happened, minlength=len(moments))
    left = np.bincount(where, minlength=len(moments))
    at_risk = len(time) - np.concatenate([[0], np.cumsum(left)[:-1]])
    curve = np.concatenate([[1.0], np.cumprod(1 - deaths / at_risk)])
    wanted = np.asarray(at, dtype=np.float64)
    return np.asarray(curve[np.searchsorted(moments, wanted, "left" if before else "right")])


def brier(
    survival: npt.ArrayLike, duration: npt.ArrayLike, event: npt.ArrayLike, horizon: float
) -> float:
    """Return the Brier score of S at a horizon, weighted by the inverse probability of censoring.

    Graf et al. (1999): an incident until the horizon weighs 1 / G just before the incident, a row observed up
    to the horizon or beyond it 1 / G just before the horizon, one censored earlier nothing; G is the
    Kaplan-Meier estimate of not being censored.
    """
    chance = np.asarray(survival, dtype=np.float64)
    time, happened = checked(duration, event, len(chance))
    # A row observed up to the horizon itself without an incident survived it.
    failed = happened & (time <= horizon)
    passed = (time > horizon) | ((time == horizon) & ~happened)
    free = kaplan_meier(time, ~happened, time, before=True)
    at_end = float(kaplan_meier(time, ~happened, np.array([horizon]), before=True)[0])
    total = (chance[failed] ** 2 / np.maximum(free[failed], 1e-9)).sum()
    total += ((1 - chance[passed]) ** 2).sum() / max(at_end, 1e-9)
    return float(total) / len(time)


def integrated_brier(
    times: npt.ArrayLike, survival: npt.ArrayLike, duration: npt.ArrayLike, event: npt.ArrayLike
) -> float:
    """Return the mean Brier score over times (trapezoids), shape (m,), of S, shape (n, m)."""
    moments = np.asarray(times, dtype=np.float64)
    curves = np.asarray(survival, dtype=np.float64)
    scores = np.array([brier(curves[:, i], duration, event, t) for i, t in enumerate(moments)])
    area = ((scores[1:] + scores[:-1]) / 2 * np.diff(moments)).sum()
    return float(area) / float(moments[-1] - moments[0])


def calibration(
    survival: npt.ArrayLike, duration: npt.ArrayLike, event: npt.ArrayLike, horizon: float
) -> float:
    """Return predicted / observed incidents until a horizon, observed by Kaplan-Meier; 1 is best."""
    chance = np.asarray(survival, dtype=np.float64)
    observed = 1 - float(kaplan_meier(duration, event, np.array([horizon]))[0])
    return float((1 - chance).mean()) / observed if observed > 0 else float("inf")
