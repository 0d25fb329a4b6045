"""Backtests in time: what would each model have said at earlier moments, and what came?

At each origin models know what was known then, and are judged on *everything* that came after, not on the
next stretch only: a network that has learned the months of a fleet by heart is still good for the next
month, and only the far future shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
"""Shares of the incidents that are known at each origin: enough before it to learn, and after it to judge."""
FOLDS = 5
"""Parts that rows without any time are dealt to, each held back once."""
LEAST = 20
"""Incidents that an origin needs after it: a concordance of fewer is noise."""
_MOST_ROWS = (
    6_000  # judged at an origin: C is known to .01 from them, and a network reads them in a second
)
_LANDMARKS = 6  # moments after an origin at which the nodes under way are judged
_LEAST_RATIO = (
    1e-3  # of predicted to observed: a model that predicts nothing is not levelled to anything
)
_PARTS = 3  # of the horizon, at which the Brier score is integrated
_JUST = 1e-6  # share of a horizon that nobody misses
_SAME = 1e-9  # share of a time within which two are equal: hours since 1970 keep few more digits


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Rows of one interval each, to learn from.

    Attributes:
        x: Covariates at the start, shape (n, d).
        duration: Shape (n,).
        event: Whether each ended with an incident, shape (n,).
        began: When each began, shape (n,), in the unit of the durations.
        names: Names of the covariates.
        timed: Whether `began` means anything; otherwise the rows come in no order.
    """

    x: Floats
    duration: Floats
    event: npt.NDArray[np.bool_]
    began: Floats
    names: tuple[str, ...] | None = None
    timed: bool = True

    @property
    def incidents(self) -> int:
        """How many ended with an incident."""
        return int(self.event.sum())

    def fitted(self, model: HazardModel) -> HazardModel:
        """Return a model, fitted to the rows in the order of time where they have one.

        Raises:
            SelectorError: They are too few for it, or make no sense.
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
        """Return the rows that had begun, with everything after the moment not seen yet.

        What happened at the moment itself, as far as sums of times can tell, was seen.
        """
        rows = self.only(self.began < moment)
        seen = moment - rows.began
        over = rows.duration > seen + _SAME * abs(moment)
        return replace(rows, duration=np.where(over, seen, rows.duration), event=rows.event & ~over)

    def thinned(self, most: int, seed: int) -> Intervals:
        """Return a random share of the rows, with about as many incidents; all if there are fewer."""
        if self.incidents <= most:
            return self
        rng = np.random.default_rng(seed)
        return self.only(rng.random(len(self.event)) < most / self.incidents)


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """What was known at a moment, and what came after it.

    Attributes:
        known: To learn from.
        x: Covariates of the n rows that are judged.
        entry: How long each had been under way when it was judged, shape (n,).
        follow: How long each was watched from then on, at most the horizon, shape (n,).
        event: Whether that ended with an incident, shape (n,).
        horizon: How far ahead they are judged: less than was asked where most could not be watched so long.
    """

    known: Intervals
    x: Floats
    entry: Floats
    follow: Floats
    event: npt.NDArray[np.bool_]
    horizon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How good a model was after one origin.

    Attributes:
        concordance: Harrell's C at the horizon.
        brier: Integrated Brier score.
        levelled: The same, had the model known how many incidents would come: what is left is how it tells
            rows apart. All models alike miss a shift of the level, and the next fit mends it.
        usual: That of the same rows' own Kaplan-Meier curve.
        calibration: Predicted / observed incidents until the horizon.
    """

    concordance: float
    brier: float
    levelled: float
    usual: float
    calibration: float

    @property
    def skill(self) -> float:
        """Return 1 - Brier score / the usual one."""
        return 1 - self.brier / self.usual


def origins(rows: Intervals, horizon: float, *, ongoing: bool, seed: int) -> list[Origin]:
    """Return what can be backtested.

    Args:
        rows: The history.
        horizon: How far ahead predictions are judged.
        ongoing: Whether it will be asked about intervals that are under way (the nodes of a fleet now);
            otherwise about new ones, where enough of them begin after the origins.
        seed: Seed of what is drawn where there are too many rows, and of folds without time.
    """
    if not rows.timed:
        return _dealt(rows, horizon, seed)
    ends = (rows.began + rows.duration)[rows.event]
    found = []
    for share in ORIGINS:
        moment = float(np.quantile(ends, share))
        new = None if ongoing else _judged(rows, rows.began >= moment, rows.began, horizon, seed)
        if new is None or new[3].sum() < LEAST:
            new = _under_way(rows, moment, horizon, seed, several=ongoing)
        origin = _watched(rows.known_at(moment), new, horizon)
        if origin.event.sum() >= LEAST:
            found.append(origin)
    return found


def _watched(known: Intervals, judged: Judged, horizon: float) -> Origin:
    """Return an origin, judged no farther ahead than half of its rows could be watched.

    The few that were watched longer would stand for all others in a Brier score.
    """
    x, entry, follow, event, could = judged
    horizon = min(horizon, float(np.median(could)))
    # Who was watched up to the horizon counts whole. Those of the last moment are watched for just as long,
    # but for the last digit, and by that digit alone half of the cases weighed everything or nothing.
    over = follow > horizon * (1 + _SAME)
    whole = over | (~event & (follow > horizon * (1 - _JUST)))
    return Origin(known, x, entry, np.where(whole, horizon, follow), event & ~over, horizon)


Judged = tuple[Floats, Floats, Floats, npt.NDArray[np.bool_], Floats]
"""Covariates, entry, follow, event, and how long each could be watched until the end of the history."""


def _judged(
    rows: Intervals,
    which: npt.NDArray[np.bool_],
    since: Floats,
    horizon: float,
    seed: int,
    most: int = _MOST_ROWS,
) -> Judged:
    """Return what is judged of rows from moments on, shape (n,)."""
    chosen = np.flatnonzero(which)
    if len(chosen) > most:
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, most, replace=False))
    entry = np.maximum(0.0, since - rows.began)[chosen]
    left = rows.duration[chosen] - entry
    over = left > horizon
    last = float((rows.began + rows.duration).max())
    could = last - rows.began[chosen] - entry if rows.timed else np.full(len(chosen), horizon)
    follow, event = np.where(over, horizon, left), rows.event[chosen] & ~over
    return rows.x[chosen], entry, follow, event, could


def _under_way(
    rows: Intervals, moment: float, horizon: float, seed: int, *, several: bool
) -> Judged:
    """Return what is judged of rows under way at one moment, or at several until the end."""
    last = float((rows.began + rows.duration).max()) - horizon
    count = _LANDMARKS if several and last > moment else 1
    if (
        not several
    ):  # nothing is asked about the same row twice: those under way, and all that begin later
        since = np.maximum(rows.began, moment)
        return _judged(rows, rows.began + rows.duration > moment, since, horizon, seed)
    parts = []
    for number, mark in enumerate(np.linspace(moment, max(moment, last), count)):
        there = (rows.began <= mark) & (rows.began + rows.duration > mark)
        since = np.full(len(rows.event), mark)
        parts.append(_judged(rows, there, since, horizon, seed + number, _MOST_ROWS // count))
    x, entry, follow, event, could = (list(each) for each in zip(*parts, strict=True))
    return (
        np.concatenate(x),
        np.concatenate(entry),
        np.concatenate(follow),
        np.concatenate(event),
        np.concatenate(could),
    )


def _dealt(rows: Intervals, horizon: float, seed: int) -> list[Origin]:
    """Return folds of rows that nobody knows the time of, incidents and others dealt evenly."""
    rng = np.random.default_rng(seed)
    fold = np.empty(len(rows.event), dtype=np.int64)
    for group in (np.flatnonzero(rows.event), np.flatnonzero(~rows.event)):
        fold[rng.permutation(group)] = np.arange(len(group)) % FOLDS
    found = []
    for number in range(FOLDS):
        held = fold == number
        new = _judged(rows, held, rows.began, horizon, seed)
        if new[3].sum() >= LEAST:
            found.append(_watched(rows.only(~held), new, horizon))
    return found


def ahead(model: HazardModel, origin: Origin) -> Floats:
    """Return the cumulative hazard from each row's entry on at parts of the horizon, shape (n, parts)."""
    steps = np.linspace(0, origin.horizon, _PARTS + 1)
    hazard = model.cumulative(origin.entry[:, None] + steps, origin.x)
    found: Floats = hazard[:, 1:] - hazard[:, :1]
    return found


def score(hazard: Floats, origin: Origin) -> Score:
    """Judge what `ahead` gave."""
    times = np.linspace(0, origin.horizon, _PARTS + 1)[1:]
    watched = origin.follow, origin.event

    def brier(curves: Floats) -> float:
        return integrated_brier(times, curves, *watched)

    ratio = calibration(np.exp(-hazard[:, -1]), *watched, origin.horizon)
    flat = np.tile(kaplan_meier(*watched, times), (len(hazard), 1))
    return Score(
        concordance=harrell(hazard[:, -1], *watched),
        brier=brier(np.exp(-hazard)),
        levelled=brier(np.exp(-hazard / max(ratio, _LEAST_RATIO))),
        usual=brier(flat),
        calibration=ratio,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskGroup:
    """Rows of like risk, as a backtest saw them.

    Attributes:
        rows: How many.
        predicted: Their mean predicted probability of an incident within the horizon.
        observed: The share that had one (Kaplan-Meier).
    """

    rows: int
    predicted: float
    observed: float


def risk_groups(hazard: Floats, origin: Origin, count: int) -> list[RiskGroup]:
    """Return rows in groups of equal size by predicted risk, least first.

    Args:
        hazard: What `ahead` gave.
        origin: The origin.
        count: How many groups.
    """
    chance = -np.expm1(-hazard[:, -1])
    groups = []
    for part in np.array_split(np.argsort(ranks(hazard[:, -1]), kind="stable"), count):
        if not len(part) or origin.follow[part].max() <= 0:
            continue
        left = kaplan_meier(origin.follow[part], origin.event[part], np.array([origin.horizon]))
        said, seen = float(chance[part].mean()), 1 - float(left[0])
        groups.append(RiskGroup(rows=len(part), predicted=said, observed=seen))
    return groups


def merged_groups(each: Sequence[Sequence[RiskGroup]]) -> list[RiskGroup]:
    """Return the groups of several origins as one list: the least risky fifths together, and so on."""
    found = []
    for same in zip(*(groups for groups in each if len(groups) == len(each[0])), strict=True):
        rows = sum(group.rows for group in same)
        predicted = sum(group.rows * group.predicted for group in same) / rows
        observed = sum(group.rows * group.observed for group in same) / rows
        found.append(RiskGroup(rows=rows, predicted=predicted, observed=observed))
    return found
