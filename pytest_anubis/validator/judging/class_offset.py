"""Find metrics in which the typical node of a class has lost, although most nodes are within their limits.

If most nodes left the healthy spread, `population_shift` reports it instead. `fleet_judging` uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.metric import loss_text, metric_name
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.validator.judging.column_judging import JudgedColumns
from pytest_anubis.validator.judging.verdict_table import INCONCLUSIVE, NOT_TESTED
from pytest_anubis.validator.similarity.usable_rows import name_codes

MIN_NODES = 10
"""Fewest nodes that are compared, now and in the baseline."""
MIN_LOSS = 0.01
"""Smallest loss that is reported."""
MIN_ERRORS = 5.0
"""Standard errors by which the loss must exceed 0, so that chance names none of hundreds of metrics."""
MAX_METRICS_NAMED = 5
"""Metrics that the line names."""
_MAD = 1.4826
"""Standard deviation over median absolute deviation."""
_MEDIAN = 1.2533
"""Standard error of a median over that of a mean."""


def offset_note(hardware_class: str, columns: Iterable[JudgedColumns]) -> str:
    """Return a line about the metrics in which the median node of a class has lost; empty if there are none.

    A limit is for single nodes. The median of many nodes is known far better, so it alone shows a driver that
    costs each node 2 %. The line decides nothing.
    """
    found = sorted(_offsets(columns), reverse=True)
    if not found:
        return ""
    named = [f"{name} {loss} ({nodes} nodes)" for _, name, loss, nodes in found[:MAX_METRICS_NAMED]]
    others = len(found) - MAX_METRICS_NAMED
    more = f", and {others} more" if others > 0 else ""
    return (
        f"hardware class {hardware_class or '(unnamed)'}: in the middle of all nodes worse than where its "
        f"baseline was learned: {', '.join(named)}{more}; compare driver, firmware and settings of both, "
        "or judge both together, which names the trait that they do not share. It rejects no node by itself "
        "(learn with --promise to have such a loss rejected)"
    )


def _offsets(columns: Iterable[JudgedColumns]) -> Iterator[tuple[float, str, str, int]]:
    for judged in columns:
        criterion, metric = judged.criterion, judged.population.metric
        if (
            criterion is None
            or criterion.scope != "unit"
            or metric.better == "equal"
            or judged.shift
        ):
            continue
        if criterion.nodes < MIN_NODES or criterion.second is not None or not criterion.medians:
            continue
        expected = float(np.median(criterion.medians))
        usable = ~np.isin(judged.outcome, (NOT_TESTED, INCONCLUSIVE)) & (judged.value > 0)
        if expected <= 0 or not usable.any():
            continue
        lost = np.log(judged.value[usable] / expected) * (1 if metric.better == "lower" else -1)
        _, codes = name_codes(judged.population.nodes)
        of_nodes = _medians(lost, np.asarray(codes)[usable])
        middle = float(np.median(of_nodes))
        spread = _MAD * float(np.median(np.abs(of_nodes - middle)))
        error = _MEDIAN * spread * float(np.sqrt(1 / len(of_nodes) + 1 / criterion.nodes))
        if len(of_nodes) >= MIN_NODES and middle > max(MIN_LOSS, MIN_ERRORS * error):
            name = metric_name(judged.population.benchmark.rpartition("/")[2], metric.name)
            loss = loss_text(float(np.exp(-middle)), metric.better, metric.unit)
            yield middle, name, loss, len(of_nodes)


def _medians(values: FloatArray, groups: npt.NDArray[np.intp]) -> FloatArray:
    """Return the lower median of each group's values."""
    order = np.lexsort((values, groups))
    _, starts, counts = np.unique(groups[order], return_index=True, return_counts=True)
    return np.asarray(values[order][starts + (counts - 1) // 2])
