"""Population shift: if most nodes of a class moved together, make one finding of it, not many rejections.

Failures of units that fit the new level become INCONCLUSIVE. `class_offset` finds a shift within the limits.
`change_screening`, `fleet_judging` and `validator` use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pytest_anubis.core.baseline import Finding
from pytest_anubis.core.metric import first_of, loss_text, value_text
from pytest_anubis.core.sample import FloatArray
from pytest_anubis.core.verdict import Reason
from pytest_anubis.validator.judging.column_judging import JudgedColumns
from pytest_anubis.validator.judging.sample_judging import EQUAL
from pytest_anubis.validator.judging.verdict_table import FAIL, INCONCLUSIVE, MARGINAL, REASONS
from pytest_anubis.validator.similarity.centre import median_centre
from pytest_anubis.validator.similarity.distance import worse
from pytest_anubis.validator.similarity.usable_rows import name_codes, rows_of

MIN_NODES = 5
"""Fewest nodes of which most can have moved: of four, three may each be slow by themselves."""
MAJORITY = 0.5
"""More than this share of the nodes must have moved, and this share of those must still agree."""
HALFWAY = 0.5
"""The typical unit of the class, or of one place in its nodes, must have moved by more than this share of
what a single unit needs: noise moves single units, however many, and no median."""
MAX_METRICS_NAMED = 5
"""Most metrics that one finding names: a line for people."""
ADVICE = (
    ": look for a change of driver, firmware or settings, and learn a new baseline if it is meant"
)


def settle_shift(judged: JudgedColumns) -> JudgedColumns:
    """Tell a class that moved together, which the verdicts then say (`shift`), from nodes that are slow.

    The class has moved (a driver, a firmware, a BIOS setting) if more than half of at least five nodes left
    the healthy spread on the same side, if those agree with each other to the practical threshold, and if the
    typical unit moved with them, of the class or of one place in its nodes. (Where a promise lies within the
    noise, most nodes have *some* unit beyond it, and did not move.) Units that fit the new centre become
    INCONCLUSIVE: the baseline is out of date for them. Units that are slow next to the new centre as well
    keep their verdict. A class that became better is reported too, and no verdict changes.
    """
    criterion = judged.criterion
    if criterion is None or criterion.metric.better == "equal":
        return judged
    if criterion.second is not None:  # they stood apart in the very data that were learned from
        return judged
    population = judged.population
    rows = rows_of(population)
    if not rows.blocks:
        return judged
    tight = (
        criterion.alpha if criterion.learned is None else max(criterion.alpha, criterion.learned)
    )
    below, above = rows.sides(np.asarray(criterion.centre))
    lost = worse(below, above, criterion.metric.better)
    gained = worse(above, below, criterion.metric.better)
    _, codes = name_codes(population.nodes)
    _, places = name_codes(population.devices)
    everyone = len(np.unique(codes[rows.usable]))
    toward = np.nan_to_num(lost) - np.nan_to_num(gained)
    for side, distance in (("worse", lost), ("better", gained)):
        moved = rows.usable & (np.nan_to_num(distance) > 1 - tight)
        typical = _typical(toward if side == "worse" else -toward, places, rows.usable)
        moved &= typical > HALFWAY * (1 - tight)
        nodes = len(np.unique(codes[moved]))
        if everyone < MIN_NODES or nodes <= MAJORITY * everyone:
            continue
        centre = median_centre(rows.quantile_columns(rows.grid()), moved)
        low, high = rows.sides(centre)
        fits = rows.usable & (np.nan_to_num(low + high, nan=1.0) <= 1 - criterion.alpha)
        if (moved & fits).sum() <= MAJORITY * moved.sum():
            continue
        finding = _finding(judged, side, nodes, everyone, float(np.median(centre)))
        if side == "better":
            return replace(judged, shift=finding)
        excused = fits & ((judged.outcome == FAIL) | (judged.outcome == MARGINAL))
        excused &= judged.reason != REASONS.index(Reason.TEST_FAILED)
        return judged.marked(excused, INCONCLUSIVE, Reason.CLASS_SHIFT, shift=finding)
    return judged


def _typical(
    moved: FloatArray, places: npt.NDArray[np.intp], usable: npt.NDArray[np.bool_]
) -> FloatArray:
    """Return how far the typical unit has moved: of all, or of those in the same place, whichever is more."""
    if not usable.any():
        return np.zeros(len(moved))
    found = np.full(len(moved), float(np.median(moved[usable])))
    for place in np.unique(places[usable]):
        here = places == place
        found[here] = max(found[here][0], float(np.median(moved[here & usable])))
    return found


def class_findings(hardware_class: str, shifts: Sequence[Finding]) -> tuple[Finding, ...]:
    """Put the shifts of a class's metrics into one finding: one update of a driver moves many of them."""
    by_metric = {(shift.benchmark, shift.metric): shift for shift in reversed(shifts)}
    if len(by_metric) <= 1:
        return tuple(by_metric.values())
    texts = [shift.text.removesuffix(ADVICE) for _, shift in sorted(by_metric.items())]
    return (
        Finding(
            kind="class-shift",
            text=f"{len(texts)} metrics of hardware class {hardware_class or '(unnamed)'} moved on most "
            f"nodes together ({first_of(texts, MAX_METRICS_NAMED, '; ')}){ADVICE}",
        ),
    )


def _finding(judged: JudgedColumns, side: str, nodes: int, everyone: int, middle: float) -> Finding:
    criterion = judged.criterion
    metric = judged.population.metric
    expected = float(np.median(criterion.centre)) if criterion is not None else middle
    low, high = sorted((middle, expected))
    # Medians alone: a class whose tails moved has equal ones, and is worse as a distribution.
    how = side
    if side == "worse" and low < EQUAL * high:
        how = loss_text(low / high, metric.better, metric.unit)
    return Finding(
        kind="class-shift",
        benchmark=judged.population.benchmark,
        metric=metric.name,
        text=f"{metric.name}: {nodes} of {everyone} nodes moved together and are {how} "
        f"(typical {value_text(middle)} against {value_text(expected, metric.unit)}){ADVICE}",
    )
