"""Build what pages of many nodes show: cells of nodes by metrics, shifts, drifts, costs.

`site_writing` writes these pages, for `judge --html`, `report --html` of several nodes and `report --fleet`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_anubis.cli.shared.run_sources import without_run_text
from pytest_anubis.cli.site.fleet_source import (
    FIRST,
    SERIAL,
    FleetSource,
    class_tables,
    telling_traits,
)
from pytest_anubis.codec.moments import moment
from pytest_anubis.core.fleet_survey import MetricDrift
from pytest_anubis.core.history import Defect, earlier_defects
from pytest_anubis.core.metric import Direction, Metric
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.shown_loss import shown_similarity
from pytest_anubis.core.validation_figures import BenchmarkSpent, spent_of, together
from pytest_anubis.core.verdict import MetricVerdict, Outcome, Reason
from pytest_anubis.report.fleet.fleet_view import (
    OUTCOME_ORDER,
    BenchmarkTime,
    CellKind,
    ClassMetric,
    FleetMetric,
    FleetNode,
    FleetView,
    cell_kind,
)
from pytest_anubis.report.pages.metric_sections import short
from pytest_anubis.report.text.node_row import NodeRow
from pytest_anubis.report.text.shared_lines import baseline_line
from pytest_anubis.validator.judging.column_judging import JudgedColumns
from pytest_anubis.validator.judging.verdict_table import OUTCOMES, PASS, REASONS
from pytest_anubis.validator.surveying.metric_drift import metric_drifts

MetricKey = tuple[str, str]
"""Benchmark and metric."""
_RANK = np.array([OUTCOME_ORDER.index(outcome) for outcome in OUTCOMES])
_STEPS = 1000
"""Steps of a similarity in a cell: they distinguish a loss of a tenth of a per cent."""
_NO_SIMILARITY = 2 * _STEPS
"""Number for no similarity, after all others."""
_SHAPE = (len(OUTCOME_ORDER), _NO_SIMILARITY + 1, len(OUTCOMES), len(REASONS), 4096)
"""How many ranks, similarities, outcomes, reasons and units a cell's code has room for."""
_NOTHING = np.iinfo(np.int64).max
"""Code of a cell where nothing was measured."""
_UNKNOWN = 2.0
"""Similarity of a cell without a comparison, as in `CellKind`."""
_BAD = (Outcome.FAIL, Outcome.MARGINAL)
_NOT_IN_ROWS = (Reason.TEST_FAILED, Reason.WAIVED)
"""Reasons of failures that a node's row may leave out."""


@dataclass(slots=True)
class _Cells:
    """The worst verdict on every node by every metric."""

    # Shape (nodes, metrics): rank, similarity, outcome, reason and unit packed into one number that
    # sorts the worst first; `_NOTHING` where nothing was measured
    code: npt.NDArray[np.int64]
    # Direction and unit -> their number
    units: dict[tuple[str, str], int] = field(default_factory=dict)

    def packed(
        self,
        metric: Metric,
        outcome: npt.ArrayLike,
        reason: npt.ArrayLike,
        similarity: npt.ArrayLike,
    ) -> npt.NDArray[np.int64]:
        """Return verdicts as numbers, the worst the smallest."""
        unit = self.units.setdefault((metric.better, metric.unit), len(self.units))
        alike = np.nan_to_num(np.asarray(similarity, dtype=np.float64) * _STEPS, nan=_NO_SIMILARITY)
        kinds = np.asarray(outcome, dtype=np.int64)
        why = np.asarray(reason, dtype=np.int64)
        parts = (_RANK[kinds], np.rint(alike).astype(np.int64), kinds, why, np.int64(unit))
        return np.asarray(np.ravel_multi_index(parts, _SHAPE), dtype=np.int64)

    def keep(self, rows: npt.NDArray[np.int64], column: int, codes: npt.NDArray[np.int64]) -> None:
        """Keep the worst of the present and the new codes."""
        np.minimum.at(self.code[:, column], rows, codes)

    def kinds(self) -> tuple[tuple[CellKind, ...], list[list[int]]]:
        """Return the kinds of cells, the worst first, and the number of each cell's kind."""
        names = {number: unit for unit, number in self.units.items()}
        known = self.code != _NOTHING
        found = np.unique(self.code[known])
        kind_of: list[CellKind] = []
        for _, alike, outcome, reason, unit in np.transpose(np.unravel_index(found, _SHAPE)):
            better, name = names[unit]
            similarity = None if alike == _NO_SIMILARITY else float(alike) / _STEPS
            kind_of.append(cell_kind(OUTCOMES[outcome], REASONS[reason], similarity, better, name))
        kinds = sorted(set(kind_of))
        place = {kind: number for number, kind in enumerate(kinds)}
        table = np.array([place[kind] for kind in kind_of], dtype=np.int64)
        cells = np.full(self.code.shape, -1, dtype=np.int64)
        if known.any():
            cells[known] = table[np.searchsorted(found, self.code[known])]
        return tuple(kinds), [[int(kind) for kind in row] for row in cells]


def fleet_view(source: FleetSource) -> FleetView:
    """Return the view for the pages; `write_site` adds the links to the pages of nodes and metrics."""
    rows = sorted(source.rows, key=lambda row: row.verdict.severity)
    places = {row.unit: number for number, row in enumerate(rows)}
    names: dict[MetricKey, tuple[Metric, str]] = {}
    classes = {row.hardware_class for row in rows}
    shown = [one for one in source.judged.columns if one.population.hardware_class in classes]
    for columns in shown:
        population = columns.population
        key = (population.benchmark, population.metric.name)
        names.setdefault(key, (population.metric, population.component))
    # Those without a sample, too: a failed test, a report of the hardware.
    bad = [
        (row, verdict, (verdict.benchmark, verdict.metric or "(test)"))
        for row in rows
        for verdict in row.verdicts
        if verdict.outcome is not Outcome.PASS
    ]
    for _, verdict, key in bad:
        if key not in names:
            names[key] = _metric_of(verdict), verdict.component
    order = {key: number for number, key in enumerate(names)}
    cells = _Cells(np.full((len(rows), len(names)), _NOTHING, dtype=np.int64))
    _fill(cells, shown, places, order)
    for row, verdict, key in bad:
        alike = shown_similarity(verdict)
        if alike is None:  # a shown 0 counts
            alike = verdict.similarity
        packed = cells.packed(
            names[key][0],
            OUTCOMES.index(verdict.outcome),
            REASONS.index(verdict.reason),
            np.nan if alike is None else alike,
        )
        cells.keep(np.array([places[row.unit]]), order[key], np.atleast_1d(packed))
    kinds, table = cells.kinds()
    metrics = _metrics(source, names, [row.hardware_class for row in rows], kinds, table)
    chosen = sorted(
        range(len(metrics)),
        key=lambda n: (-metrics[n].failed, -metrics[n].marginal, metrics[n].worst or 0, n),
    )
    telling = telling_traits(source.traits, rows)
    first = [name for name in FIRST if name in telling]
    # Traits that separate nodes come before the others.
    traits = tuple(dict.fromkeys([*first, *(one.trait for one in source.shifts), *telling]))
    started = sorted(run.started for run in source.runs.runs if run.started)
    closed = _precedents(source)
    return FleetView(
        nodes=tuple(
            FleetNode(
                row=row,
                traits={
                    n: t
                    for n, t in source.traits.get(row.verdict.node, {}).items()
                    if n in (*traits, SERIAL)
                },
                filed=_filed(source, row),
                closed=closed(row),
            )
            for row in rows
        ),
        metrics=tuple(metrics[n] for n in chosen),
        kinds=kinds,
        cells=[[line[n] for n in chosen] for line in table],
        traits=traits,
        shifts=tuple(source.shifts),
        drifts=tuple(_drifts(source)),
        findings=tuple(finding.text for finding in source.judged.findings),
        notes=(*source.judged.notes, *source.judged.asides),
        unjudged=tuple(filter(None, (source.no_baseline_text, source.filed_text))),
        held_against=tuple(
            f"{key}: held against {baseline_line(source.judged.baselines[key])}"
            for key in sorted({row.hardware_class for row in rows} & source.judged.baselines.keys())
        ),
        without_run=without_run_text(source.without_run),
        times=tuple(_times(source.runs.journals)),
        validation=source.validation,
        runs=len(source.runs.runs),
        first=started[0] if started else "",
        last=started[-1] if started else "",
    )


def _precedents(source: FleetSource) -> Callable[[NodeRow], Sequence[Defect]]:
    """Return a function that gives the earlier, closed defects of a bad node's class."""
    own: dict[tuple[str, str], list[RunRecord]] = {}
    for run in source.runs.runs if source.closed else ():
        own.setdefault((run.node, run.hardware_class), []).append(run)

    def of_row(row: NodeRow) -> Sequence[Defect]:
        if not own or not any(one.outcome is Outcome.FAIL for one in row.verdicts):
            return ()
        runs = own.get(row.unit, [])
        return earlier_defects(
            source.closed,
            node=row.verdict.node,
            hardware_class=row.hardware_class,
            began=moment(max((run.started for run in runs), default="")),
            runs={run.run for run in runs},
        )

    return of_row


def _filed(source: FleetSource, row: NodeRow) -> str:
    """Return a history's decision on a node that was compared with no baseline: ``REJECTED 2026-03-01``."""
    if row.hardware_class in source.judged.baselines or row.verdict.node not in source.filed:
        return ""
    decision, day = source.filed[row.verdict.node]
    return f"{decision.value} {day}"


def _metric_of(verdict: MetricVerdict) -> Metric:
    known: tuple[Direction, ...] = ("higher", "lower")
    better: Direction = next((one for one in known if one == verdict.better), "equal")
    name = verdict.metric if verdict.metric.strip() and verdict.metric.isprintable() else "(test)"
    unit = verdict.unit if verdict.unit.strip() and verdict.unit.isprintable() else "1"
    return Metric(name=name, unit=unit, better=better)


def _fill(
    cells: _Cells,
    judged: Sequence[JudgedColumns],
    places: Mapping[tuple[str, str], int],
    order: Mapping[MetricKey, int],
) -> None:
    last: tuple[Sequence[str], str, npt.NDArray[np.int64]] | None = None
    for columns in judged:
        population = columns.population
        key = population.hardware_class
        if last is None or last[0] != population.nodes or last[1] != key:  # most have the same rows
            # Only some nodes may be shown; the others have no row.
            rows = np.array([places.get((n, key), -1) for n in population.nodes], dtype=np.int64)
            last = (population.nodes, key, rows)
        codes = cells.packed(population.metric, columns.outcome, columns.reason, columns.similarity)
        # A verdict that a later run answered no longer describes the node.
        here = (last[2] >= 0) & (columns.reason != REASONS.index(Reason.ANSWERED))
        # What is bad comes from the nodes' rows, with the loss that is printed.
        bad = np.isin(columns.outcome, [OUTCOMES.index(one) for one in _BAD])
        here &= ~bad | np.isin(columns.reason, [REASONS.index(one) for one in _NOT_IN_ROWS])
        column = order[population.benchmark, population.metric.name]
        cells.keep(last[2][here], column, codes[here])


def _metrics(
    source: FleetSource,
    names: Mapping[MetricKey, tuple[Metric, str]],
    classes: Sequence[str],
    kinds: Sequence[CellKind],
    table: Sequence[Sequence[int]],
) -> list[FleetMetric]:
    """Return the metrics in the order of `names`; `classes` has the hardware class of each of the nodes."""
    parts: dict[MetricKey, list[ClassMetric]] = {}
    for columns in source.judged.columns:
        key = (columns.population.benchmark, columns.population.metric.name)
        parts.setdefault(key, []).append(_class_metric(source, columns))
    codes = np.array(table, dtype=np.int64).reshape(len(table), len(names))
    outcomes = np.array([*(kind.outcome for kind in kinds), ""])
    alike = np.array([*(kind.similarity for kind in kinds), _UNKNOWN])
    of_class = np.array(classes)
    often = Counter(name for _, name in names)
    found = []
    for number, (key, (metric, component)) in enumerate(names.items()):
        of = outcomes[codes[:, number]]
        low = alike[codes[:, number]]
        test = short(key[0]).rpartition("::")[2]
        found.append(
            FleetMetric(
                benchmark=key[0],
                metric=metric,
                component=component,
                label=key[1] if often[key[1]] == 1 else f"{key[1]} {test}",
                classes=tuple(
                    replace(part, **_counts(metric, of[here], low[here]))
                    for part in parts.get(key, ())
                    for here in (of_class == part.hardware_class,)
                ),
                **_counts(metric, of, low),
            )
        )
    return found


def _counts(
    metric: Metric, outcomes: npt.NDArray[np.str_], alike: npt.NDArray[np.float64]
) -> dict[str, Any]:
    """Return how many nodes FAIL and are MARGINAL, and the lowest similarity, None if there is none."""
    worst = float(alike.min(initial=_UNKNOWN))
    return {
        "failed": int((outcomes == Outcome.FAIL.value).sum()),
        "marginal": int((outcomes == Outcome.MARGINAL.value).sum()),
        "worst": None if worst > 1 or metric.better == "equal" else worst,
    }


def _class_metric(source: FleetSource, columns: JudgedColumns) -> ClassMetric:
    population = columns.population
    key = columns.population.hardware_class
    known = np.isfinite(columns.value)
    bad = np.flatnonzero(known & np.isin(columns.outcome, [OUTCOMES.index(o) for o in _BAD]))
    order = bad[np.argsort(np.nan_to_num(columns.similarity[bad], nan=-1), kind="stable")]
    several = len(set(population.devices)) > 1
    slow: dict[str, float] = {}
    for row in order.tolist():
        name = (
            f"{population.nodes[row]} {population.devices[row]}"
            if several
            else population.nodes[row]
        )
        slow.setdefault(name, float(columns.value[row]))
    first = next(iter(np.flatnonzero(known & ~np.isnan(columns.similarity)).tolist()), None)
    limit = (
        None if first is None else columns.verdict(first, source.judged.baselines.get(key)).limit
    )
    pooled = columns.criterion is not None and columns.criterion.scope == "node"
    return ClassMetric(
        hardware_class=key,
        group=" ".join(filter(None, (population.group, "all devices pooled" if pooled else ""))),
        healthy=columns.value[known & (columns.outcome == PASS)].tolist(),
        bad=slow,
        criterion=columns.criterion,
        limit=limit,
    )


def _drifts(source: FleetSource) -> list[MetricDrift]:
    """Return metrics over time, drifting ones first."""
    began = source.began
    drifts = list[MetricDrift]()
    for table in source.tables or class_tables(source.runs, source.rows):
        own = [one for one in source.shifts if one.hardware_class == table.hardware_class]
        drifts += metric_drifts(table, began, own)
    return sorted(drifts, key=lambda one: (not one.drifts, one.similarity))


def _times(journals: Sequence[RunRecord]) -> list[BenchmarkTime]:
    """Return what every benchmark cost, the dearest first; retries and failed tests count, too."""
    spent: dict[str, list[BenchmarkSpent]] = {}
    nodes: dict[str, set[str]] = {}
    for run in journals:
        for one in spent_of(run) or ():
            spent.setdefault(one.benchmark, []).append(one)
            nodes.setdefault(one.benchmark, set()).add(run.node)
    every = map(together, spent.values())
    return [
        BenchmarkTime(
            benchmark=one.benchmark,
            component=one.component,
            seconds=one.seconds,
            tests=one.tests,
            nodes=len(nodes[one.benchmark]),
        )
        for one in sorted(every, key=lambda one: (-one.seconds, one.benchmark))
    ]
