"""What the pages of a fleet show, as plain values: nodes, metrics, a cell for each pair, what they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.metric import Metric, loss_size, loss_text
from pytest_anubis.core.survey.fleet_survey import MetricDrift, TraitShift
from pytest_anubis.core.verdict import Decision, Outcome, Reason
from pytest_anubis.report.text.node_row import NodeRow

LEVELS = (0.01, 0.03, 0.06, 0.12, 0.25)
"""Losses at which the shade of a cell changes: from a fifth of the loss that matters by default (5 %) up,
each about twice the one before, as eyes tell shades."""
MARKS = {
    Outcome.FAIL: "\N{BLACK DIAMOND}",
    Outcome.MARGINAL: "\N{WHITE DIAMOND}",
    Outcome.INCONCLUSIVE: "\N{WHITE CIRCLE}",
    Outcome.NOT_TESTED: "\N{EN DASH}",
    Outcome.PASS: "",
}
"""As in the dossier's plots: a diamond is bad, a ring undecided; the worst first."""
OUTCOME_ORDER = tuple(MARKS)
FINE = "\N{MIDDLE DOT}"
"""In a cell that passed without a loss worth a number."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CellKind:
    """What a cell of the heat map says; in order, the worst first.

    Attributes:
        rank: Place of its outcome.
        similarity: Rounded to a thousandth; 2 where nothing was compared and nothing failed.
        text: The same in words: ``FAIL, 12 % slower``.
        level: Shade, 0 to 5.
    """

    rank: int
    similarity: float
    outcome: str
    short: str
    text: str
    level: int


def cell_kind(
    outcome: Outcome, reason: Reason, similarity: float | None, better: str, unit: str
) -> CellKind:
    """Return what a cell says.

    Args:
        outcome: The verdict.
        reason: Why; it is said where there is no similarity.
        similarity: One-sided, rounded to a thousandth; None where nothing was compared.
        better: The metric's direction.
        unit: Its unit.
    """
    rank, mark = OUTCOME_ORDER.index(outcome), MARKS[outcome]
    if similarity is None or better == "equal":
        fine = outcome is Outcome.PASS
        text = outcome.value if fine else f"{outcome.value}, {reason.value}"
        bad = "failed" if reason is Reason.TEST_FAILED else "wrong"
        short = FINE if fine else f"{mark} {bad if outcome is Outcome.FAIL else ''}".strip()
        level = len(LEVELS) if outcome is Outcome.FAIL else 0
        return CellKind(
            rank=rank, similarity=0.0 if outcome is Outcome.FAIL else 2.0, outcome=outcome.value,
            short=short, text=text, level=level,
        )  # fmt: skip
    loss = 1 - similarity
    size = loss_size(similarity, better)
    plain = outcome is Outcome.PASS and loss < LEVELS[0]
    return CellKind(
        rank=rank,
        similarity=similarity,
        outcome=outcome.value,
        short=FINE if plain else f"{mark} {size}".strip(),
        text=f"{outcome.value}, {loss_text(similarity, better, unit)}",
        level=sum(loss >= edge for edge in LEVELS),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNode:
    """One node of the fleet in one hardware class.

    Attributes:
        row: Its decision with what it rests on.
        link: Its dossier's place next to the page; empty without one.
        traits: What the register and its inventory say of it: rack, batch, driver.
        anchors: Number of a metric -> place within the dossier where it is drawn.
        filed: Without a baseline what a history has of it: the decision and its day; else empty.
    """

    row: NodeRow
    link: str = ""
    traits: Mapping[str, str] = field(default_factory=dict)
    anchors: Mapping[int, str] = field(default_factory=dict)
    filed: str = ""

    @property
    def name(self) -> str:
        """The node's name."""
        return self.row.verdict.node

    def place_of(self, metric: int) -> str:
        """Return the place of a metric, by its number, in the node's dossier; empty without a dossier."""
        anchor = self.anchors.get(metric, "")
        return f"{self.link}#{anchor}" if self.link and anchor else self.link


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassMetric:
    """One metric of one hardware class (and group, where there are several).

    Attributes:
        group: Label of the comparable units; empty if there is none.
        failed: Nodes of the class that fail by the metric.
        worst: Lowest similarity of the class; None where nothing was compared.
        healthy: Medians of samples that passed, in the metric's unit.
        bad: Unit -> median, of those that are FAIL or MARGINAL, the worst first.
        limit: Median at which a unit would just be rejected; None where nothing tells.
    """

    hardware_class: str
    group: str = ""
    failed: int = 0
    marginal: int = 0
    worst: float | None = None
    healthy: Sequence[float] = ()
    bad: Mapping[str, float] = field(default_factory=dict)
    criterion: Criterion | None = None
    limit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMetric:
    """One metric over the whole fleet.

    Attributes:
        label: What it is called: its name, with its test where another metric has the same name.
        link: Its page's place next to the page of the fleet.
        failed: Nodes that fail by it.
        worst: Lowest similarity; None where nothing was compared.
    """

    benchmark: str
    metric: Metric
    component: str
    label: str
    link: str = ""
    classes: tuple[ClassMetric, ...] = ()
    failed: int = 0
    marginal: int = 0
    worst: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkTime:
    """What a benchmark cost: the seconds of all its tests together, how many, and on how many nodes."""

    benchmark: str
    component: str
    seconds: float
    tests: int
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """A whole fleet, as its pages show it.

    Attributes:
        nodes: The worst first.
        metrics: Those with most failures first.
        kinds: What cells say, the worst first.
        cells: For each node and metric the number of its kind, -1 where it was not measured.
        traits: Names of the nodes' traits that are worth a column or a filter.
        shifts: Traits that separate nodes, those of slow nodes first.
        drifts: Metrics over time, those that drift first.
        findings: What concerns a class as a whole, one sentence each.
        notes: What else is to be known, one sentence each.
        unjudged: That nodes were held against no baseline and what to do about it, and what is filed of
            them; one sentence each.
        held_against: The baselines that judged them, one sentence each.
        without_run: How many registered nodes have no run yet, in one sentence; empty where all have one.
        times: What the benchmarks cost, the dearest first; empty where no run says so.
        runs: How many runs it rests on.
        first: When the first run began, ISO 8601; empty if unknown.
        last: When the last one did.
    """

    nodes: tuple[FleetNode, ...]
    metrics: tuple[FleetMetric, ...]
    kinds: tuple[CellKind, ...]
    cells: Sequence[Sequence[int]]
    traits: tuple[str, ...] = ()
    shifts: tuple[TraitShift, ...] = ()
    drifts: tuple[MetricDrift, ...] = ()
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    held_against: tuple[str, ...] = ()
    without_run: str = ""
    times: tuple[BenchmarkTime, ...] = ()
    runs: int = 0
    first: str = ""
    last: str = ""

    def of(self, decision: Decision) -> list[FleetNode]:
        """Return the nodes of a decision, the worst first."""
        return [node for node in self.nodes if node.row.verdict.decision is decision]

    @property
    def is_one_page(self) -> bool:
        """Whether no metric has a page of its own."""
        return not any(one.link for one in self.metrics)

    @property
    def has_several_classes(self) -> bool:
        """Whether the nodes are of more than one hardware class."""
        return len({node.row.hardware_class for node in self.nodes}) > 1

    @property
    def drifting(self) -> list[MetricDrift]:
        """What drifts, the greatest loss first."""
        return [one for one in self.drifts if one.drifts]

    @property
    def places(self) -> dict[tuple[str, str], int]:
        """(benchmark, metric) -> number of the metric."""
        return {(one.benchmark, one.metric.name): n for n, one in enumerate(self.metrics)}
