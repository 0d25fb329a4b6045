"""Gather the inputs of a choice of benchmarks, and make the choice; for pytest runs and `anubis select`.

The inputs are gathered before the benchmarks are known, and equal inputs give equal choices in every process.
Missing knowledge is stated and leads to more benchmarks, never to fewer: without incidents or without defects
the full set runs, or what fits into a budget.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median

from pytest_anubis.core.history import Defect, Doubt, FleetHistory
from pytest_anubis.selector.choice.benchmark_choice import joint_risk, make_plan
from pytest_anubis.selector.choice.choice_plan import Mode, Plan
from pytest_anubis.selector.choice.coverage import Candidate, Coverage, learn_coverage
from pytest_anubis.selector.risk.choosing.backtest_record import MAX_LOG_HAZARD_ERROR
from pytest_anubis.selector.risk.drivers import risk_drivers
from pytest_anubis.selector.risk.forecast import NoRiskError, RiskModel, fit_risk, look_ahead
from pytest_anubis.selector.risk.incident_kinds import kind_mixes
from pytest_anubis.selector.risk.survival_rows import NodeRisk

UNKNOWN_COST = 60.0
"""Assumed seconds of a benchmark without a measured or declared duration, if no other benchmark has one."""
_NOMINAL_RISK = 0.5  # for an unknown risk: the set that exposes most is the same for every risk
_NORMAL_95 = 1.96  # standard deviations: 95 % of a normal distribution
_MAX_PROBABILITY = 1 - 1e-9  # with a finite hazard
_MIN_HAZARD = 1e-300  # used for 0, which has no logarithm


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A benchmark that could run, as declared by its author."""

    benchmark: str
    component: str = ""  # the part of a node that it exercises
    declared: float | None = None  # expected seconds of one of its tests; None if not declared
    # How many of its tests run one after the other: devices divided by parallel processes
    turns: int = 1
    pinned: bool = False  # whether it was named explicitly and is never left out


def open_defects(defects: Iterable[Defect], nodes: Collection[str]) -> list[Defect]:
    """Return the nodes' defects that are not closed and that no later run has passed."""
    return [one for one in defects if one.node in nodes and one.state == "open" and not one.passed]


def exposing_open(defects: Iterable[Defect], nodes: Collection[str]) -> set[str]:
    """Return the benchmarks that exposed an open defect of the nodes; they are never left out."""
    return {name for one in open_defects(defects, nodes) for name in one.benchmarks}


def exposed_of(defects: Iterable[Defect], benchmarks: Collection[str]) -> int:
    """Return how many defects the benchmarks exposed; if none, their coverage is assumed."""
    names = set(benchmarks)
    return sum(not names.isdisjoint(defect.benchmarks) for defect in defects)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceRequest:
    """The options of a choice."""

    mode: Mode = "risk"  # ``risk``, ``budget``, ``cost`` or ``all``
    p0: float | None = None  # accepted risk; None: 0.01 for ``risk``, and no limit for the others
    budget: float | None = None  # seconds, for ``budget``
    incident_cost: float = 86400.0  # node seconds that an incident costs, for ``cost``
    explore: float = 0.02  # share of what is left out that runs by chance
    seed: int = 0

    @property
    def target(self) -> float | None:
        """The accepted risk, with its default."""
        return 0.01 if self.p0 is None and self.mode == "risk" else self.p0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceInputs:
    """What is known for a choice for some nodes."""

    # The nodes with their incident probabilities; these are unknown if `lacking` names incidents
    risks: tuple[NodeRisk, ...]
    horizon: float  # seconds ahead that the risks are for
    # Node -> kind of incident -> probability for its next incident
    kinds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    defects: tuple[Defect, ...] = ()
    # Benchmark -> measured seconds of one of its tests with setup and teardown, without waiting for
    # a quiet machine or a free lane
    durations: Mapping[str, float] = field(default_factory=dict)
    experience: Mapping[str, int] = field(default_factory=dict)  # benchmark -> how often it has run
    basis: str = ""  # the model of the risks and its data, in words
    notes: tuple[str, ...] = ()  # what was filled in or only assumed, in words
    lacking: tuple[str, ...] = ()  # which of ``incidents`` and ``defects`` the history has none of
    unreadable: str = ""  # why the history could not be read; empty if it could
    # Node -> what drives its risk, in words
    drivers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    within: str = ""  # what the 95 % interval of a risk includes, in words; empty if there is none
    # Why not to choose by the risks, in words; empty if nothing speaks against it
    warning: str = ""
    false_alarms: int = 0  # how many defects were false alarms, which do not count
    # Benchmarks that failed on the nodes and have not passed since
    failing: frozenset[str] = frozenset()
    # Why nothing may be left out but for a budget, in words; empty if nothing speaks against it
    doubt: str = ""

    @property
    def always(self) -> set[str]:
        """The benchmarks that are never left out: what they found on the nodes is open."""
        return exposing_open(self.defects, [risk.node for risk in self.risks]) | self.failing

    @property
    def risk(self) -> float | None:
        """Probability of an incident on at least one node; None if the history has no incident."""
        if "incidents" in self.lacking:
            return None
        return joint_risk([risk.probability for risk in self.risks])

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of `risk`; None if unknown."""
        lows = [risk.low for risk in self.risks if risk.low is not None]
        highs = [risk.high for risk in self.risks if risk.high is not None]
        if self.risk is None or not len(lows) == len(highs) == len(self.risks):
            return None
        return joint_risk(lows), joint_risk(highs)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """A plan with what is needed to compute the risk after a part of it has passed."""

    plan: Plan
    inputs: ChoiceInputs
    coverage: Mapping[str, Coverage]  # node -> what the benchmarks expose
    unpriced: tuple[str, ...] = ()  # benchmarks of unknown cost

    def risk_after(self, passed: Sequence[str]) -> float | None:
        """Return the joint risk once these benchmarks alone have passed; None if no risk is known."""
        if self.inputs.risk is None:
            return None
        return joint_risk(
            [
                risk.probability * max(0.0, 1 - self.coverage[risk.node].of(passed))
                for risk in self.inputs.risks
            ]
        )

    def interval_after(self, passed: Sequence[str]) -> tuple[float, float] | None:
        """Return the 95 % interval of `risk_after`; None if no risk is known, or no interval of it.

        It combines the risk's own error with that of the coverage learned from few defects.
        """
        if self.inputs.interval is None:
            return None
        ends = []
        for upper in (False, True):
            residuals = []
            for risk in self.inputs.risks:
                coverage = self.coverage[risk.node]
                missed = max(0.0, 1 - coverage.of(passed))
                # The share of n defects that is missed has the relative variance (1 - share) / (n share).
                spread = (1 - missed) / max(missed * coverage.total, 1e-9)
                end = risk.high if upper else risk.low
                own = abs(math.log(_hazard(end or 0.0) / _hazard(risk.probability)))
                error = min(math.hypot(own, _NORMAL_95 * math.sqrt(spread)), MAX_LOG_HAZARD_ERROR)
                moved = _hazard(risk.probability * missed) * math.exp(error if upper else -error)
                residuals.append(min(_MAX_PROBABILITY, -math.expm1(-moved)))
            ends.append(joint_risk(residuals))
        return ends[0], ends[1]


def _hazard(probability: float) -> float:
    """Return the hazard of a probability, at least `_MIN_HAZARD`."""
    return max(-math.log1p(-min(probability, _MAX_PROBABILITY)), _MIN_HAZARD)


def gather_inputs(
    fleet: FleetHistory,
    nodes: Sequence[str],
    *,
    now: float,
    horizon: float,
    model: RiskModel | None = None,
    doubt: Doubt | None = None,
) -> ChoiceInputs:
    """Gather what is known for a choice for some nodes.

    Args:
        fleet: The history.
        nodes: The nodes, at least one; those that the history does not know count as new.
        now: The present, seconds since 1970.
        horizon: Seconds ahead, positive.
        model: A fitted risk model; None fits one now.
        doubt: What is open on the nodes that the history may not know.

    Raises:
        SelectorError: The history has an impossible value, e.g. an incident in the future.
    """
    defects = tuple(
        defect for defect in fleet.defects if defect.state != "false alarm" and defect.benchmarks
    )
    doubts = [*map(fleet.doubts.get, nodes), doubt]
    open_yet = [one for one in doubts if one is not None]
    inputs = ChoiceInputs(
        risks=tuple(NodeRisk(node=node, probability=0.0) for node in sorted(set(nodes))),
        horizon=horizon,
        defects=defects,
        durations=fleet.durations,
        experience=fleet.experience,
        lacking=() if defects else ("defects",),
        false_alarms=sum(defect.state == "false alarm" for defect in fleet.defects),
        failing=frozenset().union(*(one.benchmarks for one in open_yet)),
        doubt=next((one.why for one in open_yet if one.why), ""),
    )
    try:
        risk = fit_risk(fleet, now=now, horizon=horizon, quick=True) if model is None else model
    except NoRiskError:
        return replace(inputs, lacking=("incidents", *inputs.lacking))
    outlook = look_ahead(fleet, risk, now=now, horizon=horizon, nodes=nodes)
    mixes = kind_mixes(fleet.incidents)
    return replace(
        inputs,
        risks=outlook.risks,
        kinds={each.node: mixes.get(each.node, {}) for each in outlook.risks},
        basis=outlook.basis,
        notes=(*outlook.notes, risk.backtest.reason),
        drivers=risk_drivers(fleet, risk, now=now, horizon=horizon, nodes=nodes),
        within=risk.within,
        warning=risk.backtest.warning,
    )


def choose(inputs: ChoiceInputs, offers: Sequence[Offer], request: ChoiceRequest) -> Choice:
    """Choose among one benchmark or more by what is known.

    Raises:
        SelectorError: An option is invalid.
    """
    if unasked := inputs.failing.difference(offer.benchmark for offer in offers):
        name = min(unasked) or "the node as a whole"
        inputs = replace(
            inputs, doubt=inputs.doubt or f"{name} failed, and is none of these benchmarks"
        )
    candidates, unpriced = _priced(inputs, offers)
    coverage = {
        risk.node: learn_coverage(
            inputs.defects,
            candidates,
            kinds=inputs.kinds.get(risk.node) or None,
            experience=inputs.experience,
        )
        for risk in inputs.risks
    }
    # Without incidents no risk is known, and without defects no coverage; and of a node that no run has
    # accepted since it was in doubt, no risk is small. Nothing is then left out, except for a budget, which
    # is kept by assumed coverage.
    blind = bool(inputs.lacking or inputs.doubt)
    unknown = tuple(replace(risk, probability=_NOMINAL_RISK) for risk in inputs.risks)
    plan = make_plan(
        candidates,
        coverage,
        unknown if inputs.risk is None else inputs.risks,
        mode="all" if blind and request.mode != "budget" else request.mode,
        p0=None if blind or inputs.risk is None else request.target,
        budget_seconds=request.budget,
        incident_seconds=request.incident_cost,
        explore=request.explore,
        seed=request.seed,
        exposed=partial(exposed_of, inputs.defects),
    )
    return Choice(plan=plan, inputs=inputs, coverage=coverage, unpriced=unpriced)


def _priced(
    inputs: ChoiceInputs, offers: Sequence[Offer]
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    """Return candidates with their costs: measured, else declared, else the median of the others."""
    known: dict[str, float] = {}
    for offer in offers:
        each = inputs.durations.get(offer.benchmark, offer.declared)
        if each is not None and math.isfinite(each) and each >= 0:
            known[offer.benchmark] = each * offer.turns
    usual = median(known.values()) if known else UNKNOWN_COST
    candidates = tuple(
        Candidate(
            benchmark=offer.benchmark,
            cost_seconds=known.get(offer.benchmark, usual),
            component=offer.component,
            pinned=offer.pinned,
        )
        for offer in offers
    )
    return candidates, tuple(o.benchmark for o in offers if o.benchmark not in known)
