"""Criteria and baselines: the learned normal values of one hardware class, with what learning found.

`validator.learning` makes them; the findings, exclusions and self-check are for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pytest_anubis.core.field_types import Alias, Count, Flat, NotNegative, Range, Rare, Share
from pytest_anubis.core.metric import Metric
from pytest_anubis.core.verdict import Reference

Scope = Literal["unit", "node"]
Method = Literal["median", "medoid"]

ALPHA = 0.95
"""Default of the practical threshold, as in the paper."""
ERROR_RATE = 0.01
"""Default of the chance that a healthy node is rejected: learning from a hundred nodes supports 1 %
(`tails.nodes_needed`), 0.1 % would take a thousand."""
VIRTUAL = "virtual"
"""Attribute ``memory`` of a class of virtual machines, whose hypervisor may change it."""
MAX_MEDIANS = 101
"""Healthy medians that a criterion keeps: percentiles to one percent."""

HALF = 0.5
"""Loss of the rate that a metric must show to carry the acceptance of its component (a time has doubled)."""
TWO_THIRDS = 2 / 3
"""The same for shared storage of a virtual machine, whose normal speeds differ by a half."""
MIN_THRESHOLD = 0.02
"""Lowest threshold of a criterion: a unit at a hundredth of the normal rate (.01) must fail."""
MIN_CENTRE = 1e-12
"""Smallest centre where higher is better: rates are at least a million times as large in their units."""
MAX_CENTRE = 1e28
"""Largest centre: no quantity comes near it, and a hundred times as much is still a valid sample."""
MAX_NEEDED = 1_000_000
"""Values that a criterion may require of a sample; learned criteria require five."""


DOUBTFUL = "doubtful-values"
"""Kind of a `Finding`: values that are too good or wrong on many nodes, and must be checked."""


SEPARATES = " separates them"
"""Words after the name of the attribute that distinguishes two groups of nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondPopulation:
    """A slower group of units that may be healthy, and the decision about it."""

    typical: NotNegative  # median of its centre, in the metric's unit
    members: Count  # its nodes; or its devices, if most of these nodes have faster devices too
    whole: Count  # all nodes or devices
    threshold: Share  # similarity to the faster group that its own units keep
    alpha: Share  # practical threshold of the faster group
    separates: str = ""  # the attribute that separates the groups, in words; empty if unknown
    decided: Literal["", "both", "faster"] = ""  # empty: not decided yet
    before: Share | None = None  # learned threshold before both were accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """The normal values of one metric of one benchmark (in one group) of one hardware class."""

    benchmark: str  # benchmark id
    # The metric, with unit and direction; a sample in another unit is never compared
    metric: Annotated[Metric, Flat(name="metric")]
    component: str = ""  # the part of the node that is blamed when the metric is bad
    group: str = ""  # label of the comparable units; empty if there is none
    scope: Scope = "unit"  # ``unit``: one device on its own; ``node``: all values of a node pooled
    # The centre distribution: ascending values, each with equal weight, in the metric's unit
    centre: tuple[NotNegative, ...]
    # Practical threshold: a one-sided similarity below it is a loss that matters
    alpha: Share = ALPHA
    # Learned threshold: a one-sided similarity below it is outside the healthy spread at the
    # baseline's error rate; None if too few nodes support one, then alpha alone decides
    learned: Annotated[Share | None, Alias("limit")] = None
    # The learned threshold for a loss that too few looks have confirmed, if it differs: on one
    # machine, noise that passes within seconds makes it much lower
    unconfirmed: Annotated[Share | None, Alias("hasty")] = None
    # Similarity below which a unit is as likely sick as healthy, and should be looked at; None if
    # unknown
    look: Annotated[Share | None, Rare] = None
    # Scale of the healthy one-sided distances (the per-metric scale of the max-T method)
    spread: NotNegative = 0.0
    repeatability: Share | None = None  # mean pairwise two-sided similarity of the healthy samples
    # Smallest uniform relative loss that gives FAIL in 95 % of cases, as a fraction
    detectable: NotNegative | None = None
    # Medians of the healthy units, ascending (at most `MAX_MEDIANS` quantiles): for percentiles
    medians: tuple[NotNegative, ...] = ()
    nodes: Count = 0  # how many distinct healthy nodes support the criterion
    units: Count = 0  # how many healthy units do (devices of nodes, or runs of one machine)
    # Devices that most healthy nodes have, sorted: all of them must have a value. Empty if nodes
    # have no device in common.
    devices: tuple[str, ...] = ()
    least: Annotated[int, Range(least=1)] = 1  # fewest values of a sample that can be judged
    weak: bool = False  # only three or four units support it
    # (warm-up, length) of the shortest window of values that is enough, if one was found
    window: tuple[Count, Annotated[int, Range(least=1)]] | None = None
    # A slower group of units that may be healthy; its losses are MARGINAL until it is decided
    second: SecondPopulation | None = None
    # Chance, per value in time order, that a healthy unit changes for the worse within a run; None
    # if no sample was long enough
    change_rate: Annotated[float, Range(above=0, most=0.5)] | None = None
    # Sentences for people, e.g. how many nodes a learned threshold would need
    notes: tuple[str, ...] = ()
    # It is of a virtual machine's disk, whose storage other guests may use
    shared: Annotated[bool, Rare] = False

    @property
    def typical(self) -> float:
        """The centre's median, in the metric's unit."""
        last = len(self.centre) - 1
        return (self.centre[last // 2] + self.centre[(last + 1) // 2]) / 2

    @property
    def apart(self) -> float:
        """Similarity below which a unit is nearer to an undecided slower group than to this one; or 0.

        Limits learned from few units may be so wide that the slower group itself would pass.
        """
        second = self.second
        if second is None or second.decided or not self.typical or not second.typical:
            return 0.0
        ratio = second.typical / self.typical
        return (1 + min(ratio, 1 / ratio)) / 2

    @property
    def rejects_below(self) -> float:
        """The similarity below which a sample fails: the lower of both thresholds."""
        return min(self.alpha, 1.0 if self.learned is None else self.learned)

    @property
    def shown_loss(self) -> float | None:
        """The smallest detectable loss as a share of the rate: 30 times as long is a loss of 97 %."""
        if self.detectable is None:
            return None
        lower = self.metric.better == "lower"
        return self.detectable / (1 + self.detectable) if lower else self.detectable

    @property
    def coarse(self) -> bool:
        """Whether noise hides a loss of a half, so that the metric can fail a node but accept none.

        Shared storage loses nearly a half by itself, so only a loss of two thirds counts for it. A criterion
        whose alpha the user lowered is not coarse.
        """
        learned = min(one for one in (self.learned, self.unconfirmed, 1.0) if one is not None)
        chosen = self.alpha < min(ALPHA, learned + 1e-6)  # files keep eight digits
        most = TWO_THIRDS if self.shared else HALF
        return (self.shown_loss or 0.0) > most and not chosen


def cannot_fail(criterion: Criterion) -> str:
    """Return why no sample could ever be judged FAIL by a criterion, or an empty string.

    A unit at a hundredth of the normal rate, or at a hundred times the normal time, must fail.
    """
    better, top = criterion.metric.better, max(criterion.centre, default=0.0)
    if criterion.least > MAX_NEEDED:
        return f"no sample has the {criterion.least} values that it asks for"
    if better == "equal":
        return ""
    thresholds = (criterion.alpha, criterion.learned, criterion.unconfirmed)
    lowest = min(threshold for threshold in thresholds if threshold is not None)
    if lowest < MIN_THRESHOLD:
        return f"a threshold of {lowest:g} is below {MIN_THRESHOLD:g}, so no loss is too large"
    if better == "higher" and top < MIN_CENTRE:
        return f"its centre is nothing ({top:g}), and no value is below that"
    if top > MAX_CENTRE:
        return f"its centre is endless ({top:g}), and no sample is so large"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCheck:
    """A test without a metric that most healthy nodes passed, and every node must pass."""

    test: str  # benchmark id, or node id of a test that is no benchmark
    # Devices on which most of these nodes passed it, sorted; ``node`` if it is bound to none
    devices: tuple[str, ...] = ()
    component: str = ""  # the part of the node that it tests; empty without a mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """A unit whose sample took no part in learning, and why."""

    node: str
    device: str
    benchmark: str
    metric: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An observation of the learning that people should look at."""

    kind: str  # ``second-population``, ``no-criterion``, ``not-repeatable``, ``class-shift``, ...
    text: str  # one or two sentences
    benchmark: str = ""  # benchmark id, empty when it concerns the whole class
    metric: str = ""  # metric name, empty when it concerns all


EDITED = "edited"
"""Kind of the finding that a baseline was edited by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """A metric that was measured and has no criterion, and why."""

    benchmark: str
    metric: str
    reason: str
    component: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedBy:
    """How many nodes of the baseline's own fleet one metric rejects, and how many only this one."""

    benchmark: str
    metric: str
    nodes: Count
    alone: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlikeNode:
    """A node in the runs of the baseline that is rejected or not healthy, with its worst metric."""

    node: str
    benchmark: str  # benchmark of the worst metric
    metric: str  # name of that metric
    device: str = ""  # the worst device; empty for all values of the node
    component: str = ""  # the part to blame
    similarity: Share  # one-sided, to the criterion's centre
    unit: str = ""  # the metric's unit
    better: str = ""
    rejected: bool = True  # whether any criterion rejects it
    failure: str = ""  # failure of its test, which rejects whatever the values are


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCheck:
    """The result of judging the fleet by its own limits, each node by limits learned without it."""

    nodes: Count  # how many nodes were judged
    rejected: Count  # how many of them are rejected
    sick: Count  # how many nodes are likely no part of the healthy population
    rate: Share  # share of the healthy ones that is rejected
    upper: Share  # upper end of its 95 % interval
    holds: bool  # whether the stated error rate agrees with these numbers
    worst: tuple[RejectedBy, ...] = ()  # metrics that reject most nodes, most first
    unlike: tuple[UnlikeNode, ...] = ()  # rejected or not healthy, worst first

    @property
    def own_rejected(self) -> float:
        """Share of its own nodes that it rejects, with sick ones if that is more."""
        return max(self.rate, self.rejected / max(self.nodes, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """All criteria of one hardware class, with their origin."""

    hardware_class: str  # readable key of the class
    # The parts of the key (accelerator, cpu, memory, driver, profile, ...)
    attributes: Mapping[str, str] = field(default_factory=dict)
    criteria: tuple[Criterion, ...]  # one per (benchmark, metric, group, scope)
    created: str  # date and time of learning, ISO 8601, UTC
    nodes: tuple[str, ...] = ()  # distinct nodes learned from
    runs: tuple[str, ...] = ()  # ids of the runs learned from
    # True when all runs are of one node: its units are runs, their spread is the noise
    one_machine: bool = False
    # Stated chance that a healthy node is rejected, None when only alpha decides
    error_rate: Share | None = None
    # Confidence of that rate as a tolerance limit; None when it holds on average only
    confidence: Share | None = None
    # The common factor of the max-T method; None when only alpha decides
    factor: NotNegative | None = None
    method: Method = "median"  # ``median`` or ``medoid``
    exclusions: tuple[Exclusion, ...] = ()  # units left out, with reasons
    findings: tuple[Finding, ...] = ()  # observations of the learning
    checks: tuple[PlainCheck, ...] = ()  # tests without a metric that every node must pass as well
    unjudged: tuple[Unjudged, ...] = ()  # metrics that were measured and have no criterion
    # How the limits judge the fleet that they were learned from; None for one machine
    self_check: SelfCheck | None = None
    # Component or metric (empty: all) -> loss that must fail, as a fraction of the value
    promises: Mapping[str, NotNegative] = field(default_factory=dict)
    # Criteria of whole components, for the mean of their rates (`component_means`)
    together: Annotated[tuple[Criterion, ...], Rare] = ()
    # Benchmarks of which most learning runs left out a part (a subtest)
    parted: Annotated[tuple[str, ...], Rare] = ()
    machine: tuple[str, ...] = ()  # the `identity_marks` of the only node; empty for a fleet
    # The majority's inventory (golden inventory) of the class, plain data; may be empty
    inventory: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""  # content digest, ``sha256:`` and 12 hexadecimal digits; set by the store

    @property
    def one_node(self) -> bool:
        """Whether it knows no other machine, also where that machine's cards or parts were its units."""
        return self.one_machine or len(self.nodes) == 1

    @property
    def reference(self) -> Reference:
        """The reference of verdicts by this baseline."""
        return Reference.MACHINE if self.one_machine else Reference.FLEET

    @property
    def undecided(self) -> tuple[str, ...]:
        """Metrics with a slower group of units that is not decided yet."""
        groups = (c for c in self.criteria if c.second is not None and not c.second.decided)
        return tuple(dict.fromkeys(criterion.metric.name for criterion in groups))

    def find(
        self, benchmark: str, metric: str, *, group: str = "", scope: Scope = "unit"
    ) -> Criterion | None:
        """Return the criterion for one metric, or None."""
        key = (benchmark, metric, group, scope)
        found = (c for c in self.criteria if (c.benchmark, c.metric.name, c.group, c.scope) == key)
        return next(found, None)
