"""How losses follow paces: a robust regression, and whether it holds for runs that took no part in it.

Arrays only. The loss of a value (its log, in the direction that is worse) is regressed on the logs of what
the probes beside it took, within and between runs at once: groups of successive values are the observations,
slopes are not negative, bounded, and shrunk towards none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.sample import FloatArray

STEEPEST = 3.0
"""Largest slope: of what all threads do, the time that one of them lost is a part, and the others wait for
it; beyond three it is chance."""
LEAST_RELIABLE = 0.5
"""Least reliability of a group's pace by which slopes are made steeper: below it too little is known."""
HUBER = 1.345
"""Residuals beyond this many robust standard deviations weigh less: 95 % efficiency for normal noise."""
REFITS = 6
"""Times that the weights of the robust fit are computed anew; they no longer move then."""
EVIDENT = 2.5
"""Correlation within runs of what is predicted and what is found, times the root of its degrees of freedom:
one per cent by chance for one kind of probe, a few of every hundred metrics for all kinds."""
MANY = 30
"""Samples from which on their spread is the median absolute deviation, of which a few sick nodes are no part;
of fewer that is known too badly (.17 of itself, of thirty)."""
EXTRA = 1.1
"""One more kind of probe must make the spread smaller by this factor, or fewer do."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observations:
    """Groups of values: ``loss`` (m,) and ``paces`` (m, kinds) in logs, ``row`` (m,), ``fold`` by row.

    ``noise`` (kinds,) is the variance of a group's pace that is none of the host's: that of the readings.
    """

    loss: FloatArray
    paces: FloatArray
    row: npt.NDArray[np.int64]
    fold: npt.NDArray[np.int64]
    noise: FloatArray

    def rows(self, numbers: FloatArray) -> FloatArray:
        """Return the mean of every row's groups, shape (rows, ...)."""
        return np.array([numbers[self.row == row].mean(axis=0) for row in range(len(self.fold))])


def reading_noise(logs: FloatArray, groups: int) -> FloatArray:
    """Return the variance of a group's pace for the noise of its readings, shape (kinds,).

    Successive values share a reading, so half the difference of the readings around them is what differs.
    """
    if len(logs) < 2:
        return np.zeros(logs.shape[1])
    of_one = 2 * (np.diff(logs, axis=0) ** 2).mean(axis=0)
    return np.asarray(of_one * groups / len(logs))


def fit_slopes(
    loss: FloatArray, paces: FloatArray, row: npt.NDArray[np.int64], noise: FloatArray
) -> FloatArray:
    """Return the slopes, shape (kinds,): robust, not negative, shrunk as if a run were one observation.

    The noise of readings makes slopes of groups too flat for whole runs, whose mean has less of it: they are
    divided by the reliability that groups lack.
    """
    from scipy.optimize import nnls

    kinds = paces.shape[1]
    weight = np.ones(len(loss))
    _, counts = np.unique(row, return_counts=True)
    slopes = np.zeros(kinds)
    for _ in range(REFITS):
        total = weight.sum()
        x = paces - (weight[:, None] * paces).sum(axis=0) / total
        y = loss - float((weight * loss).sum()) / total
        residual = y - x @ slopes
        scale = 1.4826 * float(np.median(np.abs(residual - np.median(residual)))) + 1e-9
        # Prior standard deviation of a slope: 1. The groups of a run see much of the same.
        ridge = scale * np.sqrt(counts.mean()) * np.eye(kinds)
        root = np.sqrt(weight)
        left = np.concatenate([root[:, None] * x, ridge])
        slopes, _ = nnls(left, np.concatenate([root * y, np.zeros(kinds)]))
        residual = y - x @ slopes
        weight = np.minimum(1.0, HUBER * scale / np.maximum(np.abs(residual), 1e-12))
    lacking = noise * (1 - 1 / counts.mean()) / np.maximum(x.var(axis=0), 1e-12)
    return np.asarray(np.minimum(slopes / np.maximum(1 - lacking, LEAST_RELIABLE), STEEPEST))


def predicted_spread(seen: Observations, chosen: tuple[int, ...]) -> float:
    """Return the standard deviation of rows about what the other folds predict of them."""
    columns = seen.paces[:, list(chosen)]
    loss, paces = seen.rows(seen.loss), seen.rows(columns)
    errors = []
    for fold in np.unique(seen.fold):
        held = seen.fold == fold
        left = loss - paces @ _without(seen, fold, chosen)
        errors.append(left[held] - left[~held].mean())
    every = np.concatenate(errors)
    if len(every) >= MANY:
        return 1.4826 * float(np.median(np.abs(every - np.median(every))))
    # A run is compared with the mean of the others, which has a share of the variance itself.
    folds = len(errors)
    return float(np.sqrt((every**2).mean() * (folds - 1) / folds))


def _without(seen: Observations, fold: int, chosen: tuple[int, ...]) -> FloatArray:
    """Return the slopes that all other folds have."""
    if not chosen:
        return np.zeros(0)
    known = seen.fold[seen.row] != fold
    noise = seen.noise[list(chosen)]
    return fit_slopes(seen.loss[known], seen.paces[known][:, list(chosen)], seen.row[known], noise)


def _follows(seen: Observations, chosen: tuple[int, ...]) -> bool:
    """Return whether what the other folds predict is seen within the runs as well.

    Of a handful of runs one kind or another explains the order by chance; that their own ups and downs are
    explained too is none.
    """
    columns = seen.paces[:, list(chosen)]
    expected = np.zeros(len(seen.loss))
    for fold in np.unique(seen.fold):
        held = seen.fold[seen.row] == fold
        expected[held] = columns[held] @ _without(seen, fold, chosen)
    own = [numbers - seen.rows(numbers)[seen.row] for numbers in (expected, seen.loss)]
    degrees = len(seen.loss) - len(seen.fold)
    scale = float(np.sqrt((own[0] ** 2).sum() * (own[1] ** 2).sum()))
    if degrees < 1 or scale == 0:
        return False
    alike = float((own[0] * own[1]).sum()) / scale
    return alike * math.sqrt(degrees) >= EVIDENT


def telling_kinds(seen: Observations, raw: float) -> tuple[float, tuple[int, ...]]:
    """Return the smallest spread and the kinds that it takes, added one by one while they help evidently."""
    spread: float = raw
    chosen: tuple[int, ...] = ()
    while True:
        left = [(*chosen, kind) for kind in range(seen.paces.shape[1]) if kind not in chosen]
        better = sorted(
            (found, more)
            for more in left
            if (found := predicted_spread(seen, more)) * EXTRA < spread
        )
        evident = next((one for one in better if _follows(seen, one[1])), None)
        if evident is None:
            return spread, chosen
        spread, chosen = evident
