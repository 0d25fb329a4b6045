"""Judge every device of a node by its peers, the other devices of the same node, without any baseline.

The centre for one device is the pointwise median of the quantile functions of the others; the threshold is
the prediction bound for one more device, from the others' own spread. All metrics and devices of a node
share one error rate, so that a healthy node is rejected at the stated rate, however much is measured.
`fleet_judging`, `run_comparisons` and `history_judging` use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_anubis.core.baseline import ALPHA, Baseline, Criterion
from pytest_anubis.core.measurement import WAY
from pytest_anubis.core.sample import FloatArray, IntArray, Population
from pytest_anubis.core.verdict import MetricVerdict, Reason, Reference
from pytest_anubis.validator.judging.column_judging import JudgedColumns
from pytest_anubis.validator.judging.sample_judging import Basis, Compared, judge_row
from pytest_anubis.validator.judging.verdict_table import (
    FAIL,
    INCONCLUSIVE,
    MARGINAL,
    OUTCOMES,
    REASONS,
    Limits,
    fill_verdicts,
    problem_verdict,
)
from pytest_anubis.validator.learning.machine_thresholds import (
    RunSpread,
    machine_thresholds,
    within_variances,
)
from pytest_anubis.validator.similarity.centre import MIN_UNITS
from pytest_anubis.validator.similarity.distance import TINY, worse
from pytest_anubis.validator.similarity.usable_rows import (
    BLOCK,
    BoolArray,
    UsableRows,
    name_codes,
    rows_of,
)

GAP = 3.0
"""Peers beyond the practical threshold are left out of the spread when they lie this many times further from
the centre than the furthest of those within: a second slow device must not hide the first. A judgement: of
seven with normal noise the furthest is three times as far as the next in one of fifty cases."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PeerColumns(JudgedColumns):
    """Verdicts on devices by their peers; all arrays have shape (n,)."""

    expected: FloatArray  # median of the other devices' centre, NaN where there are too few of them
    learned: FloatArray  # learned threshold, NaN where there is none
    deviation: FloatArray  # of the other devices' means, relative; NaN where unknown
    peers: IntArray  # how many other devices there are to compare with

    def of_whole_sample(self, row: int, baseline: Baseline | None) -> MetricVerdict:
        """Return the verdict on one device's values as a whole; `baseline` only names itself."""
        population = self.population
        if REASONS[self.reason[row]] is Reason.BELOW_NOMINAL:
            return judge_row(population, row, None, baseline)
        problem = population.problems.get(row)
        name, count = population.metric.name, int(self.peers[row])
        outcome, reason = OUTCOMES[self.outcome[row]], REASONS[self.reason[row]]
        if np.isnan(self.similarity[row]):
            text = f"{name} has {count} other devices to compare with, {MIN_UNITS} needed"
            if problem is not None and problem.kind != "disturbed":
                text = f"{name}: {problem.text}"
            elif reason is Reason.NO_CRITERION:
                text = f"{name}: the other devices of this node do not agree on one value"
            plain = judge_row(population, row, None)
            return replace(plain, outcome=outcome, reason=reason, text=text)
        learned = float(self.learned[row])
        criterion = Criterion(
            benchmark=population.benchmark,
            metric=population.metric,
            centre=(float(self.expected[row]),),
            learned=None if np.isnan(learned) else learned,
            spread=float(np.nan_to_num(self.deviation[row])),
            nodes=1,
            units=count,
        )
        return judge_row(
            population,
            row,
            criterion,
            basis=Basis(Reference.PEERS, f"{count} other devices of this node"),
            compared=Compared(float(self.similarity[row])),
        )


@dataclass(slots=True, kw_only=True, eq=False)
class _PeerComparison:
    """One population and its peers; arrays over its rows, NaN where nothing can be compared."""

    population: Population
    rows: UsableRows
    disturbed: BoolArray
    peers: IntArray
    loss: FloatArray
    expected: FloatArray
    deviation: FloatArray
    shape: FloatArray
    within: FloatArray
    agreeing: IntArray


def judge_by_peers(populations: Sequence[Population]) -> list[PeerColumns]:
    """Judge every device of every node against the other devices of its node, in the same run.

    All populations share a node's error rate; devices of different groups are never compared. A device is
    INCONCLUSIVE if it has fewer than three usable peers or they do not agree; a failed test is its own
    verdict.
    """
    seen = list(map(_with_peers, populations))
    return list(map(_judged, seen, _thresholds(seen)))


def _with_peers(population: Population) -> _PeerComparison:
    total = len(population)
    disturbed = np.zeros(total, dtype=np.bool_)
    for row, problem in population.problems.items():
        disturbed[row] = problem.kind == "disturbed"
    hard = {row: p for row, p in population.problems.items() if not disturbed[row]}
    rows = rows_of(replace(population, problems=hard))
    seen = _PeerComparison(
        population=population,
        rows=rows,
        disturbed=disturbed,
        peers=np.zeros(total, dtype=np.int64),
        **{
            name: np.full(total, np.nan)
            for name in ("loss", "expected", "deviation", "shape", "within")
        },
        agreeing=np.zeros(total, dtype=np.int64),
    )
    if not rows.blocks:
        return seen
    exact = population.metric.better == "equal"
    columns = None if exact else rows.quantile_columns(rows.grid()).astype(np.float64)
    within = np.zeros(total) if exact else np.nan_to_num(within_variances(rows))
    # The other node may slow down a way between two.
    own = np.array([WAY not in device for device in population.devices], dtype=np.bool_)
    for members in _groups(population, rows.usable & own):
        if columns is None:
            _exact(seen, members)
            continue
        size = max(1, BLOCK // (members.shape[1] * len(columns)))
        for start in range(0, len(members), size):
            _leave_one_out(seen, members[start : start + size], columns, within)
    return seen


def _groups(population: Population, usable: BoolArray) -> Iterator[IntArray]:
    """Yield the usable rows of one node and run as arrays (groups, devices), one for each size."""
    _, node = name_codes(population.nodes)
    run_names, run = name_codes(population.runs)
    rows = np.flatnonzero(usable)
    _, owner, counts = np.unique(
        (node * len(run_names) + run)[rows], return_inverse=True, return_counts=True
    )
    order = rows[np.argsort(owner, kind="stable")]
    starts = np.concatenate([[0], np.cumsum(counts)])[:-1]
    for size in np.unique(counts):
        yield order[starts[counts == size][:, None] + np.arange(size)]


def _leave_one_out(
    seen: _PeerComparison, members: IntArray, columns: FloatArray, within: FloatArray
) -> None:
    """Compare each of G devices with the median of the others; `members` is (k, G)."""
    values = columns.T[members]  # (k, G, g)
    quiet = ~seen.disturbed[members]
    better = seen.population.metric.better
    for place in range(members.shape[1]):
        others = quiet.copy()
        others[:, place] = False
        count = others.sum(axis=1)
        own = members[:, place]
        seen.peers[own] = count
        enough = count >= MIN_UNITS
        if not enough.any():
            continue
        chosen, theirs, mask = own[enough], values[enough], others[enough]
        centre = _median_of(theirs, mask)
        below, above = _sides(theirs, centre)
        seen.loss[chosen] = worse(below[:, place], above[:, place], better)
        seen.expected[chosen] = np.median(centre, axis=1)
        kept = _without_strays(below + above, mask)
        means = theirs.mean(axis=2)
        middle = np.maximum((means * kept).sum(axis=1) / kept.sum(axis=1), TINY)
        apart = np.where(kept, means / middle[:, None] - 1, 0.0)
        degrees = np.maximum(kept.sum(axis=1) - 1, 1)
        seen.deviation[chosen] = np.sqrt((apart**2).sum(axis=1) / degrees)
        seen.shape[chosen] = np.where(kept, np.minimum(below, above), 0.0).max(axis=1)
        noise = np.where(kept, within[members[enough]], 0.0).sum(axis=1)
        seen.within[chosen] = np.sqrt(noise / kept.sum(axis=1))
        seen.agreeing[chosen] = kept.sum(axis=1)


def _median_of(values: FloatArray, mask: BoolArray) -> FloatArray:
    """Return the medians (k, g) over the devices in the mask (k, G) of values (k, G, g)."""
    ordered = np.sort(np.where(mask[:, :, None], values, np.inf), axis=1)
    count = mask.sum(axis=1)
    low = np.take_along_axis(ordered, ((count - 1) // 2)[:, None, None], axis=1)[:, 0]
    high = np.take_along_axis(ordered, (count // 2)[:, None, None], axis=1)[:, 0]
    return np.asarray((low + high) / 2)


def _sides(values: FloatArray, centre: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the one-sided distances (k, G) of values (k, G, g) to centres (k, g)."""
    gap = values - centre[:, None, :]
    over = np.maximum(gap, 0).mean(axis=2)
    under = np.maximum(-gap, 0).mean(axis=2)
    union = centre.mean(axis=1)[:, None] + over
    union[union == 0] = 1.0
    return under / union, over / union


def _without_strays(distance: FloatArray, mask: BoolArray) -> BoolArray:
    """Return the mask without a minority beyond the practical threshold that a clear gap separates."""
    inside = mask & (distance <= 1 - ALPHA)
    outside = mask & ~inside
    furthest = np.where(inside, distance, 0.0).max(axis=1)
    nearest = np.where(outside, distance, np.inf).min(axis=1)
    count = inside.sum(axis=1)
    stray = (count >= MIN_UNITS) & (2 * count > mask.sum(axis=1)) & (nearest > GAP * furthest)
    return np.where(stray[:, None], inside, mask)


def _exact(seen: _PeerComparison, members: IntArray) -> None:
    """Compare exact results: the value that more than half of the others show always."""
    population = seen.population
    for group in members.tolist():
        constants = {}
        for row in group:
            values = population.sample(row)
            constants[row] = float(values[0]) if values.min() == values.max() else None
        for row in group:
            others = [constants[r] for r in group if r != row and not seen.disturbed[r]]
            seen.peers[row] = len(others)
            if len(others) < MIN_UNITS:
                continue
            common = max(
                sorted({c for c in others if c is not None}), key=others.count, default=None
            )
            if common is not None and 2 * others.count(common) > len(others):
                seen.expected[row] = common
                seen.loss[row] = float((population.sample(row) != common).mean())


def _thresholds(seen: Sequence[_PeerComparison]) -> list[FloatArray]:
    """Return every row's learned threshold: all metrics and devices of a node share its error rate."""
    out = [np.full(len(one.population), np.nan) for one in seen]
    places: dict[str, list[tuple[int, int]]] = {}
    for number, one in enumerate(seen):
        for row in np.flatnonzero(~np.isnan(one.deviation)).tolist():
            places.setdefault(one.population.nodes[row], []).append((number, row))
    for node in sorted(places):
        spreads = [
            RunSpread(
                float(seen[i].deviation[row]),
                int(seen[i].agreeing[row]),
                float(seen[i].shape[row]),
                float(seen[i].within[row]),
            )
            for i, row in places[node]
        ]
        found = shared_thresholds(spreads)
        for (i, row), threshold in zip(places[node], found, strict=True):
            out[i][row] = threshold
    return out


def shared_thresholds(spreads: Sequence[RunSpread]) -> list[float]:
    """Return learned thresholds at which a healthy node is rejected, and warned about, at the stated rate.

    Rejections share the rate among all metrics of the node whose noise can exceed `ALPHA`, warnings (within
    alpha) among all metrics: otherwise one of hundreds of quiet comparisons would always be unusual. No
    further look confirms a comparison with peers or earlier runs, so the thresholds are those of a single
    look.
    """
    rejecting = machine_thresholds(spreads)
    warning = machine_thresholds(spreads, alpha=1.0)
    return [
        min(reject.unconfirmed, max(warn.unconfirmed, ALPHA))
        for reject, warn in zip(rejecting, warning, strict=True)
    ]


def _judged(seen: _PeerComparison, learned: FloatArray) -> PeerColumns:
    population, rows = seen.population, seen.rows
    similarity = np.maximum(0.0, 1 - seen.loss)
    count = len(population)
    outcome = np.full(count, INCONCLUSIVE, dtype=np.int8)
    reason = np.full(count, REASONS.index(Reason.NO_BASELINE), dtype=np.int8)
    threshold = np.full(count, np.nan)
    enough = rows.usable & (seen.peers >= MIN_UNITS)
    reason[enough] = REASONS.index(Reason.NO_CRITERION)
    strict = population.metric.better == "equal"
    limits = Limits(1.0, 1.0) if strict else Limits(ALPHA, learned)
    fill_verdicts(similarity, limits, outcome, reason, threshold)
    # Load makes a machine slow, not wrong.
    spoiled = seen.disturbed & ((outcome == FAIL) | (outcome == MARGINAL)) & (not strict)
    outcome[spoiled], reason[spoiled] = INCONCLUSIVE, REASONS.index(Reason.DISTURBED)
    idle = rows.idle() & (outcome < FAIL)
    outcome[idle], reason[idle] = INCONCLUSIVE, REASONS.index(Reason.INVALID)
    for row, problem in rows.problems.items():
        word, why = problem_verdict(problem)
        outcome[row], reason[row] = OUTCOMES.index(word), REASONS.index(why)
    return PeerColumns(
        reference=Reference.PEERS,
        population=replace(population, problems={**rows.problems, **population.problems}),
        criterion=None,
        similarity=similarity,
        value=rows.medians(),
        outcome=outcome,
        reason=reason,
        threshold=threshold,
        expected=seen.expected,
        learned=learned,
        deviation=seen.deviation,
        peers=seen.peers,
    )
