"""Fit a risk model to a fleet's history, and forecast each node's probability of an incident by it.

`RiskModel` is what `anubis risk --save` keeps for later runs. `choosing` decides which model it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pytest_anubis.core.history import FleetHistory, NodeRecord
from pytest_anubis.selector.risk.choosing.backtest_record import Backtest
from pytest_anubis.selector.risk.choosing.model_choice import (
    choose_model,
    count_words,
    named_model,
)
from pytest_anubis.selector.risk.choosing.refits import Refits, refit_without_parts
from pytest_anubis.selector.risk.choosing.risk_backtest import Intervals
from pytest_anubis.selector.risk.models.covariates import Floats
from pytest_anubis.selector.risk.models.hazard import HazardModel, load_model
from pytest_anubis.selector.risk.survival_rows import (
    HOUR,
    NodeRisk,
    hours_text,
    present_rows,
    survival_rows,
)
from pytest_anubis.selector.selector_error import SelectorError

ModelName = Literal["auto", "exponential", "weibull", "cox", "cox-time"]

MIN_JUDGED = 25
"""Incidents of the fleet that a horizon for backtests should contain, to compare models."""

SCHEMA = 2
_MAX_PROBABILITY = 1 - 1e-9
_MAX_COUNT = 2**53
"""Smaller whole numbers are exact as floats."""


class NoRiskError(SelectorError):
    """The history has no incident, or no time of service, to learn a risk from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskModel:
    """A fitted model with the facts needed to apply it to a node."""

    model: HazardModel  # the model; times in hours
    kinds: tuple[str, ...]  # kinds of incidents with a covariate of their own
    nodes: int  # how many nodes it was fitted to
    # How many incidents the history had. Some give no interval to learn a rate from: the one by
    # which a node is first known, and one that began during another.
    incidents: int
    backtest: Backtest  # why this model was chosen, and how good it was
    refits: Refits | None  # fits that give the intervals if no backtest does; else None
    hours: float  # hours of service of all nodes

    @property
    def text(self) -> str:
        """The model and its data, in words."""
        kind, events, nodes = self.model.kind, self.model.events, count_words(self.nodes, "node")
        if not events:  # only first incidents of nodes, before which they were not watched
            return f"{kind} model of {nodes}, none of which was watched before its incident"
        some = f"{events} of " if self.incidents > events else ""
        return f"{kind} model of {some}{count_words(max(events, self.incidents))} on {nodes}"

    @property
    def evidence(self) -> str:
        """The incidents that the model learned from, and their time of service, in words."""
        nodes = count_words(self.nodes, "node")
        return f"{count_words(self.model.events)} in {hours_text(self.hours)} of service of {nodes}"

    @property
    def within(self) -> str:
        """What the 95 % interval of a risk includes and what not, in words."""
        if self.refits is None:
            moments = self.backtest.degrees
            return f"how far the model's predictions were off at {moments} earlier moments"
        wrong = "what the model gets wrong is not in it"
        if not self.model.uses_facts:
            wrong = "that some nodes are worse than others is not in it"
        leaves = "leaves" if self.refits.incidents == 1 else "leave"
        parts = len(self.refits.models)
        moves = f" and how far it moves without one of {parts} parts of the nodes" if parts else ""
        count = count_words(self.refits.incidents)
        return f"what {count} {leaves} open (exact){moves}; {wrong}"

    def interval(
        self, chance: Floats, x: Floats, uptime: Floats, hours: float
    ) -> tuple[Floats, Floats]:
        """Return the ends of 95 % intervals of probabilities, each of shape (n,); see `Refits.interval`."""
        if self.refits is not None:
            return self.refits.interval(chance, x, uptime, hours)
        ends = np.array([self.backtest.interval(float(p)) for p in chance]).reshape(-1, 2)
        return ends[:, 0], ends[:, 1]

    def to_plain(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "schema": SCHEMA,
            "kinds": list(self.kinds),
            "nodes": self.nodes,
            "incidents": self.incidents,
            "model": self.model.to_plain(),
            "hours": self.hours,
            "backtest": self.backtest.to_plain(),
            **({} if self.refits is None else {"refits": self.refits.to_plain()}),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> RiskModel:
        """Read what `to_plain` gave.

        Raises:
            SelectorError: It is of another schema, or a field is missing or wrong.
        """
        if plain.get("schema") != SCHEMA:
            raise SelectorError(
                f"risk model of schema {str(plain.get('schema'))[:20]!r}, this version reads {SCHEMA}; "
                "fit it again with 'anubis risk --save'"
            )
        kinds, nodes, model = plain.get("kinds"), plain.get("nodes"), plain.get("model")
        incidents, hours = plain.get("incidents"), plain.get("hours")
        if (
            not isinstance(kinds, list)
            or not all(isinstance(kind, str) for kind in kinds)
            or not isinstance(nodes, int)
            or not isinstance(incidents, int)
            or not (0 <= nodes < _MAX_COUNT and 0 <= incidents < _MAX_COUNT)
            or not isinstance(model, Mapping)
            or not isinstance(hours, int | float)
            or not 0 <= hours < _MAX_COUNT
        ):
            raise SelectorError(
                "risk model: kinds, nodes, incidents or model are missing or of another type; fit it again "
                "with 'anubis risk --save'"
            )
        kept, fits = load_model(model), plain.get("refits")
        backtest = Backtest.from_plain(plain.get("backtest"))
        if (fits is None) != (backtest.chosen is not None):
            raise SelectorError(
                "model file: it must have either backtests or fits for its intervals"
            )
        return cls(
            model=kept,
            kinds=tuple(kinds),
            nodes=nodes,
            incidents=incidents,
            backtest=backtest,
            refits=None if fits is None else Refits.from_plain(fits, like=kept),
            hours=float(hours),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The risks of nodes within a horizon."""

    risks: tuple[NodeRisk, ...]  # one for each node, sorted by name
    horizon: float  # seconds ahead
    # Node -> hours since it entered service or returned from its last incident
    uptime: Mapping[str, float]
    basis: str  # the model and its data, in words
    notes: tuple[str, ...] = ()  # what was filled in, limited or only assumed, in words

    @property
    def expected(self) -> float:
        """The expected number of nodes with an incident."""
        return float(sum(risk.probability for risk in self.risks))


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
        model: Kind of model; ``auto`` takes the one that backtests on this history prefer, one without
            covariates if there are few incidents. Its error comes from backtests, or from fits without parts
            of the history if there are too few incidents for these.
        seed: Seed of Cox-Time and of drawn rows.
        horizon: Seconds ahead at which backtests judge models; longer if that contains too few incidents.
        quick: Do not try Cox-Time for ``auto``.
        say: Gets progress in words.

    Raises:
        NoRiskError: The history has no incident, or began this moment.
        SelectorError: It has too few incidents for the model, or an impossible value.
    """
    if not fleet.incidents:
        raise NoRiskError(
            "the history has no incident, so no risk can be learned; record what users suffered with "
            "'anubis history incident add' or 'incident import'"
        )
    rows = survival_rows(fleet.nodes, fleet.incidents, now=now, runs=fleet.runs, gone=fleet.gone)
    if not rows.duration.sum() > 0:
        raise NoRiskError(
            "the history begins this moment: no node has been observed for any time yet"
        )
    intervals = Intervals(rows.x, rows.duration, rows.event, rows.began, rows.names)
    last = _last_event(fleet, now) / HOUR
    known = intervals.known_at(last)
    if not known.duration.sum() > 0:
        raise NoRiskError(
            "no node was observed before the history's last event: risks follow from the next one on"
        )
    options: dict[str, Any] = {
        "horizon": _backtest_horizon(known, horizon / HOUR),
        "ongoing": True,
        "upto": last,
        "seed": seed,
        "say": say,
    }
    if model == "auto":
        chosen, backtest = choose_model(intervals, quick=quick, **options)
    else:
        chosen, backtest = named_model(model, intervals, **options)
    refits = None
    if backtest.chosen is None:
        refits = refit_without_parts(chosen, intervals, rows.nodes, seed=seed, say=say)
    return RiskModel(
        model=chosen,
        kinds=rows.kinds,
        nodes=len(set(rows.nodes)),
        incidents=len(fleet.incidents),
        backtest=backtest,
        refits=refits,
        hours=float(rows.duration.sum()),
    )


def _last_event(fleet: FleetHistory, now: float) -> float:
    """Return the time of the history's last event until now, seconds since 1970.

    Backtests end there instead of now, so that they give the same result at every call.
    """
    moments = [incident.started for incident in fleet.incidents]
    moments += [record.since for record in fleet.nodes]
    moments += [run.started for runs in fleet.runs.values() for run in runs]
    moments += fleet.gone.values()
    return max(moment for moment in moments if moment <= now)


def _backtest_horizon(rows: Intervals, horizon: float) -> float:
    """Return the hours ahead to judge models at: the horizon, or enough for `MIN_JUDGED` incidents."""
    span = float((rows.began + rows.duration).max() - rows.began.min())
    return max(horizon, span * MIN_JUDGED / max(rows.incidents, MIN_JUDGED))


def look_ahead(
    fleet: FleetHistory,
    risk: RiskModel,
    *,
    now: float,
    horizon: float,
    nodes: Collection[str] | None = None,
) -> Outlook:
    """Return each node's probability of an incident within the horizon.

    A node that the history does not know counts as one that has just entered service. `now` is in seconds
    since 1970, `horizon` in seconds; `nodes` of None are all that are not removed.

    Raises:
        SelectorError: No node is wanted, or the history has an impossible value.
    """
    wanted = None if nodes is None else set(nodes)
    known = {record.name for record in fleet.nodes}
    records = [r for r in fleet.nodes if wanted is None or r.name in wanted]
    new = sorted((wanted or set()) - known)
    records += [NodeRecord(name=name, since=now) for name in new]
    names = {record.name for record in records}
    own = [item for item in fleet.incidents if item.node in names]
    rows = present_rows(records, own, now=now, kinds=risk.kinds, runs=fleet.runs)
    if not rows.nodes:
        raise SelectorError("no node is in service, so there is no risk to compute")
    hours = horizon / HOUR
    found = risk.model.incident_probability(rows.x, rows.duration, hours)
    if not np.isfinite(found).all():
        raise SelectorError(
            "the risk model gives no probability; fit it again with 'anubis risk --save'"
        )
    low, high = risk.interval(found, rows.x, rows.duration, hours)
    notes = risk.model.cautions(rows.x, float(rows.duration.max()) + hours, hours_text)
    unknown = tuple(f"node {name} is not in the history: taken for a new one" for name in new)
    return Outlook(
        risks=tuple(
            NodeRisk(
                node=node,
                probability=float(np.clip(found[place], 0.0, _MAX_PROBABILITY)) + 0.0,
                low=float(low[place]),
                high=float(high[place]),
            )
            for place, node in enumerate(rows.nodes)
        ),
        horizon=horizon,
        uptime=dict(zip(rows.nodes, rows.duration.tolist(), strict=True)),
        basis=risk.text,
        notes=(*unknown, *_outdated(fleet, risk), *notes),
    )


def _outdated(fleet: FleetHistory, risk: RiskModel) -> tuple[str, ...]:
    """Return a note if a kept model does not know a tenth of the incidents."""
    count = len(fleet.incidents)
    if not risk.incidents or count < 1.1 * risk.incidents:
        return ()
    return (
        f"the model that was kept knows {risk.incidents} incidents, the history {count}: fit it again with "
        "'anubis risk --save'",
    )
