"""Judge one sample against one criterion, and say why in one sentence.

The call phase of a test uses it for a measurement, `change_screening` for the parts of one, `column_judging`
for the rows that need a full verdict.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.baseline import Baseline, Criterion
from pytest_anubis.core.measurement import HOST_SLOWER, LOOKS_SPENT, ONE_VISIT
from pytest_anubis.core.metric import (
    Metric,
    differs_by_median,
    distinguishing_decimals,
    exact_text,
    loss_size,
    loss_text,
    slip_text,
    value_text,
)
from pytest_anubis.core.nominal_rate import ATTAINED
from pytest_anubis.core.sample import NOTHING_DONE, FloatArray, Population, unusable_reason
from pytest_anubis.core.shown_loss import median_similarity, nominal_text
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason, Reference
from pytest_anubis.validator.judging.certainty import certainty_of
from pytest_anubis.validator.judging.verdict_table import (
    Call,
    criterion_for,
    decide,
    of_group,
    thresholds_of,
)
from pytest_anubis.validator.similarity.distance import sides, uniformly_worse
from pytest_anubis.validator.similarity.partial_loss import NOTABLE, part_text
from pytest_anubis.validator.similarity.too_good import lowest_likeness

UNREFERENCED = (Reason.NO_BASELINE, Reason.NO_CRITERION, Reason.BELOW_NOMINAL)
"""Reasons of metrics without a criterion, which other devices and earlier runs judge where they can."""

_GROUP_SHOWN = 60  # characters of a group's label in a text

EQUAL = 0.995
"""Medians at least this much alike are called equal where the distributions differ. A sample that passes and
is at least this much alike is called no worse, unless its median is."""


class Compared(NamedTuple):
    """How a usable sample compares with its criterion."""

    similarity: float  # one-sided similarity to the criterion where the sample is worse
    too_good: bool = False  # whether it is better than `lowest_likeness` allows
    median: float | None = None  # its median; None: computed from its values
    call: Call | None = None  # its cell of the verdict table; None: looked up


class Basis(NamedTuple):
    """What a criterion was learned from."""

    reference: Reference
    population: str  # in words


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
    basis: Basis | None = None,
    compared: Compared | None = None,
) -> MetricVerdict:
    """Judge all values of one metric from one unit under test.

    Args:
        values: Shape (n,), in the metric's unit, in time order. Any values are allowed: NaN, infinite,
            negative or too few values, durations of 0, and rates of nothing but 0 that do not fail, are
            INCONCLUSIVE with a reason.
        criterion: What is normal; None if there is none.
        baseline: The baseline that the criterion is from; None if there is none.
        metric: The metric as recorded; it is never compared with a criterion of another unit, direction or
            version.
        benchmark: Benchmark id; that of the criterion if empty.
        component: Component to blame; that of the criterion if empty.
        node: Name of the node.
        device: Device within the node.
        group: Label of comparable units; that of the criterion if empty.
        disturbance: What disturbed the machine; a disturbed sample can pass, but it cannot reject.
        evidence: Telemetry and change points, in words.
        looks: How many looks the values come from (`closer_look`).
        basis: What the criterion was learned from; None: the baseline.
        compared: How the sample compares with the criterion, if the caller has compared them already.

    Returns:
        The verdict with every field that explains it; never an exception for bad samples.
    """
    measured = metric or (criterion.metric if criterion else None)
    array = np.asarray(values, dtype=np.float64)
    array = array if array.ndim == 1 else array.ravel()  # which copies
    unjudged = MetricVerdict(
        outcome=Outcome.INCONCLUSIVE,
        reason=Reason.INVALID,
        text="",
        benchmark=benchmark or (criterion.benchmark if criterion else ""),
        metric=measured.name if measured else "",
        unit=measured.unit if measured else "",
        better=measured.better if measured else "",
        component=component or (criterion.component if criterion else ""),
        node=node,
        device=device,
        group=group or (criterion.group if criterion else ""),
        scope=criterion.scope if criterion else "unit",
        count=int(array.size),
        value=_middle(array) if compared is None or compared.median is None else compared.median,
        baseline=baseline.digest if baseline else "",
        disturbance=tuple(disturbance),
        evidence=tuple(evidence),
        action=(measured.action if measured else "")
        or (criterion.metric.action if criterion else ""),
        nominal=measured.nominal if measured else None,
    )
    least = criterion.least if criterion else 1
    problem = None
    if compared is None:
        durations = measured is not None and measured.is_duration
        problem = unusable_reason(array, least=least, durations=durations)
    idle = measured is not None and measured.is_rate and problem is None and not array.any()
    if criterion is None:
        right = measured.right if measured is not None and problem is None else None
        if right is not None and (array != right).any():
            return _wrong(unjudged, array, right)
        return _without_criterion(unjudged, baseline, NOTHING_DONE if idle else problem)
    if compared is None and metric is not None and metric.variant != criterion.metric.variant:
        return _other_variant(unjudged, metric, criterion)
    if problem is not None:
        return _unusable(unjudged, problem, few=array.size < least)
    if compared is None:
        compared = compare(array, criterion)
    basis = basis or basis_of(criterion, baseline)
    verdict = _concluded(unjudged, array, compared, criterion, looks, basis)
    accepted = verdict.outcome in (Outcome.PASS, Outcome.MARGINAL)
    return _unusable(unjudged, NOTHING_DONE, few=False) if idle and accepted else verdict


def judge_row(
    population: Population,
    row: int,
    criterion: Criterion | None,
    baseline: Baseline | None = None,
    *,
    basis: Basis | None = None,
    compared: Compared | None = None,
) -> MetricVerdict:
    """Judge one unit of a population as `judge_sample` does; of its problems only a disturbance counts."""
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
        basis=basis,
        compared=compared,
    )


def compare(values: FloatArray, criterion: Criterion) -> Compared:
    """Compare a usable sample with a criterion."""
    if criterion.metric.better == "equal":
        return Compared(float((values == criterion.centre[0]).mean()))
    below, above = sides(values, criterion.centre)
    worse, better = (below, above) if criterion.metric.better == "higher" else (above, below)
    too_good = max(0.0, 1 - better) < lowest_likeness(criterion)
    return Compared(max(0.0, 1 - worse), too_good)


def _middle(array: FloatArray) -> float | None:
    """Return the median, None without finite values; a billion equal values take constant memory."""
    low, high = (float(array.min()), float(array.max())) if array.size else (np.nan, np.nan)
    if low == high:
        return low if np.isfinite(low) else None
    return float(np.median(array)) if np.isfinite(low) and np.isfinite(high) else None


def _concluded(
    unjudged: MetricVerdict,
    values: FloatArray,
    compared: Compared,
    criterion: Criterion,
    looks: int,
    basis: Basis,
) -> MetricVerdict:
    """Return the verdict on a compared sample; a disturbed one cannot reject."""
    alike = compared.similarity
    criterion = criterion_for(alike, criterion, looks, unjudged.disturbance)
    better, typical = criterion.metric.better, criterion.typical
    outcome, reason, threshold = compared.call or decide(alike, criterion, compared.too_good)
    # Load makes a machine slow, not wrong: an exact value that differs is no effect of it.
    spoiled = unjudged.disturbance and better != "equal"
    if spoiled and outcome in (Outcome.FAIL, Outcome.MARGINAL):
        outcome, reason = Outcome.INCONCLUSIVE, Reason.DISTURBED
    sure = certainty_of(values, alike, criterion, looks)
    retest = sure.retest if outcome is Outcome.FAIL else ""
    crossed = min(thresholds_of(criterion)) if reason is Reason.TOO_GOOD else threshold
    part = ""
    if not (spoiled and outcome is Outcome.PASS):  # else the load explains the part
        part = part_text(values, alike, criterion.centre, better, criterion.metric.unit)
    verdict = replace(
        unjudged,
        outcome=outcome,
        reason=reason,
        expected=typical,
        limit=typical if better == "equal" else uniformly_worse(typical, crossed, better),
        similarity=alike,
        threshold=threshold,
        practical=criterion.alpha,
        learned=criterion.learned,
        certainty=sure.beyond,
        retest=retest,
        percentile=percentile(unjudged.value, criterion),
        reference=basis.reference,
        population=basis.population,
        part=part,
    )
    text = _sentence(verdict, criterion, alike, threshold)
    return replace(verdict, text=f"{text} (retest: {retest})" if retest else text)


def percentile(value: float | None, criterion: Criterion) -> float | None:
    """Return the share of healthy units, in percent, whose median is no better than this value."""
    if value is None or not criterion.medians or criterion.metric.better == "equal":
        return None
    medians = criterion.medians  # in order
    if criterion.metric.better == "higher":
        return 100 * bisect_right(medians, value) / len(medians)
    return 100 * (1 - bisect_left(medians, value) / len(medians))


def basis_of(criterion: Criterion, baseline: Baseline | None) -> Basis:
    """Return what a criterion of a baseline was learned from."""
    reference = baseline.reference if baseline else Reference.FLEET
    if criterion.nodes == 1 or (baseline is not None and baseline.one_machine):
        what = "runs" if baseline is None or baseline.one_machine else "devices"
        return Basis(reference, f"{criterion.units} {what} of one machine")
    return Basis(reference, f"{criterion.nodes} nodes")


def _unusable(unjudged: MetricVerdict, problem: str, *, few: bool) -> MetricVerdict:
    """Return the verdict on values that no baseline can judge, with how to mend them."""
    mend = "" if unjudged.value is not None else "; record finite numbers, or skip the test"
    text = f"{unjudged.metric} cannot be judged: {problem}{mend}"
    return replace(unjudged, reason=Reason.TOO_FEW if few else Reason.INVALID, text=text)


def _other_groups(unjudged: MetricVerdict, baseline: Baseline) -> str:
    """Return up to two of the other groups that a metric has criteria for."""
    what = unjudged.benchmark, unjudged.metric
    groups = {c.group for c in baseline.criteria if (c.benchmark, c.metric.name) == what}
    return " or ".join(one[:_GROUP_SHOWN] for one in sorted(groups - {"", unjudged.group})[:2])


def _without_criterion(
    unjudged: MetricVerdict, baseline: Baseline | None, problem: str | None
) -> MetricVerdict:
    if problem is not None:
        return _unusable(unjudged, problem, few=unjudged.count == 0)
    name = unjudged.metric
    attained = unjudged.attained
    if attained and attained < ATTAINED and not unjudged.disturbance:
        share = nominal_text(unjudged.nominal, unjudged.value, unjudged.better, unjudged.unit)
        return replace(
            unjudged,
            outcome=Outcome.MARGINAL,
            reason=Reason.BELOW_NOMINAL,
            reference=Reference.MODEL,
            text=f"{name} is {value_text(unjudged.value, unjudged.unit)}: it {share}",
        )
    if baseline is None:
        text = f"{name} was measured, but there is no baseline to judge it by"
        return replace(unjudged, reason=Reason.NO_BASELINE, text=text)
    reasons = {(one.benchmark, one.metric): one.reason for one in baseline.unjudged}
    why = reasons.get((unjudged.benchmark, name), "").partition(" (")[0]
    text = f"the baseline has no criterion for {name or 'this metric'} yet"
    if why:
        text = f"no criterion was learned, since {why}"
    elif unjudged.group and (others := _other_groups(unjudged, baseline)):
        text = (
            f"{name} was learned for {others} and measured for {unjudged.group[:_GROUP_SHOWN]}: other "
            "content, size or software"
        )
    return replace(unjudged, outcome=Outcome.NOT_TESTED, reason=Reason.NO_CRITERION, text=text)


def _wrong(unjudged: MetricVerdict, values: FloatArray, right: float) -> MetricVerdict:
    """Return the verdict on wrong values of an exact metric whose right value is known without a baseline."""
    alike = float((values == right).mean())
    return replace(
        unjudged,
        outcome=Outcome.FAIL,
        reason=Reason.BEYOND,
        text=_exactly(unjudged, right, alike),
        expected=right,
        limit=right,
        similarity=alike,
        threshold=1.0,
        certainty=1.0,
    )


def _other_variant(unjudged: MetricVerdict, metric: Metric, criterion: Criterion) -> MetricVerdict:
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
    return replace(unjudged, reason=reason, text=text)


def _exactly(verdict: MetricVerdict, right: float, alike: float) -> str:
    """Say how exact values are wrong."""
    name, count = verdict.metric, verdict.count
    must = exact_text(right, verdict.unit, name)
    if count == 1 and verdict.value is not None:
        return f"{name} is {exact_text(verdict.value, verdict.unit, name)}, must be {must}"
    return f"{name} must be {must}, but {round((1 - alike) * count)} of {count} values differ"


def _sentence(verdict: MetricVerdict, criterion: Criterion, alike: float, threshold: float) -> str:
    """Say what was found about a sample of this similarity."""
    name, unit, better, reason = verdict.metric, verdict.unit, verdict.better, verdict.reason
    value, expected = verdict.value or 0.0, criterion.typical
    if better == "equal":
        if verdict.outcome is Outcome.PASS:
            return f"{name} is {exact_text(expected, unit, name)}, as it must be"
        return _exactly(verdict, expected, alike)
    state = f"{name} is {value_text(value, unit)}, expected {value_text(expected, unit)}"
    if reason is Reason.WITHIN:
        within = f"within the threshold of {loss_size(threshold, better)} ({verdict.population})"
        return f"{state}{_how(verdict, expected, alike, threshold)}, {within}"
    if not verdict.reference.is_baseline:
        state += f" by {verdict.population}"
    low, high = sorted((value, expected))
    slip = slip_text(high / low) if low > 0 else ""
    if reason is Reason.TOO_GOOD:
        median_too_good = verdict.value == (low if better == "lower" else high)
        if not median_too_good:
            return f"{state}, and some of its values are too good: unit? did the work happen?"
        times = f"{value_text(high / low)} times as good" if low > 0 else "better without end"
        return f"{state}: {times}{slip}, which is too good: unit? did the work happen?"
    decimals = distinguishing_decimals(alike, threshold, better)
    state += _how(verdict, expected, alike, threshold, decimals)
    practical = f"the practical threshold of {loss_size(criterion.alpha, better, decimals)}"
    learned, spread = criterion.learned, ""
    if learned is not None and learned != criterion.alpha:  # a promise sets both
        who = next((word for word in ("devices", "runs") if word in verdict.population), "nodes")
        spread = f"what healthy {who} differ by (up to {loss_size(learned, better, decimals)})"
    if reason is Reason.UNDETECTABLE and verdict.outcome is Outcome.MARGINAL:
        return f"{state}, as likely a fault as noise, though still within {spread}"
    if reason is Reason.UNDETECTABLE:
        return f"{state}, but within {spread}, so this metric cannot show such a loss"
    if alike >= criterion.alpha:  # unusual, whether or not the machine was disturbed
        within = of_group(criterion, alike) or practical
        return f"{state}, beyond {spread} but within {within}{_disturbed(verdict)}"
    beyond = practical + (spread and f" and {spread}")
    return f"{state}, beyond {beyond}{slip}{_disturbed(verdict)}"


def _how(
    verdict: MetricVerdict,
    expected: float,
    alike: float,
    threshold: float,
    decimals: int | None = None,
) -> str:
    """Say how much worse the sample is: by its median, or by its distribution where the median hides it."""
    value, better, unit = verdict.value or 0.0, verdict.better, verdict.unit
    of_medians = median_similarity(value, expected, better)
    if of_medians == 1 and alike >= max(EQUAL, threshold):
        return ": no worse"
    near = 1 - alike <= NOTABLE or (differs_by_median(alike, of_medians) and not verdict.part)
    if near and (alike < threshold) == (of_medians < threshold):
        return f": {loss_text(of_medians, better, unit, decimals=decimals)}"
    shape = loss_text(alike, better, unit, shape=True, decimals=decimals)
    low, high = sorted((value, expected))
    median = "equal" if low >= EQUAL * high else loss_text(of_medians, better, unit)
    part = f": {verdict.part}" if verdict.part else ""
    return f"; its distribution is {shape}, its median {median}{part}"


def _disturbed(verdict: MetricVerdict) -> str:
    """Say what kept a bad sample from rejecting; empty if nothing did."""
    if verdict.reason is not Reason.DISTURBED:
        return ""
    by = "; ".join(verdict.disturbance)
    own = {LOOKS_SPENT, ONE_VISIT, HOST_SLOWER} & {*verdict.disturbance}
    return f"; but {by if own else f'the machine was disturbed ({by})'}: measure again"
