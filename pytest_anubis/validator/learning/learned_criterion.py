"""A criterion with what the learning saw of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from pytest_anubis.core.baseline import Criterion, Exclusion, Finding
from pytest_anubis.core.gather import SampleStorage
from pytest_anubis.core.sample import FloatArray, Population
from pytest_anubis.validator.learning.machine_thresholds import RunSpread
from pytest_anubis.validator.learning.subpopulations import Cluster
from pytest_anubis.validator.similarity.usable_rows import BoolArray, Rows


class LearnError(ValueError):
    """Populations from which nothing can be learned because they contradict each other."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LearnedCriterion:
    """A criterion with what the learning saw; arrays are over the rows of ``population``.

    Attributes:
        population: What was learned from; pooled per node if the scope is ``node``.
        criterion: None when there is none; then `reason` says why.
        reason: Why there is no criterion, empty if there is one.
        exclusions: Units that took no part, or were found too far from the centre.
        findings: What people should look at.
        losses: Shape (n,), one-sided distance to the final centre; NaN for unusable rows.
        gains: Shape (n,), the distance on the other side, where a unit is better than the centre.
        flagged: Shape (n,), True where the loss is beyond the practical threshold.
        centred: Shape (n,), the units of a fleet whose median the centre is; nobody of a medoid.
        rows: The usable rows, sorted.
        spread: Run-to-run spread, for one machine only.
        clusters: Coherent groups of units next to the majority.
        undecided: Shape (n,), units of a slower group that may be as healthy as the others: they neither
            widen this criterion nor make their nodes sick.
    """

    population: Population
    criterion: Criterion | None
    reason: str = ""
    exclusions: tuple[Exclusion, ...] = ()
    findings: tuple[Finding, ...] = ()
    losses: FloatArray
    gains: FloatArray = field(default_factory=lambda: np.zeros(0))
    flagged: BoolArray
    rows: Rows
    centred: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    spread: RunSpread | None = None
    clusters: tuple[Cluster, ...] = ()
    undecided: BoolArray | None = None

    def without_values(self) -> LearnedCriterion:
        """Return the same without what it was learned from: small enough to hold many, or to be sent."""
        nothing = replace(
            self.population,
            nodes=(),
            devices=(),
            runs=(),
            values=np.empty(0),
            offsets=np.zeros(1, dtype=np.int64),
            problems={},
            looks={},
        )
        rows = replace(self.rows.released(), population=nothing, storage=None)
        return replace(self, population=nothing, rows=rows)

    def to_send(self) -> LearnedCriterion:
        """Return the same for another process, which has no storage of ours."""
        return replace(self, rows=replace(self.rows, held=None, storage=None))

    def with_values(
        self, population: Population, storage: SampleStorage | None
    ) -> LearnedCriterion:
        """Return the same with what it was learned from; rows are sorted anew when they are needed.

        Args:
            population: As it was; pooled per node if the scope is ``node``.
            storage: As `rows_of` takes it.
        """
        rows = replace(self.rows.released(), population=population, storage=storage)
        return replace(self, population=population, rows=rows)


def learn_constant(population: Population, rows: Rows) -> tuple[float | None, BoolArray]:
    """Return the value that at least half of the units always show, and which units differ from it.

    Args:
        population: Samples of an exact metric.
        rows: Its usable rows.

    Returns:
        The value, None if no value has a majority; and a mask of shape (n,) of the units that showed
        anything else at least once.
    """
    low, high = np.full(rows.total, np.nan), np.full(rows.total, np.nan)
    for block in rows.blocks:
        low[block.index] = block.values[:, 0]
        high[block.index] = block.values[:, -1]
    constant_rows = rows.usable & (low == high)
    values, counts = np.unique(low[constant_rows], return_counts=True)
    if not len(values) or 2 * int(counts.max()) < int(rows.usable.sum()):
        return None, np.zeros(rows.total, dtype=np.bool_)
    constant = float(values[counts.argmax()])
    return constant, rows.usable & ~((low == constant) & (high == constant))
