"""How likely each node of a fleet is to have an incident soon, from nothing but the fleet's history."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pytest_anubis.core.history import FleetHistory, NodeRecord
from pytest_anubis.selector.risk.choosing.model_choice import Backtest, choose_model
from pytest_anubis.selector.risk.choosing.risk_backtest import Intervals
from pytest_anubis.selector.risk.models.cox import CoxPH
from pytest_anubis.selector.risk.models.cox_time import CoxTime
from pytest_anubis.selector.risk.models.hazard import ExtrapolationWarning, HazardModel, load_model
from pytest_anubis.selector.risk.models.parametric import Exponential, Weibull
from pytest_anubis.selector.risk.node_risk import NodeRisk
from pytest_anubis.selector.risk.node_status import (
    HOUR,
    hours_text,
    status_at,
    status_rows,
    value_words,
)
from pytest_anubis.selector.selector_error import SelectorError

ModelName = Literal["auto", "exponential", "weibull", "cox", "cox-time"]
MODELS: tuple[ModelName, ...] = ("auto", "exponential", "weibull", "cox", "cox-time")

JUDGED = 25
"""Incidents that a horizon should hold for the whole fleet: at shorter ones models cannot be told apart."""

SCHEMA = 1
_TELLING = 0.1
"""Share of a risk that a fact must account for to be told: less is within what models differ by."""
_TOLD = 2
"""Facts told of a node: what people act on."""
_MOST = 1 - 1e-9
_COUNTED = 2**53
"""Whole numbers below it are exact as floats; no fleet counts so far."""


class NoRiskError(SelectorError):
    """The history tells nothing about risks yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskModel:
    """A fitted model with what is needed to apply it to a node.

    Attributes:
        model: The model; times in hours.
        kinds: Kinds of incidents that have a covariate of their own.
        nodes: How many nodes it was fitted to.
        told: How many incidents the history had. Those that were not waited for teach no rate: the one
            that a node is first known by, and one that began while another lasted.
        backtest: Why this model, and how good it was; None where it was named, or kept by an older version.
    """

    model: HazardModel
    kinds: tuple[str, ...]
    nodes: int
    told: int = 0
    backtest: Backtest | None = None

    @property
    def text(self) -> str:
        """What it is and rests on, in words."""
        count = max(self.model.events, self.told)
        some = f"{self.model.events} of {count}" if count > self.model.events else str(count)
        return (
            f"{self.model.kind} model of {some} incident{'s' if count != 1 else ''} on "
            f"{self.nodes} node{'s' if self.nodes != 1 else ''}"
        )

    def to_plain(self) -> dict[str, Any]:
        """Return numbers, strings, lists and dicts, fit for JSON."""
        return {
            "schema": SCHEMA,
            "kinds": list(self.kinds),
            "nodes": self.nodes,
            "told": self.told,
            "model": self.model.to_plain(),
            **({} if self.backtest is None else {"backtest": self.backtest.to_plain()}),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> RiskModel:
        """Read back what `to_plain` gave.

        Raises:
            SelectorError: It is of another schema, or does not hold what it should.
        """
        if plain.get("schema") != SCHEMA:
            raise SelectorError(
                f"risk model of schema {str(plain.get('schema'))[:20]!r}, this version reads {SCHEMA}; "
                "fit it again with 'anubis risk --save'"
            )
        kinds, nodes, model = plain.get("kinds"), plain.get("nodes"), plain.get("model")
        told = plain.get("told", 0)
        if (
            not isinstance(kinds, list)
            or not all(isinstance(kind, str) for kind in kinds)
            or not isinstance(nodes, int)
            or not isinstance(told, int)
            or not (0 <= nodes < _COUNTED and 0 <= told < _COUNTED)
            or not isinstance(model, Mapping)
        ):
            raise SelectorError(
                "risk model: kinds, nodes or model are missing or of another type; fit it again with "
                "'anubis risk --save'"
            )
        record = plain.get("backtest")
        backtest = None if record is None else Backtest.from_plain(record)
        return cls(
            model=load_model(model), kinds=tuple(kinds), nodes=nodes, told=told, backtest=backtest
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The risks of nodes.

    Attributes:
        risks: One for each node, sorted by name.
        horizon: Seconds ahead that they are for.
        uptime: Node -> hours since it was put into service or came back from its last incident.
        basis: What they rest on, in words.
        notes: What was filled in, held back or only assumed, in words.
    """

    risks: tuple[NodeRisk, ...]
    horizon: float
    uptime: Mapping[str, float]
    basis: str
    notes: tuple[str, ...] = ()


def fit_risk(
    fleet: FleetHistory,
    *,
    now: float,
    model: ModelName = "auto",
    seed: int = 0,
    horizon: float = 86400.0,
    quick: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> RiskModel:
    """Fit a risk model to a fleet's history.

    Args:
        fleet: The history.
        now: The present, seconds since 1970.
        model: Which; ``auto`` takes the one that backtests on this history prefer, one without covariates
            where there are few incidents.
        seed: For Cox-Time and what is drawn.
        horizon: Seconds ahead that ``auto`` judges models at, longer where that holds too few incidents.
        quick: Do not try Cox-Time for ``auto``.
        say: Gets words about the progress.

    Raises:
        NoRiskError: The history has no incident, or began this moment.
        SelectorError: It has too few incidents for the model, or makes no sense.
    """
    if not fleet.incidents:
        raise NoRiskError(
            "the history has no incident, so no risk can be learned; record what users suffered with "
            "'anubis history incident add' or 'incident import'"
        )
    rows = status_rows(fleet.nodes, fleet.incidents, now=now, runs=fleet.runs, gone=fleet.gone)
    if not rows.duration.sum() > 0:
        raise NoRiskError(
            "the history begins this moment: no node has been observed for any time yet"
        )
    intervals = Intervals(rows.x, rows.duration, rows.event, rows.began, rows.names)
    last = _last_event(fleet, now) / HOUR
    backtest = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)
        if model == "auto":
            chosen, backtest = choose_model(
                intervals,
                horizon=_judged_at(intervals.known_at(last), horizon / HOUR),
                ongoing=True,
                upto=last,
                quick=quick,
                seed=seed,
                say=say,
            )
        else:
            chosen = _named(model, seed)
            chosen.fit(rows.x, rows.duration, rows.event, names=rows.names, order=rows.began)
    return RiskModel(
        model=chosen,
        kinds=rows.kinds,
        nodes=len(set(rows.nodes)),
        told=len(fleet.incidents),
        backtest=backtest,
    )


def _last_event(fleet: FleetHistory, now: float) -> float:
    """Return when something happened last that the history knows: seconds since 1970, not after now.

    Backtests end there and not at the clock, which would move them with every second.
    """
    moments = [incident.started for incident in fleet.incidents]
    moments += [record.since for record in fleet.nodes]
    moments += [run.started for runs in fleet.runs.values() for run in runs]
    moments += fleet.gone.values()
    return max(moment for moment in moments if moment <= now)


def _judged_at(rows: Intervals, horizon: float) -> float:
    """Return the hours ahead at which models are judged: as asked, but so many that something happens."""
    span = float((rows.began + rows.duration).max() - rows.began.min())
    return max(horizon, span * JUDGED / max(rows.incidents, JUDGED))


def look_ahead(
    fleet: FleetHistory,
    risk: RiskModel,
    *,
    now: float,
    horizon: float,
    nodes: Collection[str] | None = None,
) -> Outlook:
    """Return the probability of an incident within the horizon, node by node.

    A node that the history does not know is taken for one that was put into service this moment:
    it gets what is usual for such nodes.

    Args:
        fleet: The history.
        risk: A fitted model.
        now: The present, seconds since 1970.
        horizon: Seconds ahead, positive.
        nodes: The nodes that are asked about; None: all that are not removed.

    Raises:
        SelectorError: There is no node to ask about, or the history makes no sense.
    """
    wanted = None if nodes is None else set(nodes)
    known = {record.name for record in fleet.nodes}
    records = [r for r in fleet.nodes if wanted is None or r.name in wanted]
    new = sorted((wanted or set()) - known)
    records += [NodeRecord(name=name, since=now) for name in new]
    names = {record.name for record in records}
    own = [item for item in fleet.incidents if item.node in names]
    rows = status_at(records, own, now=now, kinds=risk.kinds, runs=fleet.runs)
    if not rows.nodes:
        raise SelectorError("there is no node in service to reckon a risk for")
    hours = horizon / HOUR
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)  # said in the notes
        found = risk.model.incident_probability(rows.x, rows.duration, hours)
    if not np.isfinite(found).all():
        raise SelectorError(
            "the risk model gives no probability; fit it again with 'anubis risk --save'"
        )
    notes = risk.model.cautions(rows.x, float(rows.duration.max()) + hours, hours_text)
    strange = tuple(f"node {name} is not in the history: taken for a new one" for name in new)
    return Outlook(
        risks=tuple(
            NodeRisk(node=node, probability=float(p))
            for node, p in zip(rows.nodes, np.clip(found, 0.0, _MOST), strict=True)
        ),
        horizon=horizon,
        uptime=dict(zip(rows.nodes, rows.duration.tolist(), strict=True)),
        basis=risk.text,
        notes=(*strange, *_aged(fleet, risk), *notes),
    )


def risk_drivers(
    fleet: FleetHistory, risk: RiskModel, *, now: float, horizon: float
) -> dict[str, tuple[str, ...]]:
    """Return what each node's risk comes from, in words, the strongest first; nothing where it is as usual.

    One fact after the other is set to the fleet's median: those that change the risk by a tenth are told.

    Args:
        fleet: The history.
        risk: A fitted model; one without covariates knows no facts.
        now: The present, seconds since 1970.
        horizon: Seconds ahead.
    """
    rows = status_at(fleet.nodes, fleet.incidents, now=now, kinds=risk.kinds, runs=fleet.runs)
    if not rows.nodes:
        return {}
    model, hours = risk.model, horizon / HOUR
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExtrapolationWarning)
        found = model.incident_probability(rows.x, rows.duration, hours)
    told: dict[str, dict[str, float]] = {node: {} for node in rows.nodes}
    for column, name in enumerate(rows.names):
        known = np.isfinite(rows.x[:, column])
        if not known.any():
            continue
        usual = float(np.median(rows.x[known, column]))
        x = rows.x.copy()
        x[:, column] = usual
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExtrapolationWarning)
            changed = model.incident_probability(x, rows.duration, hours)
        for place in np.flatnonzero(np.abs(found - changed) > _TELLING * found).tolist():
            way = "raises" if found[place] > changed[place] else "lowers"
            words = f"{value_words(name, float(rows.x[place, column]), usual)} {way} it"
            of = told[rows.nodes[place]]
            # Several columns have no value for one reason, which is told once.
            of[words] = max(of.get(words, 0.0), abs(float(found[place] - changed[place])))
    return {
        node: tuple(sorted(facts, key=lambda words: (-facts[words], words))[:_TOLD])
        for node, facts in told.items()
    }


def _aged(fleet: FleetHistory, risk: RiskModel) -> tuple[str, ...]:
    """Say when a kept model has missed a tenth of what happened."""
    count = len(fleet.incidents)
    if not risk.told or count < 1.1 * risk.told:
        return ()
    return (
        f"the model that was kept knows {risk.told} incidents, the history {count}: fit it again with "
        "'anubis risk --save'",
    )


def fleet_risk(risks: Sequence[NodeRisk]) -> float:
    """Return the expected number of nodes with an incident."""
    return float(sum(risk.probability for risk in risks))


def _named(model: str, seed: int) -> HazardModel:
    if model == "exponential":
        return Exponential()
    if model == "weibull":
        return Weibull()
    if model == "cox":
        return CoxPH()
    if model == "cox-time":
        return CoxTime(seed=seed)
    raise SelectorError(f"risk model {model[:20]!r} is none of {', '.join(MODELS)}")
