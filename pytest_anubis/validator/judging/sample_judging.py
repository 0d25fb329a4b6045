"""Judging one sample against one criterion, and saying why."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.measurement import HOST_SLOWER, LOOKS_SPENT, ONE_VISIT
from pytest_anubis.core.metric import (
    Direction,
    Metric,
    differs_by_median,
    exact_text,
    loss_size,
    loss_text,
    slip_text,
    told_apart,
    value_text,
)
from pytest_anubis.core.sample import NOTHING_DONE, FloatArray, Population, trouble
from pytest_anubis.core.shown_loss import median_similarity
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason, Reference
from pytest_anubis.validator.judging.certainty import certainty_of
from pytest_anubis.validator.judging.verdict_table import (
    criterion_for,
    decide,
    of_group,
    thresholds_of,
)
from pytest_anubis.validator.similarity.distance import sides, uniformly_worse
from pytest_anubis.validator.similarity.partial_loss import NOTABLE, part_of

EQUAL = 0.995
"""Medians that are so much alike are called equal beside a distribution that is not, and a sample that is no
more worse than this and passes, with a median that is not, is called no worse."""


class Subject(NamedTuple):
    """What was measured, without any judgement: the fields of a verdict that say so."""

    benchmark: str
    metric: str
    unit: str
    better: str
    component: str
    node: str
    device: str
    group: str
    scope: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody calls here
    value: float | None
    baseline: str
    disturbance: tuple[str, ...]
    evidence: tuple[str, ...]
    action: str

    def verdict(self, outcome: Outcome, reason: Reason, text: str, **more: Any) -> MetricVerdict:
        """Return a verdict on it."""
        return MetricVerdict(outcome=outcome, reason=reason, text=text, **self._asdict(), **more)


class Known(NamedTuple):
    """What is known of a usable sample before it is judged; None: found from its values."""

    similarity: float  # one-sided similarity to the criterion where the sample is worse
    median: float | None = None  # its median
    gain: float | None = None  # one-sided similarity where it is better


class Said(NamedTuple):
    """What the sentence of a verdict is made of."""

    outcome: Outcome
    reason: Reason
    similarity: float
    threshold: float
    expected: float
    reference: Reference
    population: str
    part: str = ""


def judge_sample(
    values: npt.ArrayLike,
    criterion: Criterion | None,
    baseline: Baseline | None = None,
    *,
    metric: Metric | None = None,
    benchmark: str = "",
    component: str = "",
    node: str = "",
    device: str = "",
    group: str = "",
    disturbance: Sequence[str] = (),
    evidence: Sequence[str] = (),
    looks: int = 1,
    reference: Reference | None = None,
    population: str = "",
    known: Known | None = None,
) -> MetricVerdict:
    """Judge all values of one metric from one unit under test.

    Args:
        values: Shape (n,), in the metric's unit, in time order; may be anything: NaN, infinite, negative
            or too few values, durations of 0, and rates of nothing but 0 that do not fail, are INCONCLUSIVE
            with a reason.
        criterion: What is normal; None if there is none.
        baseline: The baseline that the criterion is from; None if there is none.
        metric: The metric as recorded; a unit, direction or version other than the criterion's is never
            compared.
        benchmark: Benchmark id; that of the criterion if empty.
        component: Component to blame; that of the criterion if empty.
        node: Name of the node.
        device: Device within the node.
        group: Label of comparable units; that of the criterion if empty.
        disturbance: What disturbed the machine; such a sample can pass, but it cannot reject.
        evidence: Telemetry and change points, in words.
        looks: How many looks the values come from (`closer_look`).
        reference: What the criterion stands for; default: the baseline.
        population: What the criterion was learned from, in words; made from the criterion if empty.
        known: What its comparison with the criterion came to, where that is known already.

    Returns:
        The verdict with every field that explains it; never an exception for bad samples.
    """
    of = metric or (criterion.metric if criterion else None)
    array = np.asarray(values, dtype=np.float64)
    array = array if array.ndim == 1 else array.ravel()  # which copies
    base = Subject(
        benchmark=benchmark or (criterion.benchmark if criterion else ""),
        metric=of.name if of else "",
        unit=of.unit if of else "",
        better=of.better if of else "",
        component=component or (criterion.component if criterion else ""),
        node=node,
        device=device,
        group=group or (criterion.group if criterion else ""),
        scope=criterion.scope if criterion else "unit",
        count=int(array.size),
        value=_middle(array) if known is None or known.median is None else known.median,
        baseline=baseline.digest if baseline else "",
        disturbance=tuple(disturbance),
        evidence=tuple(evidence),
        action=(of.action if of else "") or (criterion.metric.action if criterion else ""),
    )
    least = criterion.least if criterion else 1
    problem = None
    if known is None:
        durations = of is not None and of.is_duration
        problem = trouble(array, least=least, durations=durations)
    idle = of is not None and of.is_rate and problem is None and not array.any()
    if criterion is None:
        if (
            of is not None
            and of.right is not None
            and problem is None
            and (array != of.right).any()
        ):
            return _wrong(base, array, of.right)
        return _without_criterion(base, baseline, NOTHING_DONE if idle else problem)
    if known is None and metric is not None and metric.variant != criterion.metric.variant:
        return _other_variant(base, metric, criterion)
    if problem is not None:
        return _unusable(base, problem, few=array.size < least)
    if criterion.metric.better == "equal":
        alike, gain = float((array == criterion.centre[0]).mean()), 1.0
    else:
        alike, gain = likeness(array, criterion)
    if known:
        alike, gain = known.similarity, gain if known.gain is None else known.gain
    found = _conclude(base, array, alike, criterion, baseline, looks, reference, population, gain)
    accepted = found.outcome in (Outcome.PASS, Outcome.MARGINAL)
    return _unusable(base, NOTHING_DONE, few=False) if idle and accepted else found


def judge_row(
    population: Population,
    row: int,
    criterion: Criterion | None,
    baseline: Baseline | None = None,
    *,
    reference: Reference | None = None,
    learned_from: str = "",
    known: Known | None = None,
) -> MetricVerdict:
    """Judge one unit of a population, with all that the population says about it (see ``judge_sample``).

    Args:
        population: Samples of one metric.
        row: Which of its units; only a problem of the kind "disturbed" has a part in the verdict.
        criterion: What is normal; None if there is none.
        baseline: The baseline that the criterion is from; None if there is none.
        reference: What the criterion stands for; default: the baseline.
        learned_from: What the criterion was learned from, in words; made from it if empty.
        known: See ``judge_sample``.
    """
    problem = population.problems.get(row)
    disturbed = problem is not None and problem.kind == "disturbed"
    return judge_sample(
        population.sample(row),
        criterion,
        baseline,
        metric=population.metric,
        benchmark=population.benchmark,
        component=population.component,
        node=population.nodes[row],
        device=population.devices[row],
        group=population.group,
        disturbance=(problem.text,) if problem is not None and disturbed else (),
        looks=population.looks.get(row, 1),
        reference=reference,
        population=learned_from,
        known=known,
    )


def likeness(values: npt.ArrayLike, criterion: Criterion) -> tuple[float, float]:
    """Return how alike a sample is to a criterion where it is worse, and where it is better."""
    below, above = sides(values, criterion.centre)
    worse, better = (below, above) if criterion.metric.better == "higher" else (above, below)
    return max(0.0, 1 - worse), max(0.0, 1 - better)


def _middle(array: FloatArray) -> float | None:
    """Return the median, None without finite values; of a billion equal values in constant memory."""
    low, high = (float(array.min()), float(array.max())) if array.size else (np.nan, np.nan)
    if low == high:
        return low if np.isfinite(low) else None
    return float(np.median(array)) if np.isfinite(low) and np.isfinite(high) else None


def _conclude(
    base: Subject,
    values: FloatArray,
    alike: float,
    criterion: Criterion,
    baseline: Baseline | None,
    looks: int = 1,
    reference: Reference | None = None,
    population: str = "",
    gain: float = 1.0,
) -> MetricVerdict:
    """Complete a verdict from a one-sided similarity; a disturbed sample cannot reject.

    `gain` is the similarity where the sample is better: what is too good is INCONCLUSIVE.
    """
    criterion = criterion_for(alike, criterion, looks, base.disturbance)
    better, typical = criterion.metric.better, criterion.typical
    outcome, reason, threshold = decide(alike, criterion, gain)
    # Load makes a machine slow, not wrong: an exact value that differs is none of its doing.
    if base.disturbance and better != "equal" and outcome in (Outcome.FAIL, Outcome.MARGINAL):
        outcome, reason = Outcome.INCONCLUSIVE, Reason.DISTURBED
    sure = certainty_of(values, alike, criterion, looks)
    part = part_of(values, alike, criterion)
    rests = population or rests_on(criterion, baseline)
    reference = reference or (baseline.reference if baseline else Reference.FLEET)
    said = Said(outcome, reason, alike, threshold, typical, reference, rests, part)
    retest = sure.retest if outcome is Outcome.FAIL else ""
    text = _sentence(base, said, criterion)
    crossed = min(thresholds_of(criterion)) if reason is Reason.TOO_GOOD else threshold
    return base.verdict(
        outcome,
        reason,
        f"{text} (retest: {retest})" if retest else text,
        expected=typical,
        limit=limit_of(typical, crossed, better),
        similarity=alike,
        threshold=threshold,
        practical=criterion.alpha,
        learned=criterion.learned,
        certainty=sure.beyond,
        retest=retest,
        percentile=percentile(base.value, criterion),
        reference=reference,
        population=rests,
        part=part,
    )


def limit_of(expected: float, threshold: float, better: Direction) -> float:
    """Return the median at which a uniformly worse sample would just cross the threshold."""
    if better == "equal":
        return expected
    return uniformly_worse(expected, threshold, better)


def percentile(value: float | None, criterion: Criterion) -> float | None:
    """Return the share of healthy units, in percent, whose median is no better than this value."""
    if value is None or not criterion.medians or criterion.metric.better == "equal":
        return None
    medians = criterion.medians  # in order
    if criterion.metric.better == "higher":
        return 100 * bisect_right(medians, value) / len(medians)
    return 100 * (1 - bisect_left(medians, value) / len(medians))


def rests_on(criterion: Criterion, baseline: Baseline | None) -> str:
    """Say in words what a criterion was learned from."""
    if criterion.nodes == 1 or (baseline is not None and baseline.one_machine):
        what = "runs" if baseline is None or baseline.one_machine else "devices"
        return f"{criterion.units} {what} of one machine"
    return f"{criterion.nodes} nodes"


def _unusable(base: Subject, problem: str, *, few: bool) -> MetricVerdict:
    """Return the verdict on values that no baseline can judge, with how to mend them."""
    mend = "" if base.value is not None else "; record finite numbers, or skip the test"
    text = f"{base.metric} cannot be judged: {problem}{mend}"
    return base.verdict(Outcome.INCONCLUSIVE, Reason.TOO_FEW if few else Reason.INVALID, text)


def _without_criterion(
    base: Subject, baseline: Baseline | None, problem: str | None
) -> MetricVerdict:
    if problem is not None:  # what is no number says nothing, with a criterion or without
        return _unusable(base, problem, few=base.count == 0)
    if baseline is None:
        said = f"{base.metric} was measured, but there is no baseline to judge it by"
        return base.verdict(Outcome.INCONCLUSIVE, Reason.NO_BASELINE, said)
    unjudged = {(one.benchmark, one.metric): one.reason for one in baseline.unjudged}
    why = unjudged.get((base.benchmark, base.metric), "").partition(" (")[0]
    text = f"no criterion was learned, since {why}"
    text = text if why else f"the baseline has no criterion for {base.metric or 'this metric'} yet"
    return base.verdict(Outcome.NOT_TESTED, Reason.NO_CRITERION, text)


def _wrong(base: Subject, values: FloatArray, right: float) -> MetricVerdict:
    """Return the verdict on wrong values of an exact metric whose right one is known without a baseline."""
    alike = float((values == right).mean())
    return base.verdict(
        Outcome.FAIL,
        Reason.BEYOND,
        _exactly(base, right, alike),
        expected=right,
        limit=right,
        similarity=alike,
        threshold=1.0,
        certainty=1.0,
    )


def _other_variant(base: Subject, metric: Metric, criterion: Criterion) -> MetricVerdict:
    ours, theirs = metric.variant, criterion.metric.variant
    reason, mend = Reason.WRONG_UNIT, "learn a new baseline or fix the benchmark"
    if ours[0] != theirs[0]:
        what = f"recorded in {ours[0]}, the baseline has {theirs[0]}"
    elif ours[1] != theirs[1]:
        what = f"recorded as better={ours[1]}, the baseline has {theirs[1]}"
    else:
        reason, mend = Reason.OTHER_VERSION, "learn a new baseline"
        what = f"version {ours[2]} of its benchmark measures other work or for another time than version "
        what += f"{theirs[2]}, from which the criterion was learned"
    text = f"{metric.name} cannot be judged: {what}; {mend}"
    return base.verdict(Outcome.INCONCLUSIVE, reason, text)


def _exactly(base: Subject, right: float, alike: float) -> str:
    """Say how exact values are wrong."""
    name, must = base.metric, exact_text(right, base.unit, base.metric)
    if base.count == 1 and base.value is not None:  # it is what is looked for
        return f"{name} is {exact_text(base.value, base.unit, name)}, must be {must}"
    return f"{name} must be {must}, but {round((1 - alike) * base.count)} of {base.count} values differ"


def _sentence(base: Subject, said: Said, criterion: Criterion) -> str:
    name, unit, better = base.metric, base.unit, base.better
    if better == "equal":
        if said.outcome is Outcome.PASS:
            return f"{name} is {exact_text(said.expected, unit, name)}, as it must be"
        return _exactly(base, said.expected, said.similarity)
    state = f"{name} is {value_text(base.value or 0.0, unit)}, expected {value_text(said.expected, unit)}"
    if not said.reference.is_baseline and said.reason is not Reason.WITHIN:
        state += f" by {said.population}"
    if said.reason is Reason.WITHIN:
        allowed = loss_size(said.threshold, better)
        return f"{_compared(base, said, state, None)}, within the threshold of {allowed} ({said.population})"
    low, high = sorted((base.value or 0.0, said.expected))
    slip = slip_text(high / low) if low > 0 else ""
    if said.reason is Reason.TOO_GOOD:
        good = base.value == (low if better == "lower" else high)
        times = f"{value_text(high / low)} times as good" if low > 0 else "better without end"
        if not good:  # its median is not what is too good
            return f"{state}, and some of its values are too good: unit? did the work happen?"
        return f"{state}: {times}{slip}, which is too good: unit? did the work happen?"
    decimals = told_apart(said.similarity, said.threshold, better)
    state = _compared(base, said, state, decimals)
    practical = f"the practical threshold of {loss_size(criterion.alpha, better, decimals)}"
    learned, spread = criterion.learned, ""
    if learned is not None and learned != criterion.alpha:  # a promise sets both
        who = next((word for word in ("devices", "runs") if word in said.population), "nodes")
        spread = f"what healthy {who} differ by (up to {loss_size(learned, better, decimals)})"
    if said.reason is Reason.UNDETECTABLE and said.outcome is Outcome.MARGINAL:
        return f"{state}, as likely a fault as noise, though still within {spread}"
    if said.reason is Reason.UNDETECTABLE:
        return f"{state}, but within {spread}, so this metric cannot show such a loss"
    if said.similarity >= criterion.alpha:  # unusual, whether or not the machine was disturbed
        within = of_group(criterion, said.similarity) or practical
        return _with_disturbance(base, said, f"{state}, beyond {spread} but within {within}")
    beyond = practical + (spread and f" and {spread}")
    return _with_disturbance(base, said, f"{state}, beyond {beyond}{slip}")


def _compared(base: Subject, said: Said, state: str, decimals: int | None) -> str:
    """Say how much worse the sample is: as its medians are, or as a distribution where they do not tell."""
    alike, value = said.similarity, base.value or 0.0
    of_medians = median_similarity(value, said.expected, base.better)
    if of_medians == 1 and alike >= max(EQUAL, said.threshold):
        return f"{state}: no worse"
    near = 1 - alike <= NOTABLE or (differs_by_median(alike, of_medians) and not said.part)
    if near and (alike < said.threshold) == (of_medians < said.threshold):
        return f"{state}: {loss_text(of_medians, base.better, base.unit, decimals=decimals)}"
    shape = loss_text(alike, base.better, base.unit, shape=True, decimals=decimals)
    low, high = sorted((value, said.expected))
    median = "equal" if low >= EQUAL * high else loss_text(of_medians, base.better, base.unit)
    part = f": {said.part}" if said.part else ""
    return f"{state}; its distribution is {shape}, its median {median}{part}"


def _with_disturbance(base: Subject, said: Said, text: str) -> str:
    if said.reason is not Reason.DISTURBED:
        return text
    by = "; ".join(base.disturbance)
    own = {LOOKS_SPENT, ONE_VISIT, HOST_SLOWER} & {*base.disturbance}
    return f"{text}; but {by if own else f'the machine was disturbed ({by})'}: measure again"
