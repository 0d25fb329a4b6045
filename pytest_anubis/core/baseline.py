"""Criteria and baselines: what was learned to be normal for one hardware class."""

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
"""Practical threshold unless somebody states another: the paper's."""
ERROR_RATE = 0.01
"""Chance that a healthy node is rejected unless somebody states another: about a hundred nodes to learn from
support 1 % (`tails.nodes_needed`), 0.1 % would take a thousand."""
VIRTUAL = "virtual"
"""Attribute ``memory`` of a class of virtual machines: their hypervisor may change it."""
MOST_MEDIANS = 101
"""Most healthy medians that a criterion keeps: percentiles to one percent."""

HALF, TWO_THIRDS = 0.5, 2 / 3
"""Loss of the rate that a metric must show to carry the acceptance of its component (a time has doubled), and
the same of storage that others share unseen, whose own modes differ by a half."""
LEAST_SIMILAR = 0.02
"""Lowest threshold of a criterion: a unit at a hundredth of what is normal is .01 alike, and must fail."""
LEAST_CENTRE = 1e-12
"""Smallest centre of what should be high: rates in their units are a million times that at the least."""
MOST_CENTRE = 1e28
"""Largest centre: no quantity comes near, and what is a hundred times as large is a sample still."""
MOST_NEEDED = 1_000_000
"""Most values that a criterion may ask a sample for: what is learned asks for five."""


DOUBTFUL = "doubtful-values"
"""Kind of a `Finding`: values that somebody must look at, since they are too good or wrong on many nodes."""


SEPARATES = " separates them"
"""Follows the name of the attribute that distinguishes two groups of nodes, where they are reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondPopulation:
    """A slower group of units that may be as healthy as the others, and what was decided about it."""

    typical: NotNegative  # median of its centre, in the metric's unit
    members: Count  # nodes of it; devices where most of these have faster ones too
    whole: Count  # of how many
    threshold: Share  # similarity to the faster group that its own units keep
    alpha: Share  # practical threshold that holds for the faster group
    separates: str = ""  # what separates the groups, in words; empty if nothing known does
    decided: Literal["", "both", "faster"] = ""  # empty: not decided yet
    before: Share | None = None  # learned threshold before both were accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """What is normal for one metric of one benchmark (in one group) of one hardware class.

    Attributes:
        benchmark: Benchmark id.
        metric: The metric, with unit and direction; a sample in another unit is never compared.
        component: The part of the node that is blamed when the metric is bad.
        group: Label of the comparable units; empty if there is none.
        scope: ``unit``: one device on its own; ``node``: all values of a node pooled.
        centre: The centre distribution: ascending values, each with equal weight, in the metric's unit.
        alpha: Practical threshold: a one-sided similarity below it is a loss that matters.
        learned: Learned threshold: a one-sided similarity below it is outside the healthy spread at the
            baseline's error rate; None when too few nodes support one, then alpha alone decides.
        unconfirmed: The learned threshold for a loss that too few looks have confirmed, where that
            is another one: on one machine, noise that passes within seconds makes it much lower.
        look: Similarity below which a unit is as likely sick as healthy, and is to be looked at; None where
            nothing tells.
        spread: Scale of the healthy one-sided distances (the per-metric scale of the max-T method).
        repeatability: Mean pairwise two-sided similarity of the healthy samples.
        detectable: Smallest uniform relative loss that gives FAIL in 95 % of cases, as a fraction.
        second: A slower group of units that may be as healthy; its losses are MARGINAL until
            somebody decides.
        medians: Medians of the healthy units, ascending (at most `MOST_MEDIANS` quantiles): for percentiles.
        nodes: How many distinct healthy nodes the criterion rests on.
        units: How many healthy units (devices of nodes, or runs of one machine).
        devices: Devices that most of the healthy nodes have it from, sorted: all of them must answer the
            criterion. Empty in older baselines, and where nodes have no device in common.
        least: Fewest values of a sample that can be judged.
        weak: True when only three or four units support it.
        window: (warm-up, length) of the shortest window of values that is enough, if one was found.
        change_rate: Chance, per value in time order, that a healthy unit changes for the worse within a run;
            None in older baselines, and where no sample was long enough to tell.
        notes: Sentences for people, e.g. how many nodes a learned threshold would need.
        shared: It is of a virtual machine's disk, whose storage others use unseen.
    """

    benchmark: str
    metric: Annotated[Metric, Flat(name="metric")]
    component: str = ""
    group: str = ""
    scope: Scope = "unit"
    centre: tuple[NotNegative, ...]
    alpha: Share = ALPHA
    learned: Annotated[Share | None, Alias("limit")] = None
    unconfirmed: Annotated[Share | None, Alias("hasty")] = None
    look: Annotated[Share | None, Rare] = None
    spread: NotNegative = 0.0
    repeatability: Share | None = None
    detectable: NotNegative | None = None
    medians: tuple[NotNegative, ...] = ()
    nodes: Count = 0
    units: Count = 0
    devices: tuple[str, ...] = ()
    least: Annotated[int, Range(least=1)] = 1
    weak: bool = False
    window: tuple[Count, Annotated[int, Range(least=1)]] | None = None
    second: SecondPopulation | None = None
    change_rate: Annotated[float, Range(above=0, most=0.5)] | None = None
    notes: tuple[str, ...] = ()
    shared: Annotated[bool, Rare] = False

    @property
    def typical(self) -> float:
        """The centre's median, in the metric's unit."""
        last = len(self.centre) - 1
        return (self.centre[last // 2] + self.centre[(last + 1) // 2]) / 2  # it is in order

    @property
    def apart(self) -> float:
        """Similarity below which a unit is nearer to an open slower group than to this one; 0 without any.

        Few units leave limits so wide that the group itself would pass, and it is not decided that it may.
        """
        if (
            self.second is None
            or self.second.decided
            or not self.typical
            or not self.second.typical
        ):
            return 0.0
        ratio = self.second.typical / self.typical
        return (1 + min(ratio, 1 / ratio)) / 2

    @property
    def rejects_below(self) -> float:
        """The similarity below which a sample fails: below both thresholds."""
        return min(self.alpha, 1.0 if self.learned is None else self.learned)

    @property
    def shown_loss(self) -> float | None:
        """The smallest loss that is found, as a share of the rate: 30 times as long is a loss of 97 %."""
        if self.detectable is None:
            return None
        lower = self.metric.better == "lower"
        return self.detectable / (1 + self.detectable) if lower else self.detectable

    @property
    def coarse(self) -> bool:
        """Whether noise, and no alpha that somebody chose, hides a loss of a half: it accepts nothing.

        What others share unseen loses nearly that much by itself: of it a loss of two thirds has to show.
        """
        learned = min(one for one in (self.learned, self.unconfirmed, 1.0) if one is not None)
        chosen = self.alpha < min(ALPHA, learned + 1e-6)  # files keep eight digits
        most = TWO_THIRDS if self.shared else HALF
        return (self.shown_loss or 0.0) > most and not chosen


def cannot_fail(criterion: Criterion) -> str:
    """Say why no sample could ever be judged FAIL by a criterion, or return an empty string.

    Whatever else it says, a unit at a hundredth of what is normal (for ``lower``: at a hundred times that)
    must fail; it is `LEAST_SIMILAR` at most to the centre.
    """
    better, top = criterion.metric.better, max(criterion.centre, default=0.0)
    if criterion.least > MOST_NEEDED:
        return f"no sample has the {criterion.least} values that it asks for"
    if better == "equal":
        return ""
    thresholds = (criterion.alpha, criterion.learned, criterion.unconfirmed)
    lowest = min(threshold for threshold in thresholds if threshold is not None)
    if lowest < LEAST_SIMILAR:
        return f"a threshold of {lowest:g} is below {LEAST_SIMILAR:g}, so no loss is too large"
    if better == "higher" and top < LEAST_CENTRE:
        return f"its centre is nothing ({top:g}), and no value is below that"
    if top > MOST_CENTRE:
        return f"its centre is endless ({top:g}), and no sample is so large"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCheck:
    """A test without a metric that most healthy nodes passed: a node that has not run it was not checked so.

    Attributes:
        test: Benchmark id, or node id of a test that is none.
        devices: Devices that most of these nodes passed it on, sorted; ``node`` where it has none of its own.
        component: The part of the node that it is about; empty without a mark and in older baselines.
    """

    test: str
    devices: tuple[str, ...] = ()
    component: str = ""


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
    """Something the learning noticed that people should look at."""

    kind: str  # ``second-population``, ``no-criterion``, ``not-repeatable``, ``class-shift``, ...
    text: str  # one or two sentences
    benchmark: str = ""  # benchmark id, empty when it concerns the whole class
    metric: str = ""  # metric name, empty when it concerns all


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """A metric that was measured and has no criterion, and why."""

    benchmark: str
    metric: str
    reason: str
    component: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedBy:
    """How many nodes of its own fleet a metric rejects, and how many of them no other metric does."""

    benchmark: str
    metric: str
    nodes: Count
    alone: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlikeNode:
    """A node that was learned from and is rejected, or is no healthy one, with its clearest sign."""

    node: str
    benchmark: str  # of what it is worst in
    metric: str  # name of that metric
    device: str = ""  # device that is worst; empty where all of the node's values are meant
    component: str = ""  # the part to blame
    similarity: Share  # one-sided, to the criterion's centre
    unit: str = ""  # the metric's unit
    better: str = ""
    rejected: bool = True  # whether any criterion rejects it
    failure: str = ""  # how its test failed, which rejects whatever the values are


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCheck:
    """What the limits do to the very fleet that they were learned from, each node judged without itself."""

    nodes: Count  # how many nodes were judged
    rejected: Count  # how many of them are rejected
    sick: Count  # how many nodes are likely no part of the healthy population
    rate: Share  # share of the healthy ones that is rejected
    upper: Share  # upper end of its 95 % interval
    holds: bool  # whether the stated rate lies within what was seen
    worst: tuple[RejectedBy, ...] = ()  # metrics that reject most nodes, most first
    unlike: tuple[UnlikeNode, ...] = ()  # rejected or not healthy, worst first

    @property
    def own_rejected(self) -> float:
        """Share of its own nodes that it rejects, sick ones too if that is more."""
        return max(self.rate, self.rejected / max(self.nodes, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """All criteria of one hardware class, with where they came from.

    Attributes:
        hardware_class: Readable key of the class.
        attributes: What the key was made of (accelerator, cpu, memory, driver, profile, ...).
        criteria: One per (benchmark, metric, group, scope).
        created: Date and time of learning, ISO 8601, UTC.
        nodes: Distinct nodes learned from.
        runs: Ids of the runs learned from.
        one_machine: True when all runs are of one node: its units are runs, their spread is the noise.
        error_rate: Stated chance that a healthy node is rejected, None when only alpha decides.
        confidence: Confidence of that rate as a tolerance limit; None when it holds on average only.
        factor: The common factor of the max-T method; None when only alpha decides.
        method: ``median`` or ``medoid``.
        exclusions: Units left out, with reasons.
        findings: What the learning noticed.
        checks: Tests without a metric that every node must pass as well; empty in older baselines.
        unjudged: Metrics that were measured and have no criterion.
        self_check: What the limits do to the fleet that they were learned from; None for one machine and in
            older baselines.
        promises: Component or metric (empty: all) -> loss that must fail, as a fraction of the value.
        together: Criteria of whole components, of the mean of their rates (`component_means`).
        machine: How the one machine is known again (its `identity_marks`); empty for a fleet and in
            older baselines.
        inventory: The majority's inventory (golden inventory) of the class, plain data; may be empty.
        digest: Content digest, ``sha256:`` and 12 hexadecimal digits; set by the store.
    """

    hardware_class: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    criteria: tuple[Criterion, ...]
    created: str
    nodes: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    one_machine: bool = False
    error_rate: Share | None = None
    confidence: Share | None = None
    factor: NotNegative | None = None
    method: Method = "median"
    exclusions: tuple[Exclusion, ...] = ()
    findings: tuple[Finding, ...] = ()
    checks: tuple[PlainCheck, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    self_check: SelfCheck | None = None
    promises: Mapping[str, NotNegative] = field(default_factory=dict)
    together: Annotated[tuple[Criterion, ...], Rare] = ()
    machine: tuple[str, ...] = ()
    inventory: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""

    @property
    def reference(self) -> Reference:
        """What a verdict by it was compared with."""
        return Reference.MACHINE if self.one_machine else Reference.FLEET

    @property
    def undecided(self) -> tuple[str, ...]:
        """Metrics with a slower group of units that nobody has decided about yet."""
        groups = (c for c in self.criteria if c.second is not None and not c.second.decided)
        return tuple(dict.fromkeys(criterion.metric.name for criterion in groups))

    def find(
        self, benchmark: str, metric: str, *, group: str = "", scope: Scope = "unit"
    ) -> Criterion | None:
        """Return the criterion for one metric, or None."""
        for criterion in self.criteria:
            if (criterion.benchmark, criterion.metric.name, criterion.group, criterion.scope) == (
                benchmark,
                metric,
                group,
                scope,
            ):
                return criterion
        return None
