"""Learning how metrics follow the pace of their host, and which of them are tighter for it.

The loss of a value (its log, in the direction that is worse) is regressed on the logs of what the probes
beside it took, within and between runs at once: groups of successive values are the observations, slopes
are not negative, bounded, and shrunk towards none. A metric has a paced form only where runs that took no
part in the fit lie clearly nearer together with it than without.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.baseline import Criterion, PacedForm, PaceSlope
from pytest_anubis.core.sample import FloatArray, Population, Problem
from pytest_anubis.validator.learning.criterion_learning import learn_criterion
from pytest_anubis.validator.learning.learned_criterion import LearnedCriterion
from pytest_anubis.validator.learning.machine_thresholds import FLOOR
from pytest_anubis.validator.similarity.centre import FEWEST, Method
from pytest_anubis.validator.similarity.pacing import (
    HOST_PACE,
    at_reference,
    correction,
    group_logs,
    pace_populations,
)
from pytest_anubis.validator.similarity.usable_rows import name_codes

TIGHTER = 0.8
"""A paced form is kept where its spread between runs is at most this part of the raw one: with a handful of
runs, less is chance, and every form costs time in later runs."""
STEEPEST = 3.0
"""Largest slope: of what all threads do, the time that one of them lost is a part, and the others wait for
it; beyond three it is chance."""
LEAST_RELIABLE = 0.5
"""Least reliability of a group's pace by which slopes are made steeper: below it too little is known."""
OF_THE_ROUNDS = ("waiting",)
"""Kinds that are no readings beside the rounds, but an account of the rounds themselves, without noise."""
COMPLETE = 0.8
"""Part of the usable samples beside which the pace must have been read."""
ROOM = 0.05
"""Room beside the paces that were seen, in logs, within which a slope is believed: at least five per cent,
else as much again as they spread."""
HUBER = 1.345
"""Residuals beyond this many robust standard deviations weigh less: 95 % efficiency for normal noise."""
REFITS = 6
"""Times that the weights of the robust fit are computed anew; they no longer move then."""
MOST_FOLDS = 20
"""Parts into which the runs are split, at most, each predicted from the rest: enough of them are known to
within the noise of a standard deviation of as many values."""
EVIDENT = 2.5
"""Correlation within runs of what is predicted and what is found, times the root of its degrees of freedom:
one per cent by chance for one kind of probe, a few of every hundred metrics for all kinds."""
MANY = 30
"""Samples from which on their spread is the median absolute deviation, of which a few sick nodes are no part;
of fewer that is known too badly (.17 of itself, of thirty)."""
EXTRA = 1.1
"""One more kind of probe must make the spread smaller by this factor, or fewer do."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PacedLearning:
    """A metric's values at the reference pace, and what was learned from them.

    Attributes:
        slopes: How it follows the pace.
        gain: Spread between runs beside that of the raw values.
        learned: The criterion of the values at the reference pace.
    """

    slopes: tuple[PaceSlope, ...]
    gain: float
    learned: LearnedCriterion

    @property
    def criterion(self) -> Criterion:
        """The criterion of the values at the reference pace."""
        if self.learned.criterion is None:
            raise ValueError("values at the reference pace without a criterion")
        return self.learned.criterion

    def form(self, criterion: Criterion) -> PacedForm:
        """Return the form for the raw criterion.

        Args:
            criterion: Of the values at the reference pace, with its thresholds.
        """
        return PacedForm(
            slopes=self.slopes,
            gain=min(self.gain, 1.0),
            centre=criterion.centre,
            learned=criterion.learned,
            unconfirmed=criterion.unconfirmed,
            spread=criterion.spread,
            detectable=criterion.detectable,
            medians=criterion.medians,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Observations:
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


def learn_paced(
    learned: LearnedCriterion, *, alpha: float, method: Method, one_machine: bool
) -> PacedLearning | None:
    """Learn the paced form of one metric; None where it has none that is clearly tighter.

    Args:
        learned: What was learned from the raw values, of devices and not of pooled nodes.
        alpha: Practical threshold.
        method: ``median`` or ``medoid``.
        one_machine: All rows are runs of one machine.
    """
    population, criterion = learned.population, learned.criterion
    if criterion is None or not population.paces or population.metric.better == "equal":
        return None
    if criterion.second is not None:  # two populations, and nobody has decided between them
        return None
    usable = np.flatnonzero(learned.rows.usable).tolist()  # some beyond alpha only for their pace
    enough = max(FEWEST, COMPLETE * len(usable))
    beside = {kind: _rows_with_pace(population, usable, [kind]) for kind in population.paces}
    kinds = sorted(kind for kind, rows in beside.items() if len(rows) >= enough)
    rows = _rows_with_pace(population, usable, kinds)
    if not kinds or len(rows) < enough:
        return None
    seen = _observations(population, rows, kinds, one_machine)
    if len(np.unique(seen.fold)) < FEWEST:
        return None
    raw = _spread(seen, ())
    # Noise that was none, as where every round has a pace of its own, would make the slopes too steep.
    ways = [seen, replace(seen, noise=np.zeros(len(kinds)))]
    deviation, chosen, way = min((*_kinds(one, raw), i) for i, one in enumerate(ways))
    seen = ways[way]
    if deviation > TIGHTER * raw or raw < FLOOR or not _follows(seen, chosen):
        return None
    slopes = _slopes_of(seen, chosen, kinds)
    if not slopes:
        return None
    paced = _at_reference(population, rows, slopes)
    again = learn_criterion(paced, alpha=alpha, method=method, one_machine=one_machine)
    if again.criterion is None:
        return None
    if again.spread is not None:
        # The slopes were fitted to these runs: their spread is that of runs that were not.
        runs = max(again.spread.runs - len(slopes), 2)
        again = replace(again, spread=again.spread._replace(deviation=deviation, runs=runs))
    return PacedLearning(slopes=slopes, gain=deviation / raw, learned=again)


def paced_forms(
    found: Iterable[LearnedCriterion], alpha: float, method: Method, one_machine: bool
) -> list[PacedLearning]:
    """Return the paced forms of all metrics that have one (`learn_paced`)."""
    forms = (
        learn_paced(item, alpha=alpha, method=method, one_machine=one_machine) for item in found
    )
    return [form for form in forms if form is not None]


def paces_of(
    populations: Iterable[Population], forms: Iterable[PacedLearning]
) -> tuple[Population, ...]:
    """Return the pace of the host itself in every run, beside the metrics that follow it."""
    known = {
        _key(one.criterion): PacedForm(slopes=one.slopes, gain=1.0, centre=()) for one in forms
    }
    return pace_populations(populations, known) if known else ()


def with_paced(
    criteria: Iterable[Criterion], forms: Sequence[PacedLearning], of_forms: Sequence[Criterion]
) -> tuple[Criterion, ...]:
    """Return the criteria, each with its paced form where there is one that finds more.

    Of a metric whose spread is within the practical threshold, that threshold decides anyway. Without any
    form nobody reads the pace, so it has no criterion either.

    Args:
        criteria: Of the raw values.
        forms: What was learned of the values at the reference pace.
        of_forms: Their criteria, with thresholds.
    """
    known = {_key(paced): one.form(paced) for one, paced in zip(forms, of_forms, strict=True)}
    out = []
    for criterion in criteria:
        form = known.get(_key(criterion)) if criterion.scope == "unit" else None
        learned = [t for t in (criterion.learned, criterion.unconfirmed) if t is not None]
        if form is None or min(learned, default=1.0) >= criterion.alpha:
            out.append(criterion)
            continue
        finds = [d for d in (form.detectable, criterion.detectable) if d is not None]
        out.append(replace(criterion, paced=form, detectable=min(finds, default=None)))
    if not any(criterion.paced for criterion in out):
        return tuple(criterion for criterion in out if criterion.benchmark != HOST_PACE)
    return tuple(out)


def _key(criterion: Criterion) -> tuple[str, str, str]:
    return criterion.benchmark, criterion.metric.name, criterion.group


def _rows_with_pace(
    population: Population, usable: Sequence[int], kinds: Sequence[str]
) -> list[int]:
    rows = []
    for row in usable:
        pace = population.pace(row)
        beside = [population.sample(row), *(pace[kind] for kind in kinds)]
        if all(np.all(numbers > 0) for numbers in beside):
            rows.append(row)
    return rows


def _observations(
    population: Population, rows: Sequence[int], kinds: Sequence[str], one_machine: bool
) -> _Observations:
    power = -1.0 if population.metric.better == "higher" else 1.0  # durations, or their like
    losses, paces, owners, noises = [], [], [], []
    for place, row in enumerate(rows):
        beside = population.pace(row)
        losses.append(group_logs(population.sample(row) ** power))
        seconds = np.stack([beside[kind] for kind in kinds], axis=1)
        paces.append(group_logs(seconds))
        noises.append(_noise(np.log(seconds), len(paces[-1])))
        owners.append(np.full(len(losses[-1]), place))
    loss, pace, owner = np.concatenate(losses), np.concatenate(paces), np.concatenate(owners)
    _, device = name_codes([population.devices[row] for row in rows])
    for code in np.unique(device):  # devices are compared each with itself
        mine = device[owner] == code
        loss[mine] -= np.median(loss[mine])
    names = population.runs if one_machine else population.nodes
    _, fold = name_codes([names[row] for row in rows])
    noise = np.median(noises, axis=0) * [kind not in OF_THE_ROUNDS for kind in kinds]
    return _Observations(
        loss=loss, paces=pace, row=owner, fold=fold % MOST_FOLDS, noise=np.asarray(noise)
    )


def _noise(logs: FloatArray, groups: int) -> FloatArray:
    """Return the variance of a group's pace for the noise of its readings, shape (kinds,).

    Successive values share a reading, so half the difference of the readings around them is what differs.
    """
    if len(logs) < 2:
        return np.zeros(logs.shape[1])
    of_one = 2 * (np.diff(logs, axis=0) ** 2).mean(axis=0)
    return np.asarray(of_one * groups / len(logs))


def _fit(
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
    return np.minimum(slopes / np.maximum(1 - lacking, LEAST_RELIABLE), STEEPEST)


def _spread(seen: _Observations, chosen: tuple[int, ...]) -> float:
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


def _without(seen: _Observations, fold: int, chosen: tuple[int, ...]) -> FloatArray:
    """Return the slopes that all other folds have."""
    if not chosen:
        return np.zeros(0)
    known = seen.fold[seen.row] != fold
    noise = seen.noise[list(chosen)]
    return _fit(seen.loss[known], seen.paces[known][:, list(chosen)], seen.row[known], noise)


def _follows(seen: _Observations, chosen: tuple[int, ...]) -> bool:
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


def _kinds(seen: _Observations, raw: float) -> tuple[float, tuple[int, ...]]:
    """Return the smallest spread and the kinds that it takes, chosen one after the other."""
    spread: float = raw
    chosen: tuple[int, ...] = ()
    while left := [kind for kind in range(seen.paces.shape[1]) if kind not in chosen]:
        found, kind = min((_spread(seen, (*chosen, kind)), kind) for kind in left)
        if found * EXTRA > spread:
            break
        spread, chosen = found, (*chosen, kind)
    return spread, chosen


def _slopes_of(
    seen: _Observations, chosen: tuple[int, ...], kinds: Sequence[str]
) -> tuple[PaceSlope, ...]:
    columns = seen.paces[:, list(chosen)]
    rows = seen.rows(columns)
    out = []
    slopes = _fit(seen.loss, columns, seen.row, seen.noise[list(chosen)])
    for place, slope in enumerate(slopes.tolist()):
        if slope <= 0:
            continue
        middle = float(np.median(rows[:, place]))
        low, high = float(rows[:, place].min()), float(rows[:, place].max())
        room = max(high - low, ROOM)
        out.append(
            PaceSlope(
                kind=kinds[chosen[place]],
                reference=float(np.exp(middle)),
                slope=slope,
                least=float(np.exp(low - room - middle)),
                most=float(np.exp(high + room - middle)),
            )
        )
    return tuple(out)


def _at_reference(
    population: Population, rows: Sequence[int], slopes: tuple[PaceSlope, ...]
) -> Population:
    """Return the population at the reference pace; rows without a pace have a problem."""
    form = PacedForm(slopes=slopes, gain=1.0, centre=())
    values = population.values.astype(np.float64)
    problems = dict(population.problems)
    missing = Problem(kind="missing", text="the pace of the host was not read beside it")
    for row in range(len(population)):
        part = slice(population.offsets[row], population.offsets[row + 1])
        worse_by = (
            correction(population.pace(row), form, len(values[part])) if row in rows else None
        )
        if worse_by is None:
            problems.setdefault(row, missing)
        else:
            values[part] = at_reference(values[part], worse_by, population.metric.better)
    return replace(population, values=values, problems=problems, paces={})
