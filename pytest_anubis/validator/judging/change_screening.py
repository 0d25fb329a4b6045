"""Find changes within the runs of a whole population: a cheap screen first, then the full search.

In a soak the current segment is also judged alone: it shows what a node is like after hours of load.
`judge_measurement` judges a single measurement and its changes, in the run and again from a sealed journal.
`fleet_judging`, `run_decision` and `sample_verdicts` use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pytest_anubis.core.baseline import Baseline, Criterion, Finding
from pytest_anubis.core.measurement import Measurement
from pytest_anubis.core.metric import Direction, first_of, metric_name
from pytest_anubis.core.onset import Onset
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.core.verdict import MIN_SEARCHED, MetricVerdict, Outcome, Reason
from pytest_anubis.validator.changes.segments import (
    MIN_VALUES,
    SCREENED,
    Segments,
    changes_of,
    hazard_of,
    is_sorted,
    largest_drops,
    least_change,
    segments,
    with_segments,
)
from pytest_anubis.validator.judging.column_judging import JudgedColumns
from pytest_anubis.validator.judging.population_shift import MAX_METRICS_NAMED
from pytest_anubis.validator.judging.sample_judging import judge_sample
from pytest_anubis.validator.judging.verdict_table import MARGINAL, PASS
from pytest_anubis.validator.similarity.usable_rows import BLOCK

MAX_SEARCHED = 500
"""Most samples of a population that are searched, those with the largest difference first; a finding counts
the others. A search takes milliseconds (a tenth of a second for a thousand values), and more suspects concern
the class as a whole."""
PROFILE = "soak"
"""The profile whose runs are long enough to judge a segment alone."""


def find_changes(judged: JudgedColumns, baseline: Baseline | None = None) -> JudgedColumns:
    """Search every unit's values, in time order, for a change for the worse within the run.

    A unit that passes as a whole but changed for good becomes MARGINAL; a disturbed unit keeps its verdict.
    Sorted values and pooled nodes have no time order, and are not searched. In a soak the current segment is
    judged next to the whole run (`judge_current`). The result also counts the suspects that were too many to
    search.
    """
    population, better = judged.population, judged.population.metric.better
    pooled = judged.criterion is not None and judged.criterion.scope == "node"
    if better == "equal" or pooled:
        return judged
    found: dict[int, Segments] = {}
    least, hazard = least_change(judged.criterion), hazard_of(judged.criterion)
    suspects = _suspects(judged, least, better)
    for row in sorted(suspects[:MAX_SEARCHED]):
        seen = segments(population.sample(row), better, hazard=hazard, least_change=least)
        if seen.change is not None:
            found[row] = seen
    unsearched = max(0, len(suspects) - MAX_SEARCHED)
    if not found:
        return replace(judged, unsearched=unsearched) if unsearched else judged
    lasting = [
        row
        for row, seen in found.items()
        if seen.change is not None and seen.change.lasting and row not in population.problems
    ]
    rows = [row for row in lasting if judged.outcome[row] == PASS]
    marked = judged.marked(
        rows, MARGINAL, Reason.CHANGE_POINT, changes=found, unsearched=unsearched
    )
    soak = baseline is not None and baseline.attributes.get("profile") == PROFILE
    return _with_current(marked, baseline) if soak and judged.criterion is not None else marked


def note_length(judged: JudgedColumns, searched: dict[tuple[str, str], bool]) -> None:
    """Record whether any sample of a compared metric has enough values to be searched for changes."""
    population = judged.population
    compared = ~np.isnan(judged.similarity)
    if judged.of_all_devices or population.metric.better == "equal" or not compared.any():
        return
    name = (population.benchmark, population.metric.name)
    enough = bool((np.diff(population.offsets)[compared] >= MIN_SEARCHED).any())
    searched[name] = searched.get(name, False) or enough


def too_short(key: str, searched: Mapping[tuple[str, str], bool]) -> list[str]:
    """Return a line on a hardware class's metrics of which no sample is long enough to be searched."""
    short = [metric_name(*name) for name, enough in sorted(searched.items()) if not enough]
    if not short:
        return []
    return [
        f"hardware class {key or '(unnamed)'}: not searched for changes within a run, for which "
        f"{MIN_SEARCHED} values are needed: {len(short)} of {len(searched)} metrics "
        f"({first_of(short, MAX_METRICS_NAMED)})"
    ]


def unsearched(judged: JudgedColumns) -> Finding:
    """Return the finding that more samples of a metric look changed than are searched."""
    benchmark, metric = judged.population.benchmark, judged.population.metric.name
    text = (
        f"{metric_name(benchmark, metric)}: the {MAX_SEARCHED} samples that differ most from their own "
        f"beginning were searched for changes within the run, {judged.unsearched} more were judged as a "
        "whole only; judge fewer runs at a time to search them all"
    )
    return Finding(kind="not-searched", benchmark=benchmark, metric=metric, text=text)


def _with_current(judged: JudgedColumns, baseline: Baseline | None) -> JudgedColumns:
    value, current = judged.value.copy(), {}
    for row, found in judged.changes.items():
        whole = judged.verdict(row, baseline)
        values = judged.population.sample(row)
        one = judge_current(whole, values, judged.criterion, baseline, found)
        if one is not whole:
            current[row], value[row] = one, one.value
    return judged.with_verdicts(current, value=value, current=current)


def judge_current(
    verdict: MetricVerdict,
    values: FloatArray,
    criterion: Criterion | None,
    baseline: Baseline | None,
    found: Segments,
) -> MetricVerdict:
    """Judge the values since the last lasting change like a run of their own.

    A segment that fails makes the verdict FAIL although the run as a whole passes: measured anew, the node
    would fail. Otherwise the verdict stays, and the result of the segment becomes evidence.
    """
    change = found.change
    if criterion is None or change is None or not change.lasting or verdict.disturbance:
        return verdict
    if verdict.outcome not in (Outcome.PASS, Outcome.MARGINAL):
        return verdict
    own = judge_sample(values[change.onset :], criterion, baseline)
    where = f"its current segment, value {change.onset + 1} to {found.count},"
    if own.outcome is not Outcome.FAIL:
        text = f"{where} alone is {own.outcome}: {own.text}"
        return replace(verdict, evidence=(*verdict.evidence, text))
    return replace(
        verdict,
        outcome=Outcome.FAIL,
        reason=Reason.CHANGE_POINT,
        text=f"{verdict.metric} passes as a whole, but {where} fails: {own.text}",
        count=own.count,
        value=own.value,
        limit=own.limit,
        similarity=own.similarity,
        threshold=own.threshold,
        certainty=own.certainty,
        retest=own.retest,
        percentile=own.percentile,
    )


def judge_measurement(
    measurement: Measurement,
    criterion: Criterion | None,
    baseline: Baseline | None,
    found: Segments,
    *,
    node: str,
    profile: str,
    onset: Onset | None = None,
) -> MetricVerdict:
    """Judge one measurement by all its values, and by what changed within it.

    In a soak, by the run's profile, the current one of its segments is judged alone as well. `baseline` is
    the one that the criterion is from; `onset` is the begin of the change, if it is known.
    """
    verdict = judge_sample(
        measurement.values,
        criterion,
        baseline,
        metric=measurement.metric,
        benchmark=measurement.benchmark,
        component=measurement.component,
        node=node,
        device=measurement.device,
        group=measurement.group,
        disturbance=measurement.disturbance,
        evidence=measurement.evidence,
        looks=measurement.looks,
    )
    verdict = with_segments(verdict, found, onset)
    if profile != PROFILE:
        return verdict
    return judge_current(verdict, np.asarray(measurement.values), criterion, baseline, found)


def screened_changes(measurement: Measurement, criterion: Criterion | None) -> Segments:
    """Search a measurement as `changes_of` does, if it is sorted or a stretch of it is worse than another."""
    series = np.asarray(measurement.values, dtype=np.float64)[None]
    if series.size >= MIN_VALUES and not is_sorted(series)[0]:
        drop = largest_drops(series, measurement.metric.better)[0]
        if drop <= SCREENED * least_change(criterion):
            return Segments(count=series.size)
    return changes_of(measurement, criterion)


def _suspects(judged: JudgedColumns, least: float, better: Direction) -> list[int]:
    """Return the rows in which a stretch is worse than an earlier one, the largest difference first.

    The medians of a step's two sides lie between the smallest and the largest median of short stretches, so
    every step shows in a pair of stretches.
    """
    population = judged.population
    offsets = np.asarray(population.offsets)
    sizes = np.diff(offsets)
    index, size_of_change = [], []
    for size in np.unique(sizes[sizes >= MIN_VALUES]).tolist():
        rows = np.flatnonzero(sizes == size)
        if size > BLOCK:  # the search itself looks at stretches only
            index.append(rows)
            size_of_change.append(np.ones(len(rows)))
            continue
        step = max(1, BLOCK // size)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            places = offsets[part][:, None] + np.arange(size)
            series = np.asarray(population.values[places], dtype=np.float64)
            largest = largest_drops(series, better)
            chosen = largest > SCREENED * least
            index.append(part[chosen])
            size_of_change.append(largest[chosen])
    if not index:
        return []
    rows, sizes_found = np.concatenate(index), np.concatenate(size_of_change)
    found: list[int] = rows[np.lexsort((rows, -sizes_found))].tolist()
    return found
