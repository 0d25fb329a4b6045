"""How good are survival curves? Measures that the package itself does not need."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.risk.choosing.model_accuracy import brier, kaplan_meier
from pytest_anubis.selector.risk.models.hazard import checked


def antolini(
    times: npt.ArrayLike, survival: npt.ArrayLike, duration: npt.ArrayLike, event: npt.ArrayLike
) -> float:
    """Return the time-dependent concordance of Antolini, Boracchi and Biganzoli (2005).

    At the time of every incident, all later rows should have the larger survival at that time.

    Args:
        times: Ascending times that hold every incident's time, shape (m,).
        survival: S at those times, shape (n, m).
        duration: Shape (n,).
        event: Shape (n,).

    Raises:
        SelectorError: The shapes do not fit, or a value makes no sense.
    """
    curves = np.asarray(survival, dtype=np.float64)
    time, happened = checked(duration, event, len(curves))
    columns = np.searchsorted(np.asarray(times, dtype=np.float64), time)
    good, pairs = 0.0, 0
    for case in np.flatnonzero(happened):
        later = (time > time[case]) | ((time == time[case]) & ~happened)
        column = curves[:, columns[case]]
        others, own = column[later], column[case]
        good += float((others > own).sum()) + 0.5 * float((others == own).sum())
        pairs += len(others)
    return good / pairs if pairs else 0.5


def skill(
    survival: npt.ArrayLike, duration: npt.ArrayLike, event: npt.ArrayLike, horizon: float
) -> float:
    """Return 1 - Brier / Brier of the same rows' Kaplan-Meier estimate, at a horizon.

    Above 0 the covariates help; a figure without them has 0 at best.
    """
    same = float(kaplan_meier(duration, event, np.array([horizon]))[0])
    flat = np.full(np.asarray(duration).shape[0], same)
    return 1 - brier(survival, duration, event, horizon) / brier(flat, duration, event, horizon)
