"""The values that the pages of a fleet show: nodes, metrics, a cell for each pair, shared traits, drifts.

``cli/site/view_building.py`` fills a `FleetView`; the other modules of this folder render it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_anubis.core.baseline import Criterion
from pytest_anubis.core.fleet_survey import MetricDrift, TraitShift
from pytest_anubis.core.history import Defect
from pytest_anubis.core.metric import Metric, loss_size, loss_text
from pytest_anubis.core.validation_figures import ValidationFigures
from pytest_anubis.core.verdict import Decision, Outcome, Reason
from pytest_anubis.report.text.node_row import NodeRow

LEVELS = (0.01, 0.03, 0.06, 0.12, 0.25)
"""Losses at which the shade of a cell changes: from a fifth of the practical loss (5 % by default) up, each
about twice the one before, as eyes distinguish shades."""
MARKS = {
    Outcome.FAIL: "\N{BLACK DIAMOND}",
    Outcome.MARGINAL: "\N{WHITE DIAMOND}",
    Outcome.INCONCLUSIVE: "\N{WHITE CIRCLE}",
    Outcome.NOT_TESTED: "\N{EN DASH}",
    Outcome.PASS: "",
}
"""Outcome -> sign of a cell, the worst first; the dossier's plots use the same shapes."""
OUTCOME_ORDER = tuple(MARKS)
FINE = "\N{MIDDLE DOT}"
"""Content of a cell that passed without a loss worth a number."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CellKind:
    """A content that cells of the heat map have; sorted, the worst comes first."""

    rank: int  # place of the outcome in `OUTCOME_ORDER`
    similarity: float  # rounded to a thousandth; 2 where nothing was compared and nothing failed
    outcome: str
    short: str
    text: str  # outcome and loss in words: ``FAIL, 12 % slower``
    level: int  # shade, 0 to 5


def cell_kind(
    outcome: Outcome, reason: Reason, similarity: float | None, better: str, unit: str
) -> CellKind:
    """Return the content of a cell from its worst verdict; `similarity` is None where nothing was compared.

    The similarity is one-sided, rounded to a thousandth; without it the text gives the reason.
    """
    failed = outcome is Outcome.FAIL
    passed = outcome is Outcome.PASS
    if similarity is None or better == "equal":
        size = "" if not failed else "failed" if reason is Reason.TEST_FAILED else "wrong"
        text = outcome.value if passed else f"{outcome.value}, {reason.value}"
        fine = passed
        level = len(LEVELS) if failed else 0
        similarity = 0.0 if failed else 2.0
    else:
        size = loss_size(similarity, better)
        text = f"{outcome.value}, {loss_text(similarity, better, unit)}"
        level = sum(1 - similarity >= edge for edge in LEVELS)
        fine = passed and level == 0
    return CellKind(
        rank=OUTCOME_ORDER.index(outcome),
        similarity=similarity,
        outcome=outcome.value,
        short=FINE if fine else f"{MARKS[outcome]} {size}".strip(),
        text=text,
        level=level,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNode:
    """One node of the fleet in one hardware class."""

    row: NodeRow  # its decision, with the verdicts and facts behind it
    link: str = ""  # place of its dossier relative to the page; empty without one
    # Rack, batch, driver and the like, from the register and its inventory
    traits: Mapping[str, str] = field(default_factory=dict)
    # Number of a metric -> anchor of its plot in the dossier
    anchors: Mapping[int, str] = field(default_factory=dict)
    # Decision and day in the history, where nothing was judged for want of a baseline; else empty
    filed: str = ""
    # Earlier defects of its class that operators have closed, if it is bad
    closed: Sequence[Defect] = ()

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
    """One metric of one hardware class (and group, where there are several)."""

    hardware_class: str
    group: str = ""  # label of the comparable units; empty if there is none
    failed: int = 0  # number of nodes of the class that fail by the metric
    marginal: int = 0  # number of those that are MARGINAL
    worst: float | None = None  # lowest similarity of the class; None where nothing was compared
    healthy: Sequence[float] = ()  # medians of samples that passed, in the metric's unit
    # Unit -> median of its sample that is FAIL or MARGINAL, the worst first
    bad: Mapping[str, float] = field(default_factory=dict)
    criterion: Criterion | None = None
    # Median at which a unit would just be rejected; None where it is unknown
    limit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMetric:
    """One metric over the whole fleet."""

    benchmark: str
    metric: Metric
    component: str
    label: str  # its name, with its test where another metric has the same name
    link: str = ""  # place of its page relative to the page of the fleet
    classes: tuple[ClassMetric, ...] = ()
    failed: int = 0  # number of nodes that fail by it
    marginal: int = 0
    worst: float | None = None  # lowest similarity; None where nothing was compared


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkTime:
    """Cost of a benchmark: seconds of all its tests, number of tests, and number of nodes."""

    benchmark: str
    component: str
    seconds: float
    tests: int
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetView:
    """All that the pages of a fleet show."""

    nodes: tuple[FleetNode, ...]  # the worst first
    metrics: tuple[FleetMetric, ...]  # those with most failures first
    kinds: tuple[CellKind, ...]  # contents of cells, the worst first
    # For each node and metric the number of its kind, -1 where it was not measured
    cells: Sequence[Sequence[int]]
    traits: tuple[str, ...] = ()  # names of traits that are worth a column or a filter
    shifts: tuple[TraitShift, ...] = ()  # traits that separate nodes, those of slow nodes first
    drifts: tuple[MetricDrift, ...] = ()  # metrics over time, those that drift first
    findings: tuple[str, ...] = ()  # findings about whole classes, one sentence each
    notes: tuple[str, ...] = ()  # other facts, one sentence each
    # Why nodes were not judged, what to do, and what is filed of them, one sentence each
    unjudged: tuple[str, ...] = ()
    held_against: tuple[str, ...] = ()  # the baselines that judged them, one sentence each
    # Path and SHA-256 of what was judged, and of the baselines; empty on the index of a folder
    files: tuple[tuple[str, str], ...] = ()
    # Number of registered nodes without a run, in one sentence; empty where all have one
    without_run: str = ""
    # Costs of the benchmarks, the highest first; empty where the runs have no durations
    times: tuple[BenchmarkTime, ...] = ()
    # How validation itself does; None if it was not computed
    validation: ValidationFigures | None = None
    runs: int = 0
    first: str = ""  # start of the first run, ISO 8601; empty if unknown
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
        """The metrics that drift, the greatest loss first."""
        return [one for one in self.drifts if one.drifts]

    @property
    def places(self) -> dict[tuple[str, str], int]:
        """(benchmark, metric) -> number of the metric."""
        return {(one.benchmark, one.metric.name): n for n, one in enumerate(self.metrics)}
