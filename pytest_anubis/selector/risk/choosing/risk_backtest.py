"""Backtests of risk models in time: what each would have predicted at earlier moments, and what came.

At each origin models know what was known then, and are judged on *everything* that came after, not only on
the next stretch: a network that has memorised the months of a fleet still predicts the next month well, and
only the far future exposes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_anubis.selector.risk.choosing.model_accuracy import (
    calibration,
    harrell,
    integrated_brier,
    kaplan_meier,
    ranks,
)
from pytest_anubis.selector.risk.models.covariates import Floats
from pytest_anubis.selector.risk.models.hazard import HazardModel

ORIGINS = (0.35, 0.5, 0.65, 0.8)
"""Shares of the incidents known at each origin: enough before it to learn, and after it to judge."""
FOLDS = 5
"""Folds of a cross-validation of rows without a time; each fold is held back once."""
MIN_INCIDENTS = 20
"""Incidents that an origin needs after it: a concordance of fewer is noise."""
_MAX_ROWS = 6_000  # judged at an origin: they give C to .01, and a network reads them in a second
_LANDMARKS = 6  # moments after an origin at which the intervals then under way are judged
_MIN_RATIO = 1e-3  # of predicted to observed: hazards of nearly 0 are not scaled further
_BRIER_TIMES = 3  # in the horizon, to integrate the Brier score
_NEARLY = 1e-6  # share of a horizon that may be missing
_EQUAL = 1e-9  # share of a time within which two are equal: hours since 1970 have few more digits


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Intervals of service to learn from, a row for each."""

    x: Floats  # covariates at the start, shape (n, d)
    duration: Floats  # shape (n,)
    event: npt.NDArray[np.bool_]  # whether each ended with an incident, shape (n,)
    began: Floats  # when each began, shape (n,), in the unit of the durations
    names: tuple[str, ...] | None = None
    timed: bool = True  # whether `began` is known; otherwise the rows have no order

    @property
    def incidents(self) -> int:
        """How many ended with an incident."""
        return int(self.event.sum())

    def fitted(self, model: HazardModel) -> HazardModel:
        """Return a model, fitted to the rows in the order of time if they have one.

        Raises:
            SelectorError: They are too few for it, or a value is impossible.
        """
        order = self.began if self.timed else None
        return model.fit(self.x, self.duration, self.event, names=self.names, order=order)

    def only(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> Intervals:
        """Return some of the rows."""
        return replace(
            self,
            x=self.x[rows],
            duration=self.duration[rows],
            event=self.event[rows],
            began=self.began[rows],
        )

    def known_at(self, moment: float) -> Intervals:
        """Return the rows that had begun, without what came after the moment.

        Incidents at the moment itself, within the precision of a sum of times, count as known.
        """
        rows = self.only(self.began < moment)
        seen = moment - rows.began
        over = rows.duration > seen + _EQUAL * abs(moment)
        return replace(rows, duration=np.where(over, seen, rows.duration), event=rows.event & ~over)

    def thinned(self, most: int, seed: int) -> Intervals:
        """Return a random share of the rows with about `most` incidents; all if there are fewer."""
        if self.incidents <= most:
            return self
        rng = np.random.default_rng(seed)
        return self.only(rng.random(len(self.event)) < most / self.incidents)


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """A moment to forecast from: what was known then, and what came after it."""

    known: Intervals  # the rows to learn from
    x: Floats  # covariates of the n rows that are judged
    entry: Floats  # how long each had been under way at the moment, shape (n,)
    follow: Floats  # how long each was watched from then on, at most the horizon, shape (n,)
    event: npt.NDArray[np.bool_]  # whether that ended with an incident, shape (n,)
    # How far ahead they are judged: less than asked if most could not be watched that long
    horizon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The accuracy of a model after one origin."""

    concordance: float  # harrell's C at the horizon
    brier: float  # integrated Brier score
    # The same with hazards scaled to the observed number of incidents. It measures how the model
    # distinguishes rows; all models miss a shift of the level alike, and the next fit corrects it.
    levelled: float
    usual: float  # the same of the rows' own Kaplan-Meier curve
    calibration: float  # predicted / observed incidents until the horizon

    @property
    def skill(self) -> float:
        """Return 1 - Brier score / the usual one."""
        return 1 - self.brier / self.usual


class _JudgedRows(NamedTuple):
    """Rows to judge: the fields of `Origin`, and how long each could be watched until the history's end."""

    x: Floats
    entry: Floats
    follow: Floats
    event: npt.NDArray[np.bool_]
    watchable: Floats


def origins(rows: Intervals, horizon: float, *, ongoing: bool, seed: int) -> list[Origin]:
    """Return the origins with enough incidents after them.

    `ongoing` judges intervals under way, as the nodes of a fleet are; otherwise new ones are judged, if
    enough begin after the origins. `seed` draws rows where there are too many, and folds.
    """
    if not rows.timed:
        return _folds(rows, horizon, seed)
    ends = (rows.began + rows.duration)[rows.event]
    found = []
    for share in ORIGINS:
        moment = float(np.quantile(ends, share))
        judged = None
        if not ongoing:
            judged = _judged(rows, rows.began >= moment, rows.began, horizon, seed)
        if judged is None or judged.event.sum() < MIN_INCIDENTS:
            judged = _under_way(rows, moment, horizon, seed, several=ongoing)
        origin = _origin(rows.known_at(moment), judged, horizon)
        if origin.event.sum() >= MIN_INCIDENTS:
            found.append(origin)
    return found


def _origin(known: Intervals, judged: _JudgedRows, horizon: float) -> Origin:
    """Return an origin whose horizon at least half of its rows could be watched for.

    Otherwise the few that were watched longer would represent all others in a Brier score.
    """
    horizon = min(horizon, float(np.median(judged.watchable)))
    # A row watched up to the horizon counts as watched for all of it. At the last moment all rows are watched
    # for the same time but for the last digit, which would otherwise decide whether a row counts at all.
    over = judged.follow > horizon * (1 + _EQUAL)
    whole = over | (~judged.event & (judged.follow > horizon * (1 - _NEARLY)))
    follow = np.where(whole, horizon, judged.follow)
    return Origin(known, judged.x, judged.entry, follow, judged.event & ~over, horizon)


def _judged(
    rows: Intervals,
    which: npt.NDArray[np.bool_],
    since: Floats,
    horizon: float,
    seed: int,
    most: int = _MAX_ROWS,
) -> _JudgedRows:
    """Return some rows, each judged from a moment on; at most so many, drawn."""
    chosen = np.flatnonzero(which)
    if len(chosen) > most:
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, most, replace=False))
    entry = np.maximum(0.0, since - rows.began)[chosen]
    left = rows.duration[chosen] - entry
    over = left > horizon
    last = float((rows.began + rows.duration).max())
    watchable = last - rows.began[chosen] - entry if rows.timed else np.full(len(chosen), horizon)
    follow, event = np.where(over, horizon, left), rows.event[chosen] & ~over
    return _JudgedRows(rows.x[chosen], entry, follow, event, watchable)


def _under_way(
    rows: Intervals, moment: float, horizon: float, seed: int, *, several: bool
) -> _JudgedRows:
    """Return the rows under way at several moments from one on, or all that end after it, each once."""
    if not several:
        since = np.maximum(rows.began, moment)
        return _judged(rows, rows.began + rows.duration > moment, since, horizon, seed)
    last = float((rows.began + rows.duration).max()) - horizon
    count = _LANDMARKS if last > moment else 1
    parts = []
    for number, mark in enumerate(np.linspace(moment, max(moment, last), count)):
        there = (rows.began <= mark) & (rows.began + rows.duration > mark)
        since = np.full(len(rows.event), mark)
        parts.append(_judged(rows, there, since, horizon, seed + number, _MAX_ROWS // count))
    return _JudgedRows(*(np.concatenate(field) for field in zip(*parts, strict=True)))


def _folds(rows: Intervals, horizon: float, seed: int) -> list[Origin]:
    """Return an origin for each fold of rows without a time; folds are stratified by incidents."""
    rng = np.random.default_rng(seed)
    fold = np.empty(len(rows.event), dtype=np.int64)
    for group in (np.flatnonzero(rows.event), np.flatnonzero(~rows.event)):
        fold[rng.permutation(group)] = np.arange(len(group)) % FOLDS
    found = []
    for number in range(FOLDS):
        judged = _judged(rows, fold == number, rows.began, horizon, seed)
        if judged.event.sum() >= MIN_INCIDENTS:
            found.append(_origin(rows.only(fold != number), judged, horizon))
    return found


def predicted_hazard(model: HazardModel, origin: Origin) -> Floats:
    """Return the cumulative hazard from each row's entry on, shape (n, parts of the horizon)."""
    steps = np.linspace(0, origin.horizon, _BRIER_TIMES + 1)
    hazard = model.cumulative(origin.entry[:, None] + steps, origin.x)
    found: Floats = hazard[:, 1:] - hazard[:, :1]
    return found


def score(hazard: Floats, origin: Origin) -> Score:
    """Judge what `predicted_hazard` gave."""
    times = np.linspace(0, origin.horizon, _BRIER_TIMES + 1)[1:]
    watched = origin.follow, origin.event

    def brier(curves: Floats) -> float:
        return integrated_brier(times, curves, *watched)

    ratio = calibration(np.exp(-hazard[:, -1]), *watched, origin.horizon)
    flat = np.tile(kaplan_meier(*watched, times), (len(hazard), 1))
    return Score(
        concordance=harrell(hazard[:, -1], *watched),
        brier=brier(np.exp(-hazard)),
        levelled=brier(np.exp(-hazard / max(ratio, _MIN_RATIO))),
        usual=brier(flat),
        calibration=ratio,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskGroup:
    """Rows of similar risk in a backtest."""

    rows: int
    predicted: float  # their mean predicted probability of an incident within the horizon
    observed: float  # the share that had one (Kaplan-Meier)


def risk_groups(hazard: Floats, origin: Origin, count: int) -> list[RiskGroup]:
    """Return rows in `count` groups of equal size by what `predicted_hazard` gave, least first."""
    chance = -np.expm1(-hazard[:, -1])
    groups = []
    for part in np.array_split(np.argsort(ranks(hazard[:, -1]), kind="stable"), count):
        if not len(part) or origin.follow[part].max() <= 0:
            continue
        left = kaplan_meier(origin.follow[part], origin.event[part], np.array([origin.horizon]))
        observed = 1 - float(left[0])
        predicted = float(chance[part].mean())
        groups.append(RiskGroup(rows=len(part), predicted=predicted, observed=observed))
    return groups


def merged_groups(each: Sequence[Sequence[RiskGroup]]) -> list[RiskGroup]:
    """Return the groups of several origins as one list: the least risky of each together, and so on."""
    found = []
    for same in zip(*(groups for groups in each if len(groups) == len(each[0])), strict=True):
        rows = sum(group.rows for group in same)
        predicted = sum(group.rows * group.predicted for group in same) / rows
        observed = sum(group.rows * group.observed for group in same) / rows
        found.append(RiskGroup(rows=rows, predicted=predicted, observed=observed))
    return found
