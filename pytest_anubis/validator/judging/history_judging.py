"""Judge devices by their own earlier runs, where neither a criterion nor the node's other devices can.

At least three are needed. `anubis judge` uses `judge_latest`, the end of a run `judge_by_history`.
`fleet_judging`, `run_comparisons` and `validator` use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_anubis.core.sample import Population, population_of
from pytest_anubis.core.verdict import MetricVerdict, Reference
from pytest_anubis.validator.judging.column_judging import JudgedColumns
from pytest_anubis.validator.judging.peer_judging import shared_thresholds
from pytest_anubis.validator.judging.sample_judging import Basis, judge_row
from pytest_anubis.validator.learning.criterion_learning import learn_criterion
from pytest_anubis.validator.learning.learned_criterion import LearnedCriterion
from pytest_anubis.validator.learning.machine_thresholds import shared_loss
from pytest_anubis.validator.similarity.centre import MIN_UNITS


def judge_latest(
    judged: Sequence[JudgedColumns],
    started: Mapping[tuple[str, str], str],
    *,
    virtual: bool = False,
) -> list[JudgedColumns]:
    """Judge the latest run of every node by its earlier runs, where neither a criterion nor peers can judge.

    Runs without a time are ordered by their names. Only units with at least three earlier runs are judged.
    """
    latest = [_latest(one.population, started) for one in judged]
    parts = [one.population.only(rows) for one, rows in zip(judged, latest, strict=True)]
    verdicts = judge_by_history(parts, [one.population for one in judged], virtual=virtual)
    return [
        _by_history(one, {rows[place]: verdict for place, verdict in found.items()})
        if found
        else one
        for one, rows, found in zip(judged, latest, verdicts, strict=True)
    ]


def _latest(population: Population, started: Mapping[tuple[str, str], str]) -> list[int]:
    """Return the rows of each node's latest run whose units were measured often enough."""
    newest: dict[str, tuple[str, str]] = {}
    counts: dict[tuple[str, str], int] = {}
    for node, device, run in population.units():
        key = (started.get((run, node), ""), run)
        newest[node] = max(newest.get(node, key), key)
        counts[node, device] = counts.get((node, device), 0) + 1
    return [
        row
        for row, (node, device, run) in enumerate(population.units())
        if newest[node][1] == run and counts[node, device] > MIN_UNITS
    ]


def _by_history(judged: JudgedColumns, known: Mapping[int, MetricVerdict]) -> JudgedColumns:
    """Return columns with verdicts by history; the other rows are the history, or have too little of it."""
    return judged.with_verdicts(known, criterion=None, reference=Reference.SELF, by_history=known)


def judge_by_history(
    populations: Sequence[Population],
    history: Sequence[Population],
    *,
    virtual: bool = False,
) -> list[dict[int, MetricVerdict]]:
    """Return row -> verdict of every population, by each device's own earlier runs, at least three of them.

    All metrics of a node share one error rate. Rows of the history with a problem are ignored. A `virtual`
    machine may always lose what other guests take of its host (`SHARED_LOSSES`).
    """
    found: dict[str, list[tuple[int, int, LearnedCriterion, int]]] = {}
    known = {one.series: one for one in history}
    for number, population in enumerate(populations):
        old = known.get(population.series)
        if old is None or old.metric.variant != population.metric.variant:
            continue
        rows = _rows_by_unit(old)
        for row, unit in enumerate(zip(population.nodes, population.devices, strict=True)):
            earlier = [r for r in rows.get(unit, ()) if old.runs[r] != population.runs[row]]
            learned = _learned(old, earlier)
            if learned is not None and learned.criterion is not None:
                found.setdefault(unit[0], []).append((number, row, learned, len(earlier)))
    verdicts: list[dict[int, MetricVerdict]] = [{} for _ in populations]
    for node in sorted(found):
        noisy = [item.spread for _, _, item, _ in found[node] if item.spread is not None]
        thresholds = iter(shared_thresholds(noisy))
        for number, row, item, count in found[node]:
            criterion = item.criterion
            now = populations[number]
            if criterion is not None and item.spread is not None:
                host = (
                    virtual and ":" not in now.devices[row]
                )  # cards, such as cuda:0, are not shared
                loss = shared_loss(now.component, now.benchmark) if host else 0.0
                limit = min(next(thresholds), 1 - loss)
                criterion = replace(criterion, learned=limit, unconfirmed=None)
            basis = Basis(Reference.SELF, f"{count} earlier runs of this device")
            verdicts[number][row] = judge_row(now, row, criterion, basis=basis)
    return verdicts


def _rows_by_unit(population: Population) -> dict[tuple[str, str], list[int]]:
    rows: dict[tuple[str, str], list[int]] = {}
    for row, unit in enumerate(zip(population.nodes, population.devices, strict=True)):
        if row not in population.problems:
            rows.setdefault(unit, []).append(row)
    return rows


def _learned(history: Population, rows: Sequence[int]) -> LearnedCriterion | None:
    """Learn from samples as from runs of one machine; None if there are fewer than three."""
    if len(rows) < MIN_UNITS:
        return None
    runs = population_of(
        [history.sample(row) for row in rows],
        metric=history.metric,
        benchmark=history.benchmark,
        nodes=["same"] * len(rows),
        devices=["same"] * len(rows),
        runs=list(map(str, range(len(rows)))),
    )
    return learn_criterion(runs, one_machine=True)
