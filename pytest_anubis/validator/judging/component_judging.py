"""Judging whole components by the mean of their rates, where none of their metrics fails by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from pytest_anubis.core.baseline import Baseline
from pytest_anubis.validator.judging.column_judging import JudgedColumns, judge_columns
from pytest_anubis.validator.judging.verdict_table import MARGINAL, PASS
from pytest_anubis.validator.similarity.component_means import Member, component_means
from pytest_anubis.validator.similarity.usable_rows import BoolArray


def judge_components(
    columns: Iterable[JudgedColumns], baseline: Baseline
) -> Iterator[JudgedColumns]:
    """Judge the mean rates of components.

    Args:
        columns: The verdicts on all metrics of one class.
        baseline: Has a criterion of each component that is judged.

    Yields:
        Verdicts on the units that have all metrics of a component and fail in none: of one that fails the
        component is blamed already.
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
    """Return the units that were measured undisturbed and do not fail."""
    passed = np.isin(columns.outcome, (PASS, MARGINAL))
    passed[list(columns.population.problems)] = False
    return passed
