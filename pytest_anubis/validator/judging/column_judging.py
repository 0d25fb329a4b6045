"""Judge whole populations in arrays, one entry a unit, so that a fleet of a million samples needs no loop.

Outcomes are computed for all units at once; the full verdict on a unit is made when a caller asks for it.
Pooled nodes and the mean rates of components are judged here as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from pytest_anubis.core.baseline import Baseline, Criterion, Finding
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.nominal_rate import ATTAINED
from pytest_anubis.core.sample import FloatArray, Population, SampleProblem
from pytest_anubis.core.verdict import (
    NOISY,
    MetricVerdict,
    Outcome,
    Reason,
    Reference,
)
from pytest_anubis.validator.changes.segments import Segments, with_segments
from pytest_anubis.validator.judging.sample_judging import Compared, judge_row
from pytest_anubis.validator.judging.sequential_test import CONFIRMING_LOOKS
from pytest_anubis.validator.judging.verdict_table import (
    FAIL,
    INCONCLUSIVE,
    MARGINAL,
    NOT_TESTED,
    OUTCOMES,
    PASS,
    REASONS,
    Call,
    Codes,
    fill_verdicts,
    learned_for,
    limits_of,
    problem_verdict,
)
from pytest_anubis.validator.similarity.component_means import Member, component_means
from pytest_anubis.validator.similarity.pooling import pooled, with_earlier_devices
from pytest_anubis.validator.similarity.too_good import lowest_likeness
from pytest_anubis.validator.similarity.usable_rows import BoolArray, UsableRows, rows_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedColumns:
    """The verdicts on one population against one criterion; all arrays have shape (n,)."""

    population: Population  # what was judged; row i of every array is its unit i
    criterion: Criterion | None  # what it was judged against; None if there is none
    similarity: FloatArray  # one-sided similarity, NaN where there is none
    value: FloatArray  # median of the unit's values, NaN where there is none
    outcome: Codes  # index into ``OUTCOMES``
    reason: Codes  # index into ``REASONS``
    # Similarity below which the outcome changes, NaN where nothing was compared
    threshold: FloatArray
    # Outcome, reason and threshold by the verdict table, before anything else changed them
    calls: tuple[Codes, Codes, FloatArray] | None = None
    # The finding that the whole class has moved, if it has (see `population_shift.settle_shift`)
    shift: Finding | None = None
    # Row -> what changed for the worse within its run (see `change_screening.find_changes`)
    changes: Mapping[int, Segments] = field(default_factory=dict)
    unsearched: int = 0  # how many samples looked as if they had changed, but were not searched
    # Row -> its verdict where the current segment of a soak was judged next to the whole run
    current: Mapping[int, MetricVerdict] = field(default_factory=dict)
    # Row -> the verdict on a failure that a waiver covers, or covered until it expired
    waived: Mapping[int, MetricVerdict] = field(default_factory=dict)
    # Row -> how it differs from its node's other devices (see `device_split.split_by_device`)
    splits: Mapping[int, str] = field(default_factory=dict)
    # Row -> the words for its run, for bad rows of nodes with several runs (see `LaterRuns`)
    run_words: Mapping[int, str] = field(default_factory=dict)
    # Row -> what a later run of its unit found, in words, and whether the row had failed; the row
    # no longer counts as bad (see `LaterRuns`)
    answered: Mapping[int, tuple[str, bool]] = field(default_factory=dict)
    # Rows that fail as other runs of the same unit do (see `confirm`)
    confirmed: frozenset[int] = frozenset()
    reference: Reference = Reference.FLEET  # what decided, where anything was compared
    # Row -> its verdict, where the unit's own history decided (see `history_judging`)
    by_history: Mapping[int, MetricVerdict] = field(default_factory=dict)

    def verdict(self, row: int, baseline: Baseline | None = None) -> MetricVerdict:
        """Return the full verdict on one unit."""
        if row in self.waived:
            return self.waived[row]
        full = self.current[row] if row in self.current else self._without_later_runs(row, baseline)
        if row in self.run_words:
            full = with_run_named(full, self.run_words[row])
        return as_answered(full, *self.answered[row]) if row in self.answered else full

    def _without_later_runs(self, row: int, baseline: Baseline | None) -> MetricVerdict:
        full = self.of_whole_sample(row, baseline)
        if row in self.confirmed and full.retest not in ("", NOISY):
            full = _without_retest(full)
            full = replace(full, text=f"{full.text}, as in other runs of it")
        if row in self.splits:
            text = f"{full.text}; but {self.splits[row]}"
            full = replace(full, outcome=Outcome.MARGINAL, reason=Reason.UNUSUAL, text=text)
        return with_segments(full, self.changes[row]) if row in self.changes else full

    def of_run(self, row: int, baseline: Baseline | None = None) -> MetricVerdict:
        """Return the full verdict on one unit, with the run that its values come from."""
        return replace(self.verdict(row, baseline), run=self.population.runs[row])

    def of_whole_sample(self, row: int, baseline: Baseline | None) -> MetricVerdict:
        """Return the verdict on one unit's values as a whole, whatever their order in time."""
        if row in self.by_history:
            return self.by_history[row]
        population = self.population
        problem = population.problems.get(row)
        outcome, reason = OUTCOMES[self.outcome[row]], REASONS[self.reason[row]]
        compared = None
        if problem is None and not np.isnan(self.similarity[row]):
            alike, median = float(self.similarity[row]), float(self.value[row])
            compared = Compared(alike, median=median, call=self._call(row))
        full = judge_row(population, row, self.criterion, baseline, compared=compared)
        if problem is not None and problem.kind != "disturbed":
            return replace(
                full,
                outcome=outcome,
                reason=reason,
                text=f"{population.metric.name}: {problem.text}",
                similarity=None,
                threshold=None,
                reference=Reference.NONE,
            )
        if reason is not Reason.CLASS_SHIFT or self.shift is None:
            return full
        text = f"{_without_retest(full).text}; but most of the class moved alike: {self.shift.text}"
        return replace(full, outcome=outcome, reason=reason, text=text, certainty=None, retest="")

    def _call(self, row: int) -> Call | None:
        if self.calls is None:
            return None
        outcome, reason, threshold = (one[row] for one in self.calls)
        return Call(OUTCOMES[outcome], REASONS[reason], float(threshold))

    @property
    def of_all_devices(self) -> bool:
        """Whether each unit is a node, judged by the values of all its devices."""
        return self.criterion is not None and self.criterion.scope == "node"

    def marked(
        self, rows: Sequence[int] | BoolArray, outcome: int, reason: Reason, **more: Any
    ) -> JudgedColumns:
        """Return the columns with another outcome and reason in some rows, and with other fields."""
        outcomes, reasons = self.outcome.copy(), self.reason.copy()
        outcomes[rows], reasons[rows] = outcome, REASONS.index(reason)
        return replace(self, outcome=outcomes, reason=reasons, **more)

    def with_verdicts(self, verdicts: Mapping[int, MetricVerdict], **more: Any) -> JudgedColumns:
        """Return the columns with the results of full verdicts on some rows, and with other fields."""
        outcome, reason = self.outcome.copy(), self.reason.copy()
        similarity, threshold = self.similarity.copy(), self.threshold.copy()
        for row, one in verdicts.items():
            outcome[row], reason[row] = OUTCOMES.index(one.outcome), REASONS.index(one.reason)
            similarity[row] = np.nan if one.similarity is None else one.similarity
            threshold[row] = np.nan if one.threshold is None else one.threshold
        judged = replace(self, outcome=outcome, reason=reason, similarity=similarity)
        return replace(judged, threshold=threshold, **more)

    def verdicts(self, baseline: Baseline | None = None) -> Iterator[MetricVerdict]:
        """Yield the full verdict on every unit, in the population's order."""
        for row in range(len(self.population)):
            yield self.verdict(row, baseline)


def below_nominal(judged: JudgedColumns, baseline: Baseline | None) -> JudgedColumns:
    """Return columns in which neither peers nor earlier runs clear values far below the nominal rate.

    All of a node may be at half of it, and may have been from the beginning.
    """
    if judged.population.metric.nominal is None:
        return judged
    model = judge_columns(judged.population, None, baseline=baseline)
    low = (model.reason == REASONS.index(Reason.BELOW_NOMINAL)) & (judged.outcome != FAIL)
    return judged.marked(
        low,
        MARGINAL,
        Reason.BELOW_NOMINAL,
        similarity=np.where(low, np.nan, judged.similarity),
        threshold=np.where(low, np.nan, judged.threshold),
        by_history={row: one for row, one in judged.by_history.items() if not low[row]},
    )


def with_run_named(verdict: MetricVerdict, words: str) -> MetricVerdict:
    """Return a verdict whose text ends with the words for its run."""
    return replace(verdict, text=f"{verdict.text}; {words}", run_words=words)


def as_answered(verdict: MetricVerdict, words: str, failed: bool) -> MetricVerdict:
    """Return a bad verdict as it counts once a later run, which the words name, has answered it."""
    return replace(
        verdict,
        outcome=Outcome.PASS,
        reason=Reason.ANSWERED,
        text=f"{verdict.text}; {words}",
        retest="",
        certainty=None,
        recovered=failed,
    )


def as_broken_off(verdict: MetricVerdict) -> MetricVerdict:
    """Return a failure of a run that was broken off: it rejects nothing, but must be measured again."""
    return replace(
        verdict,
        outcome=Outcome.INCONCLUSIVE,
        reason=Reason.BROKEN_OFF,
        text=f"{verdict.text}; that run was broken off: measure again",
        retest="",
        certainty=None,
    )


def confirm(columns: JudgedColumns) -> JudgedColumns:
    """Mark the units that fail in more than one run: they need no further measurement."""
    population = columns.population
    failed = np.flatnonzero(columns.outcome == FAIL).tolist()
    units: dict[tuple[str, str], list[int]] = {}
    for row in failed:
        if row not in population.problems:
            units.setdefault((population.nodes[row], population.devices[row]), []).append(row)
    several = [rows for rows in units.values() if len({population.runs[r] for r in rows}) > 1]
    return replace(columns, confirmed=frozenset(r for rows in several for r in rows))


def _without_retest(verdict: MetricVerdict) -> MetricVerdict:
    """Return a verdict that does not ask for another measurement."""
    text = verdict.text.removesuffix(f" (retest: {verdict.retest})")
    return replace(verdict, text=text, retest="")


def judge_columns(
    population: Population, criterion: Criterion | None, *, baseline: Baseline | None = None
) -> JudgedColumns:
    """Judge every unit of a population against one criterion.

    The units are pooled first if the criterion's scope is ``node``. Without a criterion, the baseline only
    distinguishes "no criterion" from "no baseline". A failed or missing test is its own verdict, never
    "slow".
    """
    if criterion is not None and criterion.scope == "node":
        population = pooled(population)
    rows = rows_of(population)
    n = rows.total
    similarity, threshold = np.full(n, np.nan), np.full(n, np.nan)
    outcome = np.full(n, INCONCLUSIVE, dtype=np.int8)
    reason = np.full(n, REASONS.index(Reason.NO_BASELINE), dtype=np.int8)
    if criterion is None:
        if baseline is not None:
            outcome[:] = NOT_TESTED
            reason[:] = REASONS.index(Reason.NO_CRITERION)
        # A value that is not the only right one is wrong even without a baseline.
        if population.metric.right is not None:
            similarity = _exact_shares(rows, population.metric.right)
            wrong = similarity < 1
            outcome[wrong], reason[wrong] = FAIL, REASONS.index(Reason.BEYOND)
            threshold[wrong], similarity[~wrong] = 1.0, np.nan
        if population.metric.nominal is not None:
            low = attained_shares(population.metric, rows.medians()) < ATTAINED
            outcome[low], reason[low] = MARGINAL, REASONS.index(Reason.BELOW_NOMINAL)
    elif (ours := population.metric.variant) != (theirs := criterion.metric.variant):
        other = Reason.OTHER_VERSION if ours[:2] == theirs[:2] else Reason.WRONG_UNIT
        reason[:] = REASONS.index(other)
    else:
        similarity, too_good = _compared(rows, criterion)
        enough = np.zeros(n, dtype=np.bool_)
        enough[[row for row, looks in population.looks.items() if looks >= CONFIRMING_LOOKS]] = True
        limits = limits_of(criterion)._replace(learned=learned_for(similarity, criterion, enough))
        fill_verdicts(similarity, limits, outcome, reason, threshold)
        good = too_good & (outcome < FAIL)
        outcome[good], reason[good] = INCONCLUSIVE, REASONS.index(Reason.TOO_GOOD)
        threshold[good] = lowest_likeness(criterion)
        few = np.diff(population.offsets) < criterion.least
        outcome[few], reason[few] = INCONCLUSIVE, REASONS.index(Reason.TOO_FEW)
        similarity[few] = threshold[few] = np.nan
    idle = rows.idle() & ((outcome < FAIL) | (criterion is None))
    outcome[idle], reason[idle] = INCONCLUSIVE, REASONS.index(Reason.INVALID)
    similarity[idle] = threshold[idle] = np.nan
    for row in rows.problems:
        codes = _of_problem(population, row, rows.problems[row], criterion, baseline)
        outcome[row], reason[row] = codes
    return JudgedColumns(
        population=population,
        criterion=criterion,
        reference=baseline.reference if baseline is not None else Reference.FLEET,
        similarity=similarity,
        value=rows.medians(),
        outcome=outcome,
        reason=reason,
        threshold=threshold,
        calls=(outcome, reason, threshold),
    )


def attained_shares(metric: Metric, values: FloatArray) -> FloatArray:
    """Return which share of the metric's nominal rate each value reaches, as `NominalRate.attained`."""
    best = np.nan if metric.nominal is None else metric.nominal.value
    positive = np.where(values > 0, values, np.nan)
    return best / positive if metric.better == "lower" else positive / best


def _compared(rows: UsableRows, criterion: Criterion) -> tuple[FloatArray, BoolArray]:
    """Compare all units with a criterion, as `sample_judging.compare` does for one sample."""
    if criterion.metric.better == "equal":
        shares = _exact_shares(rows, criterion.centre[0])
        return shares, np.zeros(rows.total, dtype=np.bool_)
    below, above = rows.sides(np.asarray(criterion.centre))
    worse, better = (below, above) if criterion.metric.better == "higher" else (above, below)
    too_good = np.maximum(0.0, 1 - better) < lowest_likeness(criterion)
    return np.maximum(0.0, 1 - worse), too_good


def _exact_shares(rows: UsableRows, right: float) -> FloatArray:
    """Return which part of every unit's values is right."""
    return rows.each(lambda values: (values == right).mean(axis=1))


def _of_problem(
    population: Population,
    row: int,
    problem: SampleProblem,
    criterion: Criterion | None,
    baseline: Baseline | None,
) -> tuple[int, int]:
    """Return the codes of outcome and reason of a unit that has a problem."""
    stated = population.problems.get(row)
    if stated is None or stated.kind == "disturbed":
        # Its values decide: those of a disturbed unit may pass, but never reject.
        verdict = judge_row(population, row, criterion, baseline)
        outcome, reason = verdict.outcome, verdict.reason
    else:
        outcome, reason = problem_verdict(problem)
        if problem.kind == "invalid" and not population.sample(row).size:
            reason = Reason.TOO_FEW
    return OUTCOMES.index(outcome), REASONS.index(reason)


def judge_populations(
    populations: Sequence[Population],
    baseline: Baseline,
    started: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> Iterator[JudgedColumns]:
    """Judge many populations in columns: first their units, then pooled nodes if a criterion is for nodes.

    A population of another hardware class is judged against nothing. `started` is when each run of a node
    with several runs began.
    """
    known = {(c.benchmark, c.metric.name, c.group, c.scope): c for c in baseline.criteria}
    for population in populations:
        if population.hardware_class not in ("", baseline.hardware_class):
            yield judge_columns(population, None)
            continue
        key = population.series
        yield judge_columns(population, known.get((*key, "unit")), baseline=baseline)
        whole = known.get((*key, "node"))
        if whole is not None:
            every = with_earlier_devices(population, started)
            yield judge_columns(every, whole, baseline=baseline)


def judge_components(
    columns: Iterable[JudgedColumns], baseline: Baseline
) -> Iterator[JudgedColumns]:
    """Judge whole components by the mean of their rates, in case no single metric fails.

    Only units that have all metrics of a component and fail in none are judged: a failed metric blames the
    component already.
    """
    known = {(one.benchmark, one.metric.name): one for one in baseline.together}
    members = (
        Member(one.criterion, one.population, np.where(_passed(one), one.value, np.nan))
        for one in columns
        if one.criterion is not None
    )
    for population in component_means(members) if known else ():
        criterion = known.get((population.benchmark, population.metric.name))
        if criterion is not None:
            yield judge_columns(population, criterion, baseline=baseline)


def _passed(columns: JudgedColumns) -> BoolArray:
    """Return the units that were measured without a disturbance and do not fail."""
    passed = np.isin(columns.outcome, (PASS, MARGINAL))
    passed[list(columns.population.problems)] = False
    return passed
