"""What a choice of benchmarks rests on, gathered once, and the choice made from it.

The inputs are read before the benchmarks are known; every process that chooses from the same inputs
chooses the same. What is not known is said, and leads to more benchmarks, never to fewer: without
incidents or without defects the full set runs, or what fits into a budget.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median

from pytest_anubis.core.history import Defect, FleetHistory
from pytest_anubis.selector.choice.benchmark_choice import joint_risk, make_plan
from pytest_anubis.selector.choice.choice_plan import Mode, Plan
from pytest_anubis.selector.choice.coverage import Candidate, Coverage, learn_coverage
from pytest_anubis.selector.risk.drivers import risk_drivers
from pytest_anubis.selector.risk.forecast import NoRiskError, RiskModel, fit_risk, look_ahead
from pytest_anubis.selector.risk.incident_kinds import kind_mixes
from pytest_anubis.selector.risk.node_status import NodeRisk

_NOMINAL = 0.5  # for an unknown risk; what exposes most is the same for every risk

_NORMAL = 1.96  # standard deviations that hold 95 % of a normal distribution
_SURE = 1 - 1e-9  # a probability whose hazard is still finite
_LEAST = 1e-300  # hazard that represents none
_FARTHEST = 20.0  # of a log risk: beyond it every probability is possible

UNKNOWN_COST = 60.0
"""Seconds that a benchmark counts that nobody has measured or declared, where no other is known either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A benchmark that could run, as its author declares it.

    Attributes:
        benchmark: Its id.
        component: The part of a node that it exercises.
        declared: Expected seconds of one of its tests; None when not declared.
        turns: How many of its tests run one after the other: its devices, over the processes that
            run them at the same time.
        pinned: It was named explicitly and is never left out.
    """

    benchmark: str
    component: str = ""
    declared: float | None = None
    turns: int = 1
    pinned: bool = False


def open_defects(defects: Iterable[Defect], nodes: Collection[str]) -> list[Defect]:
    """Return the defects of some nodes that are not closed, and that no later run has passed."""
    return [one for one in defects if one.node in nodes and one.state == "open" and not one.passed]


def exposing_open(defects: Iterable[Defect], nodes: Collection[str]) -> set[str]:
    """Return the benchmarks that exposed an open defect of one of the nodes: these are never left out."""
    return {name for one in open_defects(defects, nodes) for name in one.benchmarks}


def exposed_of(defects: Iterable[Defect], benchmarks: Collection[str]) -> int:
    """Return how many defects were exposed by one of the benchmarks: if none, what they expose is assumed."""
    names = set(benchmarks)
    return sum(not names.isdisjoint(defect.benchmarks) for defect in defects)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceRequest:
    """What is asked of a choice.

    Attributes:
        mode: ``risk``, ``budget``, ``cost`` or ``all``.
        p0: Accepted risk; None: 0.01 for ``risk``, and no such limit for the others.
        budget: Seconds, for ``budget``.
        incident_cost: Node seconds that an incident costs, for ``cost``.
        explore: Share of what is left out that runs by chance.
        seed: Seed of that chance.
    """

    mode: Mode = "risk"
    p0: float | None = None
    budget: float | None = None
    incident_cost: float = 86400.0
    explore: float = 0.02
    seed: int = 0

    @property
    def target(self) -> float | None:
        """The accepted risk that counts."""
        return 0.01 if self.p0 is None and self.mode == "risk" else self.p0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceInputs:
    """All that a choice for some nodes rests on.

    Attributes:
        risks: The nodes with their incident probabilities; nothing is known of them where `lacking`
            names incidents.
        horizon: Seconds ahead that the risks are for.
        kinds: Node -> kind of incident -> probability that its next incident is of it.
        defects: Known defects.
        durations: Benchmark -> measured seconds of one of its tests, setup and teardown included, waiting for
            a quiet machine or a free lane not.
        experience: Benchmark -> how often it has run.
        basis: What the risks rest on, in words.
        notes: What was filled in or only assumed, in words.
        lacking: What the history has none of, of ``incidents`` and ``defects``.
        unreadable: Why the history could not be read, so that nothing is known; empty when it was.
        drivers: Node -> what its risk comes from, in words.
        within: What the 95 % interval of a risk counts, in words; empty where nobody knows one.
        false_alarms: How many defects were false alarms, which teach nothing.
        warning: What speaks against choosing by the risks, in words; empty where nothing does.
    """

    risks: tuple[NodeRisk, ...]
    horizon: float
    kinds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    defects: tuple[Defect, ...] = ()
    durations: Mapping[str, float] = field(default_factory=dict)
    experience: Mapping[str, int] = field(default_factory=dict)
    basis: str = ""
    notes: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    unreadable: str = ""
    drivers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    within: str = ""
    warning: str = ""
    false_alarms: int = 0

    @property
    def risk(self) -> float | None:
        """Probability of an incident on at least one node; None where none was ever recorded."""
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
    """A plan with what it takes to reckon the risk that is really left.

    Attributes:
        plan: The plan.
        inputs: What it rests on.
        coverage: Node -> what the benchmarks expose.
        unpriced: Benchmarks of unknown cost.
    """

    plan: Plan
    inputs: ChoiceInputs
    coverage: Mapping[str, Coverage]
    unpriced: tuple[str, ...] = ()

    def risk_after(self, passed: Sequence[str]) -> float | None:
        """Return the joint risk once these benchmarks, and no others, have passed.

        None where no incident was ever recorded, so that no risk is known.
        """
        if self.inputs.risk is None:
            return None
        return joint_risk(
            [
                risk.probability * max(0.0, 1 - self.coverage[risk.node].of(passed))
                for risk in self.inputs.risks
            ]
        )

    def interval_after(self, passed: Sequence[str]) -> tuple[float, float] | None:
        """Return the 95 % interval of `risk_after`: the risk's own error, and that of few known defects.

        None where no risk is known, or what it is off by is not.
        """
        if self.inputs.interval is None:
            return None
        ends = []
        for upwards in (False, True):
            left = []
            for risk in self.inputs.risks:
                coverage = self.coverage[risk.node]
                missed = max(0.0, 1 - coverage.of(passed))
                # The share of n defects that is missed has the relative variance (1 - share) / (n share).
                spread = (1 - missed) / max(missed * coverage.total, 1e-9)
                end = risk.high if upwards else risk.low
                own = abs(math.log(_hazard(end or 0.0) / _hazard(risk.probability)))
                off = min(math.hypot(own, _NORMAL * math.sqrt(spread)), _FARTHEST)
                moved = _hazard(risk.probability * missed) * math.exp(off if upwards else -off)
                left.append(min(_SURE, -math.expm1(-moved)))
            ends.append(joint_risk(left))
        return ends[0], ends[1]


def _hazard(probability: float) -> float:
    """Return the hazard of a probability, of none one that has a logarithm."""
    return max(-math.log1p(-min(probability, _SURE)), _LEAST)


def gather_inputs(
    fleet: FleetHistory,
    nodes: Sequence[str],
    *,
    now: float,
    horizon: float,
    model: RiskModel | None = None,
) -> ChoiceInputs:
    """Gather what a choice for some nodes rests on.

    Args:
        fleet: The history.
        nodes: The nodes, at least one; those that the history does not know count as new.
        now: The present, seconds since 1970.
        horizon: Seconds ahead, positive.
        model: A fitted risk model; None fits one now.

    Raises:
        SelectorError: The history makes no sense, e.g. an incident in the future.
    """
    defects = tuple(
        defect for defect in fleet.defects if defect.state != "false alarm" and defect.benchmarks
    )
    inputs = ChoiceInputs(
        risks=tuple(NodeRisk(node=node, probability=0.0) for node in sorted(set(nodes))),
        horizon=horizon,
        defects=defects,
        durations=fleet.durations,
        experience=fleet.experience,
        lacking=() if defects else ("defects",),
        false_alarms=sum(defect.state == "false alarm" for defect in fleet.defects),
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
    """Choose benchmarks.

    Args:
        inputs: What the choice rests on.
        offers: The benchmarks, at least one.
        request: What is asked.

    Raises:
        SelectorError: What is asked makes no sense.
    """
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
    # Without incidents no risk is known, and without defects not what a benchmark is good for: then nothing
    # is left out but for a budget, which is kept by what benchmarks are assumed to expose.
    blind = bool(inputs.lacking)
    unknown = tuple(replace(risk, probability=_NOMINAL) for risk in inputs.risks)
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
