"""How far may a risk be off where no earlier moment can tell? As far as the history itself leaves it open.

Two things, each without a formula of one model: how many incidents there were (the exact interval of a
count), and how far the prediction moves when the model is fitted again without one part of the nodes after
the other (the jackknife by groups; Efron and Stein, *The jackknife estimate of variance*, 1981). Both take
the model for right: what it gets wrong of a fleet only backtests show. Of few incidents a model that knows
facts about nodes says 0 of those that happen to have had none; nobody tested that either, so its intervals
reach to the one rate for all nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from pytest_anubis.selector.risk.choosing.risk_backtest import Intervals
from pytest_anubis.selector.risk.models.covariates import Floats, items, numbers
from pytest_anubis.selector.risk.models.cox import CoxPH
from pytest_anubis.selector.risk.models.cox_time import CoxTime
from pytest_anubis.selector.risk.models.hazard import NO_INCIDENT, HazardModel, load_model
from pytest_anubis.selector.risk.models.parametric import Exponential, Weibull
from pytest_anubis.selector.selector_error import SelectorError

PARTS = 20
"""Parts that are left out in turn: from twenty on Student's t is within 7 % of the normal distribution's."""
NETWORK_PARTS = 10
"""The same for networks, of which each takes about a second."""
_NETWORKS = 3  # averaged in each fit, as in a backtest
_MOST_PARTS = 64  # in a file: more were not written here
_MOST_INCIDENTS = 2**53  # whole numbers below it are exact as floats; no fleet counts so far
_ENDS = (0.025, 0.975)
_FARTHEST = 20.0  # of a log hazard: beyond it every probability is possible
_LEAST = 1e-12  # hazard that represents none, so that it has a logarithm


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Refits:
    """A model fitted to a history without one part of it after the other.

    Attributes:
        incidents: Incidents that the model itself learned from.
        models: The fits; empty where one rate for all nodes is all there is, which its count bounds exactly.
        rate: Incidents per unit of time of all nodes together, which every interval holds; None where the
            model knows no facts that could lead it astray.
    """

    incidents: int
    models: tuple[HazardModel, ...] = ()
    rate: float | None = None

    def interval(
        self, chance: Floats, x: Floats, uptime: Floats, ahead: float
    ) -> tuple[Floats, Floats]:
        """Return where probabilities lie in 95 % of cases, each of shape (n,).

        Args:
            chance: Probabilities of an incident, shape (n,).
            x: Covariates at the start of the intervals, shape (n, d).
            uptime: Time since then, shape (n,).
            ahead: How far ahead the probabilities are for.
        """
        hazard = np.maximum(-np.log1p(-np.minimum(chance, 1 - 1e-9)), _LEAST)
        low, high = (hazard * factor for factor in count_factors(self.incidents))
        if self.models:
            reach = np.minimum(self._reach(x, uptime, ahead), _FARTHEST)
            low = np.minimum(low, hazard * np.exp(-reach))
            high = np.maximum(high, hazard * np.exp(reach))
        if self.rate is not None:
            low, high = np.minimum(low, self.rate * ahead), np.maximum(high, self.rate * ahead)
        return np.clip(-np.expm1(-low), 0.0, chance + 0.0), np.maximum(-np.expm1(-high), chance)

    def _reach(self, x: Floats, uptime: Floats, ahead: float) -> Floats:
        """Return how far the logarithm of each hazard may be off, shape (n,)."""
        from scipy.special import stdtrit

        said = [model.incident_probability(x, uptime, ahead) for model in self.models]
        hazards = -np.log1p(-np.minimum(np.array(said), 1 - 1e-9))
        logs = np.log(np.maximum(hazards, _LEAST))
        count = len(self.models)
        spread = np.sqrt((count - 1) / count * ((logs - logs.mean(axis=0)) ** 2).sum(axis=0))
        found: Floats = float(stdtrit(count - 1, _ENDS[1])) * spread
        return found

    def to_plain(self) -> dict[str, Any]:
        """Return numbers, strings, lists and dicts, fit for JSON."""
        return {
            "incidents": self.incidents,
            "models": [model.to_plain() for model in self.models],
            "rate": self.rate,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], *, like: HazardModel) -> Self:
        """Read back what `to_plain` gave, next to the model `like`.

        Raises:
            SelectorError: It does not hold what it should.
        """
        if not isinstance(plain, Mapping):
            raise SelectorError("model file: the record of what was left out is no object")
        count = plain.get("incidents")
        rate = None if plain.get("rate") is None else float(numbers(plain, "rate", ()))
        if (
            not isinstance(count, int)
            or isinstance(count, bool)
            or not 0 <= count < _MOST_INCIDENTS
        ):
            raise SelectorError("model file: the record of what was left out is damaged")
        found = items(plain, "models")
        if len(found) == 1 or len(found) > _MOST_PARTS:
            raise SelectorError(f"model file: {len(found)} fits without a part tell nothing")
        models = tuple(load_model(one) for one in found)
        if any(model.names != like.names for model in models):
            raise SelectorError("model file: a fit without a part knows other covariates")
        return cls(incidents=count, models=models, rate=rate)


def count_factors(incidents: int) -> tuple[float, float]:
    """Return the ends of the exact 95 % interval of a rate, as multiples of the one that was seen.

    Of no incident it is one from none to 3.7, as half an incident is what models assume then (Garwood 1936).
    """
    from scipy.special import gammaincinv

    seen = max(incidents, NO_INCIDENT)
    low = float(gammaincinv(incidents, _ENDS[0])) if incidents else 0.0
    return low / seen, float(gammaincinv(incidents + 1, _ENDS[1])) / seen


def refits_of(
    model: HazardModel,
    rows: Intervals,
    units: Sequence[str],
    *,
    seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> Refits:
    """Fit a model anew without one part of the history after the other.

    Args:
        model: As it was fitted to the history.
        rows: The history.
        units: The node of each row, shape (n,): rows of one node are left out together, where there are
            as many nodes as parts; of fewer nodes, rows are.
        seed: For networks.
        say: Gets words about the progress.
    """
    if isinstance(model, Exponential) and not model.use_covariates:
        return Refits(incidents=model.events)
    network = isinstance(model, CoxTime)

    def make() -> HazardModel:
        if isinstance(model, Weibull):
            return type(model)(use_covariates=model.use_covariates)
        return CoxTime(seed=seed, networks=_NETWORKS) if network else CoxPH()

    found = _refit(make, rows, units, NETWORK_PARTS if network else PARTS, say)
    rate = max(model.events, NO_INCIDENT) / float(rows.duration.sum()) if model.uses_facts else None
    return Refits(incidents=model.events, models=found, rate=rate)


def _refit(
    make: Callable[[], HazardModel],
    rows: Intervals,
    units: Sequence[str],
    parts: int,
    say: Callable[[str], None],
) -> tuple[HazardModel, ...]:
    """Return the fits; none where fewer than two are possible."""
    known = {unit: place for place, unit in enumerate(sorted(set(units)))}
    if len(known) < parts:
        place = np.argsort(np.argsort(rows.began, kind="stable"), kind="stable")
    else:
        place = np.array([known[unit] for unit in units])
    part = place % min(parts, len(units))
    found: list[HazardModel] = []
    for number in range(int(part.max()) + 1):
        say(f"without part {number + 1} of {int(part.max()) + 1}")
        fitted = _fit(make, rows.only(part != number))
        found += [] if fitted is None else [fitted]
    return tuple(found) if len(found) > 1 else ()


def _fit(make: Callable[[], HazardModel], rows: Intervals) -> HazardModel | None:
    """Fit to what is left: one rate for all where that is too little for the model; None of nothing."""
    for model in (make(), Exponential(use_covariates=False)):
        if rows.incidents < model.needs_events:
            continue
        try:
            return rows.fitted(model)
        except SelectorError:
            continue
    return None
