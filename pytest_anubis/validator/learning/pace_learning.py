"""Learning how metrics follow the pace of their host, and which of them are tighter for it.

A metric has a paced form only where runs that took no part in the fit (`limits.pace_fit`) lie clearly nearer
together with it than without.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_anubis.core.baseline import HOST_PACE, Criterion, PacedForm, PaceSlope
from pytest_anubis.core.gather import Shelf
from pytest_anubis.core.sample import Population, Problem
from pytest_anubis.validator.learning.criterion_learning import learn_criterion
from pytest_anubis.validator.learning.learned_criterion import LearnedCriterion
from pytest_anubis.validator.learning.machine_thresholds import FLOOR
from pytest_anubis.validator.limits.pace_fit import (
    Observations,
    fit_slopes,
    predicted_spread,
    reading_noise,
    telling_kinds,
)
from pytest_anubis.validator.similarity.centre import FEWEST, Method
from pytest_anubis.validator.similarity.pacing import (
    at_reference,
    correction,
    group_logs,
    pace_populations,
)
from pytest_anubis.validator.similarity.usable_rows import name_codes

TIGHTER = 0.8
"""A paced form is kept where its spread between runs is at most this part of the raw one: with a handful of
runs, less is chance, and every form costs time in later runs."""
OF_THE_ROUNDS = ("waiting",)
"""Kinds that are no readings beside the rounds, but an account of the rounds themselves, without noise."""
COMPLETE = 0.8
"""Part of the usable samples beside which the pace must have been read."""
ROOM = 0.05
"""Room beside the paces that were seen, in logs, within which a slope is believed: at least five per cent,
else as much again as they spread."""
MOST_FOLDS = 20
"""Parts into which the runs are split, at most, each predicted from the rest: enough of them are known to
within the noise of a standard deviation of as many values."""


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
    raw = predicted_spread(seen, ())
    # Noise that was none, as where every round has a pace of its own, would make the slopes too steep.
    ways = [seen, replace(seen, noise=np.zeros(len(kinds)))]
    deviation, chosen, way = min((*telling_kinds(one, raw), i) for i, one in enumerate(ways))
    seen = ways[way]
    if deviation > TIGHTER * raw or raw < FLOOR:
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
    found: Iterable[LearnedCriterion],
    alpha: float,
    method: Method,
    one_machine: bool,
    shelf: Shelf | None = None,
) -> list[PacedLearning]:
    """Return the paced forms of all metrics that have one (`learn_paced`).

    With a shelf the values at the reference pace lie there.
    """
    forms = []
    for item in found:
        form = learn_paced(item, alpha=alpha, method=method, one_machine=one_machine)
        if shelf is not None:
            shelf.release()
        if form is None:
            continue
        if shelf is not None:
            whole = form.learned.population
            whole = replace(whole, values=shelf.keep([whole.values]))
            form = replace(form, learned=form.learned.with_values(whole, shelf))
        forms.append(form)
    return forms


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
) -> Observations:
    power = -1.0 if population.metric.better == "higher" else 1.0  # durations, or their like
    losses, paces, owners, noises = [], [], [], []
    for place, row in enumerate(rows):
        beside = population.pace(row)
        losses.append(group_logs(population.sample(row) ** power))
        seconds = np.stack([beside[kind] for kind in kinds], axis=1)
        paces.append(group_logs(seconds))
        noises.append(reading_noise(np.log(seconds), len(paces[-1])))
        owners.append(np.full(len(losses[-1]), place))
    loss, pace, owner = np.concatenate(losses), np.concatenate(paces), np.concatenate(owners)
    _, device = name_codes([population.devices[row] for row in rows])
    for code in np.unique(device):  # devices are compared each with itself
        mine = device[owner] == code
        loss[mine] -= np.median(loss[mine])
    names = population.runs if one_machine else population.nodes
    _, fold = name_codes([names[row] for row in rows])
    noise = np.median(noises, axis=0) * [kind not in OF_THE_ROUNDS for kind in kinds]
    return Observations(
        loss=loss, paces=pace, row=owner, fold=fold % MOST_FOLDS, noise=np.asarray(noise)
    )


def _slopes_of(
    seen: Observations, chosen: tuple[int, ...], kinds: Sequence[str]
) -> tuple[PaceSlope, ...]:
    columns = seen.paces[:, list(chosen)]
    rows = seen.rows(columns)
    out = []
    slopes = fit_slopes(seen.loss, columns, seen.row, seen.noise[list(chosen)])
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
