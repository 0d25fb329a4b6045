"""The result of learning one criterion, and the constant of an exact metric."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from pytest_anubis.core.baseline import Criterion, Exclusion, Finding
from pytest_anubis.core.gather import SampleStorage
from pytest_anubis.core.sample import FloatArray, Population
from pytest_anubis.validator.learning.machine_thresholds import RunSpread
from pytest_anubis.validator.learning.subpopulations import Cluster
from pytest_anubis.validator.similarity.usable_rows import BoolArray, UsableRows


class LearnError(ValueError):
    """Populations contradict each other, or an argument is out of range."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LearnedCriterion:
    """A learned criterion with the data behind it; arrays are over the rows of ``population``."""

    criterion: Criterion | None  # the criterion; None if there is none
    reason: str = ""  # why there is no criterion
    # Units that were left out, or are too far from the centre
    exclusions: tuple[Exclusion, ...] = ()
    findings: tuple[Finding, ...] = ()  # findings for people
    losses: FloatArray  # shape (n,), one-sided distance to the final centre; NaN for unusable rows
    # Shape (n,), the distance on the other side, where a unit is better than the centre
    gains: FloatArray = field(default_factory=lambda: np.zeros(0))
    flagged: BoolArray  # shape (n,), whether the loss is beyond the practical threshold
    rows: UsableRows  # the usable rows of the population, sorted
    # Shape (n,), the units of a fleet whose median the centre is; none for a medoid
    centred: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    spread: RunSpread | None = None  # run-to-run spread, for one machine only
    clusters: tuple[Cluster, ...] = ()  # coherent groups of units next to the majority
    # Shape (n,), units of a slower group that may be healthy: they neither widen this criterion nor
    # make their nodes sick
    undecided: BoolArray | None = None

    @property
    def population(self) -> Population:
        """The samples; pooled per node if the scope is ``node``."""
        return self.rows.population

    def without_values(self) -> LearnedCriterion:
        """Return the same without values: small enough to keep many, or to send."""
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
        return self.with_values(nothing, None)

    def with_values(
        self, population: Population, storage: SampleStorage | None
    ) -> LearnedCriterion:
        """Return the same with its population; rows are sorted anew when they are needed."""
        rows = replace(self.rows, held=None, population=population, storage=storage)
        return replace(self, rows=rows)


def learn_constant(rows: UsableRows) -> tuple[float | None, BoolArray]:
    """Return the constant value of at least half of an exact metric's units, and which units (n,) differ.

    The value is None if no value has a majority.
    """
    low = rows.each(lambda values: values[:, 0])
    high = rows.each(lambda values: values[:, -1])
    constant_rows = rows.usable & (low == high)
    values, counts = np.unique(low[constant_rows], return_counts=True)
    if not len(values) or 2 * int(counts.max()) < int(rows.usable.sum()):
        return None, np.zeros(rows.total, dtype=np.bool_)
    constant = float(values[counts.argmax()])
    return constant, rows.usable & ~((low == constant) & (high == constant))
