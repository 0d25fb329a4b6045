"""Findings about many nodes: traits that separate slow nodes from the others, and metrics that drift.

`validator.surveying` makes them (`trait_shifts`, `metric_drift`); the fleet's page and verdicts show them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_anubis.core.metric import Metric, loss_text, whole_of
from pytest_anubis.core.verdict import MetricVerdict, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftedMetric:
    """A metric in which the nodes of a trait differ from the others of their class."""

    benchmark: str  # benchmark id
    metric: Metric  # the metric
    component: str  # the part of the node that it measures
    similarity: float  # similarity of these nodes' typical value to that of the others, below 1
    worse: bool  # whether these nodes are the worse ones, else the better ones
    # Chance that one of them is worse (better) than one of the others: 1 is complete separation
    apart: float
    chance: float  # chance of such a separation without an effect of the trait, over all tests made

    @property
    def size(self) -> str:
        """How much worse these nodes are, or the others if these are better: ``8.1 % slower``."""
        return loss_text(self.similarity, self.metric.better, self.metric.unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraitShift:
    """Nodes that share a trait and differ from the others of their class."""

    hardware_class: str  # their class
    trait: str  # its name, such as ``batch`` or ``driver nvidia``
    value: str  # its value
    nodes: tuple[str, ...]  # the measured nodes with that value, sorted
    others: int  # how many nodes of the class have another value
    # Metrics that differ, the largest difference first; empty if only the decisions do
    metrics: tuple[ShiftedMetric, ...]
    # Other traits (``name value``) of nearly the same nodes, which cannot be distinguished
    aliases: tuple[str, ...] = ()
    rejected: int = 0  # how many of `nodes` are rejected
    rejected_others: int = 0  # how many of the others are
    # The value that all of the others have; empty if they have several, or some have none
    others_value: str = ""
    # Nodes that had this loss, and are as good as the others by their latest run
    mended: tuple[str, ...] = ()

    def explains(self, verdicts: Iterable[MetricVerdict]) -> bool:
        """Return whether the trait's typical loss explains all bad verdicts on one of its nodes.

        It explains a loss that is within its limit after the typical loss is removed. The worst verdict must
        be on a metric in which the trait's nodes are worse.
        """
        bad = [one for one in verdicts if one.outcome in (Outcome.FAIL, Outcome.MARGINAL)]
        worst = min(bad, key=lambda one: one.severity, default=None)
        if worst is None or self._typical(worst) >= 1:
            return False
        return all(
            one.similarity is not None
            and one.threshold is not None
            and one.similarity / self._typical(one) >= one.threshold
            for one in bad
        )

    def _typical(self, verdict: MetricVerdict) -> float:
        """Return the typical similarity of the trait's nodes in a verdict's metric or component."""
        found = [
            one.similarity
            for one in self.metrics
            if one.worse
            and (
                whole_of(one.component) == verdict.benchmark
                or (one.benchmark, one.metric.name) == (verdict.benchmark, verdict.metric)
            )
        ]
        return min(found, default=1.0)

    @property
    def worse(self) -> bool:
        """Whether they are worse in the metric that differs most, or are rejected more often."""
        return not self.metrics or self.metrics[0].worse


SLOW_PART = "slow part"
"""Trait of nodes on which the same bridge or NUMA node explains slow devices. Only its frequency is tested:
that such nodes are slow is how they were found, and excuses none of them."""
MIN_NODES = 5
"""Fewest nodes of a trait, and of the others: of four nodes, three may be slow independently."""
MIN_MOMENTS = 6
"""Fewest moments, a day at least each, that are searched for a drift, as for the cycles of a soak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftMoment:
    """A period of a drift."""

    begin: float  # when it begins, seconds since 1970
    end: float  # when it ends
    nodes: int  # how many nodes were measured in it
    middle: float  # median of their values, relative to the typical value of the class
    low: float  # their tenth percentile
    high: float  # their ninetieth percentile


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDrift:
    """A metric over time on all nodes of a class."""

    hardware_class: str  # the class
    benchmark: str  # benchmark id
    metric: Metric  # the metric
    component: str  # the part of the node that it measures
    moments: tuple[DriftMoment, ...]  # periods with runs, in order
    # Similarity of the last third's typical value to that of the first; 1 if it is no worse
    similarity: float
    # Chance of such an order without a drift, over all metrics; 1 if it was not tested
    chance: float
    drifts: bool  # whether it became worse, by a costly and significant amount

    @property
    def searched(self) -> bool:
        """Whether its moments are enough to tell a drift from chance."""
        return len(self.moments) >= MIN_MOMENTS

    @property
    def size(self) -> str:
        """How much worse the last third is: ``3.1 % slower``."""
        return loss_text(self.similarity, self.metric.better, self.metric.unit)
