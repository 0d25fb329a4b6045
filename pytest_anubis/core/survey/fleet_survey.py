"""What concerns many nodes together: traits that separate slow ones from the others, metrics that drift."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_anubis.core.metric import Metric, loss_text, whole_of
from pytest_anubis.core.verdict import MetricVerdict, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftedMetric:
    """A metric by which the nodes of a trait differ from the others of their class.

    Attributes:
        benchmark: Benchmark id.
        metric: The metric.
        component: The part of the node that it speaks of.
        similarity: Typical value of these nodes to that of the others, below 1.
        worse: Whether these nodes are the worse ones, else the better ones.
        apart: Chance that one of them is worse (better) than one of the others: 1 is complete separation.
        chance: Chance of such a separation where the trait has nothing to do with it, over all that was
            tried.
    """

    benchmark: str
    metric: Metric
    component: str
    similarity: float
    worse: bool
    apart: float
    chance: float

    @property
    def size(self) -> str:
        """How much worse they are: ``8.1 % slower``; of better ones how much worse the others are."""
        return loss_text(self.similarity, self.metric.better, self.metric.unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraitShift:
    """Nodes that share a trait and stand apart from the others of their class.

    Attributes:
        hardware_class: Their class.
        trait: Name of the trait, e.g. ``batch`` or ``driver nvidia``.
        value: Its value.
        nodes: The nodes of that value that were measured, sorted.
        others: How many nodes of the class have another value.
        metrics: What differs, the largest difference first; empty where only their decisions do.
        aliases: Other traits that pick nearly the same nodes, ``name value`` each: nothing tells them apart.
        rejected: How many of `nodes` are rejected.
        rejected_others: How many of the others are.
        beside: The value that all of the others have; empty where they have several, or some have none.
        mended: Nodes that had what these lose, and are as good as the others by their latest run.
    """

    hardware_class: str
    trait: str
    value: str
    nodes: tuple[str, ...]
    others: int
    metrics: tuple[ShiftedMetric, ...]
    aliases: tuple[str, ...] = ()
    rejected: int = 0
    rejected_others: int = 0
    beside: str = ""
    mended: tuple[str, ...] = ()

    def explains(self, told: Iterable[MetricVerdict]) -> bool:
        """Return whether all that is bad on one of its nodes is what the trait costs all of them.

        A loss is explained if it is within its limit once what the trait's nodes typically lose is taken out;
        the worst one must be in what they lose.

        Args:
            told: What is known of the node.
        """
        bad = [one for one in told if one.outcome in (Outcome.FAIL, Outcome.MARGINAL)]
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
        """Return the typical similarity of the trait's nodes in the metric, or component, of a verdict."""
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
        """Whether they are the worse ones in what differs most, or are rejected more often."""
        return not self.metrics or self.metrics[0].worse


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftMoment:
    """One stretch of time of a drift.

    Attributes:
        begin: When it begins, seconds since 1970.
        end: When it ends.
        nodes: How many nodes were measured in it.
        middle: Median of what they delivered, relative to what is typical of the class.
        low: The tenth percentile of that.
        high: The ninetieth.
    """

    begin: float
    end: float
    nodes: int
    middle: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDrift:
    """A metric over time on all nodes of a class.

    Attributes:
        hardware_class: The class.
        benchmark: Benchmark id.
        metric: The metric.
        component: The part of the node that it speaks of.
        moments: Stretches of time in order, those without a run left out.
        similarity: Typical value of the last third of them to that of the first, 1 where nothing is worse.
        chance: Chance of such an order where nothing drifts, over all metrics; 1 where it was not looked for.
        drifts: Whether it became worse, costly enough and by no accident.
    """

    hardware_class: str
    benchmark: str
    metric: Metric
    component: str
    moments: tuple[DriftMoment, ...]
    similarity: float
    chance: float
    drifts: bool

    @property
    def size(self) -> str:
        """How much worse the last third is: ``3.1 % slower``."""
        return loss_text(self.similarity, self.metric.better, self.metric.unit)
